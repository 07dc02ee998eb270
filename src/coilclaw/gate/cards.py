"""Approval cards: rendered here from the stored bytes, the same every time, with nothing hidden in them."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from coilclaw.gate.facts import Inspected
from coilclaw.gate.preview import Existing, Restored, preview
from coilclaw.gate.standing import offers
from coilclaw.packets.action import Action
from coilclaw.packets.card import Card
from coilclaw.packets.text import one_line
from coilclaw.packets.touches import Touches

if TYPE_CHECKING:
    from coilclaw.sandbox.quarantine import HeldFile

SUMMARY_CHARACTERS = 400


def render_card(
    action: Action,
    inspected: Inspected,
    existing: Existing | None,
    marked: tuple[str, ...] = (),
    restored: Restored | None = None,
    held: "Sequence[HeldFile]" = (),
) -> Card:
    """What the owner is shown. `existing` is what a file to be written holds now, `restored` what would come back,
    `held` what would leave the quarantine."""
    summary = action.call.tool
    if inspected.tool is not None and inspected.args is not None:
        summary = inspected.tool.summary(inspected.args)
    return Card(
        action_id=action.action_id,
        tool_name=action.call.tool,
        human_summary=_short(one_line(summary), SUMMARY_CHARACTERS),
        target_entity=_short(one_line(_target(action, inspected.touches)), 200) + _leads_to(inspected) + _in(inspected),
        risk_class=action.decision.risk_class,
        risk=action.decision.risk,
        risk_word=action.decision.risk_word,
        lane=action.decision.lane,
        preview_or_diff=preview(action, inspected, existing, restored, held),
        source_type=action.source,
        expires_at=action.expires_at,
        reasons=tuple(one_line(reason) for reason in action.decision.reasons),
        provenance=action.taint,
        digest=action.digest,
        args=one_line(action.call.args_bytes.decode("utf-8")),
        marked=tuple(one_line(value) for value in marked),
        offers=offers(action, inspected.facts),
        identity=action.call.identity,
        reaches_out=inspected.tool is not None and inspected.tool.destination == "external",
    )


def _target(action: Action, touches: Touches) -> str:
    if touches.target is not None:
        return f"{touches.target.name} ({touches.target.url})"
    named = next(iter((*touches.writes, *touches.reads)), None)
    command = (touches.command or "").partition("\n")[0]
    url = None if touches.principal == "google" else touches.url
    return named or url or command or touches.subject or action.call.tool


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _in(inspected: Inspected) -> str:
    """The owner's own folder that the conversation works in, which the paths of a call do not say."""
    project = inspected.at.project
    how = "in" if inspected.root is inspected.at else "of the workspace, for work in"
    return "" if project is None else f" {how} project {project.name} ({one_line(project.path)})"


def _leads_to(inspected: Inspected) -> str:
    """Where a path really leads, if that differs from its name."""
    path = next((path for path in inspected.facts.paths if not path.boxed), None)
    if path is None or path.fault or os.path.normpath(path.asked) in (path.relative or ".", path.absolute):
        return ""
    return f" (resolves to {one_line(path.relative if path.relative is not None else path.absolute)})"
