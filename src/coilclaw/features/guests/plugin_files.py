"""Plugins on disk: installed into the home as they came, and run from a copy outside it that is named by its hash.

The home is hidden from every box, so a program in it cannot run there. The copy is made when the owner approves, from
exactly the files that were hashed, and is compared with that hash before it is used.
"""

import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw.config.mcp import guests_dir
from coilclaw.features.guests.manifest import read_plugin
from coilclaw.features.guests.offer import GuestOffer
from coilclaw.features.guests.program import folder_digest
from coilclaw.packets.errors import ToolError, UsageError

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

EXAMPLE_MANIFEST = """\
name = "{name}"
version = "0.1.0"
capabilities = ["tool"]

[[tools]]
name = "count_words"
description = "Counts the words of a text."
command = "./count-words"
schema = {{ type = "object", required = ["text"], properties = {{ text = {{ type = "string" }} }} }}
"""
EXAMPLE_PROGRAM = """\
#!/bin/sh
# A call is one JSON object on standard input: {"tool": …, "args": …, "call_id": …}.
# The answer is one JSON object on standard output.
words=$(wc -w)
printf '{"success": true, "output": "The whole call has %s words.", "error": null, "metadata": {}}\\n' "$((words))"
"""


def installed(app: "Runtime") -> list[Path]:
    """The folders of installed plugins, by name."""
    found = (file.parent for file in app.home.plugins_dir.glob("*/manifest.toml"))
    return sorted(folder for folder in found if not folder.name.startswith("."))


def install(app: "Runtime", source: Path) -> GuestOffer:
    """Copy a plugin into the home, replacing an earlier version of it; nothing of it runs."""
    folder = Path(os.path.realpath(source.expanduser()))
    offer = read_plugin(folder)
    if offer.name in app.config.mcp.servers:
        raise UsageError(f"there is an MCP server {offer.name} already.", remedy="Choose another name.")
    place = app.home.plugins_dir / offer.name
    fresh = app.home.plugins_dir / f".new-{offer.name}"
    app.home.plugins_dir.mkdir(exist_ok=True, mode=0o700)
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(folder, fresh, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    if read_plugin(fresh) != offer:
        shutil.rmtree(fresh, ignore_errors=True)
        raise UsageError(f"{folder} changed while it was copied.", remedy="Try again.")
    shutil.rmtree(place, ignore_errors=True)
    fresh.rename(place)
    return offer


def settle_copy(app: "Runtime", offer: GuestOffer) -> None:
    """Make the copy that runs, from files whose hash was approved."""
    place = copy_of(app, offer)
    if place.is_dir() and folder_digest(place) == offer.grant.program:
        return
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = place.with_name(f".new-{place.name}")
    _remove(fresh)
    shutil.copytree(app.home.plugins_dir / offer.name, fresh, symlinks=True)
    if folder_digest(fresh) != offer.grant.program:
        _remove(fresh)
        raise ToolError(f"the files of {offer.name} are not those that were shown.", code="GUEST_CHANGED", begun=False)
    _remove(place)
    fresh.rename(place)


def copy_of(app: "Runtime", offer: GuestOffer) -> Path:
    """Where the copy of an approved plugin lies."""
    return guests_dir(app.config.workspace_dir) / "plugins" / f"{offer.name}-{offer.grant.program[:16]}"


def remove(app: "Runtime", name: str) -> None:
    """Remove an installed plugin and its copies."""
    shutil.rmtree(app.home.plugins_dir / name, ignore_errors=True)
    for copy in (guests_dir(app.config.workspace_dir) / "plugins").glob(f"{name}-{'[0-9a-f]' * 16}"):
        _remove(copy)


def write_example(folder: Path, name: str) -> None:
    """A small plugin that works."""
    if folder.exists():
        raise UsageError(f"{folder} exists already.", remedy="Choose another name.")
    folder.mkdir(parents=True)
    (folder / "manifest.toml").write_text(EXAMPLE_MANIFEST.format(name=name), encoding="utf-8")
    program = folder / "count-words"
    program.write_text(EXAMPLE_PROGRAM, encoding="utf-8")
    program.chmod(0o755)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def signature(folder: Path) -> tuple[tuple[str, int, int, int, int], ...]:
    """Changes whenever a file of the folder does, as far as its file system tells; costs no reading."""
    found: list[tuple[str, int, int, int, int]] = []
    for top, _, names in os.walk(folder):
        states = ((str(Path(top, name)), os.lstat(Path(top, name))) for name in names)
        found += [
            (path, state.st_size, state.st_mtime_ns, state.st_ctime_ns, stat.S_IMODE(state.st_mode))
            for path, state in states
        ]
    return tuple(sorted(found))
