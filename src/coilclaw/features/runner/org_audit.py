"""The audit of one organization as JSON lines: what the ledger holds about its sessions, and nothing about others'.

The first line says up to which event and receipt it reaches. So the same lines can be made again later, and compared.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal

import msgspec

from coilclaw.config.runner import org_called
from coilclaw.features.runner.store import org_action_ids, org_events, org_receipts, pruned_events, usage_of
from coilclaw.ledger.audit import last_number
from coilclaw.ledger.chain import last_link
from coilclaw.ledger.export import export_line
from coilclaw.ledger.receipts_page import last_head
from coilclaw.packets.canonical import Json, canonical_bytes
from coilclaw.packets.errors import UsageError
from coilclaw.packets.ids import Clock, stamp
from coilclaw.packets.receipt import Head
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

Redact = Callable[[Json], Json]


class OrgAuditHead(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of an export."""

    kind: Literal["org_audit"] = "org_audit"
    version: Literal[1] = 1
    org_id: str
    made_at: str
    events_up_to: int
    """The number of the last audit event of this home, of whomever."""
    receipts_up_to: int
    pruned: int
    """How many events of this home retention has removed; they stand in the workspace, under `audit/`."""
    head: Head | None
    """The newest signed head, which covers the receipts up to its size."""


def org_known(app: "Runtime", org_id: str) -> bool:
    """Whether the configuration has an organization, or had it when sessions ran for it."""
    return org_called(app.config.orgs, org_id) is not None or bool(usage_of(app.db.reader, org_id))


def head_of(db: Tx, clock: Clock, org_id: str) -> OrgAuditHead:
    """Where an export that begins now would end."""
    return OrgAuditHead(
        org_id=org_id,
        made_at=stamp(clock()),
        events_up_to=last_number(db),
        receipts_up_to=last_link(db)[0],
        pruned=sum(last - first + 1 for first, last in pruned_events(db)),
        head=last_head(db),
    )


def pieces(db: Tx, head: OrgAuditHead, redact: Redact) -> Iterator[Callable[[], list[bytes]]]:
    """An export after its first line, a few lines at a time; each piece is redacted when it is called."""
    actions = org_action_ids(db, head.org_id)
    for events in org_events(db, head.org_id, actions, head.events_up_to):
        yield lambda events=events: [export_line(row, redact) for row in events]
    for receipts in org_receipts(db, actions, head.receipts_up_to):
        yield lambda receipts=receipts: [_receipt_line(*receipt, redact) for receipt in receipts]


def _receipt_line(number: int, line: str, args: str, redact: Redact) -> bytes:
    """A receipt as it stands in the chain, whose hash can be computed again from it, beside what was asked for: a
    receipt has only the hash of that."""
    return canonical_bytes({"number": number, "receipt": _read(line), "args": redact(_read(args))}) + b"\n"


def _read(text: str) -> Json:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def export_lines(db: Tx, head: OrgAuditHead, redact: Redact) -> Iterator[bytes]:
    """A whole export, line by line."""
    yield msgspec.json.encode(head) + b"\n"
    for piece in pieces(db, head, redact):
        yield from piece()


def difference(db: Tx, lines: Iterable[bytes], redact: Redact) -> str:
    """How an export differs from this ledger, or nothing. Events that retention has removed since are passed over."""
    found = iter(lines)
    try:
        head = msgspec.json.decode(next(found, b""), type=OrgAuditHead)
    except msgspec.DecodeError as error:
        raise UsageError(
            "this is not the audit of an organization.", remedy="Make one: `coilclaw session audit ORG`."
        ) from error
    if head.events_up_to > last_number(db) or head.receipts_up_to > last_link(db)[0]:
        return f"it reaches to event {head.events_up_to} and receipt {head.receipts_up_to}, which this ledger lacks"
    gaps = pruned_events(db)
    kept = ((place, line) for place, line in enumerate(found, 2) if not _pruned(line, gaps))
    made = export_lines(db, head, redact)
    next(made)
    for have, wanted in zip_longest(kept, made):
        if have is None:
            return "lines are missing at its end"
        if have[1] != wanted:
            return f"line {have[0]} is not what the ledger holds"
    return ""


class _Numbered(msgspec.Struct):
    seq: int = 0


def _pruned(line: bytes, gaps: list[tuple[int, int]]) -> bool:
    try:
        seq = msgspec.json.decode(line, type=_Numbered).seq
    except msgspec.DecodeError:
        return False
    return any(first <= seq <= last for first, last in gaps)
