"""Load the settings from four layers, and keep for each value the layer it came from.

The later layer wins: built in < file (THERMOCLINE_CONFIG, else DIR/thermocline.toml) < environment (THERMOCLINE_…) <
flag. An unknown key in the file or the environment is refused, so that a typing error does not become a silent default;
THERMOCLINE_TEST_… alone is left to tests.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import EnvSettingsSource, InitSettingsSource, PydanticBaseSettingsSource

from thermocline.errors import BadSetting
from thermocline.runtime import PREFIX
from thermocline.runtime.pg import without_password
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
        """These settings with some values from another origin, for example `stack`."""
        values = self.values.model_copy(update=changes)
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
    file, origins = _FileLayer(Settings), _Origins(Settings)
    environment = _EnvironmentLayer(os.environ if environ is None else environ)
    sources = (InitSettingsSource(Settings, given), environment, file, origins)
    layers: dict[str, Any] = {"_build_sources": (sources, given)}
    try:
        values = Settings(**layers)
    except ValidationError as problem:
        raise _refusal(problem, origins.values, origins.render(file.path)) from None
    if values.dsn is not None:
        without_password(values.dsn)
    return LoadedSettings(values=values, origins=origins.render(file.path))


def render_settings(loaded: LoadedSettings) -> tuple[RenderedSetting, ...]:
    """Each setting with its value and origin, secrets hidden."""
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


class _Layer(PydanticBaseSettingsSource, ABC):
    """A source that gives all its values at once."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        raise NotImplementedError


class _EnvironmentLayer(EnvSettingsSource):
    """Variables that start with THERMOCLINE_; an unknown one is refused."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = {
            name: value
            for name, value in environ.items()
            if name.startswith(PREFIX) and not name.startswith(TEST_PREFIX)
        }
        for name in sorted(self._environ):
            key = name.removeprefix(PREFIX).lower()
            if key not in Settings.model_fields or name != variable_name(key):
                raise BadSetting(f"The environment variable {name} is not a setting{_suggest(key, variable=True)}.")
        super().__init__(Settings)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return {name.lower(): value for name, value in self._environ.items() if value}


class _FileLayer(_Layer):
    """The settings file, which a flag or a variable may name."""

    path = Path()

    def __call__(self) -> dict[str, Any]:
        named = self.current_state.get("config")
        directory = Path(self.current_state.get("dir") or Settings.model_fields["dir"].default)
        self.path = Path(named) if named else directory / "thermocline.toml"
        try:
            content = tomllib.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            if named:
                raise BadSetting(f"The settings file {self.path} does not exist.") from None
            return {}
        except OSError as problem:
            raise BadSetting(f"The settings file {self.path} cannot be read: {problem.strerror}.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
            raise BadSetting(f"The settings file {self.path} is not TOML: {problem}.") from None
        for key in content:
            if key in NOT_IN_FILE:
                raise BadSetting(f"The settings file {self.path} cannot set {key}: the file is found by it.")
            if key not in Settings.model_fields:
                raise BadSetting(
                    f"The settings file {self.path} has the key {key}, which is not a setting{_suggest(key)}."
                )
        return content


class _Origins(_Layer):
    """Gives no value; the last source, it records what each layer before it gave."""

    values: Mapping[str, Any] = {}
    _layers: Mapping[str, Mapping[str, Any]] = {}

    def __call__(self) -> dict[str, Any]:
        self.values, self._layers = self.current_state, dict(self.settings_sources_data)
        return {}

    def render(self, file: Path) -> dict[str, str]:
        """The origin of every setting, in words."""
        origins = dict.fromkeys(Settings.model_fields, BUILT_IN)
        origins.update(dict.fromkeys(self._layers.get(_FileLayer.__name__, ()), f"file {file}"))
        origins.update(
            (key, f"environment {variable_name(key)}") for key in self._layers.get(_EnvironmentLayer.__name__, ())
        )
        origins.update(dict.fromkeys(self._layers.get(InitSettingsSource.__name__, ()), "flag"))
        return origins


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
    match = difflib.get_close_matches(key, list(Settings.model_fields), n=1)
    return f" (did you mean {variable_name(match[0]) if variable else match[0]}?)" if match else ""
