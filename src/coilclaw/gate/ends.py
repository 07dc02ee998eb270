"""Ends: how a call can be over, and what is said about it to the model, the owner and the ledger."""

import asyncio
from collections.abc import Callable

import msgspec

from coilclaw.packets.action import INTERNAL, ToolResult
from coilclaw.packets.decision import Decision
from coilclaw.packets.errors import CoilclawError, EgressRefused, ToolError
from coilclaw.packets.ports import Tool, ToolOutput
from coilclaw.packets.receipt import ReceiptStatus


class End(msgspec.Struct, frozen=True, kw_only=True):
    """What will be written when an action is over."""

    status: ReceiptStatus
    result: ToolResult
    reason: str | None = None


def _bad(status: ReceiptStatus, code: str, text: str, reason: str = "") -> End:
    result = ToolResult(success=False, output=text, error=text, code=code, label=INTERNAL)
    return End(status=status, result=result, reason=reason or code)


def end_of(work: "asyncio.Future[ToolOutput]", redact: Callable[[str], str]) -> End:
    """The end of a tool that ran by itself, well or badly."""
    try:
        output = work.result()
    except (ToolError, EgressRefused) as error:
        return _bad("failed", error.code, redact(str(error)))
    except CoilclawError as error:
        return _bad("failed", type(error).__name__.upper(), redact(str(error)))
    except Exception as error:  # the one broad catch: a tool that breaks becomes a failed receipt
        return _bad("failed", "TOOL_CRASHED", redact(f"the tool broke: {type(error).__name__}: {error}"))
    text = redact(output.text)
    result = ToolResult(
        success=output.success,
        output=text,
        error=None if output.success else text,
        code=output.code,
        metadata=output.metadata,
        label=output.label,
        exit=output.exit,
    )
    return End(status="allowed" if output.success else "failed", result=result)


def interrupted(tool: Tool | None, code: str, text: str) -> End:
    """Cut off while running. An effect that may have begun and cannot be repeated is unknown, not failed."""
    if tool is not None and (tool.effect == "READ" or tool.idempotent):
        return _bad("failed", code, text)
    return _bad("unknown", code, f"{text} Whether it had its effect is not known.")


def never_begun() -> End:
    """The process died before the call began; nothing happened."""
    return _bad("failed", "INTERRUPTED", "The process that would have run it died first. It had no effect.")


def changed() -> End:
    """What is stored is not what was proposed, the tool is another, or its paths lead elsewhere than was shown."""
    text = "Denied. The stored call, its tool, or where its paths lead has changed since it was proposed or shown."
    return _bad("denied", "DIGEST_CHANGED", text)


def denial(decision: Decision) -> End:
    """The gate said no."""
    return _bad("denied", decision.code, " ".join(("Denied.", *decision.reasons, *decision.recommended_changes)))


def stopped_before() -> End:
    """ESTOP came between the decision and the effect."""
    return _bad("denied", "ESTOP", "Denied. ESTOP is engaged: no tool runs until the owner clears it.")


def held_by_estop() -> ToolResult:
    """What waits goes on waiting while ESTOP is engaged."""
    text = "ESTOP is engaged: it goes on waiting until the owner clears it."
    return ToolResult(success=False, output=text, error=text, code="ESTOP", label=INTERNAL)


def refusal(reason: str) -> End:
    """The owner said no, or did not say yes in time."""
    if reason == "expired":
        return _bad("denied", "EXPIRED", "The approval has expired.", "expired")
    return _bad("denied", "OWNER_REFUSED", f"The owner refused it. {reason}".strip(), reason)
