"""A turn as the gate sees it: who started it, and which untrusted content it has met so far."""

from coilclaw.packets.action import Label, Source
from coilclaw.packets.job import JobLimits
from coilclaw.packets.labels import untrusted_only
from coilclaw.packets.skill import SkillUse


class Turn:
    """One owner's request being worked on. Taint only ever grows."""

    def __init__(
        self,
        turn_id: str,
        thread_id: str,
        source: Source,
        inherited: tuple[Label, ...] = (),
        *,
        fresh: tuple[Label, ...] = (),
        job: JobLimits | None = None,
        skills: tuple[SkillUse, ...] = (),
    ) -> None:
        self.turn_id = turn_id
        self.thread_id = thread_id
        self.source: Source = source
        self.job = job
        """What the job this turn belongs to leaves it, when it belongs to one."""
        self.skills = skills
        """The skills it works under; the intake looks them up anew for every decision."""
        self.only: tuple[str, ...] | None = None
        """The tools that the step of a procedure it is at leaves it; None leaves them all."""
        self._fresh: dict[Label, None] = dict.fromkeys(untrusted_only(fresh))
        self._inherited = dict.fromkeys(untrusted_only(inherited))

    @property
    def fresh(self) -> tuple[Label, ...]:
        """Untrusted content this turn took in."""
        return tuple(self._fresh)

    @property
    def inherited(self) -> tuple[Label, ...]:
        """Untrusted content earlier turns of this conversation took in."""
        return tuple(self._inherited)

    @property
    def taint(self) -> tuple[Label, ...]:
        """Both."""
        return tuple({**self._inherited, **self._fresh})

    @property
    def domains(self) -> tuple[tuple[str, ...], ...]:
        """What its job and its skills leave of the network: each set must allow an address."""
        of_job = self.job.constraints.allowed_domains if self.job is not None else None
        return tuple(each for each in (of_job, *(use.domains for use in self.skills)) if each is not None)

    def apart(self) -> "Turn":
        """The same turn for work that goes on beside it: what that takes in is its own."""
        inherited, fresh = self.inherited, self.fresh
        turn = Turn(self.turn_id, self.thread_id, self.source, inherited, fresh=fresh, job=self.job, skills=self.skills)
        turn.only = self.only
        return turn

    def take_in(self, label: Label, *, kept: bool = False) -> None:
        """Note that content with this label entered the turn; `kept` content entered the machine in an earlier one."""
        (self._inherited if kept else self._fresh).update(dict.fromkeys(untrusted_only((label,))))
