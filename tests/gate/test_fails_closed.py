"""What is broken, half done or not said is a no."""

import json

import pytest

from coilclaw.gate.estop import Estop
from coilclaw.packets.action import INTERNAL
from coilclaw.packets.ports import ToolOutput, Touches
from coilclaw.tools.declare import Declared
from coilclaw.tools.time import TimeArgs
from tests.gate.proof_world import World
from tests.gate.test_conveyor import _channels


@pytest.fixture
def estop(tmp_path):
    made = Estop(tmp_path / "ESTOP")
    made.engage("stop it", "2026-01-01T00:00:00Z")
    return made


def test_a_stop_whose_clearing_was_cut_off_still_holds_and_can_be_cleared(estop):
    mark = estop.mark()
    estop.file.rename(estop.file.with_name("ESTOP.cleared"))  # as far as a process came that died
    assert estop.engaged()
    assert estop.state().engaged
    assert estop.mark() == mark
    assert not estop.clear("another")
    assert estop.engaged()
    assert estop.clear(mark)
    assert not estop.engaged()
    assert list(estop.file.parent.iterdir()) == []


def test_a_stop_holds_at_every_moment_of_a_clearing_that_is_refused(estop):
    """Whoever looks between any two steps sees it."""
    seen = []

    class Watched(type(estop.file)):
        def rename(self, target):
            super().rename(target)
            seen.append(estop.engaged())

    watched = Estop(Watched(estop.file))
    assert not watched.clear("the mark of an earlier stop")
    assert (seen, estop.engaged()) == ([True], True)


def test_a_stop_pressed_after_a_clearing_that_was_cut_off_is_the_one_that_counts(estop):
    old = estop.mark()
    estop.file.rename(estop.file.with_name("ESTOP.cleared"))
    estop.engage("again", "2026-01-01T00:00:01Z")
    assert estop.mark() != old
    assert not estop.clear(old)
    assert estop.engaged()
    assert estop.clear(estop.mark())
    assert not estop.engaged()


async def test_an_input_that_is_not_declared_as_read_is_refused_and_not_left_out(sample):
    ran = []

    async def own(args, context):
        """Send a file."""
        ran.append(context.inputs)
        return ToolOutput(text="done", label=INTERNAL)

    home = sample(channels=_channels("own"), security__autonomy="full")
    about = {"effect": "READ", "destination": "internal", "idempotent": True, "always_ask": False}
    home.app.tools["own"] = Declared(
        own, TimeArgs, touches=lambda _: Touches(inputs=("SYSTEM.md",)), summary=lambda _: "own", **about
    )
    outcome = await home.call("own")
    assert (outcome.receipt.code, ran) == ("ARGS_INVALID", [])


async def test_a_yes_to_a_file_whose_content_nobody_noted_is_not_carried_out(tmp_path):
    world = World(tmp_path)
    try:
        action = await world.waiting("A")
        await world.approve(action, by="terminal")
        world.app.db.write_now(lambda tx: tx.execute("UPDATE proposed_actions SET seen_hash = NULL"))
        await world.home.conveyor().execute(world.load(action.action_id))
        assert world.load(action.action_id).status == "REJECTED"
        assert not (world.home.workspace / "notes.txt").exists()
    finally:
        world.home.close()


async def test_a_policy_file_counts_however_its_ending_is_written(sample):
    home = sample()
    rule = {"id": "no", "when": {"tool": "file_list"}, "verdict": "deny", "reason": "Not that."}
    (home.workspace / "policies" / "NO.JSON").write_text(json.dumps({"version": 1, "rules": [rule]}))
    outcome = await home.call("file_list", path=".")
    assert (outcome.receipt.status, outcome.receipt.code) == ("denied", "POLICY_RULE")
