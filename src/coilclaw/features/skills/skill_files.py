"""The owner's skills as they lie in the workspace, read without following any link."""

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.skills.skill import FILE, FOLDER, MOST_SKILLS, SKILL_BYTES, Skill, SkillRead, broken, read_skill
from coilclaw.packets.action import Label
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import ToolError, UsageError
from coilclaw.packets.labels import untrusted_only
from coilclaw.packets.names import did_you_mean
from coilclaw.sandbox.files import FileGrant, WorkspaceFiles, read_existing

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

UNTRUSTED = "untrusted"


class SkillFile(msgspec.Struct, frozen=True, kw_only=True):
    """A skill as its file has it now."""

    name: str
    read: SkillRead
    size: int = 0
    file_hash: str = ""
    labels: tuple[Label, ...] = ()
    """The untrusted sources its content came from."""

    @property
    def usable(self) -> Skill | None:
        """The skill, if it is valid and the owner's."""
        return None if self.labels else self.read.skill

    @property
    def passed_over(self) -> str:
        """Why it is not used; empty when it is."""
        if self.labels:
            return UNTRUSTED
        return "" if self.read.skill is not None else "invalid"


class SkillFiles:
    """The owner's skills, always those of the workspace."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app

    def names(self) -> list[str]:
        """Every folder under skills/, sorted, links left out; those beyond the limit too, so that it can be told."""
        grant = FileGrant(asked=FOLDER, root=str(self._app.workspace), relative=FOLDER, writable=False)
        with suppress(ToolError):
            entries = WorkspaceFiles((grant,)).list(FOLDER, limit=5 * MOST_SKILLS)
            return sorted(entry.name for entry in entries if entry.kind == "dir")
        return []

    def every(self) -> list[SkillFile]:
        """The skills by name, as many as are read; whatever is wrong with one is told beside the others."""
        names = self.names()
        clean = not self._app.root.labels.labels_of(FOLDER)  # one question for all of them, in most workspaces
        files = [self._read(name, clean=clean) for name in names[:MOST_SKILLS]]
        too_many = broken(f"there are more than {MOST_SKILLS} skills; this one is not read.")
        return [*files, *(SkillFile(name=name, read=too_many) for name in names[MOST_SKILLS:])]

    def one(self, name: str) -> SkillFile:
        """One skill, with every fault it has; UsageError when there is none."""
        names = self.names()
        if name not in names:
            raise UsageError(f"there is no skill {name!r}.", remedy=did_you_mean(name, names))
        return self._read(name, clean=False)

    def _read(self, name: str, *, clean: bool) -> SkillFile:
        path = f"{FOLDER}/{name}/{FILE}"
        before = () if clean else self._labels(path)
        data = read_existing(self._app.workspace, path, SKILL_BYTES)
        if data is None:
            there = os.path.lexists(self._app.workspace / path)
            why = f"is not a regular file of at most {SKILL_BYTES} bytes; links are not followed"
            return SkillFile(name=name, read=broken(f"{path} {why if there else 'does not exist'}."))
        return SkillFile(
            name=name,
            read=read_skill(data, name),
            size=len(data),
            file_hash=sha256_hex(data),
            labels=untrusted_only((*before, *self._labels(path))),  # twice: it may change while it is read
        )

    def _labels(self, path: str) -> tuple[Label, ...]:
        return self._app.root.labels.labels_of(path)
