"""Defaults, then config.toml, then the environment: one Config, or every fault at once."""

import os
import stat
from collections.abc import Mapping
from typing import cast

import msgspec

from coilclaw.config.checks import check, settle_paths
from coilclaw.config.environment import (
    ENCRYPTION_KEY,
    MODEL_PRIMARY,
    OPENROUTER_KEY,
    SECRETS,
    Override,
    chooses_openrouter,
    read_environment,
)
from coilclaw.config.faults import Faults, display
from coilclaw.config.options import Origin, values_of
from coilclaw.config.paths import Home
from coilclaw.config.schema import Config
from coilclaw.config.show import secret_variables
from coilclaw.config.tables import MODELS, TABLES, KeyPath
from coilclaw.config.walk import build

MAX_FILE_BYTES = 1_000_000


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration, and what is to be said about it."""

    config: Config
    origins: dict[str, Origin]
    """Where each value came from, by dotted key."""
    warnings: tuple[str, ...]
    """What works but is probably not meant."""
    secrets_present: tuple[str, ...]
    """The known secret variables that are set; their values are not kept."""


def load_config(home: Home, environ: Mapping[str, str]) -> Config:
    """The configuration of a home, or a ConfigError that lists every fault."""
    return load(home, environ).config


def config_origins(home: Home, environ: Mapping[str, str]) -> dict[str, Origin]:
    """Where each value comes from, by dotted key."""
    return load(home, environ).origins


def load(home: Home, environ: Mapping[str, str]) -> Loaded:
    """The configuration with the origin of each value and what to warn of, or a ConfigError that lists every fault."""
    faults = Faults(display(home.config_file))
    table = read_table(home, faults)
    faults.raise_if_any()  # a file that cannot be read says nothing about its values
    stands, table = table, _with_openrouter(table, environ)
    written = {path: (_table_in(table, path) or named.defaults()).keys() for path, named in TABLES.items()}
    overrides = read_environment(environ, written, faults)
    faults.variables = {override.path: override.variable for override in overrides}
    merged = _merged(table, overrides)
    config = settle_paths(build(Config, merged, (), faults), home, environ, faults)
    check(config, home, _table_in(merged, MODELS).keys() | config.providers.models.keys(), faults)
    _check_encryption_key(environ.get(ENCRYPTION_KEY, ""), faults)
    faults.raise_if_any()
    return Loaded(
        config=config,
        origins=_origins(config, stands, faults.variables),
        warnings=(*faults.warnings, *_strangers(config, faults)),
        secrets_present=tuple(name for name in SECRETS if environ.get(name)),
    )


OPENROUTER = "https://openrouter.ai/api/v1"


def _with_openrouter(table: dict[str, object], environ: Mapping[str, str]) -> dict[str, object]:
    """OpenRouter answers when the environment has its key and a model, and the file has nothing but the mock."""
    models = _table_in(table, MODELS)
    mock = all(name == "local" and _as_table(each).get("kind", "mock") == "mock" for name, each in models.items())
    if table.get("default_provider", "local") != "local" or not mock or not chooses_openrouter(environ):
        return table
    said = {
        "kind": "openai-compatible",
        "model": environ[MODEL_PRIMARY],
        "base_url": OPENROUTER,
        "api_key_env": OPENROUTER_KEY,
    }
    for key, value in said.items():
        table = _put(table, (*MODELS, "openrouter", key), value)
    return {**table, "default_provider": "openrouter"}


def _origins(config: Config, table: Mapping[str, object], variables: Mapping[KeyPath, str]) -> dict[str, Origin]:
    origins: dict[str, Origin] = {}
    for path, _ in values_of(config):
        written: Origin = "file" if _stands_in(table, path) else "default"
        origins[".".join(path)] = "environment" if path in variables else written
    return origins


def _strangers(config: Config, faults: Faults) -> list[str]:
    """Variables that set nothing; one that holds a secret which the configuration names is none of them."""
    named = {*secret_variables(config)}
    return [text for name, text in faults.strangers.items() if name not in named]


def read_table(home: Home, faults: Faults) -> dict[str, object]:
    """The file's tables; none when there is no file. What is wrong with the file itself is noted."""
    data = _read_bytes(home, faults)
    if not data:
        return {}
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        faults.add(faults.file, f"line {line} is not UTF-8; save the file as UTF-8")
        return {}
    if "\0" in text:
        faults.add(faults.file, f"line {text[: text.index(chr(0))].count(chr(10)) + 1} holds a NUL character")
        return {}
    import tomllib

    try:
        table = tomllib.loads(text)
    except RecursionError:
        faults.add(faults.file, "is nested too deeply")
        return {}
    except ValueError as error:  # also a number of thousands of digits, which tomllib passes to int()
        reason = (
            str(error) if isinstance(error, tomllib.TOMLDecodeError) else "it contains a number that is far too long"
        )
        faults.add(faults.file, f"is not valid TOML: {reason}")
        return {}
    faults.text = text
    return table


def _read_bytes(home: Home, faults: Faults) -> bytes:
    path = home.config_file
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        if path.is_symlink():  # a link to nothing is not a wish for defaults
            faults.add(faults.file, "is a link to a file that does not exist")
        return b""
    except OSError as error:
        faults.add(faults.file, f"cannot be read: {error.strerror}")
        return b""
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        what = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
        faults.add(faults.file, f"is {what}; a text file is required")
        return b""
    if mode & stat.S_IWOTH:
        faults.warnings.append(f"{faults.file}: every user on this machine can change it; run chmod 600 on it")
    try:
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        faults.add(faults.file, f"cannot be read: {error.strerror}")
        return b""
    if len(data) > MAX_FILE_BYTES:
        faults.add(faults.file, "is larger than 1 MB; a configuration file is a few kilobytes")
        return b""
    return data


def _merged(table: dict[str, object], overrides: list[Override]) -> dict[str, object]:
    """The file's tables with the environment's values put over them; the file's own are left as they are."""
    for path, named in TABLES.items():
        if _table_in(table, path) or not any(override.path[: len(path)] == path for override in overrides):
            continue
        defaults = cast("dict[str, dict[str, object]]", msgspec.to_builtins(named.defaults()))
        for name, inner in defaults.items():
            for key, value in inner.items():
                table = _put(table, (*path, name, key), value)
    for override in overrides:
        table = _put(table, override.path, override.value)
    return table


def _put(table: dict[str, object], path: KeyPath, value: object) -> dict[str, object]:
    if len(path) == 1:
        return {**table, path[0]: value}
    inner = table.get(path[0], {})
    if not isinstance(inner, dict):
        return table  # the file has no table there; the walk says so
    return {**table, path[0]: _put(cast("dict[str, object]", inner), path[1:], value)}


def _table_in(table: Mapping[str, object], path: KeyPath) -> Mapping[str, object]:
    inner: object = table
    for name in path:
        inner = _as_table(inner).get(name)
    return _as_table(inner)


def _stands_in(table: Mapping[str, object], path: KeyPath) -> bool:
    inner: object = table
    for name in path:
        if name not in _as_table(inner):
            return False
        inner = _as_table(inner)[name]
    return True


def _as_table(value: object) -> Mapping[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _check_encryption_key(text: str, faults: Faults) -> None:
    if not text:
        return
    import binascii

    try:
        size = len(binascii.a2b_base64(text.strip(), strict_mode=True))
    except (binascii.Error, ValueError):
        size = 0
    if size != 32:
        faults.add(ENCRYPTION_KEY, "must be exactly 32 bytes in base64; generate one with: openssl rand -base64 32")
