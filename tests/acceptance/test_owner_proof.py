"""At a real terminal: what the owner can still do there once a passkey is registered, and the way back without it."""

import json
import sqlite3
from pathlib import Path

import pytest

from coilclaw.cli.terminal import NEEDS_PASSKEY
from coilclaw.gate.proof import PANEL_ONLY
from coilclaw.sandbox.fake_openai import FakeOpenAI
from tests.acceptance.conftest import HomeAt, one_sentence
from tests.conftest import TestClock
from tests.soft_passkey import SoftPasskey

pytestmark = pytest.mark.slow

SYSTEM = {"path": "SYSTEM.md", "content": "Obey."}


def register(home: HomeAt, name: str = "phone") -> str:
    """A passkey in the home's database."""
    row = SoftPasskey().row(TestClock(), name=name)
    connection = sqlite3.connect(home.root / "memory.sqlite")
    connection.execute("INSERT OR IGNORE INTO users VALUES ('owner', '', 'x')")
    connection.execute(
        "INSERT INTO passkeys (credential_id, user_id, name, public_key, sign_count, rp_id, created_at)"
        " VALUES (?, 'owner', ?, ?, 0, 'localhost', ?)",
        (row.credential_id, row.name, row.public_key, row.created_at),
    )
    connection.commit()
    connection.close()
    return row.credential_id


def propose(home: HomeAt) -> str:
    """An action of lane C that waits."""
    assert home.tool("file_write", SYSTEM).rc == 4
    ((action_id,),) = home.rows("SELECT action_id FROM proposed_actions WHERE status = 'PENDING'")
    return str(action_id)


def untouched(home: HomeAt) -> bool:
    return (home.workspace / "SYSTEM.md").read_text() != "Obey."


def test_what_needs_the_passkey_is_shown_at_the_terminal_and_not_asked_there(home: HomeAt) -> None:
    register(home)
    ran = home.sit("tool", "run", "file_write", "--json", json.dumps(SYSTEM)).end()
    assert ran.rc == 4, ran
    assert "Approve?" not in ran.out
    assert "a yes here" not in ran.out
    assert "Write 5 bytes to SYSTEM.md" in ran.out  # the card is shown all the same
    assert "waiting for your passkey in the panel" in ran.out
    assert home.rows("SELECT status FROM proposed_actions") == [("PENDING",)]
    assert untouched(home)
    ((action_id,),) = home.rows("SELECT action_id FROM proposed_actions")
    assert f"coilclaw approvals reject {action_id}" in ran.out
    home.ok("approvals", "reject", str(action_id))


def test_setting_up_again_waits_for_the_passkey_like_any_change_of_settings(home: HomeAt) -> None:
    home.configure("")
    (home.root / "config.toml").unlink()
    home.ok("init")
    register(home)
    before = (home.root / "config.toml").read_bytes()
    full = ("onboard", "--no-test", "--provider", "mock", "--autonomy", "full")
    for ran in (home.run(*full, "--non-interactive"), home.sit(*full).end()):
        assert ran.rc == 4, ran
        assert "waits for your passkey in the panel" in ran.out + ran.err
        assert (home.root / "config.toml").read_bytes() == before
    assert {tool for (tool,) in home.rows("SELECT tool FROM proposed_actions")} == {"settings_change"}


def test_setting_up_again_shows_the_difference_and_asks(home: HomeAt) -> None:
    full = ("onboard", "--no-test", "--provider", "mock", "--autonomy", "full")
    no = home.sit(*full).wait_for("Approve?").type("n\r").end()
    assert no.rc == 4, no
    assert 'autonomy = "full"' not in (home.root / "config.toml").read_text()
    yes = home.sit(*full).wait_for("Approve?").type("y\r").end()
    assert yes.rc == 0, yes
    assert '+ autonomy = "full"' in yes.out or '+autonomy = "full"' in yes.out
    assert 'autonomy = "full"' in (home.root / "config.toml").read_text()


def test_the_built_in_mock_says_where_it_is_approved(home: HomeAt) -> None:
    register(home)
    ran = home.sit("agent", "-m", "write be nice to SYSTEM.md").end()
    assert "Approve?" not in ran.out
    assert "file_write waits for your passkey in the panel; nothing is done before that." in ran.out
    assert "say yes" not in ran.out


def test_the_terminal_knows_the_reason_that_the_gate_gives() -> None:
    assert PANEL_ONLY.startswith(NEEDS_PASSKEY)


def test_the_way_out_of_estop_is_the_one_that_holds(home: HomeAt) -> None:
    both = "Clear it in the panel with your passkey, or with `coilclaw estop --clear` while there is none."
    waiting = propose(home)
    assert home.ok("estop").out.endswith("Clear it with `coilclaw estop --clear`.\n")
    assert "Clear it with `coilclaw estop --clear`." in home.ok("init").err
    register(home)
    for told in (home.ok("estop").out, home.ok("init").err, home.sit("approvals", "approve", waiting).end().out):
        assert "Clear it in the panel, with your passkey." in told
        assert "estop --clear" not in told
    denied = home.sit("policy", "check", "--json", json.dumps({"tool": "time", "args": {}})).end().out
    assert both in denied
    home.configure("no toml [")
    stopped = home.ok("estop")  # it stops whatever the configuration says, and then cannot know
    assert stopped.out.endswith(f"{both}\n")


def test_yes_for_everything_is_not_proof(home: HomeAt) -> None:
    ran = home.tool("file_write", SYSTEM, "--yes")
    assert ran.rc == 4, ran
    register(home)
    assert home.tool("file_write", {**SYSTEM, "content": "Obey"}, "--yes").rc == 4
    assert untouched(home)


def test_the_terminal_cannot_approve_what_needs_the_passkey(home: HomeAt) -> None:
    action_id = propose(home)
    register(home)
    ran = home.sit("approvals", "approve", action_id).end()
    assert ran.rc == 4, ran
    assert "Approve it in the panel with your passkey" in ran.out
    assert home.rows("SELECT status FROM proposed_actions") == [("PENDING",)]
    home.ok("approvals", "reject", action_id)
    assert untouched(home)


def test_what_is_not_the_owners_own_is_still_approved_at_the_terminal(home: HomeAt) -> None:
    register(home)
    assert home.tool("file_write", {"path": "a.txt", "content": "x"}).rc == 4
    ((action_id,),) = home.rows("SELECT action_id FROM proposed_actions")
    sitting = home.sit("approvals", "approve", action_id)
    sitting.wait_for("Approve? [y").type("y\r")
    assert sitting.end().rc == 0
    assert (home.workspace / "a.txt").read_text() == "x"


def test_estop_is_cleared_at_the_terminal_only_while_there_is_no_passkey(home: HomeAt) -> None:
    home.ok("estop")
    sitting = home.sit("estop", "--clear")
    sitting.wait_for("Clear ESTOP").type("y\r")
    assert sitting.end().rc == 0
    home.ok("estop")
    register(home)
    ran = home.sit("estop", "--clear").end()
    assert ran.rc == 4, ran
    assert "in the panel with your passkey" in ran.out
    assert home.run("estop", "--status").rc == 5


def test_a_lost_passkey_is_removed_at_the_terminal_and_the_terminal_counts_again(home: HomeAt) -> None:
    action_id = propose(home)
    passkey = register(home, "lost phone")
    (told,) = home.ok("passkeys", "list", "--json").json()
    assert (told["passkey_id"], told["name"], told["usable"]) == (passkey, "lost phone", True)
    one_sentence(home.run("passkeys", "remove", passkey), 2, "interactive terminal")
    wrong = home.sit("passkeys", "remove", passkey)
    wrong.wait_for("last 6 characters").type("nope\r")
    assert wrong.end().rc == 2
    right = home.sit("passkeys", "remove", passkey[:12])
    right.wait_for("lost phone").wait_for("last 6 characters").type(f"{passkey[-6:]}\r")
    ran = right.end()
    assert ran.rc == 0, ran
    assert "proves the owner again" in ran.out
    ((told,),) = home.rows("SELECT payload_json FROM audit_log WHERE event_type = 'passkey_removed'")
    assert json.loads(told) == {"by": "terminal", "left": 0}
    sitting = home.sit("approvals", "approve", action_id)
    sitting.wait_for("Approve? [y").type("y\r")
    assert sitting.end().rc == 0
    assert not untouched(home)


def test_an_id_may_begin_with_a_dash(home: HomeAt) -> None:
    for command in ("remove", "clear"):
        one_sentence(home.run("passkeys", command, "-sh-x"), 2, "interactive terminal")
        assert home.ok("passkeys", command, "--help").out.startswith("Usage:")
    one_sentence(home.run("passkeys", "remove", "-sh-x", "--sign-out"), 2, "interactive terminal")


def pair(home: HomeAt, passkey: str, name: str) -> str:
    """A paired device that registered the passkey."""
    connection = sqlite3.connect(home.root / "memory.sqlite")
    connection.execute(
        "INSERT INTO devices (device_id, user_id, name, created_at, paired_by) VALUES (?, 'owner', ?, 'x', 'terminal')",
        (f"dev_{name}", name),
    )
    connection.execute("UPDATE passkeys SET device_id = ? WHERE credential_id = ?", (f"dev_{name}", passkey))
    connection.commit()
    connection.close()
    return f"dev_{name}"


@pytest.mark.parametrize("answer", ["y", "n", "--sign-out"])
def test_removing_a_passkey_offers_to_sign_out_the_devices_that_used_it(home: HomeAt, answer: str) -> None:
    passkey = register(home)
    device = pair(home, passkey, "tablet")
    at_once = answer == "--sign-out"
    sitting = home.sit("passkeys", "remove", *([answer] if at_once else []), "--", passkey)
    sitting.wait_for("last 6 characters").type(f"{passkey[-6:]}\r")
    if not at_once:
        sitting.wait_for("Sign out the devices that used it ('tablet')?").type(f"{answer}\r")
    assert sitting.end().rc == 0
    ((revoked,),) = home.rows("SELECT revoked_at IS NOT NULL FROM devices WHERE device_id = ?", device)
    assert bool(revoked) == (answer != "n")
    told = home.rows("SELECT payload_json FROM audit_log WHERE event_type = 'device_revoked'")
    assert [json.loads(row[0])["why"] for row in told] == ([] if answer == "n" else ["passkey_removed"])


def test_suspended_passkey_is_cleared_at_the_terminal_and_only_that(home: HomeAt) -> None:
    passkey = register(home, "copied phone")
    one_sentence(home.run("passkeys", "clear", passkey), 2, "interactive terminal")
    connection = sqlite3.connect(home.root / "memory.sqlite")
    connection.execute("UPDATE passkeys SET suspended_at = '2026-11-16T00:00:00Z', sign_count = 9")
    connection.commit()
    connection.close()
    (told,) = home.ok("passkeys", "list", "--json").json()
    assert (told["usable"], told["suspended_at"]) == (False, "2026-11-16T00:00:00Z")
    assert "SUSPENDED" in home.ok("passkeys", "list").out
    home.ok("estop")
    assert home.sit("estop", "--clear").end().rc == 4  # the terminal is no owner proof for anything else
    wrong = home.sit("passkeys", "clear", passkey)
    wrong.wait_for("last 6 characters").type("nope\r")
    assert wrong.end().rc == 2
    right = home.sit("passkeys", "clear", passkey[:12])
    right.wait_for("copied phone").wait_for("last 6 characters").type(f"{passkey[-6:]}\r")
    assert right.end().rc == 0
    assert home.rows("SELECT suspended_at, sign_count FROM passkeys") == [(None, 0)]
    ((told,),) = home.rows("SELECT payload_json FROM audit_log WHERE event_type = 'passkey_cleared'")
    assert json.loads(told) == {"by": "terminal"}


def test_there_is_nothing_to_remove_where_nothing_is_registered(home: HomeAt) -> None:
    assert "No passkey" in home.ok("passkeys", "list").err
    ran = home.sit("passkeys", "remove", "abc").end()
    assert ran.rc == 2
    assert "is not a passkey" in ran.out


# Stored secrets

SECRET = "sk-stored-7f3a9c1e5b"


def test_a_stored_key_works_without_a_variable_and_is_nowhere_to_be_read(home: HomeAt) -> None:
    with FakeOpenAI(api_key=SECRET) as server:
        home.provider(server.base_url, 'api_key_env = "FAR_API_KEY"\n')
        assert home.run("agent", "-m", "hello").rc == 1
        ran = home.ok("secret", "set", "FAR_API_KEY", stdin=f"{SECRET}\n")
        assert SECRET not in ran.out + ran.err
        said = home.ok("agent", "-m", f"my key is {SECRET}")
        assert SECRET not in said.out + said.err
        assert home.run("agent", "-m", "hello", env={"FAR_API_KEY": "sk-another-from-the-environment"}).rc == 1
    assert "[redacted:FAR_API_KEY]" in str(home.messages())
    kept = [path for path in home.root.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert kept == []


def test_a_secret_is_typed_unseen_listed_by_name_and_removed(home: HomeAt) -> None:
    sitting = home.sit("secret", "set", "FAR_API_KEY")
    sitting.wait_for("Value of FAR_API_KEY").type(f"{SECRET}\r")
    ran = sitting.end()
    assert (ran.rc, SECRET in ran.out) == (0, False)
    (told,) = home.ok("secret", "list", "--json").json()
    assert sorted(told) == ["created_at", "name", "updated_at"]
    home.ok("keys", "rotate")
    home.ok("secret", "remove", "FAR_API_KEY")
    assert home.ok("secret", "list", "--json").json() == []
    one_sentence(home.run("secret", "remove", "FAR_API_KEY"), 2, "stored")


def test_a_value_as_an_argument_is_not_taken(home: HomeAt) -> None:
    ran = home.run("secret", "set", "FAR_API_KEY", SECRET)
    assert ran.rc == 2
    assert home.ok("secret", "list", "--json").json() == []


@pytest.mark.parametrize(("name", "value"), [("lower", "x" * 9), ("FAR_API_KEY", ""), ("FAR_API_KEY", "a\nb\n")])
def test_what_cannot_be_a_secret_is_reported(home: HomeAt, name: str, value: str) -> None:
    one_sentence(home.run("secret", "set", name, stdin=value), 2)


def test_a_key_that_is_gone_is_reported_in_one_sentence(home: HomeAt) -> None:
    home.provider("http://localhost:9", 'api_key_env = "FAR_API_KEY"\n')
    home.ok("secret", "set", "FAR_API_KEY", stdin=SECRET)
    Path(home.root / "keys" / "encryption.key").unlink()
    one_sentence(home.run("agent", "-m", "hello"), 7, "encrypted with the key")
    one_sentence(home.run("keys", "rotate"), 7, "encrypted with the key")
