"""policy, lake, maintain on the command line, without Spark: what is printed, what is refused, and by which exit
code."""

from __future__ import annotations

import json
import uuid
from contextlib import closing
from pathlib import Path

import pytest
from tests.commands import CommandResult, RunCommand, run_command

from thermocline.core.columns import LakeColumn
from thermocline.core.names import TableName
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.lake.commit.create_table import create_lake_table
from thermocline.runtime.pg import connect_as_typed as connect


@pytest.fixture
def command(database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> RunCommand:
    """Runs a command on a database with the lake table lab.readings, which is not under maintenance yet."""
    column = LakeColumn(
        name="id", field_id=1, base_type="int8", pg_type="bigint", lake_type="long", form="native", required=True
    )
    made = create_lake_table(
        str(tmp_path), TableName("lab", "readings"), (column,), "id", "none", table_uuid=uuid.uuid4()
    )
    with closing(connect(database, autocommit=True)) as conn:
        lake_catalog().insert_table(conn, TableName("lab", "readings"), made.metadata_location)

    def command(*arguments: str) -> CommandResult:
        return run_command(capsys, *arguments, "--dsn", database, "--dir", str(tmp_path))

    return command


@pytest.fixture
def lake_command(command: RunCommand) -> RunCommand:
    assert command("lake", "add", "lab.readings").code == 0
    return command


@pytest.mark.conforms("M-031", "M-032")
def test_the_policy_view_shows_origins_and_follows_set_unset_and_reset(lake_command: RunCommand) -> None:
    assert lake_command("policy", "lab.readings").line("snapshot_retention_hours") == [
        "snapshot_retention_hours",
        "24",
        "(default)",
        "preset",
        "modak",
    ]
    seen = lake_command(
        "policy", "lab.readings", "--set", "snapshot_retention_hours=6", "--set", "target_file_size_mb=256"
    )
    assert seen.line("snapshot_retention_hours") == ["snapshot_retention_hours", "6", "(table)"]
    assert seen.line("rewrite_target_bytes") == ["rewrite_target_bytes", "268435456", "(table)"]
    wrong = lake_command("policy", "lab.readings", "--set", "snapshot_retention_hours=7", "--set", "min_input_files=1")
    assert wrong.code == 2
    assert lake_command("policy", "lab.readings").line("snapshot_retention_hours")[1] == "6"
    assert (
        lake_command("policy", "lab.readings", "--unset", "snapshot_retention_hours").line("snapshot_retention_hours")[
            2
        ]
        == "(default)"
    )
    assert "(table)" not in lake_command("policy", "lab.readings", "--reset").out


@pytest.mark.conforms("O-016")
def test_presets_and_policies_of_a_namespace_and_of_all_tables_are_defaults_below(lake_command: RunCommand) -> None:
    lake_command("policy", "*", "--preset", "seaweedfs")
    lake_command("policy", "lab.*", "--set", "max_commit_retries=7")
    seen = lake_command("policy", "lab.readings", "--json").document()
    keys = {line["key"]: (line["value"], line["source"]) for line in seen["keys"]}
    assert seen["preset"] == "seaweedfs"
    assert keys["max_commit_retries"] == ("7", "namespace policy")
    assert keys["rewrite_target_bytes"] == ("268435456", "preset seaweedfs")


WRONG = [
    (("policy", "lab.readings", "--set", "no_such_key=1"), "unknown policy key 'no_such_key'"),
    (("policy", "lab.readings", "--set", "snapshot_retention_hour=1"), "the nearest is 'snapshot_retention_hours'"),
    (("policy", "lab.readings", "--set", "snapshot_retention_hours=abc"), "from 1 to 876000"),
    (("policy", "lab.readings", "--set", "snapshot_retention_hours=-1"), "from 1 to 876000"),
    (("policy", "lab.readings", "--set", "snapshot_retention_hours=1e9"), "from 1 to 876000"),
    (("policy", "lab.readings", "--set", "snapshot_retention_hours="), "from 1 to 876000"),
    (("policy", "lab.readings", "--set", "quiet_windows=25:00-26:00"), "no time of day"),
    (("policy", "lab.readings", "--set", "quiet_windows=09:00-09:00"), "ends when it begins"),
    (("policy", "lab.readings", "--set", "quiet_windows=09:00-10:00 Mars/X"), "not known"),
    (
        ("policy", "lab.readings", "--set", "rewrite_target_bytes=5", "--set", "target_file_size_mb=1"),
        "different values",
    ),
    (("policy", "lab.readings", "--preset", "oracle"), "unknown preset 'oracle'"),
    (("maintain", "lab.readings", "--operations", "compact,foo"), "unknown operation 'foo'"),
    (("maintain", "lab.readings", "--engine", "flink"), "unknown THERMOCLINE_MAINTENANCE_ENGINE 'flink'"),
    (("lake", "sink", "lab.readings"), "No such command 'sink'"),
]


@pytest.mark.conforms("O-124", "O-125", "O-128", "O-131")
def test_wrong_calls_are_refused_with_code_two(lake_command: RunCommand) -> None:
    for arguments, sentence in WRONG:
        seen = lake_command(*arguments)
        assert (seen.code, seen.out) == (2, ""), arguments
        assert sentence in seen.err, arguments


@pytest.mark.conforms("M-059")
def test_a_where_that_no_pass_could_run_is_neither_stored_nor_run(lake_command: RunCommand) -> None:
    for scope in ("lab.readings", "lab.*", "*"):
        refused = lake_command("policy", scope, "--set", "where=id = 3")
        assert (refused.code, "expire_snapshots is of the whole table" in refused.err) == (2, True)
        assert lake_command("policy", scope, "--json").document()["own"] == {}
    stored = lake_command(
        "policy", "lab.readings", "--set", "where=id = 3", "--set", "operations=compact", "--json"
    ).document()
    assert stored["own"] == {"where": "id = 3", "operations": ["compact"]}
    refused = lake_command(
        "maintain", "lab.readings", "--local", "--operations", "expire_snapshots", "--where", "id = 3"
    )
    assert (refused.code, "of the whole table" in refused.err) == (2, True)


def test_lake_tables_are_added_listed_and_removed(command: RunCommand) -> None:
    assert command("lake", "add", "lab.nothing").code != 0
    assert command("lake", "add", "lab.readings").out.strip() == "lab.readings is under maintenance"
    assert command("lake", "add", "lab.readings").out.strip() == "lab.readings is under maintenance already"
    assert [line["table"] for line in command("lake", "list", "--json").document()] == ["lab.readings"]
    assert command("lake", "remove", "lab.readings").code == 0
    assert command("lake", "remove", "lab.readings").code == 3
    assert command("policy", "lab.readings").code == 3


def test_settings_in_the_s3_tables_style_come_from_a_file(lake_command: RunCommand, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"icebergSnapshotManagement": {"status": "disabled"}}))
    seen = lake_command("policy", "lab.readings", "--s3-tables", str(path))
    assert seen.line("snapshot_expiry_enabled") == ["snapshot_expiry_enabled", "false", "(table)"]
    assert "warning: snapshot expiry is off" in seen.out


def test_a_request_that_is_not_waited_for_is_filed_once_and_refreshed(lake_command: RunCommand, database: str) -> None:
    first = lake_command("maintain", "lab.readings", "--no-wait", "--json").document()
    again = lake_command("maintain", "lab.readings", "--no-wait", "--json", "--operations", "compact").document()
    assert (first["state"], again["request"]) == ("pending", first["request"])
    with closing(connect(database)) as conn:
        rows = conn.execute("select state, request ->> 'operations' from thermocline.maintenance_requests").fetchall()
    assert rows == [("pending", '["compact"]')]
