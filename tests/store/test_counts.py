"""How much was going on before an action: counted in one look, as counting row by row would."""

import random
from datetime import timedelta

import msgspec
import pytest

from coilclaw.packets.action import Action, ToolCall
from coilclaw.packets.decision import Decision, Reason
from coilclaw.packets.ids import stamp
from coilclaw.store.actions import AHEAD, add_action, count_actions, let_go
from coilclaw.store.threads import ensure_owner

DECISION = Decision.of(
    "allow", (Reason(rule="r", code="c", text="t"),), risk="R0", risk_class="READ", lane="A", policy_hash="p"
)


def made(number, when, **other):
    action = Action(
        action_id=f"act_{number:04}", thread_id="", turn_id="t", source="cli", source_id="t",
        call=ToolCall.of("time", {}), idempotency_key=f"k{number}", digest="d", taint=(), decision=DECISION,
        status="PENDING", attempt=0, expires_at=stamp(when), created_at=stamp(when),
    )  # fmt: skip
    return msgspec.structs.replace(action, **other)


def counted(rows, place, now):
    """Row by row: within the last minute, neither by the owner nor a local read of a conversation; and waiting."""
    recent = [
        action
        for action, _ in rows[:place]
        if stamp(now - timedelta(seconds=60)) < action.created_at <= stamp(now + AHEAD)
        and action.source != "gateway"
        and not (action.source == "chat" and action.call.tool == "time" and action.decision.risk == "R0")
    ]
    return len(recent), sum(free and action.status == "PENDING" for action, free in rows[:place])


@pytest.mark.parametrize("seed", range(10))
def test_one_look_counts_what_row_by_row_would(db, clock, seed):
    rng, rows = random.Random(seed), []
    for number in range(rng.choice((0, 1, 40))):
        when = clock.now + timedelta(seconds=rng.choice((-300, -70, -50, -10, 0, 3600)))
        status, source = rng.choice(("PENDING", "EXECUTED")), rng.choice(("cli", "gateway", "job", "chat"))
        call = ToolCall.of(rng.choice(("time", "web_fetch")), {})
        decision = msgspec.structs.replace(DECISION, risk=rng.choice(("R0", "R2")))
        action = made(number, when, status=status, source=source, call=call, decision=decision)
        rows.append((action, rng.random() < 0.5))

    def write(tx):
        ensure_owner(tx, clock)
        for action, free in rows:
            add_action(tx, clock, action, "worker")
            if free:
                let_go(tx, action.action_id, "d")

    db.write_now(write)
    for place in {0, len(rows) // 2, len(rows)}:
        before = rows[place][0].action_id if place < len(rows) else "act_of_nobody_yet"
        recent, waiting = counted(rows, place, clock.now)
        assert count_actions(db.reader, clock, before, 0, ["time"]) == (recent, waiting)
        at_most, again = count_actions(db.reader, clock, before, 1000, ["time"])
        assert (at_most >= recent, again) == (True, waiting)
