"""The configuration in force: every option, where its value comes from, and what the next start would bring."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import msgspec

from coilclaw.config import Config, Origin, load, show_config
from coilclaw.config.environment import ALIASES, variable_for
from coilclaw.config.options import values_of
from coilclaw.config.reference import option_texts
from coilclaw.packets.canonical import Json, JsonObject
from coilclaw.packets.errors import ConfigError

if TYPE_CHECKING:
    from coilclaw.app.app import App


class Effective(msgspec.Struct, frozen=True, kw_only=True):
    """One option."""

    key: str
    value: Json
    source: str
    """`default`, `config.toml`, or `environment NAME`."""
    description: str
    next_value: Json = None
    changes: bool = False
    """Whether the next start would bring another value."""


def effective_settings(app: "App") -> tuple[list[Effective], list[str]]:
    """Every option in force, and what is wrong with config.toml by now. Secrets are only ever named."""
    next_config, origins, faults = _next(app)
    running, later = show_config(app.config), show_config(next_config)
    told = option_texts()
    settings: list[Effective] = []
    for path, _ in values_of(app.config):
        key = ".".join(path)
        value, coming = _at(running, path), _at(later, path)
        changes = value != coming and not faults
        settings.append(
            Effective(
                key=key,
                value=value,
                source=_source(app.environ, path, origins.get(key, "file"), changed=value != coming),
                description=told.get((_owner(app.config, path), path[-1]), ""),
                next_value=coming if changes else None,
                changes=changes,
            )
        )
    return settings, faults


def _next(app: "App") -> tuple[Config, Mapping[str, Origin], list[str]]:
    """What the file and the environment say by now."""
    try:
        loaded = load(app.home, app.environ)
    except ConfigError as error:
        return app.config, {}, error.problems
    return loaded.config, loaded.origins, []


def _source(environ: Mapping[str, str], path: tuple[str, ...], origin: Origin, *, changed: bool) -> str:
    names = [variable_for(path), *(name for name, other in ALIASES.items() if other == path)]
    variable = next((name for name in names if environ.get(name)), "")
    if variable:
        return f"environment {variable}"
    # A value that the file no longer has stood in it when this process started.
    return "default" if origin == "default" and not changed else "config.toml"


def _at(shown: JsonObject, path: tuple[str, ...]) -> Json:
    found: Json = shown
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _owner(config: Config, path: tuple[str, ...]) -> str:
    """The name of the struct that an option is a field of."""
    found: object = config
    for name in path[:-1]:
        found = cast("Mapping[str, object]", found).get(name) if isinstance(found, Mapping) else getattr(found, name)
    return type(found).__name__
