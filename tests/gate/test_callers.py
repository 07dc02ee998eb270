"""Tools that only the runtime calls: one declaration says so, and no model and no job gets past it."""

import ast
from pathlib import Path
from typing import get_args

import msgspec
import pytest

import coilclaw
from coilclaw.config.mcp import Mcp, McpServe
from coilclaw.gate.callers import is_runtime_only
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import INTERNAL, Source, ToolCall
from coilclaw.packets.job import Constraints, JobLimits
from coilclaw.packets.ports import ToolOutput
from coilclaw.store.actions import list_actions, load_action
from coilclaw.tools.approval import RUNTIME_TOOLS
from coilclaw.tools.builtin import builtin_tools
from coilclaw.tools.declare import ANYONE, RUNTIME, Declared, nothing
from coilclaw.tools.time import TimeArgs
from tests.agent.test_loop import turn
from tests.gate.test_conveyor import _channels

SOURCE = Path(coilclaw.__file__).parent
SOURCES = sorted(get_args(Source))


def quiet(ran, callers, **declared):
    """A harmless tool that would run by itself, called by these only."""

    async def own(args, context):
        """Something the runtime does."""
        ran.append(context.source)
        return ToolOutput(text="done", label=INTERNAL)

    about = {"effect": "READ", "destination": "internal", "idempotent": True, "always_ask": False, **declared}
    return Declared(own, TimeArgs, touches=nothing, summary=lambda _: "own", callers=callers, **about)


@pytest.fixture
def house(sample):
    def make(callers, **declared):
        home = sample(channels=_channels("own"), security__autonomy="full", mcp=Mcp(serve=McpServe(tools=("own",))))
        ran = []
        home.app.tools["own"] = quiet(ran, callers, **declared)
        return home, ran

    return make


def test_every_built_in_tool_says_who_calls_it_and_two_are_the_runtimes_own():
    tools = builtin_tools()
    assert {name: tool.callers for name, tool in tools.items() if tool.callers != ANYONE} == {
        "sop_approval": {"sop"},
        "attachment_save": {"gateway"},
        "file_show": {"gateway"},
        "quarantine_release": {"gateway"},
        "settings_change": {"gateway"},
    }
    assert {name for name, tool in tools.items() if is_runtime_only(tool)} == RUNTIME_TOOLS
    assert set(SOURCES) == ANYONE


@pytest.mark.parametrize("callers", [[], ["chat"], ["job"], ["sop", "job"], ["cli"], ["schedule"], ["session", "chat"]])
def test_no_tool_can_be_declared_for_some_models_only(callers):
    with pytest.raises(ValueError, match="runtime's own"):
        quiet([], frozenset(callers))


def test_who_calls_is_part_of_what_an_approval_binds():
    hashes = {quiet([], callers).declaration_hash for callers in (ANYONE, RUNTIME, frozenset({"sop"}))}
    assert len(hashes) == 3


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("own", sorted(RUNTIME))
async def test_a_call_from_anywhere_else_is_denied_and_has_no_effect(house, own, source):
    home, ran = house(frozenset({own}))
    outcome = await home.call("own", turn=Turn("turn_1", "", source))
    if source == own:
        assert ran == [own]
    else:
        assert (outcome.receipt.status, outcome.receipt.code, ran) == ("denied", "TOOL_NOT_ALLOWED", [])
        listed = source == "mcp"  # what clients are offered never holds it either, and that is said first
        assert outcome.action.decision.rule == ("allowlist.mcp.serve.tools" if listed else "tool.runtime")
        assert any("can only be called by" in reason for reason in outcome.action.decision.reasons)


@pytest.mark.parametrize("name", sorted(RUNTIME_TOOLS))
@pytest.mark.parametrize("source", SOURCES)
async def test_a_built_in_one_is_denied_everywhere_but_in_its_place(sample, name, source):
    home = sample(security__autonomy="full")
    args = {"sop": "x", "step": "y", "message": "z"}
    if name == "attachment_save":
        args = {"artifact_id": "art_x", "path": "attachments/x", "sha256": "0" * 64}
    if name == "file_show":
        args = {"path": "x"}
    if name == "quarantine_release":
        args = {"action": "act_1", "files": {".npmrc": "0" * 64}}
    if name == "settings_change":
        args = {"changes": [{"key": "default_model", "value": "x"}], "before": "0" * 64, "after": "1" * 64}
    decision = home.conveyor().intake.decide(ToolCall.of(name, args), Turn("turn_1", "", source))
    assert (decision.verdict == "deny") is (source not in home.app.tools[name].callers)


@pytest.mark.parametrize("own", sorted(RUNTIME))
async def test_a_model_in_a_conversation_cannot_call_it(house, own):
    home, ran = house(frozenset({own}))
    home.script({"tool_calls": [{"tool": "own", "args": {}}]}, {"text": "so be it"})
    await turn(home)
    assert ran == []
    assert [receipt.code for receipt in home.receipts()] == ["TOOL_NOT_ALLOWED"]


@pytest.mark.parametrize("own", sorted(RUNTIME))
async def test_a_job_that_lists_it_cannot_call_it(house, own):
    home, ran = house(frozenset({own}))
    limits = JobLimits(job_id="job_1", constraints=Constraints(allowed_tools=("own",)))
    for source in ("job", "schedule"):
        outcome = await home.call("own", key=source, turn=Turn("turn_1", "", source, job=limits))
        assert outcome.receipt.code == "TOOL_NOT_ALLOWED"
    assert ran == []


async def test_what_the_runtime_proposed_is_not_proposed_again_by_other_hands(house):
    home, ran = house(frozenset({"gateway"}), always_ask=True)
    home.owner.answer = msgspec.structs.replace(home.owner.answer, approved=None)
    outcome = await home.call("own", turn=Turn("turn_1", "", "gateway"))
    assert outcome.pending
    approvals = home.app.approvals(home.conveyor())
    await approvals.reject(outcome.action, reason="no")
    again = await approvals.repropose(load_action(home.app.db.reader, outcome.action.action_id))
    assert (again.status, again.decision.code, ran) == ("REJECTED", "TOOL_NOT_ALLOWED", [])


@pytest.mark.parametrize("source", sorted(set(SOURCES) - RUNTIME))
async def test_a_stored_row_that_claims_to_be_approved_is_not_carried_out(house, source):
    home, ran = house(ANYONE, always_ask=True)
    home.owner.answer = msgspec.structs.replace(home.owner.answer, approved=None)
    outcome = await home.call("own", turn=Turn("turn_1", "", source))
    approvals = home.app.approvals(home.conveyor())
    await approvals.approve(outcome.action, by="terminal", digest=outcome.action.digest)
    (row,) = list_actions(home.app.db.reader, None, 1)
    home.app.tools["own"].callers = frozenset({"gateway"})  # the digest is as it was: only the callers say no
    await home.conveyor().execute(row)
    assert (load_action(home.app.db.reader, row.action_id).status, ran) == ("REJECTED", [])


def test_the_gate_knows_none_of_them_by_name():
    for path in (SOURCE / "gate").glob("*.py"):
        words = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        assert not words & RUNTIME_TOOLS, path.name
