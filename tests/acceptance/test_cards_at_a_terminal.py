"""Long cards at a real terminal, by every command that shows or asks one."""

import json
from pathlib import Path

from tests.acceptance.conftest import HomeAt

LINES = [f"line {number}" for number in range(60)]
LONG = json.dumps({"path": "long.txt", "content": "\n".join([*LINES, "the one that matters", *LINES])})
SYSTEM = json.dumps({"path": "SYSTEM.md", "content": "\n".join([*LINES, "Obey.", *LINES])})
MORE, APPROVE, SIZE = " %) ", "Approve? [y", (80, 24)


def paged(sitting) -> None:
    """Press Enter until it asks for an answer."""
    while sitting.wait_for_one(MORE, APPROVE) == MORE:
        sitting.type("\r")


def test_a_long_write_is_approved_only_after_all_of_it_was_shown(home: HomeAt) -> None:
    sitting = home.sit("tool", "run", "file_write", "--json", LONG, size=SIZE).wait_for(APPROVE)
    assert "type s to show" in sitting.shown
    assert "the one that matters" not in sitting.shown
    sitting.type("y\r").wait_for("did not count as a yes")
    paged(sitting)
    assert "+the one that matters" in sitting.shown
    assert not (home.workspace / "long.txt").exists()
    assert sitting.type("y\r").end().rc == 0
    assert "the one that matters" in (home.workspace / "long.txt").read_text()


def test_a_yes_can_hold_from_now_on_and_be_revoked(home: HomeAt) -> None:
    write = ("tool", "run", "file_write", "--json", json.dumps({"path": "docs/a.txt", "content": "a"}))
    sitting = home.sit(*write, size=SIZE).wait_for(APPROVE)
    sitting.type("a\r").wait_for("docs/, until you revoke it").wait_for("Number").type("9\r").wait_for(APPROVE)
    assert not (home.workspace / "docs" / "a.txt").exists(), "no choice is no answer"
    assert sitting.type("a\r").wait_for("Number").type("2\r").end().rc == 0
    ((answer, until),) = home.rows("SELECT answer_id, expires_at FROM standing_answers")
    assert until is None

    other = json.dumps({"path": "docs/b.txt", "content": "b"})
    assert home.ok("tool", "run", "file_write", "--json", other)
    (listed,) = json.loads(home.ok("answers", "list", "--json").out)
    assert (listed["answer_id"], listed["uses"], listed["what"]) == (answer, 1, "folder")
    shown = home.ok("answers", "list").out
    assert "writing ordinary files in docs/" in shown
    assert str(home.workspace) in shown
    assert answer in home.ok("receipt", "list", "--json").out
    home.ok("receipt", "verify")

    home.ok("answers", "revoke", answer)
    assert home.run("tool", "run", "file_write", "--json", other).rc == 4
    assert home.run("answers", "revoke", answer).rc == 2
    assert home.run("answers", "revoke").rc == 2
    assert json.loads(home.ok("answers", "list", "--json").out) == []
    home.ok("answers", "revoke", "--all")
    home.ok("receipt", "verify")


def test_a_long_write_is_kept_from_now_on_only_after_all_of_it_was_shown(home: HomeAt) -> None:
    sitting = home.sit("tool", "run", "file_write", "--json", LONG, size=SIZE).wait_for(APPROVE)
    sitting.type("a\r").wait_for("did not count as a yes")
    paged(sitting)
    assert home.rows("SELECT * FROM standing_answers") == []
    assert sitting.type("\r").end().rc == 4


def test_what_governs_the_agent_is_paged_from_the_start(home: HomeAt) -> None:
    assert home.run("tool", "run", "file_write", "--json", SYSTEM).rc == 4
    ((action,),) = home.rows("SELECT action_id FROM proposed_actions")
    assert "+Obey." in home.ok("approvals", "show", action).out, "as text where there is no terminal"
    shown = home.sit("approvals", "show", action, size=SIZE).wait_for(MORE).type("q\r").end()
    assert shown.rc == 0
    assert "+Obey." not in shown.out
    sitting = home.sit("approvals", "approve", action, size=SIZE).wait_for(MORE).type("q\r").wait_for(APPROVE)
    sitting.type("y\r").wait_for("did not count as a yes")
    paged(sitting)
    assert "type s to show" not in sitting.shown
    assert "+Obey." in sitting.shown
    assert sitting.type("y\r").end().rc == 0
    assert "Obey." in (home.workspace / "SYSTEM.md").read_text()


def test_what_waits_can_be_written_anew_where_it_is_approved(home: HomeAt, tmp_path: Path) -> None:
    assert home.tool("file_write", {"path": "a.md", "content": "theirs\n"}).rc == 4
    ((waiting,),) = home.rows("SELECT action_id FROM proposed_actions")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho mine > "$1"\n')
    editor.chmod(0o755)
    left = home.sit("approvals", "approve", waiting).wait_for("[e]dit").type("\x04").end()
    assert (left.rc, f"coilclaw approvals approve {waiting}" in left.out) == (4, True), left.out
    assert home.rows("SELECT status FROM proposed_actions") == [("PENDING",)]
    sitting = home.sit("approvals", "approve", waiting, env={"EDITOR": str(editor)}).wait_for("[e]dit")
    ended = sitting.type("e\r").end()
    assert ended.rc == 0, ended
    assert (home.workspace / "a.md").read_text() == "mine\n"
    assert [row["status"] for row in home.receipts()] == ["denied", "allowed"]
    assert home.rows("SELECT status FROM proposed_actions ORDER BY created_at") == [("REJECTED",), ("EXECUTED",)]
