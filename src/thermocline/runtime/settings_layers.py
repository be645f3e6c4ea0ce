"""Load the settings from four layers, and keep for each value the layer it came from.

The later layer wins: built in < file (THERMOCLINE_CONFIG, else DIR/thermocline.toml) < environment (THERMOCLINE_…) <
flag. An unknown key in the file or the environment is refused, so that a typing error does not become a silent default;
THERMOCLINE_TEST_… alone is left to tests.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from thermocline.core.messages.nearest import find_nearest
from thermocline.errors import BadSetting
from thermocline.runtime import PREFIX
from thermocline.runtime.settings import Settings

BUILT_IN = "built in"
TEST_PREFIX = f"{PREFIX}TEST_"
NOT_IN_FILE = frozenset({"dir", "config"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """Settings, and for each key the layer that gave its value."""

    values: Settings
    origins: Mapping[str, str]

    def with_values(self, origin: str, **changes: Any) -> LoadedSettings:
        """These settings with some values from another origin, for example `stack`; nobody set those, so they do not
        count as given (`model_fields_set`)."""
        values = Settings.model_construct(self.values.model_fields_set, **{**dict(self.values), **changes})
        return LoadedSettings(values=values, origins={**self.origins, **dict.fromkeys(changes, origin)})


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedSetting:
    """One setting as `thermocline settings` shows it."""

    key: str
    value: str | int | float | None
    origin: str
    meaning: str


def load_settings(flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> LoadedSettings:
    """Read all layers; flags that are None were not given."""
    given = {key: value for key, value in (flags or {}).items() if value is not None}
    if unknown := sorted(set(given) - set(Settings.model_fields)):
        raise BadSetting(f"There is no setting {unknown[0]}.")
    environment = _read_environment(os.environ if environ is None else environ)
    path, file = _read_file(environment | given)
    layers = {**file, **environment, **given}
    origins = {
        **dict.fromkeys(Settings.model_fields, BUILT_IN),
        **dict.fromkeys(file, f"file {path}"),
        **{key: f"environment {variable_name(key)}" for key in environment},
        **dict.fromkeys(given, "flag"),
    }
    try:
        values = Settings(**layers)
    except ValidationError as problem:
        raise _refusal(problem, layers, origins) from None
    if values.dsn is not None:
        check_dsn(values.dsn)
    return LoadedSettings(values=values, origins=origins)


def render_settings(loaded: LoadedSettings) -> tuple[RenderedSetting, ...]:
    """Each setting with its value and origin, secrets hidden."""
    from thermocline.runtime.pg import without_password

    rendered = []
    for key, field in Settings.model_fields.items():
        value = getattr(loaded.values, key)
        shown = without_password(value) if key == "dsn" and value else value
        rendered.append(
            RenderedSetting(
                key=key,
                value=str(shown) if isinstance(shown, Path) else shown,
                origin=loaded.origins[key],
                meaning=field.description or "",
            )
        )
    return tuple(rendered)


def check_dsn(dsn: str) -> None:
    """Refuse what libpq cannot read as a connection string."""
    from thermocline.runtime.pg import without_password  # loads psycopg, which a command without a DSN does not need

    without_password(dsn)


def _read_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Variables that start with THERMOCLINE_; an unknown one is refused, an empty one is as good as none."""
    found: dict[str, Any] = {}
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name.startswith(TEST_PREFIX):
            continue
        key = name.removeprefix(PREFIX).lower()
        if key not in Settings.model_fields or name != variable_name(key):
            raise BadSetting(f"The environment variable {name} is not a setting{_suggest(key, variable=True)}.")
        if environ[name]:
            found[key] = environ[name]
    return found


def _read_file(later_layers: Mapping[str, Any]) -> tuple[Path, dict[str, Any]]:
    """The settings file, which a flag or a variable may name, and what is in it."""
    named = later_layers.get("config")
    directory = Path(later_layers.get("dir") or Settings.model_fields["dir"].default)
    path = Path(named) if named else directory / "thermocline.toml"
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if named:
            raise BadSetting(f"The settings file {path} does not exist.") from None
        return path, {}
    except OSError as problem:
        raise BadSetting(f"The settings file {path} cannot be read: {problem.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise BadSetting(f"The settings file {path} is not TOML: {problem}.") from None
    for key in content:
        if key in NOT_IN_FILE:
            raise BadSetting(f"The settings file {path} cannot set {key}: the file is found by it.")
        if key not in Settings.model_fields:
            raise BadSetting(f"The settings file {path} has the key {key}, which is not a setting{_suggest(key)}.")
    return path, content


def variable_name(key: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + key.upper()


def _refusal(problem: ValidationError, values: Mapping[str, Any], origins: Mapping[str, str]) -> BadSetting:
    first = problem.errors()[0]
    key = str(first["loc"][0])
    shown = "" if key == "dsn" else f" = {values[key]!r}"
    reason = first["msg"].removeprefix("Value error, ")
    return BadSetting(f"The setting {key}{shown} (from {origins[key]}) is refused: {reason[:1].lower()}{reason[1:]}.")


def _suggest(key: str, *, variable: bool = False) -> str:
    nearest = find_nearest(key, Settings.model_fields)
    return f" (did you mean {variable_name(nearest) if variable else nearest}?)" if nearest else ""
