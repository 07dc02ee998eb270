"""COILCLAW_* variables: which key each one sets, and how its text becomes a value."""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, TypeAlias, cast, get_args, get_origin

import msgspec

from coilclaw.config.faults import Faults, safe_text
from coilclaw.config.options import bare_type, nearest, options_of, table_keys
from coilclaw.config.tables import TABLES, KeyPath, Table

PREFIX = "COILCLAW_"
Written: TypeAlias = Mapping[KeyPath, Collection[str]]
"""The names in the file, for each named table."""

ALIASES: Mapping[str, KeyPath] = {
    "COILCLAW_HTTP_ADDR": ("server", "http_addr"),
    "COILCLAW_DATABASE_PATH": ("memory", "path"),
    "COILCLAW_MODEL_PRIMARY": ("default_model",),
    "COILCLAW_MODEL_FALLBACK": ("fallback_model",),
    "COILCLAW_APPROVAL_TTL_HOURS": ("approvals", "ttl_hours"),
    "COILCLAW_DAILY_TOKEN_BUDGET": ("budgets", "daily_tokens"),
    "COILCLAW_JOB_TOKEN_BUDGET": ("budgets", "job_tokens"),
    "COILCLAW_LOG": ("log", "format"),
}
"""Aliases of keys; both may be set only if they agree."""

ENCRYPTION_KEY = "COILCLAW_ENCRYPTION_KEY_B64"
ENCRYPTION_KEY_NEW = "COILCLAW_ENCRYPTION_KEY_NEW_B64"
OPENROUTER_KEY = "COILCLAW_OPENROUTER_API_KEY"
MODEL_PRIMARY = "COILCLAW_MODEL_PRIMARY"
SECRETS = (ENCRYPTION_KEY, OPENROUTER_KEY)
"""Variables with secrets: only their presence is ever checked."""

OTHERS: Mapping[str, str] = {
    "COILCLAW_HOME": "The home folder, and everything in it. Default: `~/.coilclaw`.",
    "COILCLAW_DEBUG": "Shows the traceback of an unexpected error; its text may contain secrets.",
    "COILCLAW_MOCK_SCRIPT": "A file of scripted answers for the mock provider, for one run.",
    ENCRYPTION_KEY: "Secret: the key that encrypts stored tokens, 32 bytes in base64. Not set: a key file in the home.",
    ENCRYPTION_KEY_NEW: "Secret: the next key; read by `coilclaw keys rotate`.",
    OPENROUTER_KEY: "Secret: a provider key; used where `api_key_env` names it. Together with `COILCLAW_MODEL_PRIMARY`,"
    " and while the file has nothing but the mock, OpenRouter answers.",
    "NO_COLOR": "When set, output has no colours.",
}
"""Variables that do not set a key."""


def chooses_openrouter(environ: Mapping[str, str]) -> bool:
    """Whether the environment has everything needed to use OpenRouter, and names no other provider."""
    return all(environ.get(name) for name in (OPENROUTER_KEY, MODEL_PRIMARY)) and not environ.get(
        variable_for(("default_provider",))
    )


class Override(msgspec.Struct, frozen=True):
    """A key set by a variable, with its parsed value."""

    path: KeyPath
    variable: str
    value: object


def variable_for(path: KeyPath) -> str:
    """The variable that overrides a key."""
    return PREFIX + "_".join(_upper(part) for part in path)


def read_environment(environ: Mapping[str, str], written: Written, faults: Faults) -> list[Override]:
    """Every override in the environment; a name without a key is recorded. An empty variable counts as not set."""
    names = sorted(name for name in environ if name.startswith(PREFIX) and environ[name])
    names = [name for name in names if name not in OTHERS]
    if not names:
        return []
    types = {option.path: option.type for option in options_of()}
    keys = {**{variable_for(path): path for path in types}, **ALIASES}
    found: dict[KeyPath, Override] = {}
    for name in names:
        table = next((each for each in TABLES.values() if name.startswith(_prefix(each))), None)
        if table is not None:
            target = _table_key(table, name, written.get(table.path, ()), faults)
        elif name in keys:
            target = keys[name], types[keys[name]]
        else:
            target = None
            _unknown(name, keys, faults)
        if target is not None:
            path, kind = target
            _add(found, Override(path, name, decode(environ[name], kind)), faults)
    return list(found.values())


def _add(found: dict[KeyPath, Override], override: Override, faults: Faults) -> None:
    other = found.setdefault(override.path, override)
    if other is not override and other.value != override.value:
        faults.add(
            f"{other.variable} and {override.variable}",
            f"both set {'.'.join(override.path)}, to different values; unset one of them",
        )


def _unknown(name: str, keys: Mapping[str, KeyPath], faults: Faults) -> None:
    sections = {variable_for(path[:1]) + "_" for path in (*keys.values(), *TABLES) if len(path) > 1}
    close = nearest(name, [*keys, *OTHERS])
    hint = f"did you mean {close}?" if close else "docs/config.md lists the names"
    if any(name.startswith(section) for section in sections):
        faults.add(name, f"matches no configuration key; {hint}")
    else:
        faults.strangers[name] = f"{safe_text(name)}: unknown variable, ignored; {hint}"


def _prefix(table: Table) -> str:
    return variable_for(table.path) + "_"


def _table_key(table: Table, name: str, written: Collection[str], faults: Faults) -> tuple[KeyPath, Any] | None:
    """Split COILCLAW_<TABLE>_<NAME>_<KEY>; a name that is not in the file creates a new table, in lower case."""
    if not table.variables:
        faults.add(
            name, f"matches no configuration key; a {table.noun} can only be set in the file, as [{table.key}.NAME]"
        )
        return None
    rest = name.removeprefix(_prefix(table))
    types = table_keys(table)
    # The longest suffix first: LOOKUP_URL is a key, unless a table is called ..._LOOKUP.
    endings = [key for key in sorted(types, key=len, reverse=True) if rest.endswith("_" + _upper(key))]
    splits = [(rest[: -len(key) - 1], key) for key in endings if len(rest) > len(key) + 1]
    fits = [(each, key) for wanted, key in splits for each in written if _upper(each) == wanted]
    if len(fits) > 1:
        names = " and ".join(dict.fromkeys(each for each, _ in fits))
        faults.add(name, f"matches the {table.noun}s {names}; rename one of them")
        return None
    if not splits:
        faults.add(name, f"matches no key of a {table.noun}; {_key_hint(rest, types)}")
        return None
    made, key = fits[0] if fits else (splits[0][0].lower(), splits[0][1])
    return (*table.path, made, key), types[key]


def _key_hint(rest: str, types: Mapping[str, object]) -> str:
    parts = rest.split("_")
    endings = ("_".join(parts[start:]) for start in range(min(len(parts), 10)))
    close = next(filter(None, (nearest(ending, types) for ending in endings)), "")
    return f"did you mean ..._{_upper(close)}?" if close else f"keys are {', '.join(types)}"


@lru_cache(1024)
def _upper(part: str) -> str:
    return "".join(char if char.isascii() and char.isalnum() else "_" for char in part).upper()


_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def decode(text: str, kind: Any) -> object:
    """The value of a variable's text; text that does not parse stays text, and fails the type check."""
    inner, _ = bare_type(kind)
    word = text.strip()
    if inner is bool:
        return word.lower() in _TRUE if word.lower() in _TRUE + _FALSE else text
    if inner in {int, float}:
        try:
            return int(word) if word.lstrip("+-").isdigit() else float(word)
        except ValueError:
            return text
    if get_origin(inner) is tuple:
        return _structure(word) if word.startswith("[") else [part.strip() for part in word.split(",") if part.strip()]
    if get_origin(inner) is dict:
        return _structure(word) if word.startswith("{") else _pairs(word)
    return word if get_args(inner) else text


def _structure(text: str) -> object:
    """A JSON or TOML array or table."""
    try:
        return cast("object", msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        pass
    import tomllib

    try:
        table = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return cast("object", table["value"]) if len(table) == 1 else text


def _pairs(text: str) -> object:
    """`a=b, c=d` as a table."""
    parts = [part.partition("=") for part in text.split(",") if part.strip()]
    if not all(equals for _, equals, _ in parts):
        return text
    return {key.strip(): value.strip() for key, _, value in parts}
