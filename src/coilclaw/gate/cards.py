"""Approval cards: rendered here from the stored bytes, the same every time, with nothing hidden in them."""

import json
import os

from coilclaw.gate.facts import Inspected
from coilclaw.packets.action import Action
from coilclaw.packets.canonical import parse_object
from coilclaw.packets.card import Card
from coilclaw.packets.ports import Touches
from coilclaw.packets.text import one_line, visible

PREVIEW_LINES = 200
PREVIEW_BYTES = 256 * 1024
FOLD_OVER, FOLD_HEAD, FOLD_TAIL = 30, 18, 8


def render_card(action: Action, inspected: Inspected, existing: bytes | None, marked: tuple[str, ...] = ()) -> Card:
    """What the owner is shown. `existing` is what a file to be written holds now, if anything."""
    touches = inspected.touches
    target = (
        _target(touches)
        or next(iter((*touches.writes, *touches.reads)), None)
        or touches.url
        or _first_line(touches.command)
        or action.call.tool
    )
    summary = action.call.tool
    if inspected.tool is not None and inspected.args is not None:
        summary = inspected.tool.summary(inspected.args)
    return Card(
        action_id=action.action_id,
        tool_name=action.call.tool,
        human_summary=one_line(summary),
        target_entity=one_line(target[:200]) + _leads_to(inspected),
        risk_class=action.decision.risk_class,
        risk=action.decision.risk,
        risk_word=action.decision.risk_word,
        lane=action.decision.lane,
        preview_or_diff=visible(_preview(action, inspected, existing)),
        source_type=action.source,
        expires_at=action.expires_at,
        reasons=tuple(one_line(reason) for reason in action.decision.reasons),
        provenance=action.taint,
        digest=action.digest,
        args=one_line(action.call.args_bytes.decode("utf-8")),
        marked=tuple(one_line(value) for value in marked),
    )


def _preview(action: Action, inspected: Inspected, existing: bytes | None) -> str:
    touches = inspected.touches
    if touches.command is not None:
        where = (
            f"in a box that may reach {', '.join(touches.domains)}" if touches.domains else "in a box without network"
        )
        where = "WITHOUT A BOX" if inspected.facts.unsafe else where
        bound = f"(Runs {where}. The approval binds this text, not what the files it uses hold.)"
        return f"{_folded(touches.command)}\n\n{bound}"
    if touches.writes:
        content = parse_object(action.call.args_bytes).get("content")
        if isinstance(content, str):
            return _diff(touches.writes[0], existing, content)
    if touches.target is not None:
        return _message(action, inspected)
    return touches.url or ""


def _target(touches: Touches) -> str:
    return f"{touches.target.name} ({touches.target.url})" if touches.target is not None else ""


def _message(action: Action, inspected: Inspected) -> str:
    """What would be sent, as it would be sent."""
    if inspected.inputs:
        return _folded(inspected.inputs[0][:PREVIEW_BYTES].decode("utf-8", "replace"))
    payload = parse_object(action.call.args_bytes).get("payload", {})
    return _folded(json.dumps(payload, ensure_ascii=False, indent=2))


def _leads_to(inspected: Inspected) -> str:
    """Where a path really leads, when its name does not say so."""
    path = next((path for path in inspected.facts.paths if not path.boxed), None)
    if path is None or path.fault or os.path.normpath(path.asked) in (path.relative or ".", path.absolute):
        return ""
    return f" (leads to {one_line(path.relative if path.relative is not None else path.absolute)})"


def _first_line(command: str | None) -> str:
    return next(iter((command or "").splitlines()), "")


def _folded(text: str) -> str:
    """The text without runs of empty lines, a long middle folded away: nothing can push a card off the screen."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.strip() or not lines or lines[-1].strip():
            lines.append(line)
    if len(lines) > FOLD_OVER:
        left_out = len(lines) - FOLD_HEAD - FOLD_TAIL
        lines = [*lines[:FOLD_HEAD], f"… {left_out} more lines …", *lines[-FOLD_TAIL:]]
    return "\n".join(lines)


def _diff(path: str, existing: bytes | None, content: str) -> str:
    from difflib import unified_diff

    if existing is not None and len(existing) + len(content) > PREVIEW_BYTES:
        return f"{path}: {len(existing)} bytes become {len(content.encode())} (too large to compare here)"
    before = [] if existing is None else existing.decode("utf-8", "replace").splitlines()
    path = one_line(path)
    name = "/dev/null" if existing is None else path
    lines = list(unified_diff(before, content.splitlines(), name, path, lineterm="", n=3))
    if len(lines) > PREVIEW_LINES:
        lines = [*lines[:PREVIEW_LINES], f"… {len(lines) - PREVIEW_LINES} more lines"]
    return "\n".join(lines) or "(no change)"
