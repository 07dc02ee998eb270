"""What is said at the terminal: help that fits, codes where they are of use, a worker that speaks in words."""

import contextlib
import os
import pty
import re
import termios
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from coilclaw.cli.event_words import event_words
from coilclaw.cli.group import coilclaw
from coilclaw.cli.log import Logger
from coilclaw.cli.output import broken_between_words, fits, lettered, print_rows
from coilclaw.cli.phrases import worker_words
from coilclaw.features.devices.pairing_code import reachable
from coilclaw.packets.canonical import Json

WIDTH = 78
"""What click takes of a terminal with 80 columns."""


def groups(command: click.Command, context: click.Context) -> Iterator[tuple[click.Group, click.Context]]:
    """Every group below a command."""
    if isinstance(command, click.Group):
        yield command, context
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from groups(inner, click.Context(inner, info_name=name, parent=context, terminal_width=WIDTH))


def test_no_line_of_help_is_cut_off_at_eighty_columns():
    top = click.Context(coilclaw, info_name="coilclaw", terminal_width=WIDTH)
    cut = [
        (context.command_path, line.strip())
        for group, context in groups(coilclaw, top)
        for line in group.get_help(context).splitlines()
        if line.endswith("...") and not line.startswith("Usage:")
    ]
    assert cut == []


@pytest.mark.parametrize(("address", "yes"), [
    ("http://localhost:8377", False), ("https://localhost:8377", False), ("https://127.0.0.1:1", False),
    ("https://127.8.0.1", False), ("https://[::1]:8377", False), ("https://x.localhost", False),
    ("https://claw.example:8377", True), ("https://192.168.1.5:8377", True), ("https://[fd00::1]", True),
])  # fmt: skip
def test_a_qr_code_is_shown_only_for_an_address_other_machines_reach(address, yes):
    assert reachable(address) is yes


def said(capsys: pytest.CaptureFixture[str], event: str, fields: dict[str, Json]) -> str:
    """What a logger for people writes."""
    Logger("info", as_json=False, redact=lambda value: value).say("info", event, fields)
    return capsys.readouterr().err


@pytest.mark.parametrize(("event", "fields", "words"), [
    ("worker_started", {"name": "jobs_1"}, "· working in the background\n"),
    ("worker_stopping", {"running": 7, "seconds": 10}, "· stopping: running work has 10 seconds to finish\n"),
    ("worker_chore", {"chore": "notify", "done": 3}, ""),
    ("worker_chore", {"chore": "deliver", "done": 3}, ""),
    ("worker_chore", {"chore": "forget_expired", "done": 1}, ""),
    ("worker_chore", {"chore": "execute", "done": 1}, "· 1 approved action carried out\n"),
    ("worker_chore", {"chore": "expire", "done": 2}, "· 2 proposals expired\n"),
    ("worker_chore", {"chore": "prune", "done": 1}, "· deleted data past its retention\n"),
    ("worker_chore", {"chore": "other", "done": 1}, "· worker chore chore=other done=1\n"),
    ("worker_trouble", {"message": "Jobs cannot be taken."}, "· Jobs cannot be taken.\n"),
])  # fmt: skip
def test_a_worker_speaks_in_words_and_only_of_what_concerns_the_owner(capsys, event, fields, words):
    assert said(capsys, event, fields) == words


@pytest.mark.parametrize(("event", "fields", "words"), [
    ("startup", {"version": "1"}, ""),
    ("tool_requested", {"tool": "time", "what": "Look at the clock."}, ""),
    ("tool_completed", {"tool": "file_list", "what": "List the files of the workspace.", "entries": 12},
     "✓ listed 12 files\n"),
    ("tool_completed", {"tool": "file_list", "what": "List the files in docs.", "entries": 1},
     "✓ listed 1 file in docs\n"),
    ("tool_completed", {"tool": "file_write", "what": "Write 2 bytes to a.md."}, "✓ wrote 2 bytes to a.md\n"),
    ("tool_completed", {"tool": "other", "what": "Weigh it."}, "✓ done: Weigh it\n"),
    ("job_claimed", {"job_id": "job_1", "state": "RECEIVED"}, ""),
    ("job_ended", {"job_id": "job_1", "state": "DONE", "reason": "It is in force."},
     "✓ job_1 is done: It is in force.\n"),
    ("job_ended", {"job_id": "job_1", "state": "TIMED_OUT", "reason": "8 h."}, "✗ job_1 is out of time: 8 h.\n"),
    ("tool_completed", {"tool": "plan_update", "what": "Plan: 1 of 3 steps done, now: rename."},
     "✓ plan: 1 of 3 steps done, now: rename\n"),
    ("tool_completed", {"tool": "plan_update", "what": "Plan: 1 of 3 steps done, now: rename.",
                        "plan": ["✓ look", "▸ rename\n✓ forged", "· test"]},
     "✓ plan: 1 of 3 steps done\n  ✓ look\n  ▸ rename⟨U+000A⟩✓ forged\n  · test\n"),
    ("tool_completed", {"tool": "file_search", "what": "Search files in src for x.", "entries": 2},
     "✓ searched files in src for x: 2 files\n"),
    ("tool_completed", {"tool": "file_search", "what": "Find files *.py in src.", "entries": 0},
     "✓ looked for files *.py in src: nothing found\n"),
    ("tool_denied", {"tool": "x", "what": "Read /etc/a.", "code": "PATH_FORBIDDEN", "why": "Denied. No. Go."},
     "✗ denied: read /etc/a (No)\n"),
    ("tool_denied", {"tool": "shell", "what": "Run `a`.", "why": "Denied. `a`: It would remove it. More."},
     "✗ denied: run `a` (It would remove it)\n"),
    ("config_changed", {"keys": ["security.autonomy"], "own": True}, ""),
    ("tool_denied", {"tool": "x", "what": "Run `a`.", "code": "OWNER_REFUSED"}, "✗ rejected: run `a`\n"),
    ("tool_denied", {"tool": "x", "what": "Send it.", "code": "POLICY_BLOCKED_UNTRUSTED_TURN",
                     "why": "Denied. This turn took in untrusted content (untrusted:gmail:a.example), so nothing. No."},
     "… held back: send it (untrusted content was read)\n"),
    ("tool_failed", {"tool": "shell", "what": "Run `false`.", "why": "exit 1"}, "✗ failed: run `false` (exit 1)\n"),
    ("approval_needed", {"tool": "x", "what": "Move a to b."}, "… waiting for your approval: move a to b\n"),
    ("approval_needed", {"tool": "x", "what": "Move \x1b[2J\u202e."},
     "… waiting for your approval: move ⟨U+001B⟩[2J⟨U+202E⟩\n"),
    ("worker_started", {"name": "a"}, "· working in the background\n"),
    ("worker_chore", {"chore": "expire", "done": 2}, "· 2 proposals expired\n"),
    ("worker_chore", {"chore": "forge_heads", "done": 7}, ""),
])  # fmt: skip
def test_a_person_reads_what_was_done_in_words(capsys, event, fields, words):
    Logger("info", as_json=False, redact=lambda value: value, words=True).say("info", event, fields)
    assert capsys.readouterr().err == words


def test_the_level_holds_for_programs_as_for_people(capsys):
    for level, lines in (("debug", 2), ("info", 1), ("warning", 0)):
        logger = Logger(level, as_json=True, redact=lambda value: value)
        logger.say("info", "tool_requested", {"tool": "time"})
        logger.say("info", "worker_chore", {"chore": "notify", "done": 1})
        assert len(capsys.readouterr().err.splitlines()) == lines


def test_the_page_of_commands_names_the_options_as_the_program_does():
    page = (Path(__file__).parent.parent.parent / "docs/cli.md").read_text(encoding="utf-8")
    assert page.count("-h, --help") == page.count("--help  ") > 50


def test_lines_for_people_break_between_words_at_a_terminal(tmp_path):
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (10, 24))
    line = "✗ denied: run `rm -rf ~` (it would remove a home)"
    try:
        with open(theirs, "w") as terminal:
            assert broken_between_words(line, terminal, "  ").split("\n") == [
                "✗ denied: run `rm -rf", "  ~` (it would remove a", "  home)",
            ]  # fmt: skip
        with (tmp_path / "piped").open("w") as pipe:
            assert broken_between_words(line, pipe, "  ") == line
    finally:
        os.close(ours)


RECEIPTS = [
    ("receipt-00000011-e6d8ed98", "2026-11-17 14:05+00:00", "settings_change", "APPROVED"),
    ("receipt-00000012-0a9aeace", "2026-11-17 14:06+00:00", "shell", ""),
]
COLUMNS = ("receipt", "when", "tool", "code")


def test_a_table_has_room_while_its_ids_are_whole_and_its_words_can_wrap():
    assert fits(RECEIPTS, COLUMNS, 76)  # 25 + 22 + 15 + 8, and two between them
    assert not fits(RECEIPTS, COLUMNS, 75)
    assert fits([("args", '{"content":"' + "x" * 200 + '"}')], ("what", "value"), 40)  # no id, so it may be broken


def test_on_a_narrow_terminal_rows_stand_by_themselves_with_their_ids_whole(monkeypatch):
    assert at_a_terminal(monkeypatch, 60, RECEIPTS, COLUMNS) == [
        "receipt-00000011-e6d8ed98",
        "  when 2026-11-17 14:05+00:00, tool settings_change, code",
        "  APPROVED",
        "receipt-00000012-0a9aeace",
        "  when 2026-11-17 14:06+00:00, tool shell",
    ]
    rows = [("1", "write a poem to poem.md", "9 messages", "2026-11-18 19:31+00:00")]
    assert at_a_terminal(monkeypatch, 30, rows, ("", "conversation", "length", "last")) == [
        "1  write a poem to poem.md", "  length 9 messages, last", "  2026-11-18 19:31+00:00",
    ]  # fmt: skip


def at_a_terminal(monkeypatch, columns, rows, names):
    """What is printed on a terminal so wide."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    monkeypatch.setenv("NO_COLOR", "1")
    try:
        with open(theirs, "w") as terminal:
            with contextlib.redirect_stdout(terminal):
                print_rows(rows, names, empty="")
            terminal.write("END")
            terminal.flush()
            shown = b""
            while not shown.endswith(b"END"):
                shown += os.read(ours, 65536)
            return shown.decode().split("\r\n")[:-1]
    finally:
        os.close(ours)


def test_what_is_said_at_a_terminal_without_a_log_has_words():
    """Names of events and their fields are for COILCLAW_LOG."""
    source = Path(__file__).parents[2] / "src" / "coilclaw"
    named = {
        name
        for path in source.rglob("*.py")
        for name in re.findall(r'(?:observe\(|say\("info", )"(\w+)"', path.read_text(encoding="utf-8"))
    }
    said_in_a_message = {"model_waiting", "request_failed", "tool_trouble", "withdraw_failed"}
    assert {"config_changed", "estop_triggered", "sop_went_on"} <= named
    for name in named - said_in_a_message:
        assert event_words(name, {}) is not None or worker_words(name, {"done": 1}) is not None, name
    changed = {"keys": ["security.autonomy"], "needs_restart": ["server.http_addr"]}
    told = event_words("config_changed", changed)
    assert told == "· settings changed, in force now: security.autonomy; at the next start: server.http_addr"


def test_what_a_dead_process_left_is_told_in_one_line_with_what_it_was():
    told = event_words("tool_unknown", {"tool": "shell", "what": "Run `make deploy`.", "why": "died"})
    assert told is not None
    assert "run `make deploy`" in told
    assert "coilclaw actions list --status unknown" in told


def test_a_terminal_without_utf_8_gets_signs_it_can_show():
    ours, theirs = pty.openpty()
    try:
        with open(theirs, "w", encoding="ascii") as terminal:
            assert lettered("✓ done – “x” … é", terminal) == '+ done - "x" ~ \\xe9'
    finally:
        os.close(ours)


def test_commands_are_listed_by_what_they_are_for_one_line_each():
    import click

    from coilclaw.cli.group import COMMANDS, SECTIONS, coilclaw

    shown = coilclaw.get_help(click.Context(coilclaw, info_name="coilclaw", terminal_width=80)).splitlines()
    titles = [line.removesuffix(":") for line in shown if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Options", *SECTIONS]
    after = shown[shown.index("Start here:") :]
    assert [line.split()[0] for line in after if line.startswith("  ")] == list(COMMANDS), "a help text is too long"


def test_called_with_nothing_it_names_the_six_commands_to_begin_with(capsys):
    from coilclaw.cli.group import SECTIONS, coilclaw

    with pytest.raises(click.exceptions.Exit) as ended:
        coilclaw.make_context("coilclaw", [], terminal_width=80)
    assert ended.value.exit_code == 0
    shown = capsys.readouterr().out.splitlines()
    begins = shown[shown.index("Start here:") + 1 :]
    assert [line.split()[1] for line in begins[:6]] == ["init", "tour", "onboard", "agent", "up", "approvals"]
    assert begins[:6] == [f"  coilclaw {name:9}  {entry[1]}" for name, entry in SECTIONS["Start here"].items()]
    assert begins[-1] == "`coilclaw --help` lists every command, `coilclaw docs` is the manual."
    assert len(shown) <= 16, "it fits on any screen"
