"""The story of an action in paragraphs, for `audit explain`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from coilclaw.cli.output import moment
from coilclaw.cli.phrases import receipt_word, status_words, to_owner
from coilclaw.packets.canonical import Json
from coilclaw.packets.skill import NONE
from coilclaw.store.refusals import refusal_of

if TYPE_CHECKING:
    from coilclaw.ledger.audit import AuditEvent
    from coilclaw.ledger.signed import Signed
    from coilclaw.ledger.story import Attempt, Story

Line: TypeAlias = tuple[str, str]
"""A name and what there is to say."""

SHOWN = 2000
"""Of a long text, so many characters."""


def paragraphs(story: "Story") -> Iterator[tuple[str, list[Line]]]:
    """Titles with their lines, in the order in which things happened."""
    yield f"{story.action_id}: {story.tool}, {story.status}", _head(story)
    yield "Asked", _asked(story)
    if story.skills:
        yield "Skills", [_skill(each) for each in story.skills]
    yield "Decided", _decided(story)
    yield "Approved", _approved(story)
    if story.attempts:
        yield "Tried", [(f"attempt {each.number}", _attempt(each)) for each in story.attempts]
    if story.result is not None:
        yield "Result", _result(story)
    yield "Receipts", _receipts(story)
    yield (
        "Events",
        [(str(each.seq), f"{_when(each.created_at)} {each.event_type} {_json(each.payload)}") for each in story.events],
    )
    if story.notes:
        yield "Notes", [("", note) for note in story.notes]


_SOURCES = {
    "chat": "in a conversation",
    "job": "by a job",
    "schedule": "by a schedule",
    "sop": "by a procedure",
    "cli": "by you, with a command",
    "gateway": "by you",
    "session": "in a coding session",
    "mcp": "by a program that uses this agent's tools",
}
"""Who asked, where no message says it."""
_VERDICTS = {"allow": "it may run", "ask": "you are asked first", "deny": "it may not run"}


def in_short(story: "Story", what: str) -> Iterator[str]:
    """The story in at most eight sentences, for a person at a terminal."""
    asked, told, approval, result = story.asked, story.decision, story.approval, story.result
    code = result.code if result is not None else ""
    yield f"{what.rstrip('.')}: it {status_words(story.status, code)}."
    said = asked.message.content if asked.message is not None else ""
    where = f"for the job “{asked.job_goal}”" if asked.job_goal else f"“{said}”" if said else _SOURCES[asked.source]
    yield f"Asked {moment(asked.created_at)}: {where}"
    if asked.justification:
        yield f"Its reason: {asked.justification}"
    verdict = _VERDICTS.get(_words(told.get("verdict")), "unreadable")
    taint = "Untrusted content was read before. " if _words(story.taint) else ""
    yield f"Decided: {verdict} ({_words(told.get('risk_word'))} risk). {taint}{_because(story)}"
    if approval.approved_by:
        how = "" if approval.shown in ("", approval.approved_by) else f" ({approval.shown})"
        by = "at the terminal" if approval.approved_by == "terminal" else f"by {approval.approved_by}"
        yield f"Approved {moment(approval.approved_at or '')} {by}{how}."
    elif approval.rejection_reason:
        yield f"{refusal_of(code).capitalize()}: {to_owner(approval.rejection_reason, code)}"
    elif approval.needed:
        yield f"It waits for your answer until {moment(approval.expires_at)}."
    if story.attempts:
        last = story.attempts[-1]
        when = f" {moment(last.ended_at)}" if last.ended_at else ""
        yield f"Attempt {last.number}: {_end_of(last)}{when}"
    if result is not None and result.first_lines and story.status != "REJECTED":
        yield f"It said: {to_owner(result.first_lines, code)}"
    agrees = "Its records agree." if story.agrees else "ITS RECORDS DO NOT AGREE: run `coilclaw receipt verify`."
    ids = [story.action_id, *[proof.receipt.id for proof in story.receipts][-1:]]
    yield f"{agrees} --all tells everything. {' '.join(ids)}"


def _because(story: "Story") -> str:
    """The reasons; that a tool always asks says nothing beside another one."""
    reasons = story.decision.get("reasons")
    always = f"{story.tool} always asks."
    if isinstance(reasons, list | tuple) and len(reasons) > 1:
        reasons = [each for each in reasons if each != always]
    return _words(reasons)


def _when(stamp: str | None) -> str:
    return moment(stamp, "milliseconds") if stamp else ""


def _json(value: Json) -> str:
    return msgspec.json.encode(value).decode()


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text) - SHOWN} more characters)"


def _said(lines: list[tuple[str, str | None]]) -> list[Line]:
    """The lines that say something."""
    return [(name, text) for name, text in lines if text]


def _head(story: "Story") -> list[Line]:
    return _said(
        [
            ("arguments", _cut(_json(story.args))),
            ("identity", story.identity),
            ("digest", story.digest),
            ("key", story.idempotency_key),
            ("last change", _when(story.updated_at)),
            ("next try", _when(story.next_attempt_at)),
            ("uncertain", "an earlier attempt may have taken effect" if story.uncertain else ""),
        ]
    )


def _asked(story: "Story") -> list[Line]:
    asked = story.asked
    said = asked.message
    return _said(
        [
            ("when", _when(asked.created_at)),
            ("source", f"{asked.source} {asked.source_id}"),
            ("conversation", f"{asked.thread_id} ({asked.channel})" if asked.channel else asked.thread_id),
            ("turn", asked.turn_id),
            ("job", asked.job_id),
            ("goal", _cut(asked.job_goal or "")),
            ("owner said", _cut(said.content) if said is not None else "(no message is stored)"),
            ("said at", _when(said.created_at) if said is not None else ""),
            ("why", _cut(asked.justification)),
        ]
    )


def _skill(event: "AuditEvent") -> Line:
    told = event.payload if isinstance(event.payload, dict) else {}
    if event.event_type == NONE:
        passed = told.get("passed_over")
        names = ", ".join(f"{name} ({why})" for name, why in passed.items()) if isinstance(passed, dict) else ""
        return "none", f"no skill matched, of {told.get('looked_at')}{f'; not used: {names}' if names else ''}"
    left = [
        f"{what}: {_listed(told.get(what))}"
        for what in ("tools", "domains")
        if isinstance(told.get(what), list | tuple)
    ]
    return _words(told.get("skill")), "; ".join((_words(told.get("why")), *left, f"sha256 {told.get('sha256')}"))


def _listed(value: Json) -> str:
    return ", ".join(str(item) for item in value) or "none" if isinstance(value, list | tuple) else ""


def _words(value: Json) -> str:
    """A list as one sentence after the other, anything else as it is."""
    if isinstance(value, list | tuple):
        return " ".join(str(item) for item in value)
    return "" if value is None else str(value)


def _decided(story: "Story") -> list[Line]:
    told = story.decision
    risk = " ".join(filter(None, (_words(told.get(name)) for name in ("risk", "risk_word", "risk_class"))))
    return _said(
        [
            ("verdict", _words(told.get("verdict"))),
            ("rule", _words(told.get("rule"))),
            ("code", _words(told.get("code"))),
            ("reasons", _words(told.get("reasons"))),
            ("risk", risk),
            ("lane", _words(told.get("lane"))),
            ("taint", _words(story.taint) or "none"),
            ("skills", _words(told.get("skills"))),
            ("policy", _words(told.get("policy_hash"))),
            ("unreadable", _words(told.get("unreadable"))),
        ]
    )


def _approved(story: "Story") -> list[Line]:
    approval = story.approval
    by = f"by {approval.approved_by} at {_when(approval.approved_at)}" if approval.approved_by else ""
    return _said(
        [
            ("needed", "yes" if approval.needed else "no"),
            ("approved", by or ("" if approval.rejection_reason or not approval.needed else "not yet")),
            ("shown", approval.shown if approval.approved_by else ""),
            (refusal_of(story.result.code if story.result else ""), approval.rejection_reason),
            ("expires", _when(approval.expires_at) if approval.needed else ""),
        ]
    ) + [("signed", _signature(each)) for each in approval.signatures]


def _signature(signed: "Signed") -> str:
    by = f"passkey {signed.passkey_name!r}" if signed.passkey_name is not None else f"passkey {signed.passkey_id}"
    lines = [f"{signed.purpose} by {by} at {_when(signed.signed_at)}, on {signed.device_id} at {signed.origin}"]
    lines.append(f"{signed.assertion_id}: the signature {'still verifies' if signed.holds else 'DOES NOT VERIFY'}")
    return "\n".join((*lines, *(f"BUT {each}" for each in signed.disagreements)))


def _end_of(attempt: "Attempt") -> str:
    if not attempt.end:
        return "no outcome is recorded"
    status = {"tool_completed": "allowed"}.get(attempt.end, attempt.end.removeprefix("tool_"))
    return receipt_word(status, attempt.code or "")


def _attempt(attempt: "Attempt") -> str:
    end = f"{_end_of(attempt)} at {_when(attempt.ended_at)}" if attempt.end else _end_of(attempt)
    parts = [f"begun {_when(attempt.begun_at)}", f"in {attempt.worker}" if attempt.worker else ""]
    parts += ["looked up first" if attempt.looked_up else "", end, attempt.code or "", attempt.receipt_id or ""]
    if attempt.next_in_seconds is not None:
        parts.append(f"next attempt in {attempt.next_in_seconds:g} s")
    return ", ".join(filter(None, parts))


def _result(story: "Story") -> list[Line]:
    result = story.result
    if result is None:
        return []
    box = f"tier {result.box_tier}, {result.box_end}" if result.box_tier else ""
    return _said(
        [
            ("success", "yes" if result.success else "no"),
            ("code", result.code),
            ("exit", "" if result.exit is None else str(result.exit)),
            ("box", box),
            ("from", result.label),
            ("hash", result.output_hash),
            ("begins", _cut(to_owner(result.first_lines, result.code))),
        ]
    )


def _receipts(story: "Story") -> list[Line]:
    lines: list[Line] = []
    for proof in story.receipts:
        receipt = proof.receipt
        said = receipt_word(receipt.status, receipt.code)
        text = f"{receipt.id} at {_when(receipt.timestamp)}: {said}, {receipt.code}\nhash {receipt.receipt_hash}"
        text += f"\nafter {receipt.previous_hash}"
        lines.append((f"number {proof.place}", "\n".join((text, *(f"BUT {each}" for each in proof.disagreements)))))
    lines += [("BUT", text) for text in story.disagreements]
    if story.agrees:
        lines.append(("", "The stored row and its receipts agree." if lines else "There is none yet."))
    else:
        lines.append(("", "The stored row and its receipts do not agree. Run `coilclaw receipt verify`."))
    return lines
