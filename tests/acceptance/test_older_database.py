"""An older copy of the database is put back while the log and the signed mark went on: nothing is done twice."""

import json
import shutil
import sqlite3
from typing import Any

import pytest

from coilclaw.packets.ids import utc_now
from coilclaw.store.devices import add_device, add_token
from tests.acceptance.conftest import HomeAt

pytestmark = pytest.mark.slow


def keep(home: HomeAt, name: str = "kept") -> None:
    """A copy of the database as it is now."""
    with sqlite3.connect(home.root / "memory.sqlite") as source, sqlite3.connect(home.base / name) as copy:
        source.backup(copy)
    copy.close()
    source.close()


def put_back(home: HomeAt, name: str = "kept") -> None:
    for file in home.root.glob("memory.sqlite*"):
        file.unlink()
    shutil.copyfile(home.base / name, home.root / "memory.sqlite")


def propose(home: HomeAt) -> str:
    """An action that waits for the owner; its id."""
    home.run("agent", "-m", "write", env=home.calling("file_write", {"path": "a.txt", "content": "once\n"}))
    return str(home.rows("SELECT action_id FROM proposed_actions")[0][0])


def last_event(home: HomeAt) -> dict[str, Any]:
    (row,) = home.rows(
        "SELECT payload_json FROM audit_log WHERE event_type = 'database_older' ORDER BY seq DESC LIMIT 1"
    )
    return json.loads(row[0])


def test_what_was_done_since_is_not_done_again(home: HomeAt) -> None:
    action = propose(home)
    keep(home)
    home.sit("approvals", "approve", action).wait_for("Approve? [y").type("y\r").end()
    assert (home.workspace / "a.txt").read_text() == "once\n"
    (home.workspace / "a.txt").unlink()
    put_back(home)
    told = home.run("worker", "--once")
    assert "older copy" in told.err
    assert "signed out" in told.err
    assert (home.root / "ESTOP").exists()
    assert home.rows("SELECT status FROM proposed_actions") == [("UNKNOWN",)]
    assert last_event(home)["unknown"] == [action]
    assert home.run("approvals", "approve", action).rc != 0
    assert home.run("receipt", "verify").rc == 6
    assert not (home.workspace / "a.txt").exists()


def test_the_owner_is_told_once_and_can_continue(home: HomeAt) -> None:
    action = propose(home)
    keep(home)
    home.ok("approvals", "reject", action)
    put_back(home)
    assert "older copy" in home.run("worker", "--once").err
    assert home.rows("SELECT status FROM proposed_actions") == [("PENDING",)]
    assert home.sit("estop", "--clear").wait_for("[y/N]").type("y\r").end().rc == 0
    again = home.ok("worker", "--once")
    assert "older copy" not in again.err
    assert not (home.root / "ESTOP").exists()


def test_a_device_that_was_revoked_since_stays_out(home: HomeAt) -> None:
    propose(home)
    with sqlite3.connect(home.root / "memory.sqlite") as db:
        add_device(db, utc_now, device_id="d", name="d", public_key="", confirmed=True, paired_by="terminal")
        add_token(db, utc_now, token_id="t", device_id="d", token_hash="h", way="bearer", expires_at="2999-01-01")
    db.close()
    keep(home)
    home.ok("devices", "revoke", "d")
    home.ok("tool", "run", "time")
    put_back(home)
    assert home.rows("SELECT token_id FROM auth_tokens") == [("t",)]
    home.run("worker", "--once")
    assert home.rows("SELECT token_id FROM auth_tokens") == []
    assert last_event(home)["signed_out"] == 1


def test_another_history_that_is_as_long_is_no_less_another(home: HomeAt) -> None:
    keep(home)
    for _ in range(3):
        home.ok("tool", "run", "time")
    put_back(home)
    (home.root / "tool_receipts.log").rename(home.base / "log")
    mark = (home.root / "keys/ledger.mark").read_bytes()
    told = home.run("tool", "run", "time")
    assert "older copy" in told.err
    assert (home.root / "keys/ledger.mark").read_bytes() == mark


def test_an_ordinary_home_is_left_alone_whoever_was_killed(home: HomeAt) -> None:
    for _ in range(3):
        home.ok("tool", "run", "time")
    log = home.root / "tool_receipts.log"
    whole = log.read_bytes()
    for damage in (whole[:-20], whole[: whole.index(b"\n") + 1], b"", whole + b'{"id": "rec'):
        log.write_bytes(damage)
        home.ok("tool", "run", "time")
        assert not (home.root / "ESTOP").exists()
