"""Everything that is listed: JSON that parses, plain text in a pipe, colour only at a terminal."""

import json
import subprocess

import pytest

from tests.acceptance.conftest import COILCLAW, HomeAt

pytestmark = pytest.mark.slow

LISTINGS = [
    ["tool", "list"],
    ["provider", "list"],
    ["provider", "test"],
    ["memory", "list"],
    ["memory", "search", "files"],
    ["memory", "show", "CONVERSATION"],
    ["receipt", "list"],
    ["receipt", "show", "1"],
    ["receipt", "verify"],
    ["approvals", "list"],
    ["approvals", "show", "ACTION"],
    ["policy", "show"],
    ["config", "show"],
    ["config", "validate"],
    ["doctor", "--short"],
]


@pytest.fixture
def busy(used: HomeAt) -> HomeAt:
    """A home with something in every listing."""
    used.tool("file_write", {"path": "a.txt", "content": "x"})
    return used


def filled(home: HomeAt, command: list[str]) -> list[str]:
    names = {
        "CONVERSATION": "SELECT thread_id FROM threads",
        "ACTION": "SELECT action_id FROM proposed_actions WHERE status = 'PENDING'",
    }
    return [home.rows(names[word])[0][0] if word in names else word for word in command]


@pytest.mark.parametrize("command", LISTINGS, ids=lambda command: " ".join(command[:2]))
def test_a_listing_is_plain_in_a_pipe_and_has_json(busy: HomeAt, command: list[str]) -> None:
    command = filled(busy, command)
    text = busy.ok(*command)
    assert text.out.strip()
    assert "\x1b" not in text.out + text.err
    assert json.loads(busy.ok(*command, "--json").out)


@pytest.mark.parametrize(
    "command", [["memory", "list"], ["memory", "search", "x"], ["receipt", "list"], ["approvals", "list"]]
)
def test_an_empty_listing_is_empty_json_and_says_so_to_people(home: HomeAt, command: list[str]) -> None:
    assert home.ok(*command, "--json").json() == []
    text = home.ok(*command)
    assert text.out == ""  # a program that counts lines counts none
    assert text.err.strip()


def test_a_terminal_gets_a_table_and_colour_unless_it_does_not_want_it(busy: HomeAt) -> None:
    coloured = busy.sit("receipt", "verify").end()
    assert "\x1b[" in coloured.out
    assert "intact" in coloured.out
    table = busy.sit("receipt", "list").end()
    assert "status" in table.out
    assert "allowed" in table.out
    for command in (["receipt", "verify"], ["receipt", "list"], ["doctor", "--short"]):
        bare = busy.sit(*command, env={"NO_COLOR": "1"}).end()
        assert "\x1b[3" not in bare.out, command
        assert "\x1b[1;3" not in bare.out, command


def test_what_somebody_wrote_cannot_colour_or_forge_a_listing(home: HomeAt) -> None:
    evil = "\x1b[31mred\x1b]0;title\x07 and\ta tab"
    home.ok("agent", "-m", f"remember {evil}", env=home.script({"text": f"I do: {evil}"}))
    conversation = home.rows("SELECT thread_id FROM threads")[0][0]
    for command in (["memory", "list"], ["memory", "search", "remember"], ["memory", "show", conversation]):
        piped = home.ok(*command)
        assert "\x1b" not in piped.out, command
        shown = home.sit(*command).end()
        assert "\x1b[31m" not in shown.out, command
        assert "\x07" not in shown.out, command


def test_an_answer_in_a_pipe_has_no_escape_sequences(home: HomeAt) -> None:
    ran = home.ok("agent", "-m", "hi", env=home.script({"text": "plain \x1b[31mred\x1b[0m"}))
    assert "\x1b" not in ran.out
    (home.workspace / "evil.txt").write_text("\x1b[31mred\x1b[0m\n")
    shown = home.sit("tool", "run", "file_read", "--json", '{"path": "evil.txt"}').end()
    assert "\x1b[31m" not in shown.out


def test_the_whole_outcome_of_a_turn_as_json(home: HomeAt) -> None:
    told = home.ok("agent", "-m", "go", "--json", env=home.calling("time", {})).json()
    assert set(told) >= {"conversation_id", "turn_id", "text", "ending", "provider", "model", "tokens", "actions"}
    (action,) = told["actions"]
    receipt = home.ok("receipt", "show", action["receipt_id"], "--json").json()[0]
    assert receipt["action_id"] == action["action_id"]
    assert receipt["conversation_id"] == told["conversation_id"]


def test_limits_limit(used: HomeAt) -> None:
    for _ in range(2):
        used.tool("time", {})
    assert len(used.ok("receipt", "list", "--limit", "2", "--json").json()) == 2
    assert used.run("receipt", "list", "--limit", "0").rc == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_made_and_bash_accepts_its_own(home: HomeAt, shell: str) -> None:
    ran = home.ok("completion", shell)
    assert "coilclaw" in ran.out
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=ran.out, text=True, check=True)
        environ = {
            **home.environ,
            "_COILCLAW_COMPLETE": "bash_complete",
            "COMP_WORDS": "coilclaw rec",
            "COMP_CWORD": "1",
        }
        done = subprocess.run([COILCLAW], env=environ, capture_output=True, text=True, check=False)
        assert "receipt" in done.stdout


def test_help_names_every_command_and_each_has_its_own(home: HomeAt) -> None:
    names = (
        "init",
        "onboard",
        "config",
        "provider",
        "tool",
        "agent",
        "memory",
        "receipt",
        "policy",
        "estop",
        "doctor",
        "completion",
    )
    text = home.ok("--help").out
    for name in names:
        assert f"  {name} " in text
    for name in ("agent", "receipt"):
        assert "Usage:" in home.ok(name, "--help").out


def test_at_a_terminal_lists_begin_with_a_sentence_and_stories_are_short(home: HomeAt) -> None:
    assert home.tool("file_write", {"path": "a.txt", "content": "x"}).rc == 4
    ((action,),) = home.rows("SELECT action_id FROM proposed_actions")
    for name in ("approvals", "actions"):
        rows = home.sit(name, "list").end().out.splitlines()
        assert rows[1].startswith("Write 1 byte to a.txt.")
        assert home.ok(name, "list").out.startswith(action)
        assert home.ok(name, "list").out.rstrip("\n").endswith("\tWrite 1 byte to a.txt.")
    short = home.sit("audit", "explain", action).end().out
    assert len(short.strip().splitlines()) <= 8
    assert short.startswith("Write 1 byte to a.txt: it waits for you.")
    assert "Decided: you are asked first (medium risk). A workspace write" in short
    assert "It waits for your answer until " in short
    assert "Its records agree." in short
    assert len(home.sit("audit", "explain", action, "--all").end().out.splitlines()) > 8
    narrow = {size: home.sit("audit", "explain", action, size=size).end().out for size in ((60, 24), (100, 30))}
    for (columns, _), told in narrow.items():
        assert action in told  # to be copied
        assert "…" not in told
        assert max(map(len, told.splitlines())) <= columns
    assert action in home.sit("actions", "list", size=(60, 24)).end().out
    assert "\x1b" not in home.sit("actions", "list", env={"NO_COLOR": "1"}).end().out
    assert "\nwaits for you" not in home.ok("actions", "list").out  # programs read PENDING
    assert "PENDING" not in (listed := home.sit("actions", "list").end().out)
    assert "waits for you" in listed
    assert "Asked " in short
    assert short.split("Asked ")[1].splitlines()[0].endswith(": by you, with a command")
    home.ok("approvals", "reject", action)
    assert "it was rejected by you." in home.sit("audit", "explain", action).end().out
    assert "file_write rejected" in home.sit("receipt", "show", action).end().out
    assert "Write 1 byte to a.txt: it was rejected" in home.sit("receipt", "show", action).end().out
    assert "policy_hash" in home.sit("receipt", "show", action, "--all").end().out
    assert "policy_hash" in home.ok("receipt", "show", action).out


def test_at_a_terminal_events_and_rules_are_told_in_lines_that_fit(busy: HomeAt) -> None:
    digest = busy.rows("SELECT digest FROM proposed_actions")[0][0]
    told = busy.sit("audit", "list", size=(60, 24)).end().out
    assert max(map(len, told.splitlines())) < 60
    assert f"digest={digest[:12]}…" in told
    assert digest in busy.ok("audit", "list").out, "programs read all of it"
    rules = busy.sit("policy", "show", size=(60, 24)).end().out
    assert max(map(len, rules.splitlines())) <= 60
    assert "workspace only: yes" in rules
    assert "None" not in rules
    assert "False" not in rules


def test_what_takes_everything_back_names_no_files_it_is_limited_to(home: HomeAt) -> None:
    home.tool("file_write", {"path": "intel/a.txt", "content": "x"})
    card = home.sit("undo").wait_for("Approve?")
    assert "as they were before" in card.shown
    assert "args:" not in card.shown, card.shown
    card.type("n\r").end()
