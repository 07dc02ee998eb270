"""The desk: where the owner hands jobs in, calls them off, and sends them on."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec

from coilclaw.features.jobs.changed_files import ChangedFiles
from coilclaw.features.jobs.job_spec import Rules, check_goal, check_spec, objections, with_programs
from coilclaw.features.jobs.record import create, end, keep, prepare
from coilclaw.packets.canonical import Json, sha256_hex
from coilclaw.packets.errors import CoilclawError, ToolError, UsageError
from coilclaw.packets.ids import Clock, new_id, stamp
from coilclaw.packets.job import ENDED, Constraints, JobSpec, Outputs, Starter
from coilclaw.packets.names import did_you_mean
from coilclaw.store.database import Database
from coilclaw.store.job_history import standing_of
from coilclaw.store.jobs import OPEN, JobBudget, JobRow, list_jobs, load_job, near_job_ids
from coilclaw.store.projects import project_of
from coilclaw.store.request_keys import asked_by, keep_made, made_by
from coilclaw.store.threads import ensure_thread
from coilclaw.store.tx import Tx

OF_A_TURN = 3
"""Jobs that the calls of one turn may start; a job is one turn."""
OF_AGENT = 20
"""Jobs of the agent's own that may be open."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner asks for."""

    goal: str
    thread_id: str
    channel: str
    constraints: Constraints = Constraints()
    steps: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    sop: str = ""
    """The procedure it runs; its steps are the job's then."""
    repo: str | None = None
    pr_required: bool = False
    inputs: dict[str, Json] = {}
    """Further inputs of a packet; `steps` is the plan."""
    packet_id: str = ""
    """The id a packet came with: the same again gives the job it made, unless that was refused; it is found by it."""
    starter: Starter | None = None
    """The turn whose call starts it: the goal is the agent's then, and it may do no more than that turn."""
    key: str = ""
    """What stands for this very request: the same again gives the job it made. Empty: every request makes one."""


class OtherPacket(UsageError):
    """Another packet was handed in under this id."""


class JobRequests:
    """Takes jobs in."""

    def __init__(
        self,
        *,
        db: Database,
        clock: Clock,
        rules: Callable[[], Rules],
        budget: JobBudget,
        max_hours: int,
        hash_file: Callable[[str, str], str | None],
        withdraw: Callable[[str, str], Awaitable[None]],
        redact: Callable[[str], str],
        plans: Callable[[JobRow], bool],
        place_of: Callable[[str], str | None],
    ) -> None:
        self._db = db
        self._clock = clock
        self._rules = rules
        self._budget = budget
        self._max_hours = max_hours
        self._files = ChangedFiles(db, hash_file)
        self._withdraw = withdraw
        self._redact = redact
        self._place_of = place_of
        """Which project a repository is worked in."""
        self._plans = plans
        """Whether a model has its say about a job before it begins."""

    async def create(self, request: Request) -> JobRow:
        """Take a job in and prepare it; one that the rules refuse comes back DENIED, with its reasons.

        A request that makes no sense in itself is a UsageError, and nothing is stored.
        """
        goal = self._redact(check_goal(request.goal))
        now, starter = self._clock(), request.starter
        job_id = new_id("job", now)
        spec = JobSpec(
            job_id=job_id,
            intent=goal,
            repo=request.repo,
            inputs=self._inputs(request),
            constraints=request.constraints,
            generation=0 if starter is None else starter.generation + 1,
            by_agent=starter is not None,
            parent_id=None if starter is None else starter.job_id,
            outputs=Outputs(pr_required=request.pr_required, evidence_required=request.evidence),
        )
        check_spec(spec)
        asked = sha256_hex(msgspec.json.encode(msgspec.structs.replace(spec, job_id=""), order="deterministic"))
        job = JobRow(
            job_id=job_id,
            thread_id=request.thread_id,
            goal=goal,
            state="RECEIVED",
            spec=spec,
            budget=self._budget,
            deadline_at=stamp(now + timedelta(hours=self._max_hours)),
        )

        place = None if request.repo is None else self._place_of(request.repo)

        def take_in(tx: Tx) -> JobRow:
            if (there := _made_before(tx, request, asked)) is not None:
                return there
            if starter is not None:
                make_room(tx, self._clock, starter.turn_id, job_id)
            if request.key:
                keep_made(tx, self._clock, "job", request.key, job_id)
            if request.packet_id:
                keep_made(tx, self._clock, "packet", request.packet_id, job_id, asked)
            if place is not None:
                _work_in(tx, self._clock, request, goal, place)
            made, rules = create(tx, self._clock, job, request.channel, starter), self._rules()
            # What cannot begin is refused at once: no model is asked about it.
            waits = self._plans(made) and not objections(with_programs(made.spec, rules), rules)
            return prepare(tx, self._clock, made, rules, ("RECEIVED",) if waits else ())

        return await self._db.write(take_in)

    def _inputs(self, request: Request) -> dict[str, Json]:
        if request.sop:
            return {"sop": request.sop}
        told = {"packet_id": request.packet_id} if request.packet_id else {}
        steps = {"steps": [self._redact(step) for step in request.steps]} if request.steps else {}
        return {**request.inputs, **told, **steps}

    def find(self, job_id: str) -> JobRow:
        """The job of that id, or made from the packet of that id; or a UsageError that names the nearest ones."""
        db = self._db.reader
        job = load_job(db, job_id) or load_job(db, made_by(db, "packet", job_id) or "")
        if job is None:
            raise UsageError(f"there is no job {job_id!r}.", remedy=did_you_mean(job_id, near_job_ids(self._db.reader)))
        return job

    async def cancel(self, job_id: str, reason: str) -> JobRow:
        """Call a job off; a step that runs is cut, and what waits for the owner is withdrawn."""
        why = self._redact(reason.strip()) or "The owner cancelled it."

        found = self.find(job_id)
        job_id = found.job_id

        def call_off(tx: Tx, job: JobRow) -> JobRow:
            return end(tx, self._clock, job, "CANCELLED", why, self._files.of(tx, job_id, known))

        self._must_be_open(found)
        known = await self._files.now([job_id])
        job = await self._change(job_id, call_off)
        failed: CoilclawError | None = None
        for action in standing_of(self._db.reader, job.turn_id).values():
            if (action.status == "PENDING" and not action.held) or action.running:
                try:
                    await self._withdraw(action.action_id, "its job was cancelled")
                except CoilclawError as error:  # the others are withdrawn all the same
                    failed = error
        if failed is not None:
            raise failed
        return job

    async def resume(self, job_id: str) -> JobRow:
        """Make a job due that is paused or backs off."""

        def send_on(tx: Tx, job: JobRow) -> JobRow:
            now = stamp(self._clock())
            story: dict[str, Json] = {"state": job.state, "was_due": job.next_wakeup_at}
            return keep(tx, self._clock, msgspec.structs.replace(job, next_wakeup_at=now), "resume", story)

        job = self.find(job_id)
        job_id = job.job_id
        if job.state == "WAITING_APPROVAL":
            raise UsageError(f"{job_id} is waiting for your answer.", remedy=f"See `coilclaw job show {job_id}`.")
        if job.worker is not None or job.next_wakeup_at is None or job.next_wakeup_at <= stamp(self._clock()):
            self._must_be_open(job)
            return job
        return await self._change(job_id, send_on)

    def _must_be_open(self, job: JobRow) -> None:
        if job.state in ENDED:
            raise UsageError(
                f"{job.job_id} is {job.state}, which is final ({job.reason.rstrip('.')}).",
                remedy="Create a new job with `coilclaw job create`.",
            )

    async def _change(self, job_id: str, change: Callable[[Tx, JobRow], JobRow]) -> JobRow:
        """Change the job as it stands in the transaction: nobody can be faster."""

        def write(tx: Tx) -> JobRow:
            job = load_job(tx, job_id)
            if job is None:
                raise UsageError(f"there is no job {job_id!r}.")
            self._must_be_open(job)
            return change(tx, job)

        self._must_be_open(self.find(job_id))
        return await self._db.write(write)


def _work_in(tx: Tx, clock: Clock, request: Request, goal: str, place: str) -> None:
    """Have the conversation of a job work where the repository of its packet is."""
    ensure_thread(tx, clock, request.thread_id, request.channel, goal.strip().splitlines()[0], project=place or None)
    if project_of(tx, request.thread_id) != place:
        raise UsageError(
            f"this conversation does not work in {request.repo}.",
            remedy="Leave the conversation and the project out: the packet says where the job works.",
        )


def _made_before(tx: Tx, request: Request, asked: str) -> JobRow | None:
    """The job that this very request made; one that was refused had no effect, so its packet may be sent again."""
    if request.key and (there := load_job(tx, made_by(tx, "job", request.key) or "")) is not None:
        return there
    packet = request.packet_id
    there = load_job(tx, made_by(tx, "packet", packet) or "") if packet else None
    if there is None or there.state == "DENIED":
        return None
    if asked_by(tx, "packet", packet) not in ("", asked):
        raise OtherPacket(
            f"another packet was handed in as {packet}; it became {there.job_id}.",
            remedy="Send this one under another job_id.",
        )
    return there


def make_room(tx: Tx, clock: Clock, turn_id: str, job_id: str) -> None:
    """Count a job against what a turn and the agent may start; ToolError when that is used up."""
    own = [job for job in list_jobs(tx, OPEN, 10_000) if job.spec.by_agent]
    if len(own) >= OF_AGENT:
        raise ToolError(
            f"{len(own)} jobs that you started are still open.",
            remedy="Wait until some are over; see job_status.",
            code="TOO_MANY_JOBS",
            begun=False,
        )
    places = [f"{turn_id}:{number}" for number in range(OF_A_TURN)]
    place = next((each for each in places if made_by(tx, "turn_job", each) is None), None)
    if place is None:
        raise ToolError(
            f"this turn has started {OF_A_TURN} jobs already.",
            remedy="Do the rest yourself, or wait for the owner's next message.",
            code="TOO_MANY_JOBS",
            begun=False,
        )
    keep_made(tx, clock, "turn_job", place, job_id)
