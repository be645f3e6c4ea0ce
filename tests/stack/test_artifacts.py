"""Fetching by coordinates, and the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from thermocline.errors import ArtifactNotFetched, CacheUnusable, JavaMissing, JavaTooOld, UsageError
from thermocline.runtime import artifacts

SMALL = "org.slf4j:slf4j-nop:2.0.17"


def test_a_jar_is_fetched_once_and_then_comes_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THERMOCLINE_CACHE", str(tmp_path / "cache"))
    first = artifacts.jar_path(SMALL)
    assert first == tmp_path / "cache" / "jars" / "slf4j-nop-2.0.17.jar"
    assert first.read_bytes()[:2] == b"PK"
    written = first.stat().st_mtime_ns
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert artifacts.jar_path(SMALL).stat().st_mtime_ns == written
    assert [path.name for path in first.parent.iterdir() if not path.name.endswith(".lock")] == [first.name]


def test_two_processes_that_fetch_at_once_both_get_the_whole_jar(tmp_path: Path) -> None:
    code = f"from thermocline.runtime import artifacts; print(artifacts.jar_path({SMALL!r}).stat().st_size)"
    environ = {**os.environ, "THERMOCLINE_CACHE": str(tmp_path)}
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environ) for _ in range(2)
    ]
    sizes = [process.communicate(timeout=120)[0].strip() for process in both]
    assert sizes[0] == sizes[1]
    assert int(sizes[0]) > 0


def test_a_coordinate_that_does_not_exist_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THERMOCLINE_CACHE", str(tmp_path))
    with pytest.raises(ArtifactNotFetched, match=r"org\.slf4j:slf4j-nop:0\.0\.0-none could not be fetched"):
        artifacts.jar_path("org.slf4j:slf4j-nop:0.0.0-none")


@pytest.mark.parametrize("text", ["", "a:b", "a:b:c:d", "a:b:../c", "a b:c:d"])
def test_what_is_not_a_coordinate_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a Maven coordinate"):
        artifacts.jar_path(text)


def test_a_cache_that_is_a_file_is_refused_with_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "cache"
    blocked.write_text("a file where a directory is expected")
    monkeypatch.setenv("THERMOCLINE_CACHE", str(blocked))
    with pytest.raises(CacheUnusable, match=f"The cache cannot be used: {blocked}.*Not a directory"):
        artifacts.jar_path(SMALL)
    with pytest.raises(CacheUnusable, match=str(blocked)):
        artifacts.postgres_home()


def test_no_java_is_refused_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match=f"JAVA_HOME .{tmp_path}. has no bin/java") as caught:
        artifacts.java_path()
    assert "openjdk-17" in caught.value.hint


@pytest.mark.parametrize("told", ['java version "1.8.0_412"', 'openjdk version "11.0.2" 2019-01-15'])
def test_an_old_java_is_refused_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{told}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaTooOld, match=r"is Java (8|11); 17 or 21 is needed"):
        artifacts.java_path()
