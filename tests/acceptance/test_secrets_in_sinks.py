"""Planted secrets, and a search through everything that was said or stored for them, plain and encoded."""

import base64
import functools
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.acceptance.conftest import HomeAt, Ran

pytestmark = pytest.mark.slow

SECRET = "Zq7Kp+Vw93/xTl.0RmN4sBdYh"  # no known shape: only registering it gives it away
PASSWORD = "hunter-Jx93kLq0"
NAME = "PROVIDER_TOKEN"


def spellings(secret: str) -> dict[str, bytes]:
    """The ways a secret could stand somewhere: as it is, hexadecimal, base64 at each alignment, percent-encoded."""
    data = secret.encode()
    made = {"plain": data, "hex": data.hex().encode(), "HEX": data.hex().upper().encode()}
    made |= {"percent": quote(secret).encode(), "percent all": quote(secret, safe="").encode()}
    for shift in range(3):
        coded = base64.b64encode(b"\0" * shift + data)
        made[f"base64+{shift}"] = coded[4 if shift else 0 : -4]  # what does not depend on the neighbours
    made["json"] = json.dumps(secret)[1:-1].replace("/", "\\/").encode()
    return made


def leaks(home: HomeAt, *runs: Ran, secret: str = SECRET, planted: tuple[Path, ...] = ()) -> list[str]:
    """Where the secret shows: what commands said, and every file of the home and the workspace."""
    sinks: dict[str, bytes] = {}
    for number, ran in enumerate(runs):
        sinks[f"stdout of command {number}"] = ran.out.encode()
        sinks[f"stderr of command {number}"] = ran.err.encode()
    for top in (home.root, home.workspace):
        for path in top.rglob("*"):
            if path.is_file() and not path.is_symlink() and path not in planted and path != home.root / "config.toml":
                sinks[str(path.relative_to(home.base))] = path.read_bytes()
    return [
        f"{sink} ({how})" for sink, data in sinks.items() for how, coded in spellings(secret).items() if coded in data
    ]


@pytest.fixture
def keyed(home: HomeAt) -> HomeAt:
    """A home whose environment holds a provider's key; the mock answers, so nothing is sent anywhere."""
    home.configure(
        f"""
        default_provider = "local"
        [security]
        autonomy = "full"
        [providers.models.local]
        kind = "mock"
        [providers.models.server]
        kind = "openai-compatible"
        base_url = "http://127.0.0.1:9/v1"
        model = "m"
        api_key_env = "{NAME}"
        """
    )
    home.environ[NAME] = SECRET
    return home


@pytest.fixture(params=["text", "json"])
def logged(request: pytest.FixtureRequest, keyed: HomeAt) -> HomeAt:
    """The same with each kind of log, as talkative as it gets."""
    keyed.environ |= {"COILCLAW_LOG": request.param, "COILCLAW_LOG_LEVEL": "debug"}
    return keyed


def everywhere(home: HomeAt) -> list[Ran]:
    """Every command that tells something about what was stored."""
    conversations = [row[0] for row in home.rows("SELECT thread_id FROM threads")]
    commands = [
        ["memory", "list"],
        ["memory", "list", "--json"],
        ["receipt", "list", "--json"],
        ["approvals", "list", "--json"],
    ]
    commands += [["memory", "show", each, "--json"] for each in conversations]
    return [home.run(*command) for command in commands]


def test_a_secret_in_the_owners_message(logged: HomeAt) -> None:
    echo = logged.script({"text": "You said {last_user}"})
    ran = logged.run("agent", "-m", f"{SECRET} is my key", env=echo)
    assert ran.rc == 0
    assert "[redacted:" in ran.out
    # Its pieces are not indexed either: a search for one of them finds nothing.
    found = logged.run("memory", "search", "0RmN4sBdYh")
    assert "[redacted:" not in found.out
    assert leaks(logged, ran, found, *everywhere(logged)) == []


def test_a_secret_in_an_encoded_message(keyed: HomeAt) -> None:
    coded = base64.b64encode(f"key={SECRET}".encode()).decode()
    runs = [
        keyed.run("agent", "-m", f"here: {text}") for text in (coded, SECRET.encode().hex(), quote(SECRET, safe=""))
    ]
    assert leaks(keyed, *runs, *everywhere(keyed)) == []


def test_a_secret_in_a_file_that_a_tool_reads(logged: HomeAt) -> None:
    planted = logged.workspace / "notes.txt"
    planted.write_text(f"token {SECRET} and {base64.b64encode(SECRET.encode()).decode()}\n")
    by_agent = logged.run("agent", "-m", "read", env=logged.calling("file_read", {"path": "notes.txt"}))
    by_hand = logged.tool("file_read", {"path": "notes.txt"}, "--output", "json")
    assert by_agent.rc == by_hand.rc == 0
    assert "[redacted:" in by_agent.out
    assert "[redacted:" in by_hand.out
    assert leaks(logged, by_agent, by_hand, *everywhere(logged), planted=(planted,)) == []


def test_a_secret_in_a_file_that_a_command_prints(keyed: HomeAt) -> None:
    planted = keyed.workspace / "notes.txt"
    planted.write_text(f"{SECRET}\n")
    command = "cat notes.txt; cat notes.txt >&2; base64 notes.txt; od -An -tx1 notes.txt | tr -d ' \\n'"
    ran = keyed.tool("shell", {"command": command}, "--output", "json")
    assert ran.rc == 0, ran
    assert ran.json()["result"]["output"].count("[redacted:") >= 3
    assert leaks(keyed, ran, *everywhere(keyed), planted=(planted,)) == []


@pytest.mark.parametrize("more", [(), ("--unsafe",)], ids=["boxed", "unsafe"])
def test_a_command_does_not_inherit_the_environment(keyed: HomeAt, more: tuple[str, ...]) -> None:
    call = ["tool", "run", "shell", "--json", '{"command": "env | sort; echo over"}', *more]
    if more:  # without a box the owner must be there to say yes
        assert keyed.run(*call, "--yes").rc == 4
        ran = keyed.sit(*call).wait_for("Approve? [y").type("y\r").end()
    else:
        ran = keyed.run(*call)
    assert ran.rc == 0, ran
    assert "PATH=" in ran.out
    assert NAME not in ran.out
    assert "COILCLAW" not in ran.out
    assert leaks(keyed, ran) == []


def test_a_secret_in_the_name_of_a_file(keyed: HomeAt) -> None:
    planted = keyed.workspace / SECRET.replace("/", "_")
    planted.write_text("x")
    keyed.environ[NAME] = SECRET.replace("/", "_")
    runs = [keyed.tool("file_list", {"path": "."}), keyed.run("agent", "-m", "list files")]
    assert leaks(keyed, *runs, *everywhere(keyed), secret=SECRET.replace("/", "_"), planted=(planted,)) == []


PROPOSALS: list[dict[str, Any]] = [
    {"tool": "file_write", "args": {"path": "note.txt", "content": f"key {SECRET}"}},
    {"tool": "file_read", "args": {"path": f"/etc/{SECRET}"}},
    {"tool": "shell", "args": {"command": f"echo {SECRET}"}},
    {"tool": "http", "args": {"url": f"https://example.com/?q={quote(SECRET, safe='')}"}},
    {"tool": "memory_search", "args": {"query": SECRET}},
    {"tool": "time", "args": {SECRET: 1}},
    {"tool": "time", "arguments": f"not json {SECRET}"},
    {"tool": SECRET, "args": {}},
    {"tool": "time", "args": {}, "id": SECRET},
    {"tool": "time", "args": {}, "justification": f"because {SECRET}"},
]


def test_a_secret_in_what_the_model_proposes(keyed: HomeAt) -> None:
    replies = [{"text": f"I use {SECRET}", "tool_calls": PROPOSALS}, {"text": "done {last_tool_result}"}]
    ran = keyed.run("agent", "-m", "go", "--json", env={**keyed.script(*replies), "COILCLAW_LOG": "json"})
    assert ran.rc == 0, ran
    assert len(keyed.receipts()) == len(PROPOSALS)  # whatever became of each, there is a receipt
    assert {action["status"] for action in ran.json()["actions"][:8]} == {"denied"}
    assert leaks(keyed, ran, *everywhere(keyed)) == []
    keyed.intact()


class _Echo(http.server.BaseHTTPRequestHandler):
    """A model server that gives the key back in every form, with whatever status it is asked for."""

    def __init__(self, status: int, *args: Any) -> None:
        self.status = status
        super().__init__(*args)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        key = self.headers["Authorization"].removeprefix("Bearer ")
        coded = base64.b64encode(key.encode()).decode()
        said = f"key {key} {coded} {key.encode().hex()} {quote(key, safe='')}"
        answer: dict[str, Any] = {"error": {"message": said, "type": "invalid_request_error"}}
        if self.status == 200:
            answer = {"choices": [{"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}]}
        body = json.dumps(answer).encode() if self.status != 299 else said.encode()
        self.send_response(200 if self.status == 299 else self.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name the base class gave it
        pass


@pytest.fixture
def echoing(request: pytest.FixtureRequest) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Echo, request.param))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("echoing", [200, 299, 400, 401, 500], indirect=True)
def test_a_provider_that_gives_the_key_back(home: HomeAt, echoing: str) -> None:
    home.provider(echoing, f'api_key_env = "{NAME}"\n[log]\nformat = "json"\n')
    env = {NAME: SECRET}
    runs = [home.run("agent", "-m", "hi", env=env), home.run("provider", "test", "--json", env=env)]
    assert {ran.rc for ran in runs} <= {0, 1}
    assert leaks(home, *runs) == []


@pytest.mark.parametrize("echoing", [200], indirect=True)
def test_a_provider_that_gives_the_key_back_to_a_terminal(home: HomeAt, echoing: str) -> None:
    home.provider(echoing, f'api_key_env = "{NAME}"\n')
    sitting = home.sit("agent", "-m", "hi", env={NAME: SECRET})
    ran = sitting.end()
    assert ran.rc == 0
    assert leaks(home, ran) == []


@pytest.mark.parametrize("echoing", [401], indirect=True)
def test_a_password_in_the_address_of_a_provider(home: HomeAt, echoing: str) -> None:
    home.provider(echoing.replace("http://", f"http://somebody:{PASSWORD}@"))
    commands = (
        "config show",
        "config show --json",
        "provider list",
        "provider list --json",
        "provider test",
        "agent -m hi",
    )
    runs = [home.run(*command.split()) for command in commands]
    assert leaks(home, *runs, secret=PASSWORD) == []


def test_a_key_pasted_where_its_name_belongs(home: HomeAt) -> None:
    home.provider("http://127.0.0.1:9/v1", f'api_key_env = "{SECRET}"\n')
    runs = [
        home.run("config", "validate"),
        home.run("config", "validate", "--json"),
        home.run("agent", "-m", "hi"),
        home.run("config", "show"),
    ]
    assert {ran.rc for ran in runs} == {2}
    assert leaks(home, *runs) == []


def test_a_key_in_a_variable_that_expects_something_else(home: HomeAt) -> None:
    names = ("COILCLAW_API_KEY", "COILCLAW_AGENT_MAX_TOOL_ROUNDS", "COILCLAW_PROVIDERS_MODELS_LOCAL_API_KEY_ENV")
    runs = [home.run("agent", "-m", "hi", env={name: SECRET}) for name in names]
    assert leaks(home, *runs) == []


def test_keys_with_names_of_their_own_are_never_shown(home: HomeAt) -> None:
    key = base64.b64encode(bytes(range(32))).decode()
    env = {"COILCLAW_OPENROUTER_API_KEY": SECRET, "COILCLAW_ENCRYPTION_KEY_B64": key}
    (home.workspace / "n.txt").write_text(f"{SECRET} {key}")
    runs = [
        home.run(*command, env=env)
        for command in (["config", "show", "--json"], ["doctor", "--short"], ["policy", "show"])
    ]
    runs.append(home.tool("file_read", {"path": "n.txt"}, env=env))
    for secret in (SECRET, key):
        assert leaks(home, *runs, secret=secret, planted=(home.workspace / "n.txt",)) == []


def test_what_is_typed_in_a_conversation_is_not_kept_in_its_history(keyed: HomeAt) -> None:
    sitting = keyed.sit("agent", env=keyed.script({"text": "noted"}))
    sitting.wait_for("›").type(f"my key is {SECRET}\r").wait_for("noted").wait_for("›").type("/exit\r")
    assert sitting.end().rc == 0
    assert leaks(keyed) == []


def test_the_database_while_it_is_open(keyed: HomeAt) -> None:
    """The write-ahead log is a sink too, and only there while somebody has the database open."""
    process = keyed.start("agent", "-m", f"wait with {SECRET}", env=keyed.script({"text": "later", "delay": 600}))
    from tests.acceptance.conftest import until

    until(lambda: keyed.rows("SELECT 1 FROM messages"), "the message to be stored")
    assert (keyed.root / "memory.sqlite-wal").stat().st_size > 0
    assert leaks(keyed) == []
    process.kill()


def test_json_logs_are_json_and_carry_the_events(home: HomeAt) -> None:
    env = {"COILCLAW_LOG": "json", **home.calling("file_list", {"path": "."})}
    said = [json.loads(line) for line in home.ok("agent", "-m", "go", env=env).err.splitlines()]
    events = {each["event"] for each in said}
    assert {"startup", "config_path", "workspace_path", "provider_selected", "channel_started", "conversation_started",
            "tool_requested", "tool_completed", "receipt_written", "memory_persisted"} <= events  # fmt: skip
    denied = home.run("tool", "run", "file_read", "--json", '{"path": "/etc/passwd"}', env={"COILCLAW_LOG": "json"})
    assert '"event":"tool_denied"' in denied.err
    failed = home.run("tool", "run", "file_read", "--json", '{"path": "none"}', env={"COILCLAW_LOG": "json"})
    assert '"event":"tool_failed"' in failed.err
    write = '{"path": "a.txt", "content": "x"}'
    approved = home.run("tool", "run", "file_write", "--yes", "--json", write, env={"COILCLAW_LOG": "json"})
    assert '"event":"tool_approved"' in approved.err
    stopped = home.ok("estop", env={"COILCLAW_LOG": "json"})
    assert [json.loads(line)["event"] for line in stopped.err.splitlines()] == ["estop_triggered"]
