"""Actions as they are shown over HTTP: rows, cards, ends, stories; without secrets."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal, TypeAlias, TypeVar

import msgspec

from coilclaw.ledger.story import Story, story_of
from coilclaw.packets.action import Action, Identity, Label, Source, Status, ToolResult
from coilclaw.packets.canonical import Json
from coilclaw.packets.card import Card, Offer
from coilclaw.packets.decision import Decision, Lane, Risk, RiskClass, RiskWord, Verdict
from coilclaw.packets.errors import LedgerBroken
from coilclaw.packets.text import one_line
from coilclaw.server.core import Core
from coilclaw.server.naming import abouts, sentence_of
from coilclaw.server.problems import NotThere, Trouble
from coilclaw.server.redacting import Redacting
from coilclaw.store.actions import end_codes, load_action, result_of
from coilclaw.store.refusals import Refusal, refusal_of
from coilclaw.store.threads import owner_words

T = TypeVar("T", bound=msgspec.Struct)
ProofWord: TypeAlias = Literal["none", "token", "passkey"]
"""What an answer needs from this device: nothing, because none is awaited; its token alone; a passkey's assertion."""

SHOWN_CHARACTERS = 20_000
"""Of a long output, so many characters."""
SHOWN_WORDS = 200
"""Of what the owner had asked, so many characters."""


class ActionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An action as it stands."""

    action_id: str
    status: Status
    refusal: Refusal | None
    """Who said no; null unless it is REJECTED."""
    tool: str
    summary: str
    """What it is, in a sentence."""
    lane: Lane
    reaches_out: bool
    """A server outside is asked, also where it only reads there."""
    risk: Risk
    risk_word: RiskWord
    risk_class: RiskClass
    verdict: Verdict
    """What the gate said: allow, ask or deny."""
    code: str
    """The stable code of the rule that spoke."""
    source: Source
    source_id: str
    thread_id: str
    turn_id: str
    job_id: str | None
    justification: str
    provenance: tuple[Label, ...]
    """Untrusted sources that may have a hand in it."""
    digest: str
    attempt: int
    """How often its effect was begun."""
    begun: bool
    """It is in somebody's hands and its effect may be under way."""
    uncertain: bool
    """An earlier attempt may have taken effect."""
    approved_by: str | None
    rejection_reason: str | None
    created_at: str
    expires_at: str


class ApprovalCard(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner is asked: the card, made by the gate from stored data, as things stand now."""

    action_id: str
    status: Status
    tool_name: str
    identity: Identity | None = None
    """In whose name it acts at an account; null for a tool without accounts."""
    human_summary: str
    target_entity: str
    risk_class: RiskClass
    risk: Risk
    risk_word: RiskWord
    lane: Lane
    reaches_out: bool
    """A server outside is asked, also where it only reads there."""
    preview_or_diff: str
    """What would be done or changed; empty once it is over."""
    source_type: Source
    expires_at: str
    reasons: tuple[str, ...]
    provenance: tuple[Label, ...]
    """Untrusted sources that may have a hand in it."""
    marked: tuple[str, ...]
    """Argument values that stand in untrusted content and not in the owner's own words."""
    offers: tuple[Offer, ...]
    """What a yes may cover from now on; hand one back as `from_now_on` when approving."""
    digest: str
    """Stands for exactly what would be done; hand it back when approving."""
    seen: str
    """Stands for what the card was compared with; hand it back when approving."""
    args: str
    """The arguments, as JSON text in which nothing hides."""
    secretive: bool
    """Something in it has the shape of a secret. It is shown all the same: what is hidden cannot be approved."""
    changed: bool
    """It is no longer what was proposed: a yes would end it, and it would have to be proposed again."""
    proof: ProofWord
    approved_by: str | None
    rejection_reason: str | None
    asked: str
    """What the owner had said in the turn it comes from, the beginning of it on one line; empty when nobody did."""
    thread_id: str
    job_id: str | None
    session_id: str
    """The coding session whose program asks, or empty."""
    created_at: str


class ActionOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What an action, or its last attempt, ended with."""

    success: bool
    code: str
    output: str
    cut: bool
    """The output is longer than what is shown."""
    label: Label
    exit: int | None
    stdout: str | None
    stderr: str | None
    """What a command wrote, each stream by itself; `output` holds both."""
    receipt_id: str | None
    artifacts: tuple[str, ...]


class ActionDetail(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one action."""

    action: ActionSummary
    args: Json
    decision: Decision
    card: ApprovalCard | None
    """While it waits for the owner."""
    outcome: ActionOutcome | None
    story: Story | None
    """Who asked, who approved, every attempt and receipt; null when it cannot be told."""
    fault: str
    """Why the story cannot be told; empty when it can."""


class StoryTold(Story, frozen=True, kw_only=True):
    """The story of an action, and what it is."""

    about: str
    """What it is, in a sentence; empty when that cannot be told."""
    refusal: Refusal | None
    """Who said no; null unless it is REJECTED."""


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """Where an action stands after an answer."""

    action: ActionSummary
    outcome: ActionOutcome | None
    """Only once it is over: nothing is called done before it is."""
    held: bool
    """ESTOP is engaged: it goes on when that is cleared."""


def find_action(core: Core, action_id: str) -> Action:
    """The action with this id."""
    action = load_action(core.db.reader, action_id)
    if action is None:
        raise NotThere("such action")
    return action


def redacted(core: Core, value: T) -> T:
    """The same value without secrets."""
    try:
        return msgspec.convert(core.shown(value), type(value))
    except msgspec.ValidationError as error:  # fail closed
        raise Trouble(500, "WITHHELD", "it cannot be shown with its secrets redacted.") from error


def _said(core: Core, texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(core.said(text) for text in texts)


def _perhaps(core: Core, text: str | None) -> str | None:
    return None if text is None else core.said(text)


def refusal_now(core: Core, action: Action) -> Refusal | None:
    """Who said no to it, from what is on record."""
    return refusals_of(core, (action,)).get(action.action_id)


def refusals_of(core: Core, actions: Sequence[Action]) -> dict[str, Refusal]:
    """Who said no to those of these that were refused."""
    refused = [action for action in actions if action.status == "REJECTED"]
    codes = end_codes(core.db.reader, [action.action_id for action in refused])
    by_rule = {action.action_id: "" if action.decision.verdict == "deny" else "OWNER_REFUSED" for action in refused}
    return {action_id: refusal_of(codes.get(action_id, otherwise)) for action_id, otherwise in by_rule.items()}


def summary_of(core: Core, action: Action, refusal: Refusal | None = None) -> ActionSummary:
    """An action as a row."""
    decision = action.decision
    return ActionSummary(
        action_id=action.action_id,
        status=action.status,
        refusal=refusal,
        tool=core.named(action.call.tool),
        summary=sentence_of(core, action),
        lane=decision.lane,
        reaches_out=core.conveyor.intake.reaches_out(action.call),
        risk=decision.risk,
        risk_word=decision.risk_word,
        risk_class=decision.risk_class,
        verdict=decision.verdict,
        code=decision.code,
        source=action.source,
        source_id=action.source_id,
        thread_id=action.thread_id,
        turn_id=action.turn_id,
        job_id=action.job_id,
        justification=core.said(action.call.justification),
        provenance=_said(core, action.taint),
        digest=action.digest,
        attempt=action.attempt,
        begun=action.begun,
        uncertain=action.uncertain,
        approved_by=action.approved_by,
        rejection_reason=_perhaps(core, action.rejection_reason),
        created_at=action.created_at,
        expires_at=action.expires_at,
    )


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """An action with everything its card is made of, read and not yet shown."""

    action: Action
    card: Card
    changed: bool
    proof: ProofWord
    words: str
    """The owner's, that it is about."""


async def approval_of(core: Core, redacting: Redacting, action: Action, by: str) -> ApprovalCard:
    """The card of an action for the person who would answer it."""
    return (await approvals_of(core, redacting, (action,), by))[0]


async def approvals_of(core: Core, redacting: Redacting, actions: Sequence[Action], by: str) -> list[ApprovalCard]:
    """The cards of some actions: read one after the other, shown all in one turn."""
    asked: list[_Asked] = []
    for action in actions:
        if asked:
            await asyncio.sleep(0)  # a card reads files and compares them; others come in between
        asked.append(await _asked(core, action, by))
    if not asked:
        return []
    return await redacting.aside(lambda: [_card_shown(core, redacting, each) for each in asked])


async def _asked(core: Core, action: Action, by: str) -> _Asked:
    now = await core.conveyor.intake.shown(action)
    waits = action.status == "PENDING"
    card = now if waits else _as_it_was(now, action)
    return _Asked(
        action=action,
        card=card,
        changed=waits and (card.digest, card.lane) != (action.digest, action.decision.lane),
        proof=_proof(core, card.lane, by) if waits else "none",
        words="" if action.job_id is not None else owner_words(core.db.reader, action.thread_id, action.turn_id),
    )


def _card_shown(core: Core, redacting: Redacting, asked: _Asked) -> ApprovalCard:
    """Whole: whoever writes what is asked about could write what looks like a secret, and hide the rest in it."""
    action, card = asked.action, asked.card
    return ApprovalCard(
        action_id=action.action_id,
        status=action.status,
        tool_name=core.whole(card.tool_name),
        identity=action.call.identity,
        human_summary=core.whole(card.human_summary),
        target_entity=core.whole(card.target_entity),
        risk_class=card.risk_class,
        risk=card.risk,
        risk_word=card.risk_word,
        lane=card.lane,
        reaches_out=card.reaches_out,
        preview_or_diff=core.whole(card.preview_or_diff),
        source_type=card.source_type,
        expires_at=card.expires_at,
        reasons=tuple(map(core.whole, card.reasons)),
        provenance=tuple(map(core.whole, card.provenance)),
        marked=tuple(map(core.whole, card.marked)),
        offers=tuple(msgspec.structs.replace(offer, text=core.whole(offer.text)) for offer in card.offers),
        digest=card.digest,
        seen=card.seen,
        args=core.whole(card.args),
        secretive=any(redacting.said(text) != core.whole(text) for text in (card.args, card.preview_or_diff)),
        changed=asked.changed,
        proof=asked.proof,
        approved_by=action.approved_by,
        rejection_reason=_perhaps(core, action.rejection_reason),
        asked=one_line(" ".join(redacting.head(asked.words, SHOWN_WORDS).split())),
        thread_id=action.thread_id,
        job_id=action.job_id,
        session_id=action.source_id if action.source == "session" else "",
        created_at=action.created_at,
    )


def _as_it_was(card: Card, action: Action) -> Card:
    """What was decided then; what it would change now means nothing any more."""
    decision = action.decision
    return msgspec.structs.replace(
        card,
        risk_class=decision.risk_class,
        risk=decision.risk,
        risk_word=decision.risk_word,
        lane=decision.lane,
        reasons=decision.reasons,
        provenance=action.taint,
        digest=action.digest,
        preview_or_diff="",
        offers=(),
        seen="",
    )


def _proof(core: Core, lane: Lane, by: str) -> ProofWord:
    return "passkey" if core.approvals.owner.needed(core.db.reader, lane, by) else "token"


def result_on_record(core: Core, action: Action) -> ToolResult | None:
    """What is stored of its last attempt; None when there is nothing, or nothing that can be read."""
    with suppress(msgspec.DecodeError):  # damaged: the story and the receipts tell
        return result_of(core.db.reader, action.action_id)
    return None


def _outcome(core: Core, action: Action, result: ToolResult | None) -> ActionOutcome | None:
    """What it ended with; None while there is nothing."""
    if result is None or action.status == "PENDING":
        return None
    output = core.said(result.output)
    return ActionOutcome(
        success=result.success,
        code=result.code,
        output=output[:SHOWN_CHARACTERS],
        cut=len(output) > SHOWN_CHARACTERS,
        label=core.said(result.label),
        exit=result.exit,
        stdout=_shown(core, result.stdout),
        stderr=_shown(core, result.stderr),
        receipt_id=result.receipt_id,
        artifacts=result.artifacts,
    )


def _shown(core: Core, stream: str | None) -> str | None:
    return None if stream is None else core.said(stream)[:SHOWN_CHARACTERS]


async def answered(core: Core, redacting: Redacting, action: Action) -> Answered:
    """Where it stands now."""
    over = action.status not in ("PENDING", "APPROVED")
    result = result_on_record(core, action) if over else None
    held = action.status == "APPROVED" and core.estop.engaged()
    refusal = refusal_now(core, action)

    def shown() -> Answered:
        return Answered(action=summary_of(core, action, refusal), outcome=_outcome(core, action, result), held=held)

    return await redacting.aside(shown)


async def story_shown(core: Core, redacting: Redacting, action_id: str) -> StoryTold | None:
    """The whole story of an action, without secrets; None when there is no such action."""
    story = story_of(core.db.reader, action_id)
    if story is None:
        return None
    names, code = abouts(core, (action_id,)), end_codes(core.db.reader, (action_id,)).get(action_id)
    refusal = None if code is None else refusal_of(code)

    def told() -> StoryTold:
        fields = msgspec.structs.asdict(redacted(core, story))
        return StoryTold(**fields, about=names().get(action_id, ""), refusal=refusal)

    return await redacting.aside(told)


async def detail_of(core: Core, redacting: Redacting, action: Action, by: str) -> ActionDetail:
    """Everything about an action. What is damaged is said; the rest is shown."""
    story, fault = None, ""
    try:
        story = story_of(core.db.reader, action.action_id)
    except LedgerBroken as error:
        fault = core.said(str(error))
    result, refusal = result_on_record(core, action), refusal_now(core, action)
    card = await approval_of(core, redacting, action, by) if action.status == "PENDING" else None

    def shown() -> ActionDetail:
        return ActionDetail(
            action=summary_of(core, action, refusal),
            args=core.shown(_json(action.call.args_bytes)),
            decision=redacted(core, action.decision),
            card=card,
            outcome=_outcome(core, action, result),
            story=None if story is None else redacted(core, story),
            fault=fault,
        )

    return await redacting.aside(shown)


def _json(data: bytes) -> Json:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return data.decode("utf-8", "replace")
