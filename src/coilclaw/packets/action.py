"""An Action: one proposed effect on its way through the gate, and the result it ends with."""

from typing import Literal, TypeAlias

import msgspec

from coilclaw.packets.canonical import Json, JsonObject, canonical_bytes, sha256_hex
from coilclaw.packets.decision import Decision

Source: TypeAlias = Literal["chat", "job", "schedule", "cli", "gateway", "sop", "session", "mcp"]
Identity: TypeAlias = Literal["user", "bot"]
Status: TypeAlias = Literal["PENDING", "APPROVED", "REJECTED", "EXECUTED", "FAILED", "UNKNOWN"]

Label: TypeAlias = str
"""Where content came from: `owner`, `internal`, or `untrusted:<source>`."""

OWNER: Label = "owner"
INTERNAL: Label = "internal"


def untrusted(source: str) -> Label:
    """The label of content that somebody else wrote."""
    return f"untrusted:{source}"


class Unparsed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Replaces arguments that are not a JSON object: keeps the text as evidence. No tool's schema accepts it."""

    not_an_argument_object: str
    fault: str


def unparsed_fault(args: bytes) -> str:
    """Why the arguments could not be parsed; empty if they could."""
    try:
        return msgspec.json.decode(args, type=Unparsed).fault
    except msgspec.DecodeError:
        return ""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A proposed call (the ToolCallPacket): tool, arguments as canonical bytes, and why."""

    tool: str
    args: msgspec.Raw
    call_id: str = ""
    identity: Identity | None = None
    justification: str = ""
    expected_outputs: tuple[str, ...] = ()
    withheld: bool = False
    """The arguments contained a secret that was not granted; it was removed and the call will be denied."""

    @classmethod
    def of(
        cls,
        tool: str,
        args: JsonObject,
        *,
        call_id: str = "",
        identity: Identity | None = None,
        justification: str = "",
    ) -> "ToolCall":
        """Encode the arguments once; these bytes are what is stored, hashed, shown and executed."""
        return cls(
            tool=tool,
            args=msgspec.Raw(canonical_bytes(args)),
            call_id=call_id,
            identity=identity,
            justification=justification,
        )

    @property
    def args_bytes(self) -> bytes:
        """The canonical bytes of the arguments."""
        return bytes(self.args)

    @property
    def args_hash(self) -> str:
        """SHA-256 of the canonical arguments."""
        return sha256_hex(self.args_bytes)


RUNNING = "RUNNING"
"""The code of a background command's interim result; the final result replaces it."""


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a call ended (the ToolResultPacket)."""

    success: bool
    output: str
    error: str | None = None
    code: str = ""
    metadata: dict[str, Json] = {}
    receipt_id: str | None = None
    label: Label = INTERNAL
    exit: int | None = None
    stdout: str | None = None
    stderr: str | None = None
    """A command's output, each stream separately; `output` has both."""
    fetched: bool = False
    """It is the complete, unmodified response of a requested address."""
    private: bool = False
    """It contains local data: files, notes, memory, artifacts, the output of a command."""
    fresh: bool = False
    """It just arrived from outside this machine, and is untrusted."""
    artifacts: tuple[str, ...] = ()


class Action(msgspec.Struct, kw_only=True, frozen=True):
    """One row of the conveyor: a call, its origin, its decision and its status."""

    action_id: str
    thread_id: str
    turn_id: str
    source: Source
    source_id: str
    call: ToolCall
    idempotency_key: str
    digest: str
    taint: tuple[Label, ...]
    decision: Decision
    status: Status
    attempt: int
    expires_at: str
    created_at: str
    rejection_reason: str | None = None
    job_id: str | None = None
    approved_by: str | None = None
    """Who approved it, and through which surface; None until then."""
    begun: bool = False
    """A process has claimed it and its effect may be running."""
    uncertain: bool = False
    """An earlier attempt may have had its effect: look it up before repeating anything."""
