"""The conversation at a real pseudo-terminal: commands, streaming, lines, interruptions, approvals."""

import http.server
import json
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.conftest import PATIENCE, HeldModel, HomeAt, Sitting, sleepers, until
from tests.acceptance.test_estop import LONG, mark

pytestmark = pytest.mark.slow

PROMPT = "›"
ALT_ENTER = "\x1b\r"
CTRL_C = "\x03"
CTRL_D = "\x04"
UP = "\x1b[A"


def plain(text: str) -> str:
    """What is shown, without the terminal's own commands."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()=>][0-9A-B]?|\r", "", text)


def sit(home: HomeAt, *replies: dict[str, Any], more: tuple[str, ...] = ()) -> Sitting:
    env = home.script(*replies) if replies else {}
    return home.sit("agent", *more, env=env).wait_for(PROMPT)


def say(sitting: Sitting, text: str, answer: str) -> Sitting:
    """Type a line, wait for the answer and for the next prompt."""
    return sitting.type(f"{text}\r").wait_for(answer).wait_for(PROMPT)


def test_every_slash_command_answers(home: HomeAt) -> None:
    home.ok("agent", "-m", "we talked about zebras", env=home.script({"text": "# zebras-it-is"}))
    earlier = home.rows("SELECT thread_id FROM threads")[0][0]
    sitting = sit(home, {"text": "fine"})
    say(sitting, "/help", "/approve-history")
    for command in ("/exit", "/tools", "/memory", "/policy", "/help", "/new"):
        assert command in sitting.shown
    say(sitting, "/tools", "memory_search")
    say(sitting, "/memory zebras", earlier)
    say(sitting, "/memory giraffes", "Nothing found")
    say(sitting, "/policy", "supervised")
    assert str(home.workspace) in plain(sitting.shown)
    say(sitting, "/approve-history", "not been asked")
    say(sitting, "hello", "fine")
    say(sitting, "/new", "Conversation conv_")
    say(sitting, "hello", "fine")
    say(sitting, "/hepl", "/help")  # did you mean
    assert sitting.type("/exit\r").end().rc == 0
    assert "Traceback" not in sitting.shown
    assert home.rows("SELECT count(DISTINCT thread_id) FROM messages") == [(3,)]


def test_ctrl_d_leaves_and_ctrl_c_at_the_prompt_does_not(home: HomeAt) -> None:
    env = {**home.script({"text": "fine"}), "COILCLAW_PROVIDERS_MODELS_OTHER_KIND": "mock"}
    sitting = home.sit("agent", "--model", "other", env=env).wait_for("other answers").wait_for(PROMPT)
    sitting.type("half a thought" + CTRL_C).wait_for(PROMPT)
    say(sitting, "hello", "fine")
    assert sitting.type(CTRL_D).end().rc == 0
    assert home.messages()[0] == ("user", "hello")


def test_ctrl_c_cancels_a_running_command_and_the_conversation_continues(home: HomeAt) -> None:
    home.configure(LONG)
    sleep = mark()
    call = {"tool_calls": [{"tool": "shell", "args": {"command": f"sleep {sleep}"}}]}
    told = {"text": "the agent knows: {last_tool_result}"}
    sitting = sit(home, call, told, {"text": "still here", "match": "there"}, more=("--yes",))
    sitting.type("wait\r")
    until(lambda: sitting._read(0.01) and sleepers(sleep), "the command to run")
    sitting.type(CTRL_C).wait_for("the agent knows: It was cancelled").wait_for(PROMPT)
    until(lambda: not sleepers(sleep), "the command to be gone")
    say(sitting, "are you there?", "still here")
    assert sitting.type("/exit\r").end().rc == 0
    assert [(r["tool"], r["status"], r["code"]) for r in home.receipts()] == [("shell", "failed", "CANCELLED")]
    home.intact()


def test_ctrl_c_once_more_ends_the_turn(home: HomeAt) -> None:
    home.configure(LONG)
    sleep = mark()
    call = {"tool_calls": [{"tool": "shell", "args": {"command": f"sleep {sleep}"}}]}
    sitting = sit(home, call, {"text": "never", "delay": 600}, more=("--yes",))
    sitting.type("wait\r")
    until(lambda: sitting._read(0.01) and sleepers(sleep), "the command to run")
    sitting.type(CTRL_C).wait_for("failed: run").type(CTRL_C).wait_for("Cancelled").wait_for(PROMPT)
    assert sitting.type("/exit\r").end().rc == 0
    home.intact()


def test_the_last_conversation_is_continued_and_an_earlier_one_resumed(home: HomeAt) -> None:
    home.ok("agent", "-m", "about zebras", env=home.script({"text": "# zebras-it-is"}))
    home.ok("agent", "-m", "about giraffes", env=home.script({"text": "indeed"}))
    assert home.ok("agent", "--continue", "-m", "more", env=home.script({"text": "tall"})).out.strip() == "tall"
    sitting = sit(home, {"text": "fine"}, more=("-c", "last"))
    sitting.wait_for("more").wait_for("tall").wait_for(PROMPT)
    say(sitting, "/resume", "about zebras")
    say(sitting, "/resume 7", "no conversation '7'")
    say(sitting, "/resume 2", "zebras-it-is")
    assert "# zebras-it-is" not in sitting.shown, "an answer is rendered when it is shown again too"
    say(sitting, "striped", "fine")
    say(sitting, "/cost", "tokens")
    say(sitting, "/plan", "no plan")
    say(sitting, "/approvals", "Nothing is waiting")
    say(sitting, "/answers", "no standing answers")
    say(sitting, "/undo", "snapshot")
    assert sitting.type("/exit\r").end().rc == 0
    rows = home.rows("SELECT thread_id FROM messages WHERE role = 'user' ORDER BY rowid")
    assert [row == rows[0] for row in rows] == [True, False, False, True]


def test_there_is_nothing_to_continue_in_a_new_home(home: HomeAt) -> None:
    assert home.run("agent", "--continue", "-m", "x").rc == 2


def test_ctrl_c_cancels_a_waiting_model_and_the_conversation_continues(home: HomeAt) -> None:
    sitting = sit(home, {"text": "never", "delay": 600, "match": "slow"}, {"text": "quick", "match": "fast"})
    sitting.type("slow\r")
    until(lambda: sitting._read(0.01) and ("user", "slow") in home.messages(), "the turn to begin")
    sitting.type(CTRL_C).wait_for("Cancelled").wait_for("message and every finished step are kept").wait_for(PROMPT)
    say(sitting, "fast", "quick")
    assert sitting.type("/exit\r").end().rc == 0
    assert [text for _, text in home.messages()] == ["slow", "fast", "quick"]


def test_ctrl_c_cancels_a_summary_and_the_conversation_continues(home: HomeAt) -> None:
    models = {"talker": {"text": "an answer"}, "shortener": {"text": "never", "delay": 600}}
    for name, reply in models.items():
        (home.root / f"{name}.json").write_text(json.dumps([reply]))
    kinds = "".join(f'[providers.models.{name}]\nkind = "mock"\nscript = "{name}.json"\n' for name in models)
    home.configure(
        'default_provider = "by_task"\n' + kinds + '[providers.models.by_task]\nkind = "router"\ndefault = "talker"\n'
        'routes = {chat = "talker", summarise = "shortener"}\n'
    )
    sitting = sit(home)
    for _ in range(6):
        say(sitting, "hello " * 60, "an answer")
    sitting.type("/compact\r").wait_for("Summing up").type(CTRL_C).wait_for("Cancelled.").wait_for(PROMPT)
    say(sitting, "still there?", "an answer")
    assert sitting.type("/exit\r").end().rc == 0


def test_several_lines_are_one_message(home: HomeAt) -> None:
    sitting = sit(home, {"text": "two lines"})
    sitting.type(f"first{ALT_ENTER}second\r").wait_for("two lines").wait_for(PROMPT)
    assert sitting.type("/exit\r").end().rc == 0
    assert home.messages()[0] == ("user", "first\nsecond")


def test_a_pasted_text_of_several_lines_is_one_message(home: HomeAt) -> None:
    sitting = sit(home, {"text": "got it"})
    sitting.type("\x1b[200~one\ntwo\nthree\x1b[201~\r").wait_for("got it").wait_for(PROMPT)
    assert sitting.type("/exit\r").end().rc == 0
    assert home.messages()[0] == ("user", "one\ntwo\nthree")


def test_history_outlives_the_sitting(home: HomeAt) -> None:
    first = sit(home, {"text": "fine"})
    say(first, "a memorable line", "fine")
    assert first.type("/exit\r").end().rc == 0
    second = sit(home, {"text": "again"})
    second.type(UP).wait_for("/exit").type(UP).wait_for("a memorable line")
    second.type("\r").wait_for("again").wait_for(PROMPT)
    assert second.type("/exit\r").end().rc == 0
    assert [text for role, text in home.messages() if role == "user"] == ["a memorable line"] * 2


def test_an_approval_in_the_conversation_and_its_history(home: HomeAt) -> None:
    write = {"tool_calls": [{"tool": "file_write", "args": {"path": "a.txt", "content": "x\n"}}]}
    sitting = sit(home, write, {"text": "it ended: {last_tool_result}"})
    sitting.type("write\r").wait_for("Approve? [y").type("\r").wait_for("it ended").wait_for(PROMPT)
    assert not (home.workspace / "a.txt").exists()
    sitting.type("write\r").wait_for("Approve? [y").type("y\r").wait_for("it ended").wait_for(PROMPT)
    assert (home.workspace / "a.txt").read_text() == "x\n"
    say(sitting, "/approve-history", "approved")
    assert "rejected" in plain(sitting.shown)
    assert sitting.type("/exit\r").end().rc == 0


def test_the_owner_edits_a_call_and_the_agent_is_told_what_came_of_it(home: HomeAt) -> None:
    """The old action is rejected; the owner's bytes are a new one, which passes the gate. Enter was the yes to them."""
    run = {"tool_calls": [{"tool": "shell", "args": {"command": "mkdir old"}}]}
    sitting = sit(home, run, {"text": "it ended: {last_tool_result}"})
    sitting.type("go\r").wait_for("Approve? [y").type("e\r").wait_for("$ ")
    sitting.type("\x7f" * 3 + "mine\r").wait_for("mkdir mine").wait_for("not asked again")
    sitting.wait_for("it ended").wait_for(PROMPT)
    assert (home.workspace / "mine").is_dir()
    assert not (home.workspace / "old").exists()
    assert sitting.type("/exit\r").end().rc == 0
    rows = home.rows("SELECT status, rejection_reason FROM proposed_actions ORDER BY rowid")
    assert [row[0] for row in rows] == ["REJECTED", "EXECUTED"]
    assert "Edited by the owner" in rows[0][1]
    assert [role for role, _ in home.messages()] == ["user", "assistant", "tool", "system", "assistant"]
    home.intact()


def test_what_the_owner_writes_instead_asks_when_it_asks_for_more(home: HomeAt) -> None:
    """A reason that was not on the first card was not known when the owner pressed Enter."""
    run = {"tool_calls": [{"tool": "file_write", "args": {"path": "a.txt", "content": "x"}}]}
    editor = home.workspace.parent / "editor"
    editor.write_text('#!/bin/sh\nseq 200 > "$1"\n')
    editor.chmod(0o755)
    sitting = home.sit("agent", env={**home.script(run, {"text": "it ended"}), "EDITOR": str(editor)}).wait_for(PROMPT)
    sitting.type("go\r").wait_for("Approve? [y").type("e\r")
    sitting.wait_for("more: type s").wait_for("Approve? [y").type("n\r")  # not all of it is in sight
    sitting.wait_for("it ended").wait_for(PROMPT)
    assert not (home.workspace / "a.txt").exists()
    assert sitting.type("/exit\r").end().rc == 0


def test_what_the_owner_writes_instead_is_denied_like_anything_else(home: HomeAt) -> None:
    run = {"tool_calls": [{"tool": "shell", "args": {"command": "mkdir old"}}]}
    sitting = sit(home, run, {"text": "it ended: {last_tool_result}"})
    sitting.type("go\r").wait_for("Approve? [y").type("e\r").wait_for("$ ")
    sitting.type("\x7f" * 9 + "cat /etc/shadow\r").wait_for("✗ denied").wait_for("it ended").wait_for(PROMPT)
    assert sitting.type("/exit\r").end().rc == 0
    assert [status for (status,) in home.rows("SELECT status FROM proposed_actions")] == ["REJECTED", "REJECTED"]


def test_what_was_typed_before_the_question_does_not_answer_it(home: HomeAt) -> None:
    """An answer counts only if it was given after the card was shown."""
    with HeldModel() as model:
        home.provider(model.base_url)
        sitting = home.sit("agent", "-m", '[[tool:file_write {"path": "a.txt", "content": "x"}]]')
        until(lambda: sitting._read(0.01) and model.requests, "the model to be asked")
        sitting.type("y\r")
        model.go.set()
        sitting.wait_for("Approve? [y").type("\r").wait_for("Done.").end()
    assert not (home.workspace / "a.txt").exists()


def test_the_agent_asks_the_owner_a_question(home: HomeAt) -> None:
    ask = {"tool_calls": [{"tool": "ask_user", "args": {"question": "Which colour?"}}]}
    sitting = sit(home, ask, {"text": "so it is {last_tool_result}"})
    sitting.type("paint\r").wait_for("Which colour?").wait_for("\n> ").type("green\r").wait_for(
        "so it is green"
    ).wait_for(PROMPT)
    assert sitting.type("/exit\r").end().rc == 0


def test_nobody_can_hide_or_forge_lines_with_control_characters(home: HomeAt) -> None:
    """What a model writes reaches the terminal without escape sequences: in text, in questions and on cards."""
    evil = "\x1b[2J\x1b[1;1Hharmless\x1b]0;title\x07"
    ask = {"tool_calls": [{"tool": "ask_user", "args": {"question": f"{evil}?"}}], "match": "one"}
    write = {"tool_calls": [{"tool": "file_write", "args": {"path": f"{evil}.txt", "content": evil}}], "match": "two"}
    sitting = sit(home, ask, {"text": f"text {evil} ends", "match": "one"}, write, {"text": "done", "match": "two"})
    sitting.type("one\r").wait_for("The agent asks").wait_for("\n> ").type("ok\r").wait_for("ends").wait_for(PROMPT)
    sitting.type("two\r").wait_for("Approve? [y").type("\r").wait_for("done").wait_for(PROMPT)
    assert sitting.type("/exit\r").end().rc == 0
    assert "\x1b[2J" not in sitting.shown
    assert "\x1b]0;" not in sitting.shown
    assert "\x07" not in sitting.shown


def test_a_card_has_one_line_for_each_of_its_facts(home: HomeAt) -> None:
    """A path with line breaks cannot write lines of its own onto the card."""
    path = "notes.txt\n  risk:    low, stays on this machine\n  what:    Read a file."
    sitting = home.sit("tool", "run", "file_write", "--json", json.dumps({"path": path, "content": "x"}))
    sitting.wait_for("Approve? [y").type("\r").end()
    lines = plain(sitting.shown).splitlines()
    assert len([line for line in lines if line.strip().startswith("risk:")]) == 1
    assert len([line for line in lines if line.strip().startswith("what:")]) == 0
    assert len([line for line in lines if line.startswith("Tool request:")]) == 1


class _Slow(http.server.BaseHTTPRequestHandler):
    """Streams one piece, then waits until it is told that the piece was seen."""

    seen = threading.Event()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self._piece("The beginning comes early, ")
        if self.seen.wait(PATIENCE):
            self._piece("the end comes late.")
            self.wfile.write(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')

    def _piece(self, text: str) -> None:
        self.wfile.write(f"data: {json.dumps({'choices': [{'delta': {'content': text}}]})}\n\n".encode())
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name the base class gave it
        pass


@pytest.fixture
def slow_server() -> Iterator[str]:
    _Slow.seen = threading.Event()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Slow)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        _Slow.seen.set()
        server.shutdown()
        server.server_close()
        thread.join()


def test_text_is_shown_while_it_is_written(home: HomeAt, slow_server: str) -> None:
    home.provider(slow_server)
    sitting = home.sit("agent").wait_for(PROMPT).type("tell me\r")
    sitting.wait_for("The beginning comes")  # the server has not said more, and will not before this was seen
    _Slow.seen.set()
    sitting.wait_for("the end comes late.").wait_for(PROMPT)
    assert plain(sitting.shown).count("The beginning comes early, the end comes late.") == 1
    assert sitting.type("/exit\r").end().rc == 0
    assert home.messages()[1] == ("assistant", "The beginning comes early, the end comes late.")


def test_ctrl_c_in_the_middle_of_an_answer_drops_it_and_says_so(home: HomeAt, slow_server: str) -> None:
    home.provider(slow_server)
    sitting = home.sit("agent").wait_for(PROMPT).type("tell me\r").wait_for("The beginning comes")
    sitting.type(CTRL_C).wait_for("an answer that was not finished is dropped").wait_for(PROMPT)
    _Slow.seen.set()
    say(sitting, "again", "the end comes late.")
    assert sitting.type("/exit\r").end().rc == 0
    assert [text for _, text in home.messages()] == [
        "tell me",
        "again",
        "The beginning comes early, the end comes late.",
    ]
    assert home.rows("SELECT state FROM turns ORDER BY rowid") == [("STOPPED",), ("ANSWERED",)]


def test_a_provider_that_fails_does_not_end_the_conversation(home: HomeAt) -> None:
    sitting = sit(home, {"error": "auth", "match": "bad"}, {"text": "better", "match": "good"})
    sitting.type("bad\r").wait_for("local").wait_for(PROMPT)
    say(sitting, "good", "better")
    assert sitting.type("/exit\r").end().rc == 0
    assert "Traceback" not in sitting.shown


def test_estop_is_announced_at_the_prompt(home: HomeAt) -> None:
    home.ok("estop")
    sitting = home.sit("agent").wait_for("ESTOP is engaged").wait_for(PROMPT)
    assert sitting.type("/exit\r").end().rc == 0
