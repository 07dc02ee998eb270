"""Defaults, then config.toml, then the environment: one Config, or every fault at once."""

import os
import stat
from collections.abc import Mapping
from typing import TypeAlias, cast

import msgspec

from coilclaw.config.checks import check, settle_paths
from coilclaw.config.environment import (
    ENCRYPTION_KEY,
    MODEL_PRIMARY,
    OPENROUTER_KEY,
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
FileStamp: TypeAlias = tuple[int, ...]
"""Fingerprint of a file: inode, size and both times; empty if there is no file."""


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration with its origins and warnings."""

    config: Config
    table: dict[str, object]
    """What the file says."""
    variables: dict[KeyPath, str]
    """The variables that set a key."""
    warnings: tuple[str, ...]
    """Warnings about what works but is probably unintended."""
    stamp: FileStamp
    """Fingerprint of the file that was read."""

    @property
    def origins(self) -> dict[str, Origin]:
        """Where each value came from, by dotted key."""
        found: dict[str, Origin] = {}
        for path, _ in values_of(self.config):
            written: Origin = "file" if _stands_in(self.table, path) else "default"
            found[".".join(path)] = "environment" if path in self.variables else written
        return found


def load(home: Home, environ: Mapping[str, str], data: bytes | None = None) -> Loaded:
    """The configuration with origins and warnings, or a ConfigError that lists every fault.

    `data` replaces the content of config.toml; otherwise the file is read.
    """
    faults = Faults(display(home.config_file))
    stamp: FileStamp = ()
    if data is None:
        data, stamp = _read_bytes(home, faults)
    table = read_table(data, faults)
    faults.raise_if_any()  # an unreadable file has no values to check
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
        table=stands,
        variables=faults.variables,
        warnings=(*faults.warnings, *_strangers(config, faults)),
        stamp=stamp,
    )


OPENROUTER = "https://openrouter.ai/api/v1"


def _with_openrouter(table: dict[str, object], environ: Mapping[str, str]) -> dict[str, object]:
    """Use OpenRouter if the environment has its key and a model, and the file has only the mock."""
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


def _strangers(config: Config, faults: Faults) -> list[str]:
    """Warn of variables that set nothing, except secrets that the configuration names."""
    named = {*secret_variables(config)}
    return [text for name, text in faults.strangers.items() if name not in named]


def read_config(home: Home) -> bytes:
    """The content of config.toml, empty if there is none; a ConfigError if it cannot be read."""
    faults = Faults(display(home.config_file))
    data, _ = _read_bytes(home, faults)
    faults.raise_if_any()
    return data


def stamp_of(home: Home) -> FileStamp:
    """Fingerprint of config.toml, for one stat call."""
    try:
        return _stamp(os.stat(home.config_file))  # noqa: PTH116  called before every decision
    except OSError:
        return ()


def _stamp(found: os.stat_result) -> FileStamp:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def read_table(data: bytes, faults: Faults) -> dict[str, object]:
    """The file's tables; none if it is empty. Faults of the file itself are recorded."""
    if not data:
        return {}
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        faults.add(faults.file, f"line {line} is not UTF-8; save the file as UTF-8")
        return {}
    if "\0" in text:
        faults.add(faults.file, f"line {text[: text.index(chr(0))].count(chr(10)) + 1} contains a NUL character")
        return {}
    import tomllib

    try:
        table = tomllib.loads(text)
    except RecursionError:
        faults.add(faults.file, "is nested too deeply")
        return {}
    except ValueError as error:  # also a number with thousands of digits, which tomllib passes to int()
        reason = (
            str(error) if isinstance(error, tomllib.TOMLDecodeError) else "it contains a number that is far too long"
        )
        faults.add(faults.file, f"is not valid TOML: {reason}")
        return {}
    faults.text = text
    return table


def _read_bytes(home: Home, faults: Faults) -> tuple[bytes, FileStamp]:
    path = home.config_file
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        if path.is_symlink():  # a dangling link does not mean defaults
            faults.add(faults.file, "is a link to a file that does not exist")
        return b"", ()
    except OSError as error:
        faults.add(faults.file, f"cannot be read: {error.strerror}")
        return b"", ()
    found = os.fstat(descriptor)
    mode = found.st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        what = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
        faults.add(faults.file, f"is {what}; a text file is required")
        return b"", ()
    if mode & stat.S_IWOTH:
        faults.warnings.append(f"{faults.file}: every user on this machine can change it; run chmod 600 on it")
    try:
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        faults.add(faults.file, f"cannot be read: {error.strerror}")
        return b"", ()
    if len(data) > MAX_FILE_BYTES:
        faults.add(faults.file, "is larger than 1 MB; a configuration file is a few kilobytes")
        return b"", ()
    return data, _stamp(found)


def _merged(table: dict[str, object], overrides: list[Override]) -> dict[str, object]:
    """The file's tables overridden by the environment; the originals are not changed."""
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
        return table  # not a table in the file; the walk reports it
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
