"""Layers, provenance and refusals of the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from thermocline.errors import BadDsn, BadSetting
from thermocline.runtime.settings import Settings
from thermocline.runtime.settings_layers import LoadedSettings, load_settings, render_settings


def test_without_any_layer_every_value_is_built_in(tmp_path: Path) -> None:
    loaded = load_settings({"dir": str(tmp_path)}, {})
    assert {key for key, origin in loaded.origins.items() if origin != "built in"} == {"dir"}
    assert loaded.values == Settings(dir=tmp_path)


@pytest.mark.conforms("O-031")
def test_the_file_loses_to_the_environment_which_loses_to_a_flag(tmp_path: Path) -> None:
    config = tmp_path / "thermocline.toml"
    config.write_text("lock_timeout_ms = 1\npremake_partitions = 1\ncycle_interval_seconds = 1.5\n")
    environ = {"THERMOCLINE_LOCK_TIMEOUT_MS": "2", "THERMOCLINE_PREMAKE_PARTITIONS": "2"}
    loaded = load_settings({"dir": str(tmp_path), "lock_timeout_ms": 3}, environ)
    assert (loaded.values.lock_timeout_ms, loaded.origins["lock_timeout_ms"]) == (3, "flag")
    assert (loaded.values.premake_partitions, loaded.origins["premake_partitions"]) == (
        2,
        "environment THERMOCLINE_PREMAKE_PARTITIONS",
    )
    assert (loaded.values.cycle_interval_seconds, loaded.origins["cycle_interval_seconds"]) == (1.5, f"file {config}")
    assert loaded.origins["spark_master"] == "built in"


def test_the_file_is_found_by_the_variable_before_the_directory(tmp_path: Path) -> None:
    (tmp_path / "thermocline.toml").write_text("premake_partitions = 1\n")
    named = tmp_path / "named.toml"
    named.write_text("premake_partitions = 7\n")
    loaded = load_settings({"dir": str(tmp_path)}, {"THERMOCLINE_CONFIG": str(named)})
    assert (loaded.values.premake_partitions, loaded.origins["premake_partitions"]) == (7, f"file {named}")


def test_a_named_file_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=r"missing\.toml does not exist"):
        load_settings({}, {"THERMOCLINE_CONFIG": str(tmp_path / "missing.toml")})


@pytest.mark.conforms("O-032")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lock_timout_ms = 5", r"lock_timout_ms, which is not a setting \(did you mean lock_timeout_ms\?\)"),
        ("lock_timeout_ms = 'soon'", r"lock_timeout_ms = 'soon' .* valid integer"),
        ("lock_timeout_ms = 0", r"lock_timeout_ms = 0 .* greater than or equal to 1"),
        ("log_format = 'xml'", r"log_format = 'xml' .* 'text' or 'json'"),
        ("dir = 'elsewhere'", r"cannot set dir"),
        ("gateway_listen = '5432'", r"gateway_listen = '5432' .* written host:port"),
        ("not toml at all", r"is not TOML"),
    ],
)
def test_a_file_with_a_wrong_key_or_value_is_refused_with_key_and_reason(
    tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / "thermocline.toml").write_text(text)
    with pytest.raises(BadSetting, match=reason):
        load_settings({"dir": str(tmp_path)}, {})


@pytest.mark.conforms("O-032")
@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        (
            "THERMOCLINE_LOCK_TIMOUT_MS",
            "5",
            r"THERMOCLINE_LOCK_TIMOUT_MS is not a setting \(did you mean THERMOCLINE_LOCK_TIMEOUT_MS\?\)",
        ),
        ("THERMOCLINE_FROBNICATE", "1", r"THERMOCLINE_FROBNICATE is not a setting\."),
        ("THERMOCLINE_lock_timeout_ms", "5", r"THERMOCLINE_lock_timeout_ms is not a setting"),
        (
            "THERMOCLINE_PREMAKE_PARTITIONS",
            "many",
            r"premake_partitions = 'many' \(from environment THERMOCLINE_PREMAKE_PARTITIONS\)",
        ),
    ],
)
def test_an_unknown_or_wrong_variable_is_refused_with_its_name(
    tmp_path: Path, name: str, value: str, reason: str
) -> None:
    with pytest.raises(BadSetting, match=reason):
        load_settings({"dir": str(tmp_path)}, {name: value})


def test_variables_of_the_tests_and_empty_ones_are_left_alone(tmp_path: Path) -> None:
    loaded = load_settings(
        {"dir": str(tmp_path)}, {"THERMOCLINE_TEST_ANYTHING": "1", "THERMOCLINE_DSN": "", "HOME": "/"}
    )
    assert loaded.values.dsn is None


def test_a_dsn_that_cannot_be_read_is_refused_without_showing_it(tmp_path: Path) -> None:
    with pytest.raises(BadDsn) as caught:
        load_settings({"dir": str(tmp_path), "dsn": "host=x password 'hunter2"}, {})
    assert "hunter2" not in str(caught.value)


@pytest.mark.conforms("O-031")
def test_settings_are_shown_with_their_origin_and_without_passwords(tmp_path: Path) -> None:
    loaded = load_settings({"dir": str(tmp_path)}, {"THERMOCLINE_DSN": "postgresql://me:hunter2@db.example:6000/app"})
    lines = {line.key: line for line in render_settings(loaded)}
    assert set(lines) == set(Settings.model_fields)
    assert all(line.meaning for line in lines.values())
    assert lines["dsn"].value == "user=me dbname=app host=db.example port=6000"
    assert lines["dsn"].origin == "environment THERMOCLINE_DSN"
    assert "hunter2" not in repr(lines) + repr(loaded)


def test_values_from_a_stack_say_so(tmp_path: Path) -> None:
    loaded: LoadedSettings = load_settings({"dir": str(tmp_path)}, {}).with_values("stack", dsn="host=x")
    assert (loaded.values.dsn, loaded.origins["dsn"]) == ("host=x", "stack")
