"""Outcomes: how an attempt can end, how that is reported, and the action's next status."""

import asyncio
import re
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.action import INTERNAL, Action, Status, ToolResult
from coilclaw.packets.canonical import Json
from coilclaw.packets.decision import Decision
from coilclaw.packets.errors import CoilclawError, EffectUncertain, EgressRefused, ToolError, TryLater
from coilclaw.packets.ports import Recovery, Tool, ToolOutput
from coilclaw.packets.receipt import Receipt, ReceiptStatus

Sequel: TypeAlias = Literal["none", "again", "uncertain"]
"""What an attempt leaves open: nothing; no effect, so it may be retried; or an effect that may have happened."""

LONGEST_PAUSE = 3600.0
WHY_CHARACTERS = 300
"""Characters of a reason that are quoted in a report."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a call ended, or that it waits."""

    action: Action
    result: ToolResult
    receipt: Receipt | None
    again: bool = False
    """The attempt is over and has its receipt, but the action will be tried again."""
    running: bool = False
    """It continues in the background; its receipt is written when it ends."""
    edited: bytes | None = None
    """The owner said no and wrote these arguments instead; the carrier of the turn's calls proposes them."""

    @property
    def pending(self) -> bool:
        """It waits for the owner; nothing has happened yet."""
        return self.receipt is None and not self.running


class End(msgspec.Struct, frozen=True, kw_only=True):
    """What will be written when an attempt is over."""

    status: ReceiptStatus
    result: ToolResult
    reason: str | None = None
    sequel: Sequel = "none"
    begun: bool = True
    """False only when it was cut off before it could have had any effect: an earlier approval then still holds."""
    delay: float = 0.0
    """Seconds that the server asked us to wait before a retry."""


class NextStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The action's status after an attempt."""

    status: Status
    pause: float = 0.0
    """Seconds until it is tried again, when its status stays APPROVED."""
    uncertain: bool = False


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How often, and with what pauses, an action is retried."""

    max_attempts: int = 5
    pause_seconds: float = 5.0

    def pause(self, attempt: int) -> float:
        """Seconds to wait after that many attempts: doubling, up to an hour."""
        return min(self.pause_seconds * 2 ** min(attempt - 1, 30), LONGEST_PAUSE)


STATUS_OF: dict[ReceiptStatus, Status] = {
    "allowed": "EXECUTED",
    "denied": "REJECTED",
    "failed": "FAILED",
    "unknown": "UNKNOWN",
}


def fate_of(end: End, attempt: int, patience: Patience, recovery: Recovery, in_flight: float) -> NextStatus:
    """Pure: the status an attempt leaves its action in. `in_flight` is how long its request may still be under way."""
    if end.sequel == "none":
        return NextStatus(status=STATUS_OF[end.status])
    more = attempt < patience.max_attempts
    if end.sequel == "again":
        pause = max(patience.pause(attempt), min(end.delay, LONGEST_PAUSE))
        return NextStatus(status="APPROVED", pause=pause) if more else NextStatus(status="FAILED")
    if recovery == "owner" or not more:
        return NextStatus(status="UNKNOWN")
    pause = patience.pause(attempt) if recovery == "repeat" else max(in_flight, patience.pause(attempt))
    return NextStatus(status="APPROVED", pause=pause, uncertain=True)


def _bad(status: ReceiptStatus, code: str, text: str, reason: str = "", sequel: Sequel = "none") -> End:
    result = ToolResult(success=False, output=text, error=text, code=code, label=INTERNAL)
    return End(status=status, result=result, reason=reason or code, sequel=sequel)


def ended_badly(code: str, text: str) -> End:
    """It did not begin, or its result is not reliable."""
    return _bad("failed", code, text)


def _code_of(error: CoilclawError) -> str:
    """The name of the error as codes are spelled: BoxUnavailable → BOX_UNAVAILABLE."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).upper()


def end_of(work: "asyncio.Future[ToolOutput]", redact: Callable[[str], str]) -> End:
    """The end of a tool that ran by itself, well or badly."""
    try:
        output = work.result()
    except TryLater as error:
        later = _bad("failed", error.code, redact(str(error)), sequel="again")
        return msgspec.structs.replace(later, delay=error.delay)
    except EffectUncertain as error:
        return _bad("unknown", error.code, redact(str(error)), sequel="uncertain")
    except (ToolError, EgressRefused) as error:
        return _bad("failed", error.code, redact(str(error)))
    except CoilclawError as error:
        return _bad("failed", _code_of(error), redact(str(error)))
    except Exception as error:  # a tool that breaks becomes a failed receipt
        return _bad("failed", "TOOL_CRASHED", redact(f"the tool crashed: {type(error).__name__}: {error}"))
    text = redact(output.text)
    result = ToolResult(
        success=output.success,
        output=text,
        error=None if output.success else text,
        code=output.code,
        metadata=output.metadata,
        label=output.label,
        exit=output.exit,
        stdout=None if output.stdout is None else redact(output.stdout),
        stderr=None if output.stderr is None else redact(output.stderr),
    )
    return End(status="allowed" if output.success else "failed", result=result)


def waiting(action: Action, *, by_passkey: bool) -> ToolResult:
    """The message to the model about a call that waits for the owner."""
    reasons = " ".join(action.decision.reasons)
    text = f"pending {action.action_id}: approval needed, so nothing has happened yet. {reasons}"
    if by_passkey:
        text += " It needs the owner's passkey, in the panel."
    return ToolResult(success=False, output=text, error=text, code="APPROVAL_NEEDED", label=INTERNAL)


def ended_read(end: End) -> End:
    """The outcome of a read, which was never claimed: it had no effect and is not retried; the caller may retry."""
    return end if end.sequel == "none" else msgspec.structs.replace(end, status="failed", sequel="none")


def to_be_retried(end: End) -> End:
    """The end of an attempt that is not the last one."""
    text = f"{end.result.output} It will be retried."
    return msgspec.structs.replace(end, result=msgspec.structs.replace(end.result, output=text, error=text))


def interrupted(tool: Tool | None, code: str, text: str) -> End:
    """Cut off while running. An effect that may have begun and cannot be repeated is unknown, not failed."""
    if tool is not None and (tool.effect == "READ" or (tool.idempotent and tool.destination != "external")):
        return _bad("failed", code, text)
    sequel: Sequel = "uncertain" if tool is not None and code != "CANCELLED" else "none"
    return _bad("unknown", code, f"{text} It is unknown whether it took effect.", sequel=sequel)


def cancelled_in_box(text: str) -> End:
    """A command in a box without network was cancelled: everything in it is dead, and only the workspace can differ."""
    stays = "What it changed in the workspace stays; `coilclaw undo` restores it."
    return _bad("failed", "CANCELLED", f"{text} Everything it had started has ended. {stays}", f"cancelled. {stays}")


def not_begun(code: str, text: str) -> End:
    """Cut off before it could have had its effect."""
    end = _bad("failed", code, f"{text} It had not started, so it had no effect.")
    return msgspec.structs.replace(end, begun=code not in ("CANCELLED", "ESTOP"))


def died() -> End:
    """The process died while the effect may have been under way."""
    text = "The process that ran it died. It is unknown whether it took effect."
    return _bad("unknown", "INTERRUPTED", text, sequel="uncertain")


def looked_up() -> End:
    """The server knows of an earlier attempt: it was done, once."""
    text = "An earlier attempt did it: the receiver already has its key."
    return End(status="allowed", result=ToolResult(success=True, output=text, code="LOOKED_UP", label=INTERNAL))


def resolved(*, executed: bool) -> End:
    """The owner said how it ended."""
    if executed:
        text = "The owner resolved it: it was done."
        result = ToolResult(success=True, output=text, code="RESOLVED_EXECUTED", label=INTERNAL)
        return End(status="allowed", result=result, reason="resolved by the owner")
    return _bad("failed", "RESOLVED_NOT_EXECUTED", "The owner resolved it: it was not done.", "resolved by the owner")


def never_begun() -> End:
    """The process died before the call began; nothing happened."""
    return _bad("failed", "INTERRUPTED", "The process that would have run it died first. It had no effect.")


def changed() -> End:
    """What is stored is not what was proposed, the tool is another, or its paths lead elsewhere than was shown."""
    text = "Denied. The stored call, its tool, or where its paths lead has changed since it was proposed or shown."
    return _bad("denied", "DIGEST_CHANGED", text)


def rules_changed() -> End:
    """The rules that decided it are no longer in force, or would now ask where they did not."""
    text = "Denied. The rules changed between the decision and the effect; propose it again for a new decision."
    return _bad("denied", "RULES_CHANGED", text)


def answer_gone() -> End:
    """The standing answer that let it run without asking is no longer valid."""
    text = "Denied. The standing answer it relied on was revoked or has expired; propose it again: the owner is asked."
    return _bad("denied", "ANSWER_GONE", text)


def denial(decision: Decision) -> End:
    """The gate said no."""
    return _bad("denied", decision.code, " ".join(("Denied.", *decision.reasons, *decision.recommended_changes)))


def stopped_before() -> End:
    """ESTOP came between the decision and the effect."""
    return _bad("denied", "ESTOP", "Denied. ESTOP is engaged: no tool runs until the owner clears it.")


def too_many_running(most: int) -> End:
    """Too many commands of the conversation already run in the background."""
    text = f"Denied. {most} background commands are already running here; wait for one (command_status) or end one."
    return _bad("denied", "TOO_MANY_COMMANDS", text)


def held() -> End:
    """ESTOP came after the claim and before the effect: the action continues when ESTOP is cleared."""
    return _bad(
        "failed",
        "ESTOP",
        "ESTOP was engaged before it took effect; it continues when the owner clears it.",
        sequel="again",
    )


def cut_before() -> End:
    """The caller went away before the effect began; nothing happened."""
    return _bad("failed", "CANCELLED", "It was cancelled before it started. It had no effect.")


def not_kept(why: str) -> End:
    """The files it would have changed could not be saved for undo, and the owner had not accepted that."""
    text = f"It was not done because it could not have been undone: {why} If proposed again, it asks the owner first."
    return _bad("failed", "CANNOT_BE_UNDONE", text)


def put_back() -> End:
    """The process had to stop after the claim and before the effect; another one will continue."""
    return _bad("failed", "CANCELLED", "It was put back before it took effect; it resumes later.", sequel="again")


def conflict() -> End:
    """Its idempotency key is bound to other arguments."""
    return _bad("denied", "IDEMPOTENCY_CONFLICT", "Denied. Its idempotency key was already used with other arguments.")


def too_late(end: End) -> End:
    """A bad end that comes after an attempt which may have had its effect: it can only be unknown."""
    text = f"{end.result.output} An earlier attempt may have taken effect."
    result = msgspec.structs.replace(end.result, success=False, output=text, error=text)
    return End(status="unknown", result=result, reason=end.reason or end.result.code)


def refusal(reason: str) -> End:
    """The owner said no."""
    return _bad("denied", "OWNER_REFUSED", f"The owner rejected it. {reason}".strip(), reason)


def expired() -> End:
    """The owner did not say yes in time."""
    return _bad("denied", "EXPIRED", "The approval has expired.", "expired")


def withdrawn(reason: str) -> End:
    """It is no longer needed."""
    return _bad("denied", "WITHDRAWN", f"It was withdrawn: {reason}.", reason)


def told_of(action: Action, end: End, code: str, what: str) -> dict[str, Json]:
    """The report of a finished call, for the log and for a person who watches."""
    told: dict[str, Json] = {"tool": action.call.tool, "code": code, "status": end.status, "what": what}
    if end.status in ("denied", "failed"):
        told["why"] = f"exit {end.result.exit}" if end.result.exit else end.result.output[:WHY_CHARACTERS]
    if remedy := _remedy(action, end):
        told["remedy"] = remedy
    if isinstance(entries := end.result.metadata.get("entries"), int):
        told["entries"] = entries
    if isinstance(plan := end.result.metadata.get("plan"), list):
        told["plan"] = plan
    return told


def _remedy(action: Action, end: End) -> str:
    """The owner's command that would let it run, where a setting stands in the way and nothing else."""
    if isinstance(folder := end.result.metadata.get("lendable"), str):
        from coilclaw.sandbox.missing_programs import to_lend

        return to_lend(folder)
    allows = action.decision.allows if end.status == "denied" else ()
    keys = {change.key for change in allows}
    if len(keys) != 1 or any(change.op != "add" for change in allows):
        return ""
    return f"coilclaw config set --add {keys.pop()} {' '.join(str(change.value) for change in allows)}"
