# ruff: noqa: PTH112, PTH118 - kernel paths; pathlib adds nothing here
"""Folders of the owner's that boxes may run programs from, such as one version of Python, Node or Rust."""

import os
from collections.abc import Iterable
from pathlib import Path

from coilclaw.packets.box import BoxMount
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.binaries import PATH


def lent(folders: Iterable[str | Path], forbidden: tuple[str, ...] = ()) -> tuple[tuple[BoxMount, ...], str]:
    """The mounts of these folders, in their own places and read-only, and the PATH with their programs first.

    A folder that is not there is left out: programs are updated, and `doctor` tells. What forbids a program holds in
    them too; it could not be taken out of a folder, so such a folder is refused.
    """
    present = [str(folder) for folder in folders if os.path.isdir(folder)]
    programs = [place for folder in present if os.path.isdir(place := os.path.join(folder, "bin"))]
    for place in (*present, *programs):
        found = next((name for name in forbidden if os.path.lexists(os.path.join(place, name))), "")
        if found:
            raise ToolError(
                f"{place} has the forbidden program {found}, so it cannot be lent to a box.",
                remedy="Lend a smaller folder in security.toolchains, or allow the program.",
                code="BOX_CANNOT_HOLD", begun=False,
            )  # fmt: skip
    mounts = tuple(BoxMount(source=folder, at=folder, writable=False) for folder in present)
    return mounts, ":".join((*programs, PATH))
