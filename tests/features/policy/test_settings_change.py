"""Settings through the gate: what is proposed, what a yes binds, and what happens when the file moves meanwhile."""

import asyncio
import json
import signal
import stat

import pytest

from coilclaw.cli.card_text import describe
from coilclaw.gate.turn import Turn
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import ProofNeeded, UsageError
from coilclaw.packets.settings import SettingChange
from coilclaw.runtime.settings import NothingChanges, notes, proposal
from coilclaw.store.actions import load_action
from tests import forked
from tests.home import Owner, Sample

SECRET = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3


def change(key, value=None, op="set"):
    return SettingChange(key=key, op=op, value=value)


async def propose(home, *changes, source="gateway"):
    """Propose changes with nobody to ask; the action as it waits."""
    home.owner = Owner(approved=None)
    call = proposal(home.app, changes)
    conveyor, turn = home.conveyor(), Turn("turn_set", "", source)
    action = conveyor.intake.propose(call, turn, f"key-{len(home.events)}")
    return await conveyor.carry(action, turn, stored=False)


def text_of(home):
    return home.home.config_file.read_text()


@pytest.fixture
def home(tmp_path):
    made = Sample(tmp_path)
    yield made
    made.close()


def events_of(home, name="config_changed"):
    rows = home.app.db.reader.execute("SELECT payload_json FROM audit_log WHERE event_type = ?", (name,))
    return [json.loads(row[0]) for row in rows]


async def test_a_yes_writes_exactly_the_difference_on_the_card(home):
    before = text_of(home)
    waiting = await propose(home, change("security.autonomy", "full"))
    assert waiting.pending
    assert waiting.action.decision.lane == "C"
    card = home.conveyor().intake.card(waiting.action)
    assert '-autonomy = "supervised"' in card.preview_or_diff
    assert '+autonomy = "full"' in card.preview_or_diff
    assert card.target_entity == "config.toml"
    assert text_of(home) == before
    done = await home.approve(waiting.action.action_id)
    assert done.receipt.status == "allowed"
    assert text_of(home) == before.replace('autonomy = "supervised"', 'autonomy = "full"')
    assert stat.S_IMODE(home.home.config_file.stat().st_mode) == 0o600
    assert home.app.policy().autonomy == "full"


async def test_a_card_shows_the_lines_that_change_and_nothing_twice(home):
    waiting = await propose(home, change("security.autonomy", "full"))
    shown = describe(home.conveyor().intake.card(waiting.action)).splitlines()
    assert shown[1] == 'Tool request: Change settings: security.autonomy = "full".'
    assert [line[:4] for line in shown[2:]] == ["  │ "] * 7 + ["  re", "  ri"]
    assert [line for line in shown if line.startswith(("  │ -", "  │ +"))] == [
        "  │ --- config.toml", "  │ +++ config.toml", '  │ -autonomy = "supervised"', '  │ +autonomy = "full"',
    ]  # fmt: skip


async def test_a_value_that_is_a_table_is_written_as_it_was_shown(home):
    routes = {"route": "local", "chat": "local"}  # an action keeps its arguments in another order
    made = [change("providers.models.r.kind", "router"), change("providers.models.r.default", "local")]
    waiting = await propose(home, *made, change("providers.models.r.routes", routes))
    done = await home.approve(waiting.action.action_id)
    assert done.receipt.status == "allowed", done.result
    assert 'routes = {chat = "local", route = "local"}' in text_of(home).replace("{ ", "{").replace(" }", "}")


async def test_the_audit_has_the_hashes_and_no_value(home):
    before = sha256_hex(home.home.config_file.read_bytes())
    waiting = await propose(home, change("default_model", "special-model"))
    await home.approve(waiting.action.action_id)
    (payload,) = events_of(home)
    assert (payload["before"], payload["after"]) == (before, sha256_hex(home.home.config_file.read_bytes()))
    assert "special-model" not in json.dumps(payload)


async def test_a_file_edited_by_hand_meanwhile_makes_the_yes_void(home):
    waiting = await propose(home, change("security.autonomy", "full"))
    home.home.config_file.write_text(text_of(home) + "\n# by hand\n")
    by_hand = text_of(home)
    assert "It would change nothing" in home.conveyor().intake.card(waiting.action).preview_or_diff
    done = await home.approve(waiting.action.action_id)
    assert (done.receipt.status, done.result.code) == ("failed", "CONFIG_CHANGED")
    assert "make the change again" in done.result.output
    assert text_of(home) == by_hand


async def test_of_two_editors_the_second_must_look_again(home):
    one = await propose(home, change("security.autonomy", "full"))
    two = await propose(home, change("budgets.daily_tokens", 5))
    ends = await asyncio.gather(*(home.approve(each.action.action_id) for each in (one, two)))
    assert sorted(end.result.code for end in ends) == ["", "CONFIG_CHANGED"]
    assert ('autonomy = "full"' in text_of(home)) != ("daily_tokens = 5" in text_of(home).replace("# d", ""))


DIES = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.home import Sample

home = Sample(Path(sys.argv[1]))
home.app.reached = lambda here: os.kill(os.getpid(), signal.SIGKILL) if here == sys.argv[3] else None
asyncio.run(home.approve(sys.argv[2]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("point", ["config_checked", "config_written"])
async def test_killed_around_the_write_it_is_done_once_and_said_so(tmp_path, point):
    home = Sample(tmp_path)
    waiting = await propose(home, change("security.autonomy", "full"))
    done = forked.script(DIES, str(tmp_path), waiting.action.action_id, point)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert ('autonomy = "full"' in text_of(home)) == (point == "config_written")
    conveyor = home.conveyor()
    await conveyor.recover()
    end = await conveyor.execute(load_action(home.app.db.reader, waiting.action.action_id))
    assert end.receipt.status == "allowed"
    assert home.statuses() == ["EXECUTED"]
    assert 'autonomy = "full"' in text_of(home)
    assert [path.name for path in home.home.root.glob(".config.toml*")] == []
    assert len(events_of(home)) == 1
    home.close()


@pytest.mark.parametrize(("changes", "why"), [
    ([change("security.autonomy", "bold")], "needs one of"),
    ([change("default_provider", "nobody")], 'no provider "nobody"'),
    ([change("providers.models.own.kind", "openai-compatible")], "base_url"),
    ([change("security.audit_log", False)], "cannot be switched off"),
    ([change("no.such", 1)], "no setting"),
    ([change("security.allowed_domains", "printer.local", "add")], "listed one by one"),
    ([change("server.http_addr", "0.0.0.0:80")], "TLS|loopback|tls"),
])  # fmt: skip
async def test_what_would_break_the_file_is_refused_and_nothing_is_proposed(home, changes, why):
    before = text_of(home)
    with pytest.raises(UsageError, match=why):
        proposal(home.app, tuple(changes))
    assert home.statuses() == []
    assert text_of(home) == before


async def test_keys_that_belong_together_change_together(home):
    model = {"kind": "openai-compatible", "base_url": "http://localhost:1234/v1", "model": "m"}
    wanted = [change(f"providers.models.own.{key}", value) for key, value in model.items()]
    waiting = await propose(home, *wanted, change("default_provider", "own"))
    assert (await home.approve(waiting.action.action_id)).receipt.status == "allowed"
    assert home.app.config.default_provider == "own"
    assert home.app.provider().name == "own"


async def test_the_same_again_is_not_a_change(home):
    with pytest.raises(NothingChanges):
        proposal(home.app, (change("security.autonomy", "supervised"),))


@pytest.mark.parametrize("key", ["providers.models.local.model", "web_search.api_key_env", "default_model"])
async def test_a_secret_is_refused_and_kept_nowhere(home, key):
    with pytest.raises(UsageError) as refused:
        proposal(home.app, (change(key, SECRET),))
    assert "coilclaw secret set" in str(refused.value)
    assert SECRET not in str(refused.value)
    assert home.statuses() == []


async def test_an_address_with_a_password_is_refused(home):
    with pytest.raises(UsageError, match="looks like a secret"):
        proposal(home.app, (change("web_search.base_url", "https://me:word@search.example"),))


async def test_what_the_environment_overrides_is_reported_and_checked_all_the_same(tmp_path):
    home = Sample(tmp_path, environ={"COILCLAW_SECURITY_AUTONOMY": "readonly"})
    wanted = (change("security.autonomy", "full"),)
    proposal(home.app, wanted)
    assert "COILCLAW_SECURITY_AUTONOMY" in notes(home.app, wanted)[0]
    with pytest.raises(UsageError, match="needs one of"):
        proposal(home.app, (change("security.autonomy", "bold"),))
    home.close()


async def test_what_needs_a_restart_is_reported(home):
    wanted = (change("server.http_addr", "127.0.0.1:9000"),)
    assert notes(home.app, wanted) == ["Takes effect at the next start: server.http_addr."]


@pytest.mark.parametrize("autonomy", ["readonly", "supervised", "full"])
async def test_the_owner_is_asked_in_every_autonomy(tmp_path, autonomy):
    home = Sample(tmp_path, security__autonomy=autonomy)
    waiting = await propose(home, change("budgets.daily_tokens", 5))
    assert (waiting.action.decision.verdict, waiting.action.decision.lane) == ("ask", "C")
    home.close()


@pytest.mark.parametrize("source", ["chat", "job", "schedule", "session", "cli", "sop"])
@pytest.mark.parametrize("autonomy", ["readonly", "supervised", "full"])
async def test_no_model_can_change_a_setting(tmp_path, autonomy, source):
    home = Sample(tmp_path, security__autonomy=autonomy)
    denied = await propose(home, change("security.autonomy", "full"), source=source)
    assert (denied.receipt.status, denied.result.code) == ("denied", "TOOL_NOT_ALLOWED")
    assert "settings_change" not in home.app.allowed_tools
    home.close()


async def test_a_stop_keeps_settings_as_they_are(home):
    home.home.estop_file.touch()
    denied = await propose(home, change("security.autonomy", "full"))
    assert denied.result.code == "ESTOP"


async def test_a_yes_with_no_proof_is_not_enough(home):
    waiting = await propose(home, change("security.autonomy", "full"))
    for by in ("--yes", "device:dev_1"):
        with pytest.raises(ProofNeeded):
            await home.approve(waiting.action.action_id, by=by)
    assert home.statuses() == ["PENDING"]


async def test_a_linked_file_stays_a_link(home, tmp_path):
    real = tmp_path / "dotfiles.toml"
    home.home.config_file.rename(real)
    home.home.config_file.symlink_to(real)
    home.app.live.refresh(at_once=True)
    waiting = await propose(home, change("security.autonomy", "full"))
    await home.approve(waiting.action.action_id)
    assert home.home.config_file.is_symlink()
    assert 'autonomy = "full"' in real.read_text()
