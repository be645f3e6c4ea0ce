"""Java programs of one file that talk JDBC, run as they stand."""

from __future__ import annotations

from pathlib import Path

from thermocline.runtime.artifacts import jar_path

# The program is over before a second compiler has paid for itself.
_JAVA = ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def java_command(directory: Path, name: str, source: str) -> list[str]:
    """The command that compiles and runs this source with Postgres' driver; its arguments come after."""
    program = directory / f"{name}.java"
    program.write_text(source)
    return [*_JAVA, "-cp", str(jar_path("org.postgresql:postgresql:42.7.8")), str(program)]
