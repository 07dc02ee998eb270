"""A plugin's `manifest.toml`: read strictly, so that a mistake is named with its line. Reading it runs nothing."""

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from coilclaw.config.schema import Domain
from coilclaw.features.guests.names import alike, check_guest_name, tool_fault
from coilclaw.features.guests.offer import DESCRIPTION, MOST_TOOLS, GuestGrant, GuestOffer, OfferedTool
from coilclaw.features.guests.program import folder_digest
from coilclaw.features.guests.schemas import schema_fault
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import UsageError

MANIFEST = "manifest.toml"
MOST_BYTES = 20 << 20
MANIFEST_BYTES = 256 << 10
_Folder = Annotated[str, Meta(pattern="^/", max_length=4096)]


class PluginTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of a plugin's tools."""

    name: str
    description: str = ""
    command: str | tuple[str, ...]
    """The program, relative to the plugin's folder, and its arguments."""
    schema: dict[str, Json] | str
    """The JSON Schema of its arguments, or the file that holds it."""


class PluginManifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole manifest."""

    name: str
    version: str
    description: str = ""
    capabilities: tuple[str, ...]
    tools: tuple[PluginTool, ...]
    timeout_seconds: Annotated[float, Meta(ge=0.05, le=3600)] = 60.0
    domains: tuple[Domain, ...] = ()
    read: tuple[_Folder, ...] = ()
    write: tuple[_Folder, ...] = ()


def read_plugin(folder: Path) -> GuestOffer:
    """What a plugin offers; a UsageError names what is wrong with it. Reads every file, so call it in a thread."""
    manifest = _manifest(folder)
    check_guest_name(manifest.name)
    if manifest.capabilities != ("tool",):
        raise _refused(folder, 'capabilities must be ["tool"]', "capabilities")
    if not manifest.tools or len(manifest.tools) > MOST_TOOLS:
        raise _refused(folder, f"a plugin has 1 to {MOST_TOOLS} tools", "tools")
    check_files(folder)
    grant = GuestGrant(
        kind="plugin",
        program=folder_digest(folder),
        domains=manifest.domains,
        read=manifest.read,
        write=manifest.write,
        call_seconds=manifest.timeout_seconds,
    )
    twins = alike(tool.name for tool in manifest.tools)
    tools = (_tool(folder, tool, number, twins) for number, tool in enumerate(manifest.tools, 1))
    ordered = tuple(sorted(tools, key=lambda each: each.original))
    return GuestOffer(name=manifest.name, version=manifest.version[:100], grant=grant, tools=ordered)


def check_files(folder: Path) -> None:
    """Refuse a folder that is too large, or holds what a copy must not: links that leave it, setuid, special files."""
    size = 0
    for top, below, names in os.walk(folder):
        for name in (*below, *names):
            path = Path(top, name)
            state, where = path.lstat(), path.relative_to(folder)
            size += state.st_size
            if stat.S_ISLNK(state.st_mode):
                target = Path(os.path.realpath(path))
                if path.readlink().is_absolute() or not target.is_relative_to(os.path.realpath(folder)):
                    raise UsageError(f"the link {where} leads out of the plugin.", remedy="Copy the file instead.")
            elif not (stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)):
                raise UsageError(f"{where} is neither a file nor a folder.", remedy="Remove it.")
            elif state.st_mode & (stat.S_ISUID | stat.S_ISGID) and not stat.S_ISDIR(state.st_mode):
                raise UsageError(f"{where} has a setuid or setgid bit.", remedy="Remove it with chmod ug-s.")
    if size > MOST_BYTES:
        raise UsageError(f"the plugin has more than {MOST_BYTES >> 20} MB.", remedy="Leave out what it does not need.")


def _manifest(folder: Path) -> PluginManifest:
    file = folder / MANIFEST
    try:
        if not stat.S_ISREG(file.lstat().st_mode) or file.lstat().st_size > MANIFEST_BYTES:
            raise UsageError(f"{file} is not a regular file of at most {MANIFEST_BYTES >> 10} KB.")
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{folder} has no readable {MANIFEST}.", remedy="`coilclaw plugin new NAME` writes an example."
        ) from error
    try:
        return msgspec.convert(tomllib.loads(text), PluginManifest, strict=True)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{MANIFEST}: {error}") from error
    except msgspec.ValidationError as error:
        raise _refused(folder, str(error), *_place(str(error))) from error


def _place(error: str) -> tuple[str, int]:
    """The key that msgspec's message is about, and the number of its tool: `` - at `$.tools[1].name` ``."""
    within, _, path = error.rpartition(" - at `$")
    number = re.match(r"\.tools\[(\d+)\]", path)
    unknown = re.search(r"field `([^`]+)`", within or error)
    named = re.findall(r"\.(\w+)", path)
    key = unknown[1] if unknown else named[-1] if named else ""
    return key, int(number[1]) + 1 if number else 0


def _refused(folder: Path, why: str, key: str, tool: int = 0) -> UsageError:
    """A fault with the line of the key it is about, in the so many-th tool; else that tool's, if it can be found."""
    lines = (folder / MANIFEST).read_text(encoding="utf-8").splitlines()
    starts = [number for number, line in enumerate(lines) if re.match(r"\s*\[\[\s*tools\s*\]\]", line)]
    first = starts[tool - 1] if 0 < tool <= len(starts) else 0
    last = starts[tool] if 0 < tool < len(starts) else len(lines)
    named = re.compile(rf"[\s\[]*[\"']?{re.escape(key)}[\"']?\s*[=\].]")
    found = (number for number in range(first, last) if key and named.match(lines[number]))
    at = next(found, first if tool and starts else -1) + 1
    return UsageError(f"{MANIFEST}{f', line {at}' if at else ''}: {why}.")


def _tool(folder: Path, tool: PluginTool, number: int, twins: set[str]) -> OfferedTool:
    fault = tool_fault(tool.name) or ("its name looks like that of another tool" if tool.name in twins else "")
    if fault:
        raise _refused(folder, f"the tool {tool.name[:80]!r}: {fault}", "name", number)
    schema = _schema(folder, tool, number)
    if fault := schema_fault(schema):
        raise _refused(folder, f"the tool {tool.name}: {fault}", "schema", number)
    words = (tool.command,) if isinstance(tool.command, str) else tool.command
    if not words or not _is_inside(folder, words[0]):
        raise _refused(folder, f"the command of {tool.name} is not a file in the plugin's folder", "command", number)
    if not os.access(folder / words[0], os.X_OK):
        raise _refused(folder, f"the command of {tool.name} is not executable", "command", number)
    return OfferedTool(original=tool.name, description=tool.description[:DESCRIPTION], parameters=schema, command=words)


def _schema(folder: Path, tool: PluginTool, number: int) -> dict[str, Json]:
    if isinstance(tool.schema, dict):
        return tool.schema
    text = tool.schema
    if not text.lstrip().startswith("{"):
        if not _is_inside(folder, text):
            raise _refused(folder, f"the schema of {tool.name} is not a file in the plugin's folder", "schema", number)
        text = (folder / text).read_text(encoding="utf-8", errors="replace")
    try:
        return msgspec.json.decode(text, type=dict[str, Json])
    except msgspec.DecodeError as error:
        raise _refused(folder, f"the schema of {tool.name} is not a JSON object ({error})", "schema", number) from error


def _is_inside(folder: Path, name: str) -> bool:
    path = folder / name
    plain = bool(name) and not Path(name).is_absolute() and ".." not in Path(name).parts
    return plain and path.is_file() and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
