"""Whether a folder holds the packages that were tried: npm writes down the hash of each package that it unpacked.

npm compares what it downloads with that hash; here the hash is compared with the one that was tried. Of another version
it must at least be there: a folder that was not made by npm has none.
"""

import os
from pathlib import Path

import msgspec

from coilclaw.features.runner.adapters.contract import Adapter
from coilclaw.packets.errors import ToolError

_LOCK = ".package-lock.json"
TRIED: dict[str, str] = {
    "@openai/codex@0.166.0": (
        "sha512-2Szlp1l1cz5TX1ccpX4Zok3DZrot9xeZe0km+6/1v8JmqxADwyJxKBJah4dBymkwtS25j/u6dipJusTOI97Z8Q=="
    ),
    "@openai/codex-linux-x64@0.166.0-linux-x64": (
        "sha512-CxDm3+D1cpbGJeHrdzINoG+3wn9BVncP4qpZaaNYkxe8iPtRJOYyCJnnPoVjWRIBvI9vPKbRoifsMSA5xDaUpw=="
    ),
    "@openai/codex-linux-arm64@0.166.0-linux-arm64": (
        "sha512-w0ScAsBr9aZKtIFrh6HN6KU2yjKKeSCzYfbb7DB0Ccj4BYPzeZtUeQprbycLCwuX3AFQdbdjapmLho2iot74jQ=="
    ),
    "@anthropic-ai/claude-code@2.1.325": (
        "sha512-OUxCb0sx734zJh9zGTP9oF01gZ44DCGFaw7hgD4byepjRRGyvHzgUOwC7dlCgVIljV6CiEVDjq+anY3GUvKFQw=="
    ),
    "@anthropic-ai/claude-code-linux-x64@2.1.325": (
        "sha512-BqZzMvP/zgLLL34S+7OzbG+cyoFp7gwWHU5koVwsyMlTAz+0zZAmbY+UkzvtN2RXxp6AcMenbYIjQJxoXfUY3w=="
    ),
    "@anthropic-ai/claude-code-linux-arm64@2.1.325": (
        "sha512-NCvQcOxr685Y4mkYUjQT8l/Ouzw0k2xWloWeyzfsUtWiOedHosPkaW6XCSpzAl1dMuvDNBF97qpWgVDrSdK2Vw=="
    ),
    "@google/gemini-cli@0.61.0": (
        "sha512-dbQ9A0qBtFJNi6XBkHvfZ6Azpn6PNgH/P8h2MZ67RLlX8hSAVjup39CRWqdRxZv7YXIuhrFaytr8y0jKnkoxnQ=="
    ),
}
"""Package and version, and the hash of what the adapters were tried with."""


class _Locked(msgspec.Struct, frozen=True):
    version: str = ""
    integrity: str = ""


class _Lock(msgspec.Struct, frozen=True):
    packages: dict[str, _Locked]


def checked_packages(adapter: Adapter, source: Path) -> tuple[tuple[str, str], ...]:
    """Package and hash of what a folder has of a program; raises ToolError where one is missing or another."""
    scope = adapter.package.partition("/")[0]
    folder = source / "node_modules"
    try:
        lock = msgspec.json.decode((folder / _LOCK).read_bytes(), type=_Lock)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _refused(adapter, f"{folder} does not say what npm unpacked there") from error
    found: list[tuple[str, str]] = []
    for name in sorted(os.listdir(folder / scope)):  # noqa: PTH208 - names alone
        package = f"{scope}/{name}"
        locked = lock.packages.get(f"node_modules/{package}", _Locked())
        full = f"{package}@{locked.version}"
        if not locked.integrity.startswith("sha512-"):
            raise _refused(adapter, f"npm has no sha512 of {package}")
        if TRIED.get(full, locked.integrity) != locked.integrity:
            raise _refused(adapter, f"{full} is not the package of that version")
        found.append((full, locked.integrity))
    return tuple(found)


def _refused(adapter: Adapter, why: str) -> ToolError:
    remedy = f"Run `npm install --ignore-scripts --prefix NEW_FOLDER {adapter.package}@{adapter.version}` anew."
    return ToolError(f"{why}.", remedy=remedy, code="INTEGRITY", begun=False)
