"""Runs the blocks of a page in order, as written, in one directory.

What a shell block exports and where it goes with `cd` hold for the blocks after it, as in the terminal of a reader.
Example addresses (`db.example:5432`) become those of the test's own servers; nothing else of a block is changed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.blocks import ROOT, Block, matches_output, read_blocks

_SHELL = """set -aeu -o pipefail
[ ! -e {state} ] || {{ set +u; . {state}; set -u; cd "$PWD"; }}
{text}
export -p > {state}
"""
BLOCK_TIMEOUT_SECONDS = 200


@dataclass(kw_only=True)
class Reader:
    """A person who follows pages in a directory of their own, with the environment activated."""

    directory: Path
    addresses: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    dsn: str | None = None
    """Where SQL blocks run; none: where `thermocline status` says."""
    scene: str | None = None
    """What the last page left in place."""
    printed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        link = self.directory / ".venv"
        if not link.exists():
            link.symlink_to(ROOT / ".venv" if (ROOT / ".venv").exists() else Path(sys.prefix))

    def follow(self, page: str) -> None:
        """Run every block of the page that is not marked; the first that fails is the page's failure."""
        for block in read_blocks(page):
            if block.is_run:
                self.run(block)

    def run(self, block: Block) -> None:
        text = self._with_addresses(block.text)
        if block.is_output:
            assert self.printed, f"{block.place}: no block before it printed anything"
            assert matches_output(text, self.printed[-1]), f"{block.place}: printed instead:\n{self.printed[-1]}"
        elif block.file_name is not None:
            path = self.directory / block.file_name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        else:
            self.printed.append(self._run_command(block, text))

    def shell(self, text: str) -> str:
        """A command between two pages."""
        return self._run_command(Block(page="between pages", line=0, language="sh", text=text), text)

    def _run_command(self, block: Block, text: str) -> str:
        match block.language:
            case "sh":
                script = _SHELL.format(state=self.directory / ".shell-state", text=text)
                command = ["bash", "-c", script]
            case "sql":
                command = ["psql", "-X", "-v", "ON_ERROR_STOP=1", self.stack_dsn(), "-f", "-"]
            case _:
                command = [str(self.directory / ".venv" / "bin" / "python"), "-"]
        done = subprocess.run(
            command,
            input=None if block.language == "sh" else text,
            stdin=subprocess.DEVNULL if block.language == "sh" else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=BLOCK_TIMEOUT_SECONDS,
            cwd=self.directory,
            env=self._environment(block),
        )
        assert done.returncode == 0, f"{block.place}: exit code {done.returncode}\n{block.text}\n{done.stdout}"
        return done.stdout

    def _with_addresses(self, text: str) -> str:
        for example, real in self.addresses.items():
            text = text.replace(example, real)
        return text

    def stack_dsn(self) -> str:
        if self.dsn is None:
            self.dsn = json.loads(self.shell("thermocline status --json"))["postgres"]["dsn"]
        return self.dsn

    def _environment(self, block: Block) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("THERMOCLINE_", "PG", "AWS_", "VIRTUAL_ENV")) or name == "THERMOCLINE_CACHE"
        }
        path = f"{self.directory / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        made = {**kept, "PATH": path, **self.environment}
        return made if block.language == "sh" else {**made, **self._exported(made)}

    def _exported(self, environment: Mapping[str, str]) -> dict[str, str]:
        """What shell blocks before this one exported."""
        state = self.directory / ".shell-state"
        if not state.exists():
            return {}
        done = subprocess.run(
            ["bash", "-c", f". {state}; env -0"], env=dict(environment), capture_output=True, text=True, check=True
        )
        return dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
