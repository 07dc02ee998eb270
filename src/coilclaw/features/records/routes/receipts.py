"""Receipts: the proof of every outcome, and whether the chain of them holds."""

from typing import Annotated

import msgspec
from litestar import Controller, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, QueryParameter

from coilclaw.features.records.chain import ChainWatch, Checked
from coilclaw.ledger.chain import last_link
from coilclaw.ledger.receipts_page import Numbered, WantedReceipts, last_head, page_of_receipts, place_of
from coilclaw.ledger.verify import Broken
from coilclaw.packets.receipt import Receipt, ReceiptStatus
from coilclaw.server.core import Core
from coilclaw.server.filters import OfAction, OfTool, Refused
from coilclaw.server.naming import abouts
from coilclaw.server.pages import Cursor, Limit, Page, page_to, read_cursor
from coilclaw.server.problems import NotThere, problems
from coilclaw.server.redacting import Redacting
from coilclaw.store.refusals import Refusal, refusal_of


class ReceiptPlace(msgspec.Struct, frozen=True, array_like=True):
    """Below which number a list goes on."""

    below: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class ReceiptLine(Numbered, frozen=True, kw_only=True):
    """A receipt in a list."""

    about: str
    """What the action was, in a sentence; empty when that cannot be told."""
    refusal: Refusal | None
    """Who said no; null unless it is a receipt of that."""


class ReceiptDetail(msgspec.Struct, frozen=True, kw_only=True):
    """One receipt, held against its place in the chain."""

    number: int
    receipt: Receipt | None
    """Null when it cannot be read."""
    holds: bool
    """It matches its own hash and follows the one before it."""
    faults: tuple[str, ...]
    about: str
    """What the action was, in a sentence; empty when that cannot be told."""
    refusal: Refusal | None
    """Who said no; null unless it is a receipt of that."""


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What verification found."""

    valid: bool
    receipts: int
    """How many are valid, counted from the first."""
    heads: int
    """How many signed heads it was compared with."""
    broken: Broken | None
    """The first broken link, and its kind."""
    notes: tuple[str, ...]
    at: str
    """When it began."""


class ChainState(msgspec.Struct, frozen=True, kw_only=True):
    """The chain at a glance."""

    size: int
    hash: str
    """Of the last receipt."""
    sealed_size: int
    """How many receipts the newest signed head covers."""
    sealed_at: str | None
    verified: Verification | None
    """What the last verification since the start found; null when there was none."""


class ReceiptRoutes(Controller):
    """The ledger."""

    path = "/v1/receipts"
    tags = ("receipts",)

    @get("/", operation_id="listReceipts", summary="Receipts, newest first")
    async def list_all(
        self,
        core: NamedDependency[Core],
        redacting: NamedDependency[Redacting],
        status: Annotated[ReceiptStatus | None, QueryParameter(description="Only receipts with this outcome.")] = None,
        refusal: Refused = None,
        tool: OfTool = None,
        action_id: OfAction = None,
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Page[ReceiptLine]:
        """Receipts, newest first. A page may be short, or empty, and still have a next one. A receipt that cannot be
        read is left out; `verifyReceipts` names it."""
        wanted = WantedReceipts(status=status, refusal=refusal, tool=tool, action_id=action_id)
        place = read_cursor(cursor, ReceiptPlace)
        found, below = page_of_receipts(core.db.reader, wanted, None if place is None else place.below, limit)
        names = abouts(core, (each.receipt.action_id for each in found))
        items = await redacting.aside(lambda: _lines(core, found, names()))
        return page_to(items, None if below is None else ReceiptPlace(below))

    @get("/head", operation_id="getChain", summary="Summary of the chain")
    async def head(self, core: NamedDependency[Core], chain_watch: NamedDependency[ChainWatch]) -> ChainState:
        """How long the chain is, where it ends, and what the last verification found. Cheap: nothing is verified."""
        size, last = last_link(core.db.reader)
        sealed = last_head(core.db.reader)
        return ChainState(
            size=size,
            hash=last,
            sealed_size=sealed.size if sealed is not None else 0,
            sealed_at=sealed.time if sealed is not None else None,
            verified=None if chain_watch.last is None else _verification(core, chain_watch.last),
        )

    @post("/verify", operation_id="verifyReceipts", summary="Verify the chain", status_code=200)
    async def verify(self, core: NamedDependency[Core], chain_watch: NamedDependency[ChainWatch]) -> Verification:
        """Replay the log against the rows and the signed heads; the first broken link is named, with its kind."""
        return _verification(core, await chain_watch.verify())

    @get("/{receipt_id:str}", operation_id="getReceipt", summary="One receipt", responses=problems(404))
    async def show(
        self, core: NamedDependency[Core], redacting: NamedDependency[Redacting], receipt_id: FromPath[str]
    ) -> ReceiptDetail:
        """One receipt by its id or number, held against its place in the chain."""
        placed = place_of(core.db.reader, receipt_id)
        if placed is None:
            raise NotThere("such receipt")
        action_id = "" if placed.receipt is None else placed.receipt.action_id
        names = await redacting.aside(abouts(core, (action_id,)))
        return ReceiptDetail(
            number=placed.number,
            receipt=None if placed.receipt is None else _without_secrets(core, placed.receipt),
            holds=not placed.faults,
            faults=placed.faults,
            about=names.get(action_id, ""),
            refusal=None if placed.receipt is None else _refusal(placed.receipt),
        )


class ReceiptGateway(Controller):
    """The gateway's view of the ledger."""

    path = "/receipts"
    tags = ("gateway",)

    @get("/", operation_id="gatewayReceipts", summary="The newest receipts")
    async def newest(self, core: NamedDependency[Core], limit: Limit = 20) -> list[Receipt]:
        """The newest receipts, newest first."""
        found, _ = page_of_receipts(core.db.reader, WantedReceipts(), None, limit)
        return [_without_secrets(core, each.receipt) for each in found]


def _lines(core: Core, found: list[Numbered], names: dict[str, str]) -> list[ReceiptLine]:
    return [
        ReceiptLine(
            number=each.number,
            receipt=_without_secrets(core, each.receipt),
            about=names.get(each.receipt.action_id, ""),
            refusal=_refusal(each.receipt),
        )
        for each in found
    ]


def _refusal(receipt: Receipt) -> Refusal | None:
    return refusal_of(receipt.code) if receipt.status == "denied" else None


def _without_secrets(core: Core, receipt: Receipt) -> Receipt:
    """A tool's name is what a model wrote; everything else is ids, hashes and words of ours."""
    return msgspec.structs.replace(receipt, tool=core.named(receipt.tool))


def _verification(core: Core, checked: Checked) -> Verification:
    report = checked.report
    broken = report.broken
    if broken is not None:
        broken = msgspec.structs.replace(broken, detail=core.said(broken.detail))
    return Verification(
        valid=report.valid,
        receipts=report.receipts,
        heads=report.heads,
        broken=broken,
        notes=tuple(core.said(note) for note in report.notes),
        at=checked.at,
    )
