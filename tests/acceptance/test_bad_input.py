"""Bad input of every kind: one sentence, the right exit code, no traceback, and nothing lost."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coilclaw.sandbox.fake_openai import FakeOpenAI
from tests.acceptance.conftest import COILCLAW, HomeAt, Ran, bound_by_modes, one_sentence

pytestmark = pytest.mark.slow


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as server:
        yield server


def nothing_lost(home: HomeAt, receipts: int = 1) -> None:
    """The conversation and its receipt are still there, and the chain verifies."""
    assert home.messages()[0] == ("user", "list files please")
    assert home.intact()["receipts"] >= receipts


# The configuration


BROKEN = {
    b"not toml = = =\n": ("config.toml", "TOML"),
    b'default_provider = "a\0b"\n': ("config.toml", "NUL"),
    b"\xff\xfe\x00broken": ("config.toml",),
    b'default_provider = "nobody"\n': ("config.toml", "nobody"),
    b'[security]\nautonmy = "full"\n': ("autonmy", "did you mean autonomy"),
    b"[receipts]\nenabled = false\n": ("receipts.enabled",),
    b"[agent]\nmax_tool_rounds = 0\n": ("agent.max_tool_rounds", "from 1"),
}


def test_a_broken_configuration_is_one_sentence(used: HomeAt) -> None:
    good = (used.root / "config.toml").read_bytes()
    for text, words in BROKEN.items():
        (used.root / "config.toml").write_bytes(text)
        one_sentence(used.run("agent", "-m", "hi"), 2, *words)
    (used.root / "config.toml").write_bytes(good)
    nothing_lost(used)


def test_wrong_types_are_all_told_in_one_pass_with_file_key_and_what_is_allowed(used: HomeAt) -> None:
    used.configure(
        'default_provider = 7\n[security]\nautonomy = ["x"]\nforbidden_paths = "x"\n[agent]\nmax_tool_rounds = "five"\n'
        "[secrity]\nx = 1\n"
    )
    ran = used.run("config", "validate")
    assert ran.rc == 2
    for word in ("default_provider", "security.autonomy", "supervised", "forbidden_paths", "max_tool_rounds", "secrity",
                 "did you mean security", str(used.root / "config.toml")):  # fmt: skip
        assert word in ran.err, word
    assert len(used.run("config", "validate", "--json").json()["problems"]) == 5
    assert used.run("agent", "-m", "hi").rc == 2


def test_an_environment_variable_that_does_not_fit_is_one_sentence(home: HomeAt) -> None:
    one_sentence(home.run("agent", "-m", "hi", env={"COILCLAW_SECURITY_AUTONOMY": "godmode"}), 2, "supervised")
    one_sentence(
        home.run("agent", "-m", "hi", env={"COILCLAW_SECURITY_AUTONMY": "full"}), 2, "COILCLAW_SECURITY_AUTONOMY"
    )


# The database and the disk

READERS = [
    command.split()
    for command in (
        "memory list",
        "memory search files",
        "receipt list",
        "receipt verify",
        "approvals list",
        "agent -m hi",
        "tool run time",
    )
]


def test_a_database_that_is_not_one(used: HomeAt) -> None:
    database = used.root / "memory.sqlite"
    kept = database.read_bytes()
    database.write_text("This is a shopping list: milk, bread, a newspaper and something for the cat.\n" * 20)
    for command in (["agent", "-m", "hi"], ["init"]):
        one_sentence(used.run(*command), 7, "memory.sqlite", "not a")
    verified = used.run("receipt", "verify")
    assert (verified.rc, "damaged" in verified.out) == (6, True)
    assert used.run("doctor", "--short").rc == 1
    database.write_bytes(kept)
    nothing_lost(used)


def test_a_database_of_another_program(used: HomeAt) -> None:
    database = used.root / "memory.sqlite"
    database.unlink()
    connection = sqlite3.connect(database)
    connection.executescript("CREATE TABLE recipes (name TEXT); PRAGMA user_version = 1;")
    for command in READERS:
        if command != ["receipt", "verify"]:
            one_sentence(used.run(*command), 7, "memory.sqlite")
    assert used.run("receipt", "verify").rc == 6  # it names what is damaged
    assert connection.execute("SELECT count(*) FROM recipes").fetchone() == (0,)
    connection.close()


def test_a_database_damaged_in_the_middle(used: HomeAt) -> None:
    database = used.root / "memory.sqlite"
    data = bytearray(database.read_bytes())
    page = int.from_bytes(data[16:18], "big")
    data[8 * page :] = b"\x5a" * (len(data) - 8 * page)
    database.write_bytes(data)
    for command in READERS:
        ran = used.run(*command)
        assert "Traceback" not in ran.err, ran.err[-600:]
        assert ran.rc in {0, 6, 7}, ran
    assert used.run("agent", "-m", "hi").rc == 7


def test_a_database_from_the_future(used: HomeAt) -> None:
    connection = sqlite3.connect(used.root / "memory.sqlite")
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    one_sentence(used.run("memory", "list"), 7, "newer", "Upgrade")


def test_a_read_only_home(used: HomeAt) -> None:
    places = [path for path in (used.root, *used.root.rglob("*")) if not path.is_symlink()]
    modes = {path: path.stat().st_mode for path in places}
    for path in places:
        path.chmod(modes[path] & 0o555)
    try:
        for command in (["agent", "-m", "hi"], ["tool", "run", "time"], ["estop"], ["memory", "clear", "--yes"]):
            one_sentence(used.run(*command, preexec_fn=bound_by_modes), 7, str(used.root))
        assert used.run("config", "show", preexec_fn=bound_by_modes).rc == 0
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
    nothing_lost(used)


def test_a_home_in_which_only_the_database_is_read_only(used: HomeAt) -> None:
    database = used.root / "memory.sqlite"
    database.chmod(0o400)
    one_sentence(used.run("tool", "run", "time", preexec_fn=bound_by_modes), 7, "memory.sqlite")
    assert used.run("memory", "list", preexec_fn=bound_by_modes).rc == 0
    database.chmod(0o600)
    nothing_lost(used)


def test_a_file_where_the_home_should_be(empty: HomeAt) -> None:
    empty.root.write_text("I was here first.\n")
    one_sentence(empty.run("init"), 2, str(empty.root))
    one_sentence(empty.run("agent", "-m", "hi"), 2, "init")
    assert empty.root.read_text() == "I was here first.\n"


def test_no_home_at_all(empty: HomeAt) -> None:
    one_sentence(empty.run("agent", "-m", "hi"), 2, "coilclaw init")
    assert not empty.root.exists()


FILL = """
set -e
mount -t tmpfs -o size=3000k none "$PLACE"
cp -a "$FROM/home" "$FROM/coilclaw-workspace" "$PLACE/"
export COILCLAW_HOME="$PLACE/home"
dd if=/dev/zero of="$PLACE/filler" bs=1k 2>/dev/null || true
size=$(stat -c %s "$PLACE/filler")
truncate -s $((size - KEEP * 1024)) "$PLACE/filler"
set +e
"$COILCLAW" agent -m "one more thing" >"$SAID/out" 2>"$SAID/err"; echo $? >"$SAID/agent"
"$COILCLAW" tool run time >"$SAID/tool.out" 2>"$SAID/tool.err"; echo $? >"$SAID/tool"
dd if=/dev/zero of="$PLACE/filler2" bs=1k 2>/dev/null
"$COILCLAW" estop >"$SAID/estop.out" 2>"$SAID/estop.err"; echo $? >"$SAID/estop"
"$COILCLAW" estop --status >"$SAID/status.out"
rm "$PLACE/filler" "$PLACE/filler2" "$PLACE/home/ESTOP"
"$COILCLAW" receipt verify --json >"$SAID/verify"; echo $? >"$SAID/verified"
"$COILCLAW" memory search files >"$SAID/search"
"$COILCLAW" tool run time >/dev/null 2>&1 && "$COILCLAW" receipt verify >/dev/null; echo $? >"$SAID/after"
"""


@pytest.mark.parametrize("keep", [0, 48])
def test_a_full_disk(used: HomeAt, keep: int) -> None:
    place, said = used.base / "small-disk", used.base / "said"
    place.mkdir()
    said.mkdir()
    environ = {**used.environ, "PLACE": str(place), "SAID": str(said), "FROM": str(used.base), "COILCLAW": COILCLAW,
               "KEEP": str(keep)}  # fmt: skip
    subprocess.run(["unshare", "-rm", "sh", "-c", FILL], env=environ, check=True, capture_output=True)

    def text(name: str) -> str:
        return (said / name).read_text().strip()

    one_sentence(Ran(int(text("agent")), text("out"), text("err")), 7, "disk")
    one_sentence(Ran(int(text("tool")), text("tool.out"), text("tool.err")), 7, "disk")
    # Stopping must work when nothing else does: the file alone stops everything.
    assert (text("estop"), text("status.out")) == ("0", "ESTOP is engaged")
    assert (text("verified"), json.loads(text("verify"))["receipts"]) == ("0", 1)
    assert "list files please" in text("search")
    assert text("after") == "0"


def test_a_receipts_log_on_a_full_disk_is_reported_and_caught_up_later(used: HomeAt) -> None:
    used.log.rename(used.base / "log")
    used.log.symlink_to("/dev/full")
    ran = used.tool("time", {})
    assert ran.rc == 0
    assert "Traceback" not in ran.err
    assert "warning" in ran.err
    used.log.unlink()
    (used.base / "log").rename(used.log)
    assert used.tool("time", {}).rc == 0
    assert len(used.logged()) == 3
    nothing_lost(used, receipts=3)


# The log


def test_a_torn_last_line_is_repaired_and_said(used: HomeAt) -> None:
    assert used.tool("time", {}).rc == 0
    whole = used.log.read_bytes()
    used.log.write_bytes(whole + whole.splitlines()[0][:57])
    before = used.run("receipt", "verify")
    assert before.rc == 0
    assert "incomplete" in before.err
    repaired = used.tool("time", {})
    assert repaired.rc == 0
    assert "torn" in repaired.err
    assert used.log.read_bytes().startswith(whole)
    assert [line["id"] for line in used.logged()] == [line["id"] for line in used.receipts()]
    nothing_lost(used, receipts=3)


def test_a_line_lost_to_power_failure_is_caught_up(used: HomeAt) -> None:
    """The newest line was never made durable: what the database knows is written again, not called truncation."""
    sitting = used.sit("agent", env={"COILCLAW_RECEIPTS_HEAD_EVERY": "10000"})
    sitting.wait_for("›").type("list files please\r")
    deadline = time.monotonic() + 280
    while len(used.log.read_bytes().splitlines()) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(sitting.process.pid, signal.SIGKILL)
    sitting.process.wait()
    whole = used.log.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    assert len(whole.splitlines()) == 2
    used.log.write_bytes(whole[: -len(last)] + last[:40])
    assert used.tool("time", {}).rc == 0
    assert len(used.logged()) == 3
    nothing_lost(used, receipts=3)


def test_a_torn_last_line_of_the_signed_heads_does_not_spoil_the_next(used: HomeAt) -> None:
    heads = used.root / "tool_receipts.log.heads"
    heads.write_bytes(heads.read_bytes() + b'{"size":1,"ha')
    nothing_lost(used)
    assert used.tool("time", {}).rc == 0
    nothing_lost(used, receipts=2)


# The provider


SCENES = ("broken", "html", "no_choices", "wrong_shape", "empty", "oversized", "status:500")


def test_a_provider_that_does_not_speak_json_is_one_sentence(used: HomeAt, fake: FakeOpenAI) -> None:
    used.provider(fake.base_url)
    for scene in SCENES:
        ran = used.run("agent", "-m", f"please [[{scene}]]")
        one_sentence(ran, 1, "server" if scene != "empty" else "model")
        assert "\x1b" not in ran.err
        assert used.messages()[-1] == ("user", f"please [[{scene}]]")  # what was asked is not lost
    nothing_lost(used)


def test_a_provider_that_is_not_there_is_one_sentence(used: HomeAt) -> None:
    with FakeOpenAI() as gone:
        base_url = gone.base_url
    used.provider(base_url)
    one_sentence(used.run("agent", "-m", "hi"), 1, "server", "did not answer")
    one_sentence(used.run("provider", "test"), 1, "server")


def test_a_mock_script_that_is_broken_is_one_sentence(used: HomeAt) -> None:
    (used.base / "bad.json").write_text('[{"text": "hi", "txt": "ho"}]')
    ran = used.run("agent", "-m", "hi", env={"COILCLAW_MOCK_SCRIPT": str(used.base / "bad.json")})
    one_sentence(ran, 2, "txt")
    one_sentence(
        used.run("agent", "-m", "hi", env={"COILCLAW_MOCK_SCRIPT": str(used.base / "none.json")}), 2, "none.json"
    )


def test_a_model_that_never_stops_calling_is_stopped(used: HomeAt) -> None:
    env = {**used.script({"tool_calls": [{"tool": "time"}]}), "COILCLAW_AGENT_MAX_TOOL_ROUNDS": "5"}
    ran = used.run("agent", "-m", "go", "--json", env=env)
    assert ran.rc == 0
    assert ran.json()["ending"] == "max_rounds"
    assert len(ran.json()["actions"]) == 5
    nothing_lost(used, receipts=6)


# Tool arguments


def test_arguments_that_are_not_an_object_are_refused_at_the_command_line(used: HomeAt) -> None:
    for arguments in ("[1, 2]", '"text"', "null", "{", '{"path": ".", "path": "/"}', "", '{"path": NaN}'):
        one_sentence(used.run("tool", "run", "file_list", "--json", arguments), 3, "arguments")
    nothing_lost(used, receipts=8)


def test_arguments_that_are_not_an_object_are_denied_to_the_model(used: HomeAt) -> None:
    bad = ["[1, 2]", '"text"', "{", '{"path": ".", "path": "/"}', '{"path": 12345678901234567890}']
    calls = [{"tool": "file_list", "arguments": text} for text in bad]
    ran = used.run("agent", "-m", "go", "--json", env=used.script({"tool_calls": calls}, {"text": "I see"}))
    assert ran.rc == 0
    assert [(action["status"], action["code"]) for action in ran.json()["actions"]] == [("denied", "ARGS_INVALID")] * 5
    nothing_lost(used, receipts=6)


# Names that do not exist


def test_a_tool_that_does_not_exist_is_denied_with_the_nearest_name(used: HomeAt) -> None:
    ran = used.run("tool", "run", "file_raed")
    one_sentence(ran, 3, "there is no tool", "did you mean file_read")
    assert "autonomy" not in ran.err
    nothing_lost(used, receipts=2)


@pytest.mark.parametrize(
    ("command", "meant"),
    [
        (["provider", "test", "locale"], "local"),
        (["memory", "show", "CONVERSATION"], "CONVERSATION"),
        (["agent", "-m", "hi", "--conversation", "CONVERSATION"], "CONVERSATION"),
        (["receipt", "show", "RECEIPT"], "RECEIPT"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_a_name_that_does_not_exist_is_answered_with_the_nearest_one(
    used: HomeAt, command: list[str], meant: str
) -> None:
    real = {"CONVERSATION": used.rows("SELECT thread_id FROM threads")[0][0], "RECEIPT": used.receipts()[0]["id"]}
    wrong = {name: value[:-1] + ("0" if value[-1] != "0" else "1") for name, value in real.items()}
    ran = used.run(*(wrong.get(word, word) for word in command))
    one_sentence(ran, 2, "did you mean", real.get(meant, meant))
    assert len(used.messages()) == 4


@pytest.mark.parametrize(
    ("command", "meant"),
    [(["recipt"], "receipt"), (["receipt", "verfy"], "verify"), (["memory", "serch", "x"], "search")],
)
def test_a_command_that_does_not_exist_is_answered_with_the_nearest_one(
    home: HomeAt, command: list[str], meant: str
) -> None:
    ran = home.run(*command)
    assert ran.rc == 2
    assert "Did you mean" in ran.err
    assert meant in ran.err.partition("Did you mean")[2]
    assert "Traceback" not in ran.err


# Messages


def test_a_message_of_ten_megabytes_is_refused_and_nothing_is_stored(used: HomeAt) -> None:
    ran = used.run("agent", "-m", "-", stdin=b"word " * (2 << 20))
    one_sentence(ran, 2, "bytes", "workspace file")
    assert len(used.messages()) == 4
    nothing_lost(used)


def test_a_long_message_within_the_limit_is_kept_whole(used: HomeAt) -> None:
    text = "word " * 40_000
    used.ok("agent", "-m", "-", env=used.script({"text": "read"}), stdin=text)
    (stored,) = used.rows("SELECT blob FROM artifacts")
    assert stored[0] == text.encode()
    nothing_lost(used)


def test_a_message_that_is_not_text_is_one_sentence(used: HomeAt) -> None:
    for data in (b"a\0b", b"\xff\xfe", b"", b"   \n"):
        one_sentence(used.run("agent", "-m", "-", stdin=data), 2, "message")
    assert len(used.messages()) == 4
    nothing_lost(used)


NAMED = ("agent -m", "agent -m hi -c", "memory show", "memory search", "receipt show", "tool run",
         "tool run time --json", "policy check --json", "approvals show", "provider test")  # fmt: skip


def test_arguments_that_are_not_utf8_are_one_sentence(used: HomeAt) -> None:
    for command in NAMED:
        one_sentence(used.run(*command.split(), b"\xff\xfe"), 2)
    nothing_lost(used)


def test_nul_bytes_in_arguments_are_denied(used: HomeAt) -> None:
    calls = [
        {"tool": "file_read", "args": {"path": "a\0b"}},
        {"tool": "file_write", "args": {"path": "a\0b", "content": "x"}},
        {"tool": "shell", "args": {"command": "echo a\0b"}},
        {"tool": "http", "args": {"url": "https://exa\0mple.com/"}},
        {"tool": "a\0b", "args": {}},
    ]
    ran = used.run("agent", "-m", "go", "--json", env=used.script({"tool_calls": calls}, {"text": "done"}))
    assert ran.rc == 0, ran
    assert {action["status"] for action in ran.json()["actions"]} <= {"denied", "pending"}
    nothing_lost(used, receipts=4)


# The workspace


def test_a_workspace_that_is_a_link_is_refused(used: HomeAt) -> None:
    real = used.base / "elsewhere"
    used.workspace.rename(real)
    used.workspace.symlink_to(real)
    for command in (["agent", "-m", "hi"], ["tool", "run", "file_list"], ["init"], ["policy", "show"]):
        one_sentence(used.run(*command), 2, "workspace")
    nothing_lost(used)
    assert used.run("memory", "list").rc == 0


def test_a_workspace_that_was_deleted_is_reported_and_made_again(used: HomeAt) -> None:
    shutil.rmtree(used.workspace)
    for command in (["agent", "-m", "hi"], ["tool", "run", "file_list"], ["policy", "show"]):
        one_sentence(used.run(*command), 2, "workspace", "coilclaw init")
    nothing_lost(used)
    assert not used.workspace.exists()
    used.ok("init")
    assert (used.workspace / "SYSTEM.md").is_file()
    used.ok("agent", "-m", "hi")


def test_a_workspace_that_holds_the_home_is_refused(used: HomeAt) -> None:
    used.configure(f'workspace_dir = "{used.base}"\n')
    one_sentence(used.run("agent", "-m", "hi"), 2, "workspace_dir")


def test_a_working_directory_that_was_deleted_is_at_most_one_sentence(used: HomeAt) -> None:
    gone = used.base / "gone"
    gone.mkdir()
    script = f'cd "{gone}" && rmdir "{gone}" && exec "{COILCLAW}" memory list'
    done = subprocess.run(["sh", "-c", script], env=used.environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        one_sentence(Ran(done.returncode, done.stdout, done.stderr), 2, "directory")


def test_files_that_cannot_be_read_are_one_clear_failure(used: HomeAt) -> None:
    (used.workspace / "binary").write_bytes(b"\xff\xfe\x00")
    (used.workspace / "folder").mkdir()
    os.mkfifo(used.workspace / "pipe")
    (used.workspace / "link-out").symlink_to("/etc/hostname")
    (used.workspace / "link-home").symlink_to(used.root / "keys" / "ledger.key")
    expected = {"binary": 1, "folder": 1, "pipe": 1, "missing": 1, "link-out": 3, "link-home": 3}
    for name, code in expected.items():
        ran = used.tool("file_read", {"path": name})
        assert ran.rc == code, (name, ran)
        assert "Traceback" not in ran.err
        assert len(ran.sentence.splitlines()) == 1
    nothing_lost(used, receipts=7)


# Streams


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_no_reason_to_break(used: HomeAt, closed: str) -> None:
    line = f'"{COILCLAW}" agent -m "list files" {closed}'
    done = subprocess.run(["sh", "-c", line], env=used.environ, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr[-600:]
    assert done.returncode == 0
    assert len(used.logged()) == 2
    nothing_lost(used, receipts=2)


def test_an_answer_that_cannot_be_written_is_one_sentence(used: HomeAt) -> None:
    for command in ("receipt list", "receipt list --json", "agent -m hi", "tool run time"):
        line = f'"{COILCLAW}" {command} > /dev/full'
        done = subprocess.run(["sh", "-c", line], env=used.environ, capture_output=True, text=True, check=False)
        one_sentence(Ran(done.returncode, done.stdout, done.stderr), 7, "space")
    nothing_lost(used, receipts=2)


def test_a_broken_system_prompt_does_not_stop_the_agent(used: HomeAt) -> None:
    prompt = Path(used.workspace / "SYSTEM.md")
    prompt.write_bytes(b"\xff\xfe")
    ran = used.run("agent", "-m", "hi")
    assert ran.rc == 0
    assert "SYSTEM.md" in ran.err
