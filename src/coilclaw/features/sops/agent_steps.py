"""Agent steps: one bounded turn of the model, begun by the SOP's words, taken up where a crash left it."""

from contextlib import suppress

import msgspec

from coilclaw.agent.compaction import ShownRows
from coilclaw.agent.context import take_in_shown
from coilclaw.agent.model import Model, ReadProposal
from coilclaw.agent.spending import check_day
from coilclaw.agent.step import StepOrder, Stepper
from coilclaw.features.sops.await_action import Follower
from coilclaw.features.sops.record import At, Ended, RunRecord, source_of
from coilclaw.features.sops.step_timeout import OutOfTime, Stopwatch
from coilclaw.features.sops.tool_steps import Stage
from coilclaw.gate.estop import Estop
from coilclaw.packets.canonical import Json
from coilclaw.packets.chat import ChatResponse
from coilclaw.packets.errors import ModelOutputError, ProviderError, ProviderUnavailable, StepOverrun
from coilclaw.packets.ids import Clock
from coilclaw.packets.job import Constraints, JobLimits, StepReport
from coilclaw.packets.labels import join_labels
from coilclaw.packets.ports import Provider
from coilclaw.store.database import Database
from coilclaw.store.sops import steps_of_run
from coilclaw.store.threads import MessageRow, turn_messages

SHOWN_MESSAGES = 400
TASK = """
You carry out step {step} of {name}, a procedure the owner wrote. Do what the last message asks, with tool calls \
where they are needed. A call that needs the owner's approval may have to wait. When you are done, answer in plain \
text: your answer is the output of this step, and later steps use it as it stands.
""".strip()


class TurnLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds an agent step."""

    rounds: int
    """Answers with calls, after which only text is taken."""
    seconds: float
    """For a step that says nothing itself."""
    daily_tokens: int | None


class StepModel(Model):
    """The model of agent steps: what only the runtime calls is no call of its own. A question that an SOP puts to the
    owner would look the same, whoever proposed it."""

    def __init__(
        self,
        *,
        provider: Provider,
        model: str,
        fallback_model: str,
        read_proposal: ReadProposal,
        estop: Estop,
        runtime_tools: frozenset[str],
    ) -> None:
        super().__init__(
            provider=provider, model=model, fallback_model=fallback_model, read_proposal=read_proposal, estop=estop
        )
        self._runtime_tools = runtime_tools

    def _read(self, response: ChatResponse, max_calls: int | None) -> ChatResponse:
        response = super()._read(response, max_calls)
        for call in response.tool_calls:
            if call.tool in self._runtime_tools:
                raise ModelOutputError(f"tool {call.tool!r} is not available to you.")
        return response


class SopStepper(Stepper):
    """Does rounds of an agent step: a step of a job in all but where its words come from."""

    async def round(self, at: At, number: int, *, with_tools: bool) -> StepReport:
        """One answer of the model and the carrying of its calls, or what is left of it."""
        own = self._own(at)
        take_in_shown(at.turn, (row.label for row in own))
        about: dict[str, Json] = {"sop_run": at.run.run_id, "sop_step": at.step.id, "step": number}
        if at.run.job_id is not None:
            about["job_id"] = at.run.job_id
        stored = next((row for row in own if row.role == "assistant" and row.metadata.get("step") == number), None)
        if stored is not None and not stored.tool_calls:
            return StepReport(stage="answered", text=stored.content)
        if stored is not None:
            return await self._take_up(at.turn, stored, own, about)
        shown = ShownRows(rows=own, about=about)
        return await self._begin(at.turn, _order(at, number, with_tools=with_tools), shown)

    def _own(self, at: At) -> list[MessageRow]:
        """The messages of this step alone, and what became of its calls."""
        rows = turn_messages(self._db.reader, at.run.thread_id, at.run.turn_id, SHOWN_MESSAGES)
        of_step = [row for row in rows if row.metadata.get("sop_step") == at.step.id]
        actions: set[str] = set()
        for row in of_step:
            with suppress(msgspec.ValidationError):
                actions.update(msgspec.convert(row.metadata.get("actions", []), list[str]))
        return [row for row in rows if row.metadata.get("sop_step") == at.step.id or row.action_id in actions]


def _order(at: At, number: int, *, with_tools: bool) -> StepOrder:
    job = at.turn.job or JobLimits(job_id="", constraints=Constraints())
    only = at.step.tools
    limits = job if only is None else JobLimits(job_id="", constraints=Constraints(allowed_tools=only))
    return StepOrder(
        thread_id=at.run.thread_id,
        turn_id=at.run.turn_id,
        number=number,
        words=(),
        task=TASK.format(step=at.step.id, name=at.sop.name),
        limits=limits,
        may_call=with_tools,
        inherited=at.turn.inherited,
        fresh=at.turn.fresh,
    )


class StepTurns:
    """Takes agent steps along."""

    def __init__(
        self,
        *,
        db: Database,
        stepper: SopStepper,
        follower: Follower,
        record: RunRecord,
        watch: Stopwatch,
        clock: Clock,
        limits: TurnLimits,
    ) -> None:
        self._db = db
        self._stepper = stepper
        self._follower = follower
        self._record = record
        self._watch = watch
        self._clock = clock
        self._limits = limits

    async def go(self, at: At) -> Stage:
        """Take a try of an agent step as far as it goes now."""
        source = source_of(at, steps_of_run(self._db.reader, at.run.run_id))
        if at.step.content_from and (source is None or source.state != "SUCCEEDED"):
            text = f"{at.step.content_from} left no usable content."
            return await self._settle(at, Ended(state="FAILED", code="CONTENT_MISSING", output=text))
        seconds = at.step.timeout or self._limits.seconds
        at.turn.only = at.step.tools  # the gate holds to it too, whatever the model proposes
        try:
            return await self._watch.bound(self._rounds(at), seconds, lambda: None)
        except OutOfTime as error:
            return await self._fail(at, "TIMED_OUT", str(error), retriable=True)
        except StepOverrun as error:
            return await self._fail(at, "STEP_OVERRUN", str(error), retriable=True)
        except ModelOutputError as error:
            return await self._fail(at, "FAILED_MODEL_OUTPUT", str(error), retriable=True)
        except ProviderError as error:
            retriable = isinstance(error, ProviderUnavailable)
            return await self._fail(at, "PROVIDER_FAILED", str(error), retriable=retriable)
        finally:
            at.turn.only = None

    async def _rounds(self, at: At) -> Stage:
        last = self._limits.rounds
        first = (at.position * 1000 + min(at.attempt, 999)) * (last + 1)
        for number in range(last + 1):
            done = await self._round(at, first + number, with_tools=number < last)
            while done.stage == "waiting":
                for action_id in done.waiting:
                    followed = await self._follower.end_of(action_id)
                    if followed != "ended":
                        return await self._waits(at, action_id) if followed == "waiting" else "held"
                done = await self._round(at, first + number, with_tools=number < last)
            if done.stage == "held":
                return "held"
            if done.stage == "answered":
                label = join_labels(at.turn.taint)
                return await self._settle(at, Ended(state="SUCCEEDED", output=done.text, label=label))
        return await self._fail(at, "MAX_ROUNDS", f"No answer after {last} rounds of tool calls.", retriable=False)

    async def _round(self, at: At, number: int, *, with_tools: bool) -> StepReport:
        check_day(self._db.reader, self._clock, self._limits.daily_tokens)
        return await self._stepper.round(at, number, with_tools=with_tools)

    async def _waits(self, at: At, action_id: str) -> Stage:
        await self._settle(at, Ended(state="WAITING", code="APPROVAL_NEEDED", action_id=action_id))
        return "waiting"

    async def _fail(self, at: At, code: str, text: str, *, retriable: bool) -> Stage:
        return await self._settle(at, Ended(state="FAILED", code=code, output=text, retriable=retriable))

    async def _settle(self, at: At, ended: Ended) -> Stage:
        await self._db.write(lambda tx: self._record.settle(tx, at, ended))
        return "settled"
