"""Skills as the panel and the terminal show them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.skills.granted import ungranted
from coilclaw.features.skills.skill_files import SkillFile, SkillFiles
from coilclaw.features.skills.store import latest_uses
from coilclaw.packets.errors import UsageError
from coilclaw.packets.text import one_line

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

MOST_USES = 20


class SkillDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A skill: what it is for, what is wrong with it, and what it narrows."""

    name: str
    description: str
    """What it is for."""
    size: int
    """In bytes; 0 when its file cannot be read."""
    sha256: str
    labels: list[str]
    """Untrusted sources its content may stem from; it is not used while there are any."""
    faults: list[str]
    """What is wrong with the file; it is not used while there are any."""
    ungranted: list[str]
    """What it names and the configuration does not grant; that stays denied."""
    intent: str
    """The intent of jobs that it is for; empty when it is guidance."""
    triggers: list[str]
    """Words in a message that it is taken up for."""
    tools: list[str] | None
    """The only tools it leaves; null leaves them all."""
    domains: list[str] | None
    """The only domains it leaves; null leaves them all."""
    evidence: list[str]
    """What a job under it must leave."""
    inputs: list[str]
    """What a job under it must be given."""


class SkillUsed(msgspec.Struct, frozen=True, kw_only=True):
    """A turn or a job that worked under a skill."""

    at: str
    why: str
    sha256: str
    """Of the file as it was then."""
    turn_id: str
    thread_id: str
    """Empty when it is not known any more."""
    job_id: str | None


class SkillShelf:
    """The skills of a home, for those who look at them."""

    def __init__(self, runtime: "Runtime") -> None:
        self._runtime = runtime

    def every(self) -> list[SkillFile]:
        """The skills by name."""
        return SkillFiles(self._runtime).every()

    def one(self, name: str) -> SkillFile | None:
        """A skill; None when there is none."""
        try:
            return SkillFiles(self._runtime).one(name)
        except UsageError:
            return None

    def details(self, said: Callable[[str], str], file: SkillFile) -> SkillDetails:
        """A skill as it may be shown; `said` takes secrets out."""

        def each(texts: "tuple[str, ...] | list[str]") -> list[str]:
            return [said(one_line(text)) for text in texts]

        skill = file.read.skill
        return SkillDetails(
            name=said(one_line(file.name)),
            description="" if skill is None else said(one_line(skill.description)),
            size=file.size,
            sha256=file.file_hash,
            labels=list(file.labels),
            faults=each([str(fault) for fault in file.read.faults]),
            ungranted=[] if skill is None else each(ungranted(self._runtime, skill)),
            intent="" if skill is None else said(one_line(skill.intent)),
            triggers=[] if skill is None else each(skill.triggers),
            tools=None if skill is None or skill.tools is None else each(skill.tools),
            domains=None if skill is None or skill.domains is None else each(skill.domains),
            evidence=[] if skill is None else list(skill.evidence),
            inputs=[] if skill is None else list(skill.inputs),
        )

    def uses(self, said: Callable[[str], str], name: str) -> list[SkillUsed]:
        """Where it was used, the newest first."""
        return [
            SkillUsed(
                at=used.at,
                why=said(one_line(used.use.why)),
                sha256=used.use.sha256,
                turn_id=used.turn_id,
                thread_id=used.thread_id,
                job_id=used.job_id,
            )
            for used in latest_uses(self._runtime.db.reader, name, MOST_USES)
        ]
