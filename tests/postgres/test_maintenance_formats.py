"""The seam to formats: one that an installed package offers is scheduled, kept, shown and exported as Iceberg is."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.commands import CommandResult, RunCommand, run_command
from tests.postgres.ledger_format import PLACE

from thermocline.api.catalog_metrics import catalog_registry
from thermocline.core.columns import LakeColumn
from thermocline.core.names import TableName
from thermocline.core.policy import formats
from thermocline.errors.maintenance import PolicyKeyUnknown
from thermocline.lake.catalogs.current_catalog import lake_catalog
from thermocline.lake.commit.create_table import create_lake_table
from thermocline.maintain.format import plugins
from thermocline.maintain.lake_health import collect_health
from thermocline.maintain.pass_requests import request_from_data
from thermocline.maintain.targets import environment_layer
from thermocline.runtime.pg import connect_as_typed as connect
from thermocline.runtime.settings import Settings
from thermocline.runtime.settings_layers import load_settings

BOOK = "lab.book"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The ledger's package, installed for the time of a test."""
    described = tmp_path / "site" / "ledger_format-1.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: ledger-format\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(
        "[thermocline.formats]\nledger = tests.postgres.ledger_format:Ledgers\n"
    )
    monkeypatch.syspath_prepend(str(described.parent))
    monkeypatch.setattr(formats, "_ADDED", {})
    monkeypatch.setattr(plugins, "_ADDED", {})
    monkeypatch.setenv(PLACE, str(tmp_path))
    plugins.load_formats.cache_clear()
    yield
    plugins.load_formats.cache_clear()


@pytest.fixture
def command(database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> RunCommand:
    """Commands on a database with an Iceberg table, lab.readings, under maintenance, and a ledger of five pages."""

    def command(*arguments: str) -> CommandResult:
        return run_command(capsys, *arguments, "--dsn", database, "--dir", str(tmp_path))

    column = LakeColumn(
        name="id", field_id=1, base_type="int8", pg_type="bigint", lake_type="long", form="native", required=True
    )
    made = create_lake_table(
        str(tmp_path), TableName("lab", "readings"), (column,), "id", "none", table_uuid=uuid.uuid4()
    )
    with closing(connect(database, autocommit=True)) as conn:
        lake_catalog().insert_table(conn, TableName("lab", "readings"), made.metadata_location)
    (tmp_path / f"{BOOK}.json").write_text(
        json.dumps({"version": 1, "properties": {}, "pages": [[1], [2], [3], [4], [5]]})
    )
    assert command("lake", "add", "lab.readings").code == 0
    return command


@pytest.mark.conforms("M-001")
@pytest.mark.usefixtures("installed")
def test_a_second_format_brings_its_operations_keys_and_counters_and_is_seen_everywhere(
    command: RunCommand, database: str, tmp_path: Path
) -> None:
    """The console comes later; it shows what the catalog, the commands and the metrics give here."""
    added = command("lake", "add", BOOK, "--format", "ledger")
    assert (added.code, added.out) == (0, f"{BOOK} is under maintenance\n"), added.err
    assert [(line["table"], line["format"]) for line in command("lake", "list", "--json").document()] == [
        (BOOK, "ledger"),
        ("lab.readings", "iceberg"),
    ]
    check_keys(command)
    done = command("maintain", BOOK, "--local", "--json").document()
    assert (done["status"], done["sentence"]) == (
        "done",
        "squash_pages: squashed 5 pages into 1; audit_pages: disabled by policy",
    )
    assert done["results"].items() >= {"pages_gone": 5, "squash_pages.pages_squashed": 5}.items()
    again = command("maintain", BOOK, "--local", "--operations", "squash_pages", "--json").document()
    assert (again["status"], again["sentence"]) == ("skipped", "squash_pages: 1 pages are well")
    check_catalog(database)
    shown = command("show", BOOK)
    assert "pages        1\n" in shown.out
    assert [line.split()[:2] for line in shown.out.splitlines() if line.startswith("squash_pages")] == [
        ["squash_pages", "successful"]
    ]
    assert command("show", BOOK, "--json").document()["lake_health"]["stats"] == {"pages": 1}
    with closing(connect(database, autocommit=True)) as conn:
        collect_health(conn, Settings(dsn=database, warehouse=str(tmp_path)))
    exported = text_string_to_metric_families(generate_latest(catalog_registry(Settings(dsn=database))).decode())
    samples = {
        (sample.name, sample.labels.get("table")): sample.value for family in exported for sample in family.samples
    }
    assert samples["thermocline_lake_pages", BOOK] == 1
    assert samples["thermocline_lake_warnings", BOOK] == 0
    assert samples["thermocline_lake_files", "lab.readings"] == 0
    assert ("thermocline_lake_files", BOOK) not in samples


@pytest.mark.usefixtures("installed")
def test_a_worker_knows_every_installed_format_when_it_reads_a_request() -> None:
    assert request_from_data({"operations": ["squash_pages"]}).operations == ("squash_pages",)


def check_keys(command: RunCommand) -> None:
    """The policy has the ledger's keys and those that all formats share, with spellings, presets and refusals as
    ever."""
    lines = {
        line["key"]: (line["value"], line["source"]) for line in command("policy", BOOK, "--json").document()["keys"]
    }
    assert lines["page_limit"] == ("9", "preset modak")
    assert "quiet_windows" in lines
    assert "rewrite_target_bytes" not in lines
    assert command("policy", BOOK, "--preset", "artemis", "--json").document()["own"] == {"preset": "artemis"}
    assert ["page_limit", "2", "(default)", "preset", "artemis"] in [
        line.split() for line in command("policy", BOOK).out.splitlines()
    ]
    changed = command("policy", BOOK, "--set", "page_limit_dozens=1", "--json").document()
    assert changed["own"] == {"preset": "artemis", "page_limit": 12}
    # Without the quiet hours of the preset: the pass below runs at any time of day.
    assert command("policy", BOOK, "--set", "page_limit=3", "--set", "quiet_windows=").code == 0
    for refused in ("page_limit=none", "rewrite_target_bytes=5", "page_limt=3"):
        assert command("policy", BOOK, "--set", refused).code == 2, refused
    assert command("policy", "lab.readings", "--set", "page_limit=3").code == 2
    assert "no operation 'compact'" in command("maintain", BOOK, "--local", "--operations", "compact").err
    assert "unknown format 'scroll'" in command("lake", "add", "lab.scroll", "--format", "scroll").err


def check_catalog(database: str) -> None:
    """The journal, the policy in force and the last status of each operation are the ledger's own."""
    with closing(connect(database, autocommit=True)) as conn:
        passes = conn.execute(
            "select o.counters ->> 'squash_pages.pages_squashed', o.policy ->> 'page_limit', o.policy ? "
            "'rewrite_target_bytes'"
            " from thermocline.op_log o where kind = 'maintain' order by started_at limit 1"
        ).fetchone()
        assert passes == ("5", "3", False)
        statuses = conn.execute(
            "select name, array_agg(operation || ' ' || status order by place) from "
            "thermocline.maintenance_status group by name order by 1"
        ).fetchall()
    assert statuses[0] == ("book", ["squash_pages successful", "audit_pages disabled"])
    assert statuses[1][1][1] == "compact not yet run"
    assert not any("pages" in line for line in statuses[1][1])


def test_the_environment_may_set_keys_of_a_format_that_is_loaded_later(installed: None) -> None:
    settings = load_settings({}, {"THERMOCLINE_MAINTENANCE_POLICY": "page_limit_dozens=2; max_commit_retries=9"}).values
    assert dict(environment_layer(settings).values) == {"page_limit": 24, "max_commit_retries": 9}
    wrong = load_settings({}, {"THERMOCLINE_MAINTENANCE_POLICY": "page_limt=2"}).values
    with pytest.raises(PolicyKeyUnknown, match="the nearest is 'page_limit'"):
        environment_layer(wrong)
