"""Standing answers: what they cover, what they never lift, and what ends them."""

import os
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from coilclaw.gate.labels import FileLabels
from coilclaw.gate.standing import end_of_today, may_stand
from coilclaw.gate.turn import Turn
from coilclaw.ledger.heads import SigningKey
from coilclaw.ledger.standing import revoke_answer
from coilclaw.ledger.verify import verify_all
from coilclaw.packets.action import ToolCall, untrusted
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.card import Answer, FromNowOn
from coilclaw.packets.errors import UsageError
from coilclaw.store.actions import load_action
from coilclaw.store.projects import drop_project
from coilclaw.store.standing_answers import list_answers
from coilclaw.store.threads import ensure_thread
from tests.features.projects.world import add, folder
from tests.features.projects.world import turn as project_turn
from tests.gate.test_policy import write
from tests.home import Sample

NOBODY = Answer(approved=None)


def yes(what=None, until="revoked"):
    return Answer(approved=True, from_now_on=FromNowOn(what=what, until=until) if what else None)


def verified(home):
    return verify_all(home.app.db.reader, home.app.config.receipts.path, SigningKey(home.home.keys_dir))


def turn(thread="thr_1", name="turn_1", **more):
    return Turn(name, thread, "chat", **more)


@pytest.fixture
def home(sample):
    made = sample()
    for thread in ("thr_1", "thr_2"):
        made.app.db.write_now(lambda tx, thread=thread: ensure_thread(tx, made.app.clock, thread, "cli", "x"))
    return made


class Asking:
    """Calls at a home whose owner answers one card and is gone afterwards."""

    def __init__(self, home):
        self.home = home
        self.number = 0

    async def call(self, tool="shell", answer=NOBODY, where=None, **args):
        self.number += 1
        self.home.owner.answer = answer
        return await self.home.call(tool, where or turn(), key=f"k{self.number}", **args)

    async def runs(self, command, where=None, **args):
        """Whether a command runs without anybody being asked."""
        before = len(self.home.box.specs)
        await self.call(where=where, command=command, **args)
        return len(self.home.box.specs) > before

    async def writes(self, path):
        """Whether a file is written without anybody being asked."""
        outcome = await self.call("file_write", path=path, content="b")
        return outcome.receipt is not None and outcome.receipt.status == "allowed"

    def answers(self, *, ended=False):
        return list_answers(self.home.app.db.reader, self.home.app.clock, ended=ended)

    def offered(self):
        return [offer.what for offer in self.home.owner.cards[-1].offers]


@pytest.fixture
def asking(home):
    return Asking(home)


async def test_a_yes_from_now_on_is_one_row_and_the_next_call_runs_by_it(asking, home):
    await asking.call(command="touch a", answer=yes("command"))
    outcome = await asking.call(command="touch a")

    (answer,) = asking.answers()
    assert outcome.action.decision.rule == f"answer.{answer.answer_id}"
    assert outcome.action.decision.code == "STANDING_ANSWER"
    assert (outcome.receipt.answer, outcome.receipt.code) == (answer.answer_id, "STANDING_ANSWER")
    assert [receipt.answer for receipt in home.receipts()] == ["", answer.answer_id]
    assert (answer.uses, answer.created_by) == (1, "terminal")
    assert msgspec.json.decode(answer.proof)["kind"] == "terminal"
    told = home.app.db.reader.execute("SELECT event_type FROM audit_log WHERE entity_id = ?", (answer.answer_id,))
    events = [row[0] for row in told]
    assert events == ["answer_created", "answer_used"]
    assert len(home.owner.cards) == 1
    assert not verified(home).broken


async def test_an_approval_later_makes_the_answer_in_its_transaction(asking, home):
    waiting = await asking.call(command="touch a")
    conveyor = home.conveyor()
    action = load_action(home.app.db.reader, waiting.action.action_id)
    approvals = home.app.approvals(conveyor)
    with pytest.raises(UsageError):
        await approvals.approve(
            action, by="terminal", digest=action.digest, from_now_on=FromNowOn(what="folder", until="today")
        )
    assert load_action(home.app.db.reader, action.action_id).status == "PENDING"

    said = await approvals.approve(
        action, by="terminal", digest=action.digest, from_now_on=FromNowOn(what="command", until="today")
    )
    done = await conveyor.execute(said)

    assert (done.receipt.code, done.receipt.answer) == ("APPROVED", "")
    assert asking.answers()[0].uses == 0
    assert await asking.runs("touch a")


async def test_without_from_now_on_nothing_stands(asking):
    await asking.call(command="touch a", answer=yes())

    assert asking.answers() == []
    assert not await asking.runs("touch a")


async def test_what_nobody_sees_makes_no_answer(asking, home):
    home.owner.answer = Answer(approved=True, by="--yes", from_now_on=FromNowOn(what="command", until="revoked"))
    outcome = await home.call("shell", turn(), key="x", command="touch a")

    assert outcome.receipt is None
    assert asking.answers() == []


NEAR = [
    "touch  a", "touch a ", " touch a", "touch a\n", "touch a b", "touch b", "touch a; touch b", "touch\ta",
    "touch \u0430",
    "touch a\u200b", "touch 'a'", "touch a > c", "touch a | cat", "X=1 touch a", "env touch a", "cd src && touch a",
    "touch $A", "touch a # b", "Touch a",
]  # fmt: skip


@pytest.mark.parametrize("command", NEAR)
async def test_exactly_this_command_is_exactly_this_text(asking, command):
    await asking.call(command="touch a", answer=yes("command"))

    assert not await asking.runs(command)


async def test_its_box_is_bound_too(asking):
    await asking.call(command="touch a", answer=yes("command"))

    assert not await asking.runs("touch a", timeout_seconds=1800)
    assert not await asking.runs("touch a", domains=["example.com"])
    assert await asking.runs("touch a")


PROGRAM = [
    "pytest", "pytest -x tests/a.py", "pytest -q -k 'a and not b'", "pytest --tb=short", "pytest -n 4 -q tests",
    'pytest "tests/a.py::test_b[c]"', "pytest --maxfail 1", "pytest 2>&1", "pytest -q | tail", "pytest | head -5",
    "pytest -q 2>&1 | tail -n 40", "pytest  2>&1|tail -n5 ",
]  # fmt: skip
NOT_PROGRAM = [
    "pytest --basetemp=src", "pytest --basetemp src", "pytest --base=src", "pytest -p evil", "pytest -c other.ini",
    "pytest -o cache_dir=src", "pytest --rootdir=x", "pytest --junitxml=a", "pytest -W error::evil.E",
    "pytest @options",
    "pytest '@options'", "pytest -k", "pytest -k -p evil", "pytest --pdb", "pytest -qx", "pytest -kfoo",
    "pytest '-p' evil",
    "pytest \"-p\" evil", "pytest -'p' evil", "pytest \\-p evil", "pytest -- -p", "env X=Y pytest", "X=Y pytest",
    "cd x && pytest", "pytest; touch a", "pytest && touch a", "pytest | tee a", "pytest > a", "pytest &",
    "pytest 2>a", "pytest 2>&1 >a", "pytest 3>&1", "pytest | tail -f x", "pytest | tail -5 x",
    "pytest | head a", "pytest || tail -5", "pytest |& tail", "pytest | tail -5 | sh", "pytest | sh", "pytest -k 2>&1",
    "pytest \\| tail", "pytest | tail --pid=1", "pytest | ./tail", "pytest | tail > a", "| tail",
    "pytest $A", "pytest $(ls)", "pytest `ls`", "pytest tests/*", "pytest ~", "pytest {a,b}", "pytest -q\ntouch a",
    "pytest 'a\nb'", "pytest\u00a0-q", "pyt\u0435st", "./pytest", "/usr/bin/pytest", "py.test", "time pytest",
    "command pytest", "python -m pytest", "uv run pytest", "bash -c pytest", "p'ytest'", "pytest #", "! pytest",
    "pytest !x",
    "(pytest)", "{ pytest; }", "pytest <a", "pytest /etc/x", "pytest ../x", "alias pytest=touch; pytest",
    "pytest --help=x",
]  # fmt: skip


@pytest.mark.parametrize("command", PROGRAM)
async def test_a_program_is_covered_with_other_arguments(asking, command):
    await asking.call(command="pytest -q", answer=yes("program"))

    assert await asking.runs(command)


@pytest.mark.parametrize("command", NOT_PROGRAM)
async def test_a_program_is_not_covered_where_its_arguments_could_do_more(asking, home, command):
    await asking.call(command="pytest -q", answer=yes("program"))
    ran = len(home.box.specs)
    await asking.call(command=command)

    assert len(home.box.specs) == ran


@pytest.mark.parametrize(
    ("command", "offers"),
    [
        ("pytest -q", ["command", "program"]), ("cargo test", ["command", "program"]), ("touch a", ["command"]),
        ("pytest --basetemp=src", ["command"]), ("pytest $A", []), ("python3 -c 'print(1)'", []), ("touch $A", []),
        ("cargo build", ["command"]), ("PYTHONPATH=src pytest", ["command", "program"]),
        ("PYTHONPATH=../x pytest", ["command"]), ("PYTHONPATH=/x pytest", ["command"]),
        ("PYTHONPATH=a:/x pytest", ["command"]), ("PATH=a pytest", []), ("PYTHONPATH=$A pytest", ["command"]),
        ("PYTHONSTARTUP=a pytest", []), ("A=1 pytest", ["command"]), ("npx cowsay@1", []), ("npx -y cowsay", []),
        ("npx cowsay", ["command"]),
        ("touch skills/x.md", []), ("ruff check --fix .", ["command"]), ("cat $A", []),
    ],
)  # fmt: skip
async def test_a_card_offers_what_the_reader_is_certain_of(asking, command, offers):
    await asking.call(command=command)

    assert asking.offered() == offers


@pytest.mark.timeout(280)
async def test_a_long_text_that_is_not_a_plain_command_is_read_in_one_pass(asking):
    await asking.call(command=f"cat {'a' * 40_000}; ls")
    await asking.call(command=f"pytest {'a/' * 20_000} ;")
    await asking.call(command="""pytest """ + "'a'" * 10_000 + ";")


async def test_a_script_that_changed_asks_again(asking, home):
    script = home.workspace / "build.py"
    script.write_text("echo one")
    await asking.call(command="python3 build.py", answer=yes("command"))
    assert "while build.py stays as it is" in asking.answers()[0].scope
    assert await asking.runs("python3 build.py")

    script.write_text("echo two")
    assert not await asking.runs("python3 build.py")
    script.unlink()
    assert not await asking.runs("python3 build.py")
    script.write_text("echo one")
    assert await asking.runs("python3 build.py")


async def test_a_makefile_that_appears_asks_again(asking, home):
    (home.workspace / "Makefile").write_text("all:\n\ttrue\n")
    await asking.call(command="make", answer=yes("command"))
    assert await asking.runs("make")

    (home.workspace / "GNUmakefile").write_text("all:\n\tfalse\n")
    assert not await asking.runs("make")


async def test_a_script_that_is_a_link_out_of_the_workspace_is_not_offered(asking, home, tmp_path):
    (tmp_path / "x.py").write_text("true")
    (home.workspace / "x.py").symlink_to(tmp_path / "x.py")
    await asking.call(command="python3 x.py")

    assert home.owner.cards == [] or asking.offered() == []


async def test_writes_below_a_folder_are_covered_and_no_others(asking, home):
    await asking.call("file_write", path="docs/a.md", content="a", answer=yes("folder"))
    (home.workspace / "link").symlink_to(home.workspace / "docs")
    (home.workspace / "docs" / "out").symlink_to(home.workspace / "src")

    assert await asking.writes("docs/b.md")
    assert await asking.writes("docs/deep/c.md")
    assert await asking.writes("link/d.md")
    for path in (
        "a.md",
        "docs2/a.md",
        "docs/../a.md",
        "docs/out/a.md",
        "docs/.envrc",
        "docs/.hidden",
        "skills/a.md",
        "Docs/a.md",
    ):
        assert not await asking.writes(path), path
    assert not await asking.runs("touch docs/b.md")


async def test_a_file_at_the_top_offers_the_whole_folder_and_still_no_protected_name(asking):
    await asking.call("file_write", path="a.md", content="a", answer=yes("folder"))

    for path, ran in (("x/y/b.md", True), ("SYSTEM.md", False), ("skills/a/SKILL.md", False), (".envrc", False)):
        assert await asking.writes(path) is ran, path


async def test_a_file_deep_below_offers_its_folder_and_every_other_one(asking):
    await asking.call("file_write", path="shop/src/a.py", content="a", answer=yes("anywhere"))

    assert asking.offered() == ["folder", "anywhere"]
    assert asking.answers()[0].scope == "writing ordinary files in any folder here"
    for path, ran in (("shop/tests/b.py", True), ("c.md", True), ("SYSTEM.md", False), ("shop/.envrc", False)):
        assert await asking.writes(path) is ran, path
    assert not await asking.runs("touch shop/src/b.py")


async def test_a_module_that_runs_tests_is_covered_with_other_arguments(asking, home):
    await asking.call(command="python3 -m unittest -q", answer=yes("program"))

    assert asking.answers()[0].scope == "python3 -m unittest with other arguments"
    for command in ("python3 -m unittest", "python3 -m unittest discover -s tests -t .", "python3 -m unittest -v a.b"):
        assert await asking.runs(command), command
    for command in (
        "python3 -m pytest", "python -m unittest", "python3 -m pip install x", "python3 -m unittest --help=x",
        "python3 -I -m unittest", "python3 -munittest", "python3 -m unittest @x", "X=1 python3 -m unittest",
        "python3 -m unittest.evil", "python3 unittest", "python3 -m unittest > a", "cd x && python3 -m unittest",
    ):  # fmt: skip
        assert not await asking.runs(command), command
    (home.workspace / "unittest").mkdir()
    (home.workspace / "unittest" / "__main__.py").write_text("print(1)")
    assert not await asking.runs("python3 -m unittest"), "it would run that file"


async def test_pytest_as_a_module_is_not_covered_where_a_file_takes_its_name(asking, home):
    await asking.call(command="python -m pytest -q", answer=yes("program"))

    assert await asking.runs("python -m pytest -x tests/a.py")
    assert not await asking.runs("python -m pytest -p evil")
    (home.workspace / "pytest.py").write_text("print(1)")
    assert not await asking.runs("python -m pytest -q")


TOOLS = [
    (
        "npm test",
        ["npm test -- -t a", "npm test --silent"],
        ["npm test -- --outputFile=a", "npm run test", "npm test --prefix=x"],
    ),
    ("npm run check", ["npm run check -- src/a.ts"], ["npm run other", "npm test", "npm run check --script-shell=x"]),
    (
        "make test",
        ["make test -k", "make test -j4"],
        ["make", "make install", "make test CC=x", "make test -f x", "make test clean"],
    ),
    ("node --test", ["node --test a.test.js"], ["node a.js", "node --test --import=./x.js"]),
    ("tsc --noEmit", ["tsc --noEmit --strict"], ["tsc", "tsc --noEmit --project=x", "tsc --noEmit a.ts"]),
    ("mvn test", ["mvn test -q"], ["mvn test deploy", "mvn test -s x", "mvn exec:exec"]),
    (
        "uv run pytest -q",
        ["uv run pytest -x tests"],
        ["uv run pytest -p evil", "uv run x", "pytest -q", "uv run --with=x pytest"],
    ),
    (
        ".venv/bin/pytest -q",
        [".venv/bin/pytest tests/a.py"],
        ["pytest -q", ".venv/bin/pytest -p x", "other/bin/pytest -q"],
    ),
    (
        ".venv/bin/python -m pytest",
        [".venv/bin/python -m pytest -x a.py"],
        ["python -m pytest", ".venv/bin/python a.py"],
    ),
    (
        "cd sub && pytest -q",
        ["cd sub && pytest a.py", "cd  sub  &&  pytest"],
        ["pytest -q", "cd . && pytest -q", "cd sub; pytest"],
    ),
    (
        "cd sub && CI=1 PYTHONPATH=src:. pytest",
        ["cd sub && CI=1  PYTHONPATH=src:. pytest -x a.py 2>&1 | tail -5"],
        ["cd sub && pytest", "CI=1 PYTHONPATH=src:. pytest", "cd sub && CI=1 PYTHONPATH=src pytest"],
    ),
    (
        "npx vitest run",
        ["npx vitest run -t a 2>&1 | tail -20"],
        [
            "npx vitest",
            "npx vitest run --config=x",
            "npx --yes vitest run",
            "npx vitest@1 run",
            "npx jest",
            "node_modules/.bin/vitest run",
            "npx -p x vitest run",
        ],
    ),
    ("npx --no-install tsc --noEmit", ["npx --no-install tsc --noEmit --strict"], ["npx tsc --noEmit", "npx tsc"]),
    ("npx eslint .", ["npx eslint src --max-warnings 0"], ["npx eslint --fix .", "npx eslint -c x", "npx jest"]),
    ("npx prettier --check .", ["npx prettier --check src"], ["npx prettier --write .", "npx prettier src"]),
    (
        "node --test",
        ["node --test --test-reporter=spec a.js", "node --test --test-name-pattern=a"],
        ["node --test --test-reporter=./a.mjs", "node --test '--test-reporter=data:text/javascript,x'"],
    ),
    ("python -m mypy src", ["python -m mypy a.py"], ["python -m mypy --config-file=x", "python -m ruff check"]),
    (
        "node_modules/.bin/vitest run",
        ["node_modules/.bin/vitest run -t a"],
        ["node_modules/.bin/vitest", "node_modules/.bin/vitest run --config=x"],
    ),
]


def with_tools(home):
    for name in (".venv/bin", "other/bin", "node_modules/.bin", "sub"):
        (home.workspace / name).mkdir(parents=True)
    for name in ("package.json", "Makefile", ".venv/bin/pytest", "other/bin/pytest"):
        (home.workspace / name).write_text(name)
    for name in ("vitest", "tsc", "eslint", "prettier"):
        (home.workspace / "node_modules/.bin" / name).write_text(name)
    (home.workspace / ".venv/bin/python").symlink_to("/usr/bin/python3")
    (home.workspace / "other/bin/python").symlink_to("/usr/bin/env")


@pytest.mark.parametrize(("command", "covered", "others"), TOOLS, ids=[row[0] for row in TOOLS])
async def test_the_tools_of_a_project_are_covered_with_other_arguments(asking, home, command, covered, others):
    with_tools(home)
    await asking.call(command=command, answer=yes("program"))

    for each in (command, *covered):
        assert await asking.runs(each), each
    for each in others:
        assert not await asking.runs(each), each


async def test_a_tool_of_the_folder_is_covered_while_what_it_runs_stays_as_it_is(asking, home):
    with_tools(home)
    await asking.call(command="npm test", answer=yes("program"))
    await asking.call(command=".venv/bin/python -m pytest", answer=yes("program"))
    assert asking.answers()[1].scope == "npm test with other arguments (while package.json stays as it is)"

    (home.workspace / "package.json").write_text("another")
    assert not await asking.runs("npm test -- -t a")
    (home.workspace / ".venv/bin/python").unlink()
    (home.workspace / ".venv/bin/python").symlink_to("/usr/bin/env")
    assert not await asking.runs(".venv/bin/python -m pytest")


async def test_what_npx_runs_is_covered_while_it_stays_as_it_is(asking, home):
    with_tools(home)
    await asking.call(command="npx vitest run", answer=yes("program"))
    assert asking.answers()[0].scope == (
        "npx vitest run with other arguments (while node_modules/.bin/vitest stays as it is)"
    )
    assert await asking.runs("npx vitest run -t a")

    (home.workspace / "node_modules/.bin/vitest").write_text("another")
    assert not await asking.runs("npx vitest run")
    (home.workspace / "node_modules/.bin/vitest").unlink()
    assert not await asking.runs("npx vitest run"), "it would be fetched"


async def test_one_conversation_is_not_another(asking):
    await asking.call(command="touch a", answer=yes("command", "conversation"))

    assert await asking.runs("touch a")
    assert not await asking.runs("touch a", where=turn("thr_2"))
    assert not await asking.runs("touch a", where=turn(""))


async def test_until_revoked_holds_in_every_conversation(asking):
    await asking.call(command="touch a", answer=yes("command"))

    assert await asking.runs("touch a", where=turn("thr_2"))


async def test_without_a_conversation_none_is_offered_for_it(asking, home):
    await asking.call(command="touch a", where=turn(""))

    assert home.owner.cards[-1].offers[0].until == ("today", "revoked")


async def test_today_ends_at_midnight(asking, home):
    await asking.call(command="touch a", answer=yes("command", "today"))
    assert await asking.runs("touch a")
    clock = home.app.clock
    home.app.clock = lambda: clock() + timedelta(days=1)
    later = Asking(home)
    later.number = 50
    del home.app.__dict__["inspector"]

    assert not await later.runs("touch a")


def test_midnight_is_the_machines_own(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert end_of_today(datetime(2026, 10, 24, 23, 30, tzinfo=UTC)) == datetime(2026, 10, 25, 23, tzinfo=UTC)
        assert end_of_today(datetime(2026, 10, 24, 12, tzinfo=UTC)) == datetime(2026, 10, 24, 22, tzinfo=UTC)
    finally:
        monkeypatch.undo()
        time.tzset()


async def test_another_workspace_is_another_root(asking, home):
    await asking.call(command="touch a", answer=yes("command"))
    home.app.db.write_now(lambda tx: tx.execute("UPDATE standing_answers SET root = '/elsewhere'"))

    assert not await asking.runs("touch a")


@pytest.mark.parametrize("taint", [{"inherited": ("untrusted:web",)}, {"fresh": ("untrusted:web",)}])
async def test_a_tainted_turn_is_asked_and_offered_nothing(asking, home, taint):
    await asking.call(command="touch a", answer=yes("command"))

    assert not await asking.runs("touch a", where=turn(**taint))
    assert asking.offered() == []


@pytest.mark.parametrize(
    ("changes", "lane", "risk", "rule"),
    [
        ({"fresh": ("untrusted:web",)}, "A", "R2", "autonomy.supervised"),
        ({"inherited": ("untrusted:web",)}, "A", "R2", "autonomy.supervised"),
        ({"unsafe": True}, "A", "R2", "autonomy.supervised"),
        ({"irreversible": "no snapshot"}, "A", "R2", "autonomy.supervised"),
        ({}, "B", "R2", "autonomy.supervised"),
        ({}, "C", "R2", "autonomy.supervised"),
        ({}, "A", "R3", "autonomy.supervised"),
        ({}, "A", "R2", "tool.always_ask"),
        ({}, "A", "R2", "policy.mine"),
    ],
)
def test_only_the_matrixs_own_question_about_a_clean_lane_a_call_is_ever_settled(changes, lane, risk, rule):
    """The last wall, each stone alone: other rules ask first today, whatever they will do tomorrow."""
    call = write("a.txt")
    assert may_stand(call, "A", "R2", "autonomy.supervised")
    assert not may_stand(msgspec.structs.replace(call, **changes), lane, risk, rule)


async def test_a_labelled_file_taints_the_command_that_runs_it(asking, home):
    script = home.workspace / "x.py"
    script.write_text("true")
    await asking.call(command="python3 x.py", answer=yes("command"))
    labels = FileLabels(home.app.db, home.workspace, home.app.clock)
    looked = labels.look(("x.py",))
    home.app.db.write_now(lambda tx: labels.mark(tx, looked, (untrusted("web"),)))

    assert not await asking.runs("python3 x.py")


def upload(home, path="attachments/letter.txt"):
    """A file from outside, labelled as uploads are, long after anything was committed."""
    for objects in (home.workspace / ".git" / "objects", *(home.workspace / ".git" / "objects").glob("*")):
        os.utime(objects, (0, 0))
    there = home.workspace / path
    there.parent.mkdir(exist_ok=True)
    there.write_text("what somebody sent")
    labels = FileLabels(home.app.db, home.workspace, home.app.clock)
    looked = labels.look((path,))
    home.app.db.write_now(lambda tx: labels.mark(tx, looked, (untrusted("attachment"),)))


async def test_an_upload_takes_no_answer_from_a_command_whose_box_is_without_it(asking, home):
    await asking.call(command="pytest -q", answer=yes("program"))
    upload(home)

    assert await asking.runs("pytest -q tests")
    assert home.box.specs[-1].hidden == (str(home.workspace / "attachments"),)


@pytest.mark.parametrize("command", ["pytest attachments", "pytest -q && git apply a", "touch a; cat attachments/*"])
async def test_a_command_that_may_mean_uploads_sees_them_and_is_asked_about(asking, home, command):
    await asking.call(command=command, answer=yes("command"))
    upload(home)

    assert not await asking.runs(command)
    assert home.owner.cards[-1].provenance == ("untrusted:attachment",)


async def test_a_command_that_only_reads_sees_uploads(asking, home):
    upload(home)

    assert await asking.runs("grep -rn sent .")
    assert home.box.specs[-1].hidden == ()


async def test_uploads_that_were_replaced_by_a_link_are_not_left_out(asking, home):
    upload(home, "elsewhere/letter.txt")
    (home.workspace / "attachments").symlink_to("elsewhere")

    await asking.call(command="touch a", answer=yes())
    assert home.box.specs[-1].hidden == ()
    assert home.owner.cards[-1].provenance == ("untrusted:attachment",)


async def test_a_deny_that_comes_later_wins(asking, home):
    await asking.call(command="touch a", answer=yes("command"))
    (home.workspace / "policies").mkdir(exist_ok=True)
    (home.workspace / "policies" / "mine.json").write_text(
        '{"version": 1, "rules": [{"id": "no", "when": {"command": "touch"}, "verdict": "deny", "reason": "No."}]}'
    )

    assert (await asking.call(command="touch a")).receipt.status == "denied"


async def test_an_ask_of_a_policy_file_is_asked_each_time(asking, home):
    await asking.call(command="touch a", answer=yes("command"))
    (home.workspace / "policies").mkdir(exist_ok=True)
    (home.workspace / "policies" / "mine.json").write_text(
        '{"version": 1, "rules": [{"id": "ask", "when": {"command": "touch"}, "verdict": "ask", "reason": "Ask."}]}'
    )

    assert not await asking.runs("touch a")
    assert asking.offered() == []


async def test_readonly_denies_whatever_was_answered(asking, home):
    await asking.call(command="touch a", answer=yes("command"))
    with closing(Sample(home.folder, security__autonomy="readonly")) as again:
        assert (await again.call("shell", turn(), key="x", command="touch a")).result.code == "AUTONOMY_READONLY"


async def test_a_program_that_is_no_longer_listed_is_denied(asking, home):
    await asking.call(command="touch a", answer=yes("command"))
    with closing(Sample(home.folder, security__allowed_commands=("ls",))) as again:
        assert (await again.call("shell", turn(), key="x", command="touch a")).result.code == "AUTONOMY_DENIES"


async def test_lane_c_is_offered_nothing(asking, home):
    await asking.call("file_write", path="SYSTEM.md", content="a")

    assert asking.offered() == []


async def test_a_revoked_answer_asks_again(asking, home):
    await asking.call(command="touch a", answer=yes("command"))
    (answer,) = asking.answers()
    assert home.app.db.write_now(lambda tx: revoke_answer(tx, home.app.clock, answer.answer_id, "terminal"))
    assert not home.app.db.write_now(lambda tx: revoke_answer(tx, home.app.clock, answer.answer_id, "terminal"))

    assert not await asking.runs("touch a")
    assert asking.answers() == []


@pytest.mark.parametrize("way", ["revoked", "expired"])
async def test_an_answer_that_ends_between_decision_and_claim_runs_nothing(asking, home, way):
    await asking.call(command="touch a", answer=yes("command", "today"))
    (answer,) = asking.answers()
    ran = len(home.box.specs)

    def end(point):
        if point == "claiming" and way == "revoked":
            home.app.db.write_now(lambda tx: revoke_answer(tx, home.app.clock, answer.answer_id, "terminal"))

    conveyor = home.conveyor()
    where = turn()
    action = conveyor.intake.propose(ToolCall.of("shell", {"command": "touch a"}), where, "race")
    conveyor.records._reached = end
    if way == "expired":
        now = home.app.clock
        conveyor.records._clock = lambda: now() + timedelta(days=2)
    outcome = await conveyor.carry(action, where, stored=False)

    assert (outcome.receipt.status, outcome.receipt.code) == ("denied", "ANSWER_GONE")
    assert len(home.box.specs) == ran


def tampered(home, statement, *values):
    with closing(sqlite3.connect(home.app.db.path)) as raw, raw:
        raw.execute(statement, values)


async def test_a_row_written_without_the_key_lifts_nothing_and_is_found(asking, home):
    await asking.call(command="touch a", answer=yes("command"))
    (answer,) = asking.answers()
    ran = len(home.box.specs)
    waiting = await asking.call("shell", command="touch b")
    forged = msgspec.structs.replace(answer, answer_id="ans_forged", match=answer.match.replace("touch a", "touch b"))
    tampered(
        home,
        "INSERT INTO standing_answers SELECT ?, what, scope, ?, ?, root, thread_id, action_id, expires_at, created_at,"
        " created_by, proof, revoked_at, revoked_by, uses, last_used_at, mac FROM standing_answers",
        forged.answer_id, forged.match, sha256_hex(forged.match.encode()),
    )  # fmt: skip
    outcome = await asking.call(command="touch b")

    assert waiting.receipt is None
    assert outcome.receipt.code == "ANSWER_GONE"
    assert len(home.box.specs) == ran
    assert "ans_forged" in str(verified(home))


async def test_a_revoked_row_that_is_put_back_lifts_nothing_and_is_found(asking, home):
    await asking.call(command="touch a", answer=yes("command"))
    (answer,) = asking.answers()
    home.app.db.write_now(lambda tx: revoke_answer(tx, home.app.clock, answer.answer_id, "terminal"))
    tampered(home, "UPDATE standing_answers SET revoked_at = NULL, revoked_by = NULL, mac = ?", answer.mac)

    assert (await asking.call(command="touch a")).receipt.code == "ANSWER_GONE"
    assert answer.answer_id in str(verified(home))


async def test_damaged_rows_answer_nothing(asking, home):
    await asking.call(command="touch a", answer=yes("command"))
    tampered(home, "UPDATE standing_answers SET what = 'everything'")

    assert not await asking.runs("touch a")


async def test_a_yes_to_writes_is_none_to_deleting(asking, home):
    (home.workspace / "notes").mkdir()
    (home.workspace / "notes" / "old.txt").write_text("old\n")
    await asking.call("file_write", path="notes/a.txt", content="a", answer=yes("anywhere"))
    assert (await asking.call("file_write", path="notes/b.txt", content="b")).result.success
    assert (await asking.call("file_delete", path="notes/old.txt")).pending
    assert (await asking.call("file_delete", path="notes")).pending
    assert home.owner.cards[-1].offers == ()


async def test_an_answer_for_a_project_is_none_for_another_folder_at_its_path(asking, home):
    code = folder(home, "code")
    first = project_turn(home, add(home, code))
    await asking.call(command="touch a", where=first, answer=yes("command"))
    assert await asking.runs("touch a", where=first)

    home.app.db.write_now(lambda tx: drop_project(tx, home.app.clock, first.thread_id.removeprefix("conv_")))
    code.rename(code.with_name("old"))
    code.mkdir()
    assert not await asking.runs("touch a", where=project_turn(home, add(home, code)))
