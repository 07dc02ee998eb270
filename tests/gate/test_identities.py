"""In whose name a call is made: required where a tool has identities, refused elsewhere, lifted out once."""

import json

import pytest

from coilclaw.gate.identities import lifted, shown_parameters
from coilclaw.gate.proposal import typed_call
from coilclaw.packets.action import ToolCall
from coilclaw.packets.chat import ProposedCall
from coilclaw.providers.structured import read_structured
from coilclaw.sandbox.fake_google import FakeGoogle
from tests.features.mail.accounts_harness import BOT, OWNER
from tests.features.mail.mail_harness import carry, connected


@pytest.fixture
def google():
    with FakeGoogle(OWNER, BOT) as fake:
        yield fake


@pytest.fixture
def home(tmp_path, google):
    made = connected(tmp_path, google)
    yield made
    made.close()


SNIPPET = {"message_id": "abc"}


async def test_missing_identity_is_denied_and_never_defaulted(home, google):
    outcome = await carry(home, "gmail_get_snippet", None, **SNIPPET)
    assert (outcome.result.code, outcome.receipt.status) == ("IDENTITY_REQUIRED", "denied")
    assert not google.requests


@pytest.mark.parametrize("named", ["root", "", None, 1, ["user"]])
async def test_unknown_identity_in_the_arguments_is_denied(home, google, named):
    outcome = await carry(home, "gmail_get_snippet", None, identity_=named, **SNIPPET)
    assert outcome.result.code == "IDENTITY_REQUIRED"
    assert "unknown field" not in outcome.result.output
    assert not google.requests


async def test_contradicting_identities_are_denied(home):
    outcome = await carry(home, "gmail_get_snippet", "user", identity_="bot", **SNIPPET)
    assert outcome.result.code == "IDENTITY_REQUIRED"


async def test_tool_without_identities_takes_none(home):
    in_envelope = await carry(home, "file_read", "user", path="AGENTS.md")
    in_arguments = await carry(home, "file_read", None, path="AGENTS.md", identity_="user")
    assert [each.result.code for each in (in_envelope, in_arguments)] == ["IDENTITY_FORBIDDEN"] * 2


def native(args):
    return typed_call(ProposedCall(call_id="1", tool="gmail_get_snippet", arguments=json.dumps(args)))


def structured(args):
    identity = args.pop("identity")
    action = {"tool": "gmail_get_snippet", "identity": identity, "args": args, "justification": ""}
    response = read_structured(json.dumps({"assistant_message": "x", "proposed_actions": [action]}))
    return typed_call(response.tool_calls[0])


async def test_both_encodings_become_the_same_call(home):
    tool = home.app.tools["gmail_get_snippet"]
    calls = [lifted(make({"identity": "bot", **SNIPPET}), tool) for make in (native, structured)]
    assert [call.identity for call in calls] == ["bot", "bot"]
    assert calls[0].args_bytes == calls[1].args_bytes == b'{"message_id":"abc"}'
    digests = {home.conveyor().intake.propose(call, home_turn(), f"k{n}").digest for n, call in enumerate(calls)}
    assert len(digests) == 1
    other = lifted(native({"identity": "user", **SNIPPET}), tool)
    assert home.conveyor().intake.propose(other, home_turn(), "k9").digest not in digests


def home_turn():
    from coilclaw.gate.turn import Turn

    return Turn("turn_1", "", "chat")


def test_models_are_shown_a_required_identity(home):
    shown = shown_parameters(home.app.tools["gmail_send_draft"])
    assert shown["properties"]["identity"]["enum"] == ["bot"]
    assert "identity" in shown["required"]
    assert "identity" not in shown_parameters(home.app.tools["file_read"])["properties"]


@pytest.mark.parametrize("autonomy", ["readonly", "supervised", "full"])
async def test_the_owners_own_account_never_sends(tmp_path, google, autonomy):
    home = connected(tmp_path, google, security__autonomy=autonomy)
    outcome = await carry(home, "gmail_send_draft", "user", draft_id="r-1")
    assert outcome.result.code == "USER_NEVER_SENDS"
    again = await home.app.approvals(home.conveyor()).repropose(outcome.action)
    assert (again.status, again.decision.code) == ("REJECTED", "USER_NEVER_SENDS")
    assert not home.owner.cards
    assert not google.requests
    home.close()


async def test_policy_files_match_an_identity(home, google):
    rule = {"id": "no-bot", "when": {"identity": "bot"}, "verdict": "deny", "reason": "not the bot"}
    (home.workspace / "policies" / "mail.json").write_text(json.dumps({"version": 1, "rules": [rule]}))
    assert (await carry(home, "gmail_search_threads", "bot", query="x")).result.code == "POLICY_RULE"
    assert (await carry(home, "gmail_search_threads", "user", query="x")).result.success


async def test_call_without_identity_in_a_stored_row_is_denied_too(home):
    call = ToolCall.of("gmail_send_draft", {"draft_id": "r-1"})
    assert home.conveyor().intake.decide(call, home_turn()).code == "IDENTITY_REQUIRED"
