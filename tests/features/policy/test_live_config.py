"""Running processes take a changed config.toml up by themselves: as a whole, or not at all."""

import asyncio
import json
import os

import msgspec
import pytest

from coilclaw.features.policy.feature import config_watch
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import ToolCall
from tests.home import Sample


@pytest.fixture
def home(tmp_path):
    made = Sample(tmp_path)
    yield made
    made.close()


def edit(home, old, new):
    """An edit by hand that came to its end a while ago."""
    file = home.home.config_file
    file.write_text(file.read_text().replace(old, new))
    settle(file)


def settle(file):
    found = file.stat()
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns - 10**9))


FULL = ('autonomy = "supervised"', 'autonomy = "full"')
HOST = ("# allowed_domains = []", 'allowed_domains = ["open.example"]')


async def test_the_next_decision_follows_the_new_file(home):
    conveyor = home.conveyor()
    call = ToolCall.of("file_write", {"path": "a.txt", "content": "x"})
    before = conveyor.intake.decide(call, Turn("t", "", "chat"))
    edit(home, *FULL)
    after = conveyor.intake.decide(call, Turn("t", "", "chat"))
    assert (before.verdict, after.verdict) == ("ask", "allow")
    assert before.policy_hash != after.policy_hash


async def test_hosts_tools_and_limits_are_those_of_the_new_file(home):
    conveyor = home.conveyor()
    transport = home.app.transport
    call = ToolCall.of("http", {"url": "https://open.example/"})
    assert conveyor.intake.decide(call, Turn("t", "", "cli")).code == "NOT_LISTED"
    edit(home, *HOST)
    edit(home, "[agent]", "[agent]\nshell_timeout_seconds = 7")
    edit(home, "[approvals]", "[approvals]\nttl_hours = 1")
    edit(home, '# tools_allow = ["*"]', 'tools_allow = ["http", "webhook_send"]')
    text = home.home.config_file.read_text()
    home.home.config_file.write_text(f'{text}\n[webhooks.door]\nurl = "https://door.example/x"\n')
    settle(home.home.config_file)
    assert conveyor.intake.decide(call, Turn("t", "", "cli")).verdict != "deny"
    assert home.app.transport is transport
    assert transport.listing is home.app.listing
    assert home.app.allowed_tools == {"http", "webhook_send"}
    assert conveyor.intake.ttl.total_seconds() == 3600
    assert conveyor.attempts._granter.limits.shell_seconds == 7
    sent = conveyor.intake.decide(ToolCall.of("webhook_send", {"target": "door"}), Turn("t", "", "cli"))
    assert sent.code == "LANE_B"


async def test_a_path_that_became_forbidden_is_denied(home):
    (home.workspace / "private").mkdir()
    conveyor = home.conveyor()
    call = ToolCall.of("file_list", {"path": "private"})
    assert conveyor.intake.decide(call, Turn("t", "", "chat")).verdict == "allow"
    edit(home, '"~/.ssh"]', '"~/.ssh", "private"]')
    assert conveyor.intake.decide(call, Turn("t", "", "chat")).code == "PATH_FORBIDDEN"


async def test_a_key_that_is_newly_named_is_redacted_everywhere(tmp_path):
    value = "a-value-no-shape-would-know-4711"
    home = Sample(tmp_path, environ={"MY_SEARCH_KEY": value})
    assert home.app.redact(value) == value
    edit(home, "[web_search]", '[web_search]\nkind = "brave"\napi_key_env = "MY_SEARCH_KEY"')
    home.app.live.refresh()
    assert value not in home.app.redact(f"it is {value}.")
    assert "MY_SEARCH_KEY" in home.app.keyring.names
    home.close()


LOCAL = '[security]\nallowed_domains = ["printer.local"]\n'


@pytest.mark.parametrize("text", ["autonomy = = ", "", LOCAL, '[security]\nautonomy = "bold"\n', None])
async def test_a_broken_empty_or_missing_file_leaves_the_old_one_in_force_and_says_so(home, text):
    edit(home, *FULL)
    before = home.app.policy()
    config = home.app.config
    if text is None:
        home.home.config_file.unlink()
    else:
        home.home.config_file.write_text(text)
        settle(home.home.config_file)
    assert home.app.policy() is before
    assert home.app.config is config
    assert home.app.live.fault
    assert any("stays as it was" in fields.get("message", "") for event, fields in home.events if event == "warning")
    from coilclaw.runtime.checkup import examine

    probe = next(each for each in examine(home.app, lambda: home.app.db.reader, short=True) if each.name == "home")
    assert probe.state == "warn"
    assert "not in force" in probe.detail


async def test_once_it_holds_again_it_is_in_force(home):
    edit(home, 'autonomy = "supervised"', 'autonomy = "bold"')
    home.app.policy()
    edit(home, 'autonomy = "bold"', 'autonomy = "full"')
    assert home.app.policy().autonomy == "full"
    assert home.app.live.fault == ""


async def test_what_cannot_change_keeps_its_value_and_is_reported(home):
    database = home.app.config.memory.path
    edit(home, '# path = "memory.sqlite"', 'path = "other.sqlite"')
    edit(home, '# http_addr = "127.0.0.1:8377"', 'http_addr = "127.0.0.1:9000"')
    edit(home, *FULL)
    assert home.app.policy().autonomy == "full"
    assert home.app.config.memory.path == database
    assert home.app.config.server.http_addr == "127.0.0.1:8377"
    (fields,) = [fields for event, fields in home.events if event == "config_changed"]
    assert fields == {"keys": ["security.autonomy"], "needs_restart": ["memory.path", "server.http_addr"]}


async def test_what_a_process_was_told_at_its_start_is_not_a_change_of_the_file(home):
    server = msgspec.structs.replace(home.app.config.server, http_addr="127.0.0.1:9999")
    home.app.config = msgspec.structs.replace(home.app.config, server=server)
    edit(home, *FULL)
    home.app.policy()
    (fields,) = [fields for event, fields in home.events if event == "config_changed"]
    assert fields == {"keys": ["security.autonomy"]}
    assert home.app.config.server.http_addr == "127.0.0.1:9999"


async def test_a_file_touched_just_now_is_looked_at_a_moment_later(home):
    """Some editors empty a file before they write it."""
    home.home.config_file.write_text(home.home.config_file.read_text().replace(*FULL))
    os.utime(home.home.config_file)
    assert home.app.policy().autonomy == "supervised"
    settle(home.home.config_file)
    assert home.app.policy().autonomy == "full"


async def test_rules_that_change_between_decision_and_claim_void_the_decision(tmp_path):
    home = Sample(tmp_path, security__autonomy="full")
    home.app.reached = lambda here: edit(home, *HOST) if here == "decided" else None
    denied = await home.call("file_write", path="a.txt", content="x")
    assert denied.result.code == "RULES_CHANGED"
    assert not (home.workspace / "a.txt").exists()
    home.close()


async def test_every_process_notices_and_one_tells_the_audit(tmp_path):
    one, two = Sample(tmp_path), Sample(tmp_path)
    watches = [config_watch(each.app) for each in (one, two)]
    for watch in watches:
        await watch.run()
    edit(one, *FULL)
    told = await asyncio.gather(*(watch.run() for watch in watches))
    assert sorted(told) == [0, 1]
    assert {each.app.config.security.autonomy for each in (one, two)} == {"full"}
    rows = one.app.db.reader.execute("SELECT payload_json FROM audit_log WHERE event_type = 'config_changed'")
    (payload,) = [json.loads(row[0]) for row in rows]
    assert set(payload) == {"before", "after", "policy_hash"}
    assert [await watch.run() for watch in watches] == [0, 0]
    one.close()
    two.close()
