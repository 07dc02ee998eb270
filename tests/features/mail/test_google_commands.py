"""`coilclaw google` as its owner runs it: status, connecting by pasting, disconnecting, the procedure."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import msgspec
import pytest

from coilclaw.features.sops.procedures import Procedures
from coilclaw.sandbox.fake_google_mail import compose
from coilclaw.store.sops import steps_of_run
from tests.features.mail.accounts_harness import ENVIRON, OWNER, fake_google, section
from tests.features.mail.mail_harness import connected
from tests.home import move_in

COILCLAW = Path(sys.executable).with_name("coilclaw")


@pytest.fixture
def fake():
    with fake_google() as made:
        yield made


@pytest.fixture
def environ(tmp_path, fake):
    move_in(tmp_path)
    made = {name: value for name, value in os.environ.items() if not name.startswith("COILCLAW_")}
    made |= {"COILCLAW_HOME": str(tmp_path / "home"), "HOME": str(tmp_path), **ENVIRON}
    given = msgspec.structs.asdict(section(fake))
    return made | {f"COILCLAW_GOOGLE_{key.upper()}": value for key, value in given.items()}


@pytest.fixture
def run(environ):
    def start(*args, **more):
        options = {"env": {**environ, **more}, "text": True, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        return subprocess.Popen([COILCLAW, "google", *args], stderr=subprocess.PIPE, **options)

    return start


@pytest.mark.slow
def test_pasted_sign_in_waits_for_the_owner_and_keeps_nothing_before(run, fake):
    """Without a terminal nobody can approve: the call waits, and nothing was exchanged."""
    with run("connect", "--identity", "user", "--paste") as process:
        address = ""
        while not address.startswith("http"):
            address = process.stdout.readline().strip()
        ended = httpx.get(address, timeout=280, trust_env=False).headers["location"]
        out, told = process.communicate(f"{ended}\n", timeout=120)
    assert process.returncode == 4, (out, told)
    assert "approv" in told
    assert fake.asked("/token") == []
    with run("status") as process:
        out, _ = process.communicate(timeout=120)
    assert "not connected" in out
    assert "read and search mail" in out


@pytest.mark.slow
def test_ctrl_c_ends_waiting_for_the_address(run):
    with run("connect", "--identity", "user", "--paste") as process:
        while "Paste that address here" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130


@pytest.mark.slow
def test_wrong_address_and_missing_client_are_explained(run):
    with run("connect", "--identity", "bot", "--paste") as process:
        _, told = process.communicate("http://127.0.0.1:1/oauth/callback?code=a&state=b\n", timeout=120)
    assert process.returncode == 1
    assert "not the address that this sign-in ends at" in told
    with run("disconnect", "--identity", "bot") as process:
        _, told = process.communicate(timeout=120)
    assert "is not connected" in told


@pytest.mark.slow
def test_tool_is_run_in_a_name_and_its_receipt_says_which(tmp_path, fake, environ):
    connected(tmp_path, fake).close()
    fake.mailbox(OWNER).add(compose(sender="dana@partner.example", to=OWNER, subject="Numbers", text="?"))

    def coilclaw(*args):
        return subprocess.run([COILCLAW, *args], env=environ, capture_output=True, text=True, check=False)

    search = ("tool", "run", "gmail_search_threads", "--json", '{"query": "numbers"}')
    found = coilclaw(*search, "--identity", "user")
    assert (found.returncode, "Subject: Numbers" in found.stdout) == (0, True), found.stderr
    assert coilclaw(*search).returncode == 3
    sends = coilclaw("tool", "run", "gmail_send_draft", "--json", '{"draft_id": "r1"}', "--identity", "user")
    assert (sends.returncode, "Nothing is ever sent in the owner's own name" in sends.stdout + sends.stderr) == (
        3,
        True,
    )
    said = [coilclaw("receipt", "show", number).stdout.splitlines()[-2].split() for number in ("1", "2", "3")]
    assert said == [["identity", "user"], ["identity"], ["identity", "user"]]
    listed = json.loads(coilclaw("receipt", "list", "--json").stdout)
    assert [each.get("identity") for each in listed] == ["user", None, "user"]


IMPORTS = """
import sys
from coilclaw.cli import main
sys.argv = ["coilclaw", *sys.argv[1:]]
try:
    main()
except SystemExit:
    pass
print(*(name for name in sys.modules if name.startswith(("coilclaw.features.mail", "coilclaw.runtime.oauth"))))
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", [["--help"], ["agent", "-m", "hi"]], ids=["help", "turn"])
def test_without_accounts_nothing_of_mail_is_imported(tmp_path, command):
    move_in(tmp_path)
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "COILCLAW_HOME": str(tmp_path / "home")}
    ran = subprocess.run([sys.executable, "-c", IMPORTS, *command], env=environ, capture_output=True, text=True)
    assert ran.stdout.splitlines()[-1] == "", ran.stderr


async def test_procedure_only_reads_and_leaves_a_note(tmp_path, fake):
    from coilclaw.features.mail.procedure import NAME, write_procedure

    home = connected(tmp_path, fake)
    try:
        fake.mailbox(OWNER).add(
            compose(sender="dana@partner.example", to=OWNER, subject="Numbers", text="Confirm by Thursday?")
        )
        write_procedure(home.app)
        obeys = [("file_write", {"path": "memory/x.md", "content": "obey"}), ("shell", {"command": "ls"})]
        obeys += [("notes_write", {"title": "Other", "content": "obey"}), ("reach_out", {"message": "obey"})]
        home.script(
            {"tool_calls": [{"tool": tool, "args": args} for tool, args in obeys]},
            {"text": "- Dana: confirm the numbers by Thursday"},
        )
        procedures = Procedures(home.app, conveyor=home.conveyor(), say=lambda _sop, _row: None)
        moved = await procedures.go_on((await procedures.start(NAME)).run_id)
        steps = steps_of_run(home.app.db.reader, moved.run.run_id)
        assert [row.state for row in steps.values()] == ["SUCCEEDED"] * 3, steps
        assert home.owner.cards == []
        assert not (home.workspace / "memory/x.md").exists()
        done = home.app.db.reader.execute("SELECT tool FROM proposed_actions WHERE status = 'EXECUTED' ORDER BY rowid")
        assert [row[0] for row in done] == ["gmail_search_threads", "notes_write"], "the model has no tools there"
        noted = (await home.call("notes_read", title="Needs an answer today")).result
        assert "Dana: confirm the numbers" in noted.output
        assert noted.label.startswith("untrusted:gmail:")
        assert {path for method, path, _ in fake.requests if method == "POST"} <= {"/token"}
    finally:
        home.close()
