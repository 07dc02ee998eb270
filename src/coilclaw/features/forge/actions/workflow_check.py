"""The workflows of a pull request, of main and of a folder, held to the matrix."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw.features.forge.actions.workflow_rows import FOLDER
from coilclaw.features.forge.actions.workflow_rules import is_workflow, workflow_faults, workflow_name
from coilclaw.features.forge.actions.workflow_yaml import WORKFLOW_BYTES
from coilclaw.features.forge.builtin_checks import MergeResult, shown
from coilclaw.packets.box import Probe

if TYPE_CHECKING:
    from coilclaw.features.forge.forge import LocalForge

MOST_FILES = 100


def changed_workflow_faults(merge: MergeResult, owner_id: int) -> Iterator[str]:
    """Workflows that a merge would bring and that could hold or start more than their row allows."""
    for change in merge.changes:
        if change.new_blob and is_workflow(change.path):
            data = merge.new.get(change.path)
            found = (
                ("it was not looked at",)
                if data is None
                else workflow_faults(workflow_name(change.path), data, owner_id)
            )
            yield from (f"{shown(change.path)}: {fault}" for fault in found)


def folder_faults(root: Path, owner_id: int) -> dict[str, tuple[str, ...]]:
    """Every workflow of a checkout by its path, with its faults. Nothing in it is followed or run."""
    found: dict[str, tuple[str, ...]] = {}
    folder = root / FOLDER
    for file in sorted(folder.rglob("*"))[:MOST_FILES] if folder.is_dir() else ():
        path = f"{FOLDER}/{file.relative_to(folder).as_posix()}"
        if is_workflow(path) and (file.is_symlink() or file.is_file()):
            fine = file.is_file() and not file.is_symlink() and file.stat().st_size <= WORKFLOW_BYTES
            faults = (
                workflow_faults(workflow_name(path), file.read_bytes(), owner_id) if fine else ("it is no small file",)
            )
            found[path] = tuple(faults)
    return found


def workflow_probe(forge: "LocalForge", owner_id: int) -> Probe:
    """What the doctor says of the workflows on main."""
    main, name = forge.bot.main(), "workflows"
    entries = {path: entry for path, entry in forge.repository.entries(main).items() if is_workflow(path)}
    for path, entry in sorted(entries.items())[:MOST_FILES]:
        data = forge.repository.blobs([entry.blob])[entry.blob] if entry.size <= WORKFLOW_BYTES else b"\xff"
        if fault := next(workflow_faults(workflow_name(path), data, owner_id), ""):
            remedy = "Run `coilclaw bot check-workflows`; `coilclaw bot setup --actions` writes those that pass."
            return Probe(name=name, state="fail", detail=f"{shown(path)}: {fault}", remedy=remedy)
    return Probe(name=name, state="ok", detail=f"{len(entries)}, all within the matrix" if entries else "none")
