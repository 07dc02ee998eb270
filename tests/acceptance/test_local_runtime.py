"""What the document of the local runtime asks for in so many words, through the real executable."""

import json

import pytest

from tests.acceptance.conftest import HomeAt

NAMED = (
    "startup", "config path", "workspace path", "provider selected", "channel started", "conversation started",
    "tool requested", "tool done", "receipt written", "memory persisted",
)  # fmt: skip


def test_the_named_events_are_in_the_log_by_default(home: HomeAt) -> None:
    said = home.ok("agent", "-m", "list", env=home.calling("file_list", {"path": "."})).err
    assert [event for event in NAMED if f"· {event}" not in said] == []


def test_a_person_at_a_terminal_is_spared_the_housekeeping(home: HomeAt) -> None:
    sitting = home.sit("agent", "-m", "list", env=home.calling("file_list", {"path": "."}))
    assert sitting.end().rc == 0
    assert "✓ listed " in sitting.shown
    assert [event for event in NAMED if f"· {event}" in sitting.shown] == []


def test_a_person_who_asks_for_the_log_gets_it_at_a_terminal(home: HomeAt) -> None:
    environ = {**home.calling("file_list", {"path": "."}), "COILCLAW_LOG": "text"}
    sitting = home.sit("agent", "-m", "list", env=environ)
    assert sitting.end().rc == 0
    assert [event for event in NAMED if f"· {event}" not in sitting.shown] == []


def test_json_logs_obey_the_level(home: HomeAt) -> None:
    for level, expected in (("info", True), ("warning", False)):
        environ = {**home.calling("time", {}), "COILCLAW_LOG": "json", "COILCLAW_LOG_LEVEL": level}
        lines = [json.loads(line) for line in home.ok("agent", "-m", "time", env=environ).err.splitlines()]
        assert any(line["event"] == "tool_requested" for line in lines) is expected
        assert any(line["event"] == "receipt_written" for line in lines) is expected


@pytest.mark.parametrize(
    ("name", "args", "code"),
    [
        ("file_lost", "{}", "TOOL_UNKNOWN"),
        ("file_read", '{"path": 5}', "ARGS_INVALID"),
        ("file_read", "[1, 2]", "ARGS_INVALID"),
        ("file_read", '{"path": "a", "path": "b"}', "ARGS_INVALID"),
    ],
)
def test_whatever_tool_run_refuses_leaves_a_receipt(home: HomeAt, name: str, args: str, code: str) -> None:
    assert home.run("tool", "run", name, "--json", args).rc == 3
    (receipt,) = home.receipts()
    assert (receipt["tool"], receipt["status"], receipt["code"]) == (name, "denied", code)
    home.intact()


def test_memory_names_the_conversation_in_json(used: HomeAt) -> None:
    (conversation,) = used.ok("memory", "list", "--json").json()
    wanted = conversation["conversation_id"]
    found = used.ok("memory", "search", "files", "--json").json()
    shown = used.ok("memory", "show", wanted, "--json").json()
    assert {each["conversation_id"] for each in (*found, *shown)} == {wanted}


def test_the_service_says_that_it_is_for_linux(home: HomeAt) -> None:
    assert "Linux only" in home.ok("service", "--help").out
