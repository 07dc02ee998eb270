"""The workspace's own repository: its git settings, and the home it belongs to.

Both are in `.git/config`, which no box and no tool can write.
"""

import os
from pathlib import Path

from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.git import have_git, run_git

SETTINGS = {
    "core.fsmonitor": "false",
    "diff.ignoreSubmodules": "all",
    "diff.submodule": "short",
    "fetch.recurseSubmodules": "false",
    "grep.recurseSubmodules": "false",
    "push.recurseSubmodules": "no",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
}
"""With these settings the owner's git ignores nested repositories when it compares, fetches or switches."""
_KNOWN = "coilclaw.repository"
_VERSION = "1"
_HOME = "coilclaw.home"


def _is_ours(workspace: Path) -> bool:
    """Whether the workspace is a repository with its own configuration."""
    folder = workspace / ".git"
    return folder.is_dir() and not folder.is_symlink() and have_git()


def _get(workspace: Path, key: str) -> list[str]:
    try:
        return run_git(workspace, "config", "--local", "--null", "--get-all", key).split("\0")[:-1]
    except ToolError:
        return []  # git fails if there is no such key


def is_settled(workspace: Path, home: Path) -> bool:
    """Whether `settle` has nothing to do; reads only the file, because it is called at every start."""
    try:
        text = (workspace / ".git" / "config").read_text("utf-8", "replace")
    except OSError:
        return not _is_ours(workspace)
    return f"repository = {_VERSION}\n" in text and f"home = {os.path.realpath(home)}\n" in text


def settle(workspace: Path, home: Path) -> None:
    """Write the git settings, and record that the workspace belongs to this home."""
    if is_settled(workspace, home) or not _is_ours(workspace):
        return
    if _get(workspace, _KNOWN) != [_VERSION]:
        for key, value in SETTINGS.items():
            run_git(workspace, "config", "--local", key, value)
        run_git(workspace, "config", "--local", _KNOWN, _VERSION)
    mine = os.path.realpath(home)
    homes = _get(workspace, _HOME)
    if mine not in homes:
        for gone in set(homes) - set(_using(workspace, homes)):
            run_git(workspace, "config", "--local", "--fixed-value", "--unset-all", _HOME, gone)
        run_git(workspace, "config", "--local", "--add", _HOME, mine)


def other_homes(workspace: Path, home: Path) -> list[str]:
    """Other homes that use this workspace, if this one is not recorded as sharing it."""
    if not _is_ours(workspace):
        return []
    homes = _get(workspace, _HOME)
    mine = os.path.realpath(home)
    return [] if mine in homes else _using(workspace, homes)


def _using(workspace: Path, homes: list[str]) -> list[str]:
    """Those homes that exist and use this workspace, without moved or copied ones."""
    found: list[str] = []
    for home in homes:
        link = Path(home) / "workspace"
        if link.exists() and link.samefile(workspace):
            found.append(home)
    return found
