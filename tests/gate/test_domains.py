"""A command that asks for domains: judged by the airlock, asked about in every autonomy, untrusted afterwards."""

import json

import pytest

from coilclaw.gate.turn import Turn
from coilclaw.packets.card import Answer
from tests.airlock.airlock_harness import answer, serving

LISTED = ("files.example.org", "http://localhost:8080")


async def test_a_command_that_asks_for_domains_always_asks_and_is_reported_on_the_card(sample):
    home = sample(security__autonomy="full", security__allowed_domains=LISTED)
    turn = Turn("t", "", "cli")
    outcome = await home.call("shell", turn, command="ls", domains=["files.example.org", "http://localhost:8080"])
    (card,) = home.owner.cards
    assert card.lane == "B"
    assert "in a box that may reach files.example.org, http://localhost:8080." in card.preview_or_diff
    assert "files.example.org" in card.human_summary
    (spec,) = home.box.specs
    assert spec.domains == ("files.example.org", "http://localhost:8080")
    assert outcome.result.success
    assert turn.taint == ("untrusted:files.example.org", "untrusted:localhost")


async def test_without_domains_a_command_stays_as_it_was(sample):
    home = sample(security__autonomy="full", security__allowed_domains=LISTED)
    turn = Turn("t", "", "cli")
    await home.call("shell", turn, command="ls")
    assert home.owner.cards == []
    assert home.box.specs[0].domains == ()
    assert not turn.taint


@pytest.mark.parametrize(
    ("domains", "code"),
    [
        (["evil.example"], "NOT_LISTED"),
        (["files.example.org", "evil.example"], "NOT_LISTED"),
        (["http://files.example.org"], "NOT_LISTED"),
        (["https://files.example.org:8443"], "NOT_LISTED"),
        (["localhost"], "NOT_LISTED"),
        (["2130706433"], "IP_SPELLING"),
        (["files.example.org."], "TRAILING_DOT"),
        (["files.example.org:443"], "ARGS_INVALID"),
        (["https://files.example.org/x"], "ARGS_INVALID"),
        (["*.example.org"], "ARGS_INVALID"),
        (["u@files.example.org"], "ARGS_INVALID"),
        (["files.example.org\n"], "CONTROL"),
        ([""], "ARGS_INVALID"),
        (["a.example.org"] * 9, "ARGS_INVALID"),
        ("files.example.org", "ARGS_INVALID"),
    ],
)
async def test_domains_the_owner_did_not_list_are_denied_before_anybody_is_asked(sample, domains, code):
    home = sample(security__autonomy="full", security__allowed_domains=LISTED)
    outcome = await home.call("shell", command="ls", domains=domains)
    assert outcome.result.code == code
    assert home.owner.cards == []
    assert home.box.specs == []


async def test_nothing_is_reached_in_a_turn_that_took_in_untrusted_content(sample):
    home = sample(security__autonomy="full", security__allowed_domains=LISTED)
    turn = Turn("t", "", "cli")
    first = await home.call("shell", turn, command="ls", domains=["files.example.org"])
    again = await home.call("shell", turn, "again", command="ls", domains=["files.example.org"])
    assert first.result.success
    assert again.result.code == "POLICY_BLOCKED_UNTRUSTED_TURN"
    assert len(home.box.specs) == 1


@pytest.mark.parametrize(("autonomy", "command"), [("readonly", "ls"), ("supervised", "frobnicate")])
async def test_asking_for_domains_opens_no_way_around_the_autonomy(sample, autonomy, command):
    home = sample(security__autonomy=autonomy, security__allowed_domains=LISTED)
    outcome = await home.call("shell", command=command, domains=["files.example.org"])
    assert not outcome.result.success
    assert home.owner.cards == []
    assert home.box.specs == []


async def test_a_policy_rule_about_a_domain_holds_for_commands_too(sample):
    home = sample(security__autonomy="full", security__allowed_domains=("a.example.org", "b.example.org"))
    rule = {"id": "no-b", "verdict": "deny", "when": {"domain": "b.example.org"}, "reason": "Not there."}
    (home.workspace / "policies").mkdir(exist_ok=True)
    (home.workspace / "policies" / "p.json").write_text(json.dumps({"version": 1, "rules": [rule]}))
    refused = await home.call("shell", command="ls", domains=["a.example.org", "b.example.org"])
    assert refused.result.code == "POLICY_RULE"
    assert (await home.call("shell", key="2", command="ls", domains=["a.example.org"])).result.success


@pytest.mark.slow
async def test_an_approved_command_reaches_its_domain_through_everything_that_is_real(sample):
    async with serving(answer(b"from outside")) as server:
        place = server.url("", "localhost")
        home = sample(security__autonomy="full", security__allowed_domains=(place,))
        del home.app.open_box
        script = f"import urllib.request; print(urllib.request.urlopen('{place}/x').read())"
        command = f'/usr/bin/python3 -c "{script}"'
        reached = await home.call("shell", command=command, domains=[place])
        alone = await home.call("shell", key="2", command=command)
    assert "from outside" in reached.result.output
    assert not alone.result.success
    assert len(server.requests) == 1
    (line,) = (home.home.logs_dir / "airlock.jsonl").read_text().splitlines()
    assert (json.loads(line)["principal"], json.loads(line)["code"]) == ("box", "OK")


@pytest.mark.parametrize("domains", [[], ["files.example.org"]])
async def test_package_managers_are_told_when_there_is_no_network(sample, domains):
    home = sample(security__autonomy="full", security__allowed_domains=LISTED)
    home.owner.answer = Answer(approved=True)
    await home.call("shell", command="npm ci", domains=domains)
    (spec,) = home.box.specs
    assert (("npm_config_offline", "true") in spec.environment) is (not domains)
