"""What every command owes: exit codes, one sentence, clean stdout."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from tests.stack.conftest import CommandLine

from thermocline.cli.main import run
from thermocline.runtime.postgres_server import FAST_TEST_SETTINGS, PostgresServer, free_port

COMMANDS = [
    "up",
    "down",
    "status",
    "init",
    "settings",
    "doctor",
    "register",
    "unregister",
    "start",
    "stop",
    "alter",
    "tables",
    "show",
    "tier",
    "fold",
    "maintain",
    "truncate",
    "policy",
    "lake",
    "pause",
    "pins",
    "explain",
    "profile",
    "resume",
    "recover",
    "verify",
    "sync-grants",
    "advise",
    "worker",
    "gateway",
    "serve",
]


@pytest.mark.conforms("O-001")
@pytest.mark.parametrize("arguments", [[], ["help"]])
def test_alone_and_by_help_it_prints_every_command(thermocline: CommandLine, arguments: list[str]) -> None:
    done = thermocline(*arguments)
    assert done.code == 0
    listed = {line.split()[0] for line in done.out.splitlines() if line.startswith("  ")}
    assert listed == {*COMMANDS, "help"}


@pytest.mark.conforms("O-001")
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_answers_help_with_defaults_and_variables(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    with pytest.raises(SystemExit) as left:
        run([command, "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert left.value.code == 0
    assert "--json" in told
    assert "[env var: THERMOCLINE_DIR; default: (.thermocline)]" in told
    assert told.count("default: ") >= told.count(" --") - 2


@pytest.mark.conforms("O-004", "O-028")
@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["frobnicate"], 2, "No such command 'frobnicate'"),
        (["status", "--frobnicate"], 2, "No such option: --frobnicate"),
        (["register"], 2, "Missing argument"),
        (["register", "1 2", "--dsn", "host=127.0.0.1 port=1"], 2, "'1 2' is not the name of a table"),
        (["settings", "--dsn", "gibberish"], 2, "The DSN cannot be parsed"),
        (["status"], 3, "No stack is in "),
        (["down"], 3, "No stack is in "),
        (["tables"], 3, "No stack is in "),
        (
            ["tables", "--dsn", "host=127.0.0.1 port=1 user=u dbname=d"],
            1,
            "Postgres at host 127.0.0.1, port 1, database d",
        ),
        (
            ["init", "--dsn", "host=127.0.0.1 port=1 user=u dbname=d"],
            1,
            "Postgres at host 127.0.0.1, port 1, database d",
        ),
        (["up", "--dsn", "host=127.0.0.1 port=1 user=u dbname=d"], 1, "Postgres at host 127.0.0.1, port 1, database d"),
    ],
)
def test_an_error_is_one_sentence_a_code_and_a_hint(
    thermocline: CommandLine, tmp_path: Path, arguments: list[str], code: int, sentence: str
) -> None:
    done = thermocline(*arguments, THERMOCLINE_DIR=str(tmp_path / "nothing"))
    lines = done.err.splitlines()
    assert (done.code, done.out) == (code, "")
    assert lines[0].startswith("error TC")
    assert sentence in lines[0]
    assert [line.split(":")[0] for line in lines[1:]] == ["hint"]


@pytest.mark.conforms("O-002", "O-028")
@pytest.mark.parametrize(
    ("arguments", "code", "name"),
    [
        (["frobnicate", "--json"], 2, "TC002"),
        (["status", "--json", "--frobnicate"], 2, "TC002"),
        (["show", "--json"], 2, "TC002"),
        (["--json", "tables"], 3, "TC112"),
        (["profile", "--json", "list"], 3, "TC112"),
        (["settings", "--json", "--dsn", "gibberish"], 2, "TC107"),
        (["tables", "--json", "--dsn", "host=127.0.0.1 port=1 user=u dbname=d"], 1, "TC105"),
        (["maintain", "a.b", "--json", "--engine", "sprak", "--dsn", "host=127.0.0.1 port=1"], 2, "TC609"),
    ],
)
def test_with_json_an_error_is_a_document_on_the_last_line_of_stderr(
    thermocline: CommandLine, tmp_path: Path, arguments: list[str], code: int, name: str
) -> None:
    done = thermocline(*arguments, THERMOCLINE_DIR=str(tmp_path / "nothing"))
    error = json.loads(done.err.splitlines()[-1])["error"]
    assert (done.code, done.out) == (code, "")
    assert (error["code"], error["exit_code"], sorted(error)) == (name, code, ["code", "exit_code", "hint", "message"])
    assert error["message"].endswith((".", "'", "?"))


@pytest.mark.conforms("O-002")
def test_the_tree_of_commands_and_the_version_are_documents_too(thermocline: CommandLine) -> None:
    for arguments in (["--json"], ["help", "--json"], ["--json", "help"]):
        tree = thermocline(*arguments).document()
        assert {command["name"] for command in tree["commands"]} == {*COMMANDS, "help"}
    assert thermocline("--version", "--json").document() == {"version": tree["version"]}


@pytest.mark.parametrize("arguments", [["lake"], ["lake", "list"], ["profile"], ["profile", "list"]])
@pytest.mark.parametrize("position", ["group", "command"])
def test_a_group_without_a_command_lists_and_its_options_hold_for_its_commands(
    thermocline: CommandLine, tmp_path: Path, arguments: list[str], position: str
) -> None:
    at = 1 if position == "group" else len(arguments)
    done = thermocline(*arguments[:at], "--dir", str(tmp_path / "named"), *arguments[at:])
    assert (done.code, f"No stack is in {tmp_path}/named" in done.err) == (3, True)


@pytest.mark.conforms("O-031")
def test_an_option_that_a_variable_gave_keeps_the_variable_as_its_origin(
    thermocline: CommandLine, tmp_path: Path
) -> None:
    by_variable = thermocline("settings", "--json", THERMOCLINE_DIR=str(tmp_path)).document()["dir"]
    by_flag = thermocline("settings", "--json", "--dir", str(tmp_path), THERMOCLINE_DIR="elsewhere").document()["dir"]
    assert (by_variable["value"], by_variable["origin"]) == (str(tmp_path), "environment THERMOCLINE_DIR")
    assert (by_flag["value"], by_flag["origin"]) == (str(tmp_path), "flag")


@pytest.mark.conforms("O-004")
def test_debug_shows_the_traceback(thermocline: CommandLine, tmp_path: Path) -> None:
    done = thermocline("status", "--debug", "--dir", tmp_path)
    assert done.code == 1
    assert "Traceback" in done.err


@pytest.mark.conforms("O-032")
def test_an_unknown_variable_stops_every_command(thermocline: CommandLine) -> None:
    done = thermocline("settings", THERMOCLINE_WAREHOSE="/tmp")
    assert (done.code, done.out) == (2, "")
    assert "THERMOCLINE_WAREHOSE is not a setting (did you mean THERMOCLINE_WAREHOUSE?)" in done.err


@pytest.mark.conforms("O-002", "O-031")
def test_settings_as_json_is_one_document_with_origins(thermocline: CommandLine, tmp_path: Path) -> None:
    done = thermocline("settings", "--json", "--dir", tmp_path, "--dsn", "host=h password=hunter2")
    assert done.code == 0
    assert done.document()["dsn"] == {
        "value": "host=h",
        "origin": "flag",
        "meaning": "Postgres to use; none: the embedded one of the stack in DIR",
    }
    assert "hunter2" not in done.out + done.err


@pytest.mark.conforms("O-009")
def test_init_makes_the_catalog_and_may_be_repeated(
    thermocline: CommandLine, server: PostgresServer, tmp_path: Path
) -> None:
    environ = {"THERMOCLINE_DSN": server.dsn(), "THERMOCLINE_DIR": str(tmp_path)}
    first = thermocline("init", "--json", **environ)
    assert first.code == 0, first.err
    assert first.document()["catalog_version"] >= 1
    assert thermocline("init", "--json", **environ).document() == first.document()


@pytest.mark.conforms("O-025")
def test_the_doctor_names_what_is_red_and_what_to_do(
    thermocline: CommandLine, server: PostgresServer, tmp_path: Path
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{silent.getsockname()[1]}"
        environ = {
            "THERMOCLINE_DSN": server.dsn(),
            "THERMOCLINE_DIR": str(tmp_path),
            "THERMOCLINE_GATEWAY_LISTEN": nobody,
        }
        thermocline("init", **environ)
        done = thermocline("doctor", "--json", **environ)
    assert done.code == 1
    findings = {finding["check"]: finding for finding in done.document()["findings"]}
    assert {name for name, finding in findings.items() if finding["verdict"] == "red"} == {
        "gateway",
        "foreign server thermocline_gateway",
    }
    assert findings["gateway"]["seen"].startswith(f"{nobody} cannot be reached")
    assert (
        findings["java"]["verdict"]
        == findings["jars"]["verdict"]
        == findings["postgres"]["verdict"]
        == findings["clock"]["verdict"]
        == "ok"
    )
    assert findings["constraint_exclusion"]["verdict"] == "warning"
    assert all(finding["fix"] for finding in findings.values() if finding["verdict"] != "ok")
    assert not (tmp_path / "warehouse").exists()


def test_a_postgres_that_is_too_old_is_refused_by_up(thermocline: CommandLine, scratch: Path, tmp_path: Path) -> None:
    old = PostgresServer(scratch / "too-old", free_port(), FAST_TEST_SETTINGS, password="x", version="13.23.0")
    try:
        old.init()
        old.start()
        done = thermocline("up", "--dir", tmp_path / "stack", THERMOCLINE_DSN=old.dsn())
    finally:
        old.remove()
    assert done.code == 3
    assert "Postgres 13 on 127.0.0.1" in done.err


def test_a_cache_that_cannot_be_used_is_refused_by_up(thermocline: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a directory is expected")
    done = thermocline("up", "--dir", tmp_path / "stack", THERMOCLINE_CACHE=str(tmp_path / "cache"))
    assert done.code == 3
    assert done.err.startswith(f"error TC103: The cache cannot be used: {tmp_path}/cache")


def test_a_warehouse_that_cannot_be_written_is_refused_by_up(thermocline: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("a file where a directory is expected")
    done = thermocline("up", "--dir", tmp_path / "stack", "--warehouse", tmp_path / "lake")
    assert done.code == 3
    assert done.err.startswith(f"error TC111: The warehouse {tmp_path}/lake cannot be written")
