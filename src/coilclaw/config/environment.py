"""COILCLAW_* variables: which key each one sets, and how its text becomes a value."""

from collections.abc import Iterable, Mapping
from typing import Any, cast, get_args, get_origin

import msgspec

from coilclaw.config.faults import Faults, safe_text
from coilclaw.config.options import MODELS, KeyPath, bare_type, model_options, nearest, options_of
from coilclaw.config.schema import MODEL_KINDS

PREFIX = "COILCLAW_"
MODELS_PREFIX = "COILCLAW_PROVIDERS_MODELS_"

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
"""Second names of keys; both may be set only when they agree."""

ENCRYPTION_KEY = "COILCLAW_ENCRYPTION_KEY_B64"
OPENROUTER_KEY = "COILCLAW_OPENROUTER_API_KEY"
SECRETS = (ENCRYPTION_KEY, OPENROUTER_KEY)
"""Variables that hold secrets: only their presence is ever looked at."""

OTHERS: Mapping[str, str] = {
    "COILCLAW_HOME": "Moves the home and everything in it. Default: `~/.coilclaw`.",
    "COILCLAW_DEBUG": "Shows where an unexpected error happened; its text may hold secrets.",
    "COILCLAW_MOCK_SCRIPT": "A file of scripted answers for the mock provider, for one run.",
    ENCRYPTION_KEY: "Secret: 32 bytes in base64 that encrypt stored tokens. Not set: a key file in the home.",
    OPENROUTER_KEY: "Secret: a provider key; it is used where `api_key_env` names it.",
    "NO_COLOR": "When set, output has no colours.",
}
"""Variables that set no key."""


class Override(msgspec.Struct, frozen=True):
    """A key that a variable sets, with the value its text stands for."""

    path: KeyPath
    variable: str
    value: object


def variable_for(path: KeyPath) -> str:
    """The variable that overrides a key."""
    return PREFIX + "_".join(_upper(part) for part in path)


def read_environment(environ: Mapping[str, str], models: Iterable[str], faults: Faults) -> list[Override]:
    """Every override in the environment; a name that fits no key is noted. An empty variable counts as not set."""
    names = sorted(name for name in environ if name.startswith(PREFIX) and environ[name])
    names = [name for name in names if name not in OTHERS]
    if not names:
        return []
    types = {option.path: option.type for option in options_of()}
    keys = {**{variable_for(path): path for path in types}, **ALIASES}
    found: dict[KeyPath, Override] = {}
    for name in names:
        if name.startswith(MODELS_PREFIX):
            target = _model_key(name, list(models), faults)
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
    sections = {variable_for(path[:1]) + "_" for path in keys.values() if len(path) > 1} | {"COILCLAW_PROVIDERS_"}
    close = nearest(name, [*keys, *OTHERS])
    hint = f"did you mean {close}?" if close else "docs/config.md lists the names"
    if any(name.startswith(section) for section in sections):
        faults.add(name, f"sets no key; {hint}")
    else:
        faults.strangers[name] = f"{safe_text(name)}: no such variable, it is ignored; {hint}"


def _model_key(name: str, models: list[str], faults: Faults) -> tuple[KeyPath, Any] | None:
    """Split COILCLAW_PROVIDERS_MODELS_<NAME>_<KEY>; a provider that is not in the file is made, in lower case."""
    rest = name.removeprefix(MODELS_PREFIX)
    types = {option.path[-1]: option.type for kind in MODEL_KINDS for option in model_options(kind)}
    types["kind"] = str  # each kind's own literal: the walk checks the word
    key = next((key for key in types if rest.endswith("_" + _upper(key)) and len(rest) > len(key) + 1), None)
    if key is None:
        parts = rest.split("_")
        endings = ("_".join(parts[start:]) for start in range(min(len(parts), 10)))
        close = next(filter(None, (nearest(ending, types) for ending in endings)), "")
        hint = f"did you mean ..._{_upper(close)}?" if close else f"keys are {', '.join(types)}"
        faults.add(name, f"sets no key of a provider; {hint}")
        return None
    wanted = rest[: -len(key) - 1]
    matches = [model for model in models if _upper(model) == wanted]
    if len(matches) > 1:
        faults.add(name, f"fits the providers {' and '.join(matches)}; rename one of them")
        return None
    return (*MODELS, matches[0] if matches else wanted.lower(), key), types[key]


def _upper(part: str) -> str:
    return "".join(char if char.isascii() and char.isalnum() else "_" for char in part).upper()


_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def decode(text: str, kind: Any) -> object:
    """The value a variable's text stands for; text that does not fit stays text, and fails where types are checked."""
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
