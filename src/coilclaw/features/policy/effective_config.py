"""The configuration in force: every option, where its value comes from, and what the next start would bring."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

import msgspec

from coilclaw.config import Config, Origin, load, show_config
from coilclaw.config.environment import ALIASES, variable_for
from coilclaw.config.options import values_of
from coilclaw.config.reference import option_texts
from coilclaw.config.tables import TABLES
from coilclaw.packets.canonical import Json, JsonObject
from coilclaw.packets.errors import ConfigError

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime


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


def effective_settings(app: "Runtime") -> tuple[list[Effective], list[str]]:
    """Every option in force, and what is wrong with config.toml by now. Secrets are only ever named."""
    next_config, origins, faults = _next(app)
    coming_and_going = [] if faults else list(_tables_that_change(app.config, next_config))
    going = {each.path for each in coming_and_going if each.goes}
    later = dict(values_of(next_config))
    shown, shown_later = _shown(app.config), _shown(next_config)
    told = option_texts()
    settings: list[Effective] = []
    for path, value in values_of(app.config):
        key = ".".join(path)
        changed = later.get(path) != value
        # Of a table that goes, the whole is told once.
        changes = changed and not faults and not any(path[: len(table)] == table for table in going)
        settings.append(
            Effective(
                key=key,
                value=_at(shown, path),
                source=_source(app.environ, path, origins.get(key, "file"), changed=changed),
                description=told.get((_owner(app.config, path), path[-1]), ""),
                next_value=_at(shown_later, path) if changes else None,
                changes=changes,
            )
        )
    return [*settings, *(_told(each, shown if each.goes else shown_later) for each in coming_and_going)], faults


class _TableChange(msgspec.Struct, frozen=True, kw_only=True):
    """A named table, such as a webhook, that the next start brings or takes away."""

    path: tuple[str, ...]
    noun: str
    goes: bool
    options: tuple[str, ...]
    """Those that are not what they are by default."""


def _tables_that_change(running: Config, later: Config) -> Iterator[_TableChange]:
    for path, table in TABLES.items():
        now, then = _named(running, path), _named(later, path)
        for name in sorted(now.keys() ^ then.keys()):
            goes = name in now
            options = _set_options((now if goes else then)[name])
            yield _TableChange(path=(*path, name), noun=table.noun, goes=goes, options=options)


def _set_options(table: msgspec.Struct) -> tuple[str, ...]:
    fields = msgspec.structs.fields(table)
    return tuple(field.name for field in fields if getattr(table, field.name) != field.default)


def _told(change: _TableChange, shown: JsonObject) -> Effective:
    """A table as one thing that changes: the options it sets, a word each."""
    table = _at(shown, change.path)
    assert isinstance(table, Mapping)  # noqa: S101 - it is one of TABLES
    words: list[Json] = [f"{name} = {_word(table[name])}" for name in change.options]
    return Effective(
        key=".".join(change.path),
        value=words if change.goes else None,
        source="config.toml",
        description=f"A {change.noun}. The next start {'takes it away' if change.goes else 'brings it'}.",
        next_value=None if change.goes else words,
        changes=True,
    )


def _word(value: Json) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _named(config: Config, path: tuple[str, ...]) -> Mapping[str, msgspec.Struct]:
    found: object = config
    for name in path:
        found = getattr(found, name)
    return cast("Mapping[str, msgspec.Struct]", found)


def _shown(config: Config) -> JsonObject:
    """Every value, JSON-able. Of a webhook's addresses only the host: what follows it is often all that guards it."""
    shown = show_config(config)
    for table in cast("Mapping[str, dict[str, Json]]", shown["webhooks"]).values():
        for key in ("url", "lookup_url"):
            table[key] = _host_of(str(table[key]))
    return shown


def _host_of(url: str) -> str:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
    except ValueError:
        return "***"
    more = parts.path.strip("/") or parts.query or parts.fragment
    return f"{parts.scheme}://{parts.netloc}/{'…' if more else ''}" if parts.netloc else url


def _next(app: "Runtime") -> tuple[Config, Mapping[str, Origin], list[str]]:
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
