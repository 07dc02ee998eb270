"""What a run made is inspected before its result is released; what other programs would obey does not stay unasked."""

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from coilclaw.gate.turn import Turn
from coilclaw.packets.card import Answer
from coilclaw.sandbox.fake_box import FakeBox, finished
from coilclaw.store.actions import load_action

TAINTED = ("untrusted:web",)
SHELL = {"security__autonomy": "full"}


def really(spec):
    """Runs a command for real, so that what it makes is there; the walls are tested elsewhere."""
    done = subprocess.run(["/bin/sh", "-c", spec.command], cwd=spec.cwd, capture_output=True)
    return finished(done.stdout, exit_code=done.returncode, stderr=done.stderr)


async def make(home, script, turn=None, key="make"):
    """A command whose text does not show what it does."""
    (home.workspace / "build.py").write_text(f"import subprocess\nsubprocess.run({script!r}, shell=True, check=True)\n")
    return await home.call("shell", turn=turn, key=key, command="python3 build.py")


@pytest.fixture
def home(sample):
    made = sample(**SHELL)
    made.box = FakeBox(really)
    return made


def tainted():
    return Turn("turn_t", "", "cli", TAINTED)


def waiting(home):
    rows = home.app.db.reader.execute("SELECT action_id FROM proposed_actions WHERE status = 'PENDING'").fetchall()
    return [load_action(home.app.db.reader, row[0]) for row in rows]


def quarantine(home, action_id):
    return home.home.root / "quarantine" / action_id


async def test_a_command_that_makes_a_repository_fails_and_it_is_moved_into_the_home(home):
    outcome = await home.call("shell", command="git init -q x && echo done")

    assert (home.receipts()[-1].status, home.receipts()[-1].code) == ("failed", "REPOSITORY_MADE")
    assert home.statuses() == ["FAILED"]
    assert "x/.git" in outcome.result.output
    assert "done" in outcome.result.output
    assert not (home.workspace / "x" / ".git").exists()
    kept = quarantine(home, outcome.action.action_id)
    assert (kept / "0" / "config").is_file()
    assert kept.stat().st_mode & 0o777 == 0o700
    assert home.home.root.stat().st_mode & 0o777 == 0o700


async def test_what_is_kept_of_a_repository_is_none_for_git_in_the_home_either(home):
    outcome = await home.call("shell", command="git init -q --bare x")

    kept = quarantine(home, outcome.action.action_id) / "0"
    found = subprocess.run(["git", "-C", str(kept), "rev-parse", "--git-dir"], capture_output=True)
    assert found.returncode != 0


async def test_a_repository_of_the_owners_fails_no_command_and_is_read_only_in_the_box(home):
    subprocess.run(["git", "init", "-q", str(home.workspace / "own")], check=True)
    subprocess.run(["git", "init", "-q", "--bare", str(home.workspace / "store")], check=True)

    outcome = await home.call("shell", command="touch own/a.txt")

    assert outcome.result.success
    assert {str(home.workspace / "own" / ".git"), str(home.workspace / "store")} <= set(home.box.specs[0].read_only)


async def test_a_tainted_command_cannot_leave_what_other_programs_run(home):
    (home.workspace / "p").mkdir()
    (home.workspace / "p" / ".npmrc").write_text("mine\n")

    outcome = await make(home, "cd p && sed -i s/mine/evil/ .npmrc && cp .npmrc .envrc", tainted())

    assert outcome.result.code == "RUN_BY_OTHERS_TAKEN"
    assert (home.workspace / "p" / ".npmrc").read_text() == "mine\n"
    assert not (home.workspace / "p" / ".envrc").exists()
    assert waiting(home) == []


LINKED = "mkdir -p p/c && echo x > p/c/config.toml && ln -s c p/.cargo"


async def test_a_tainted_command_cannot_leave_a_link_to_what_other_programs_run(home):
    outcome = await make(home, LINKED, tainted())

    assert outcome.result.code == "RUN_BY_OTHERS_TAKEN"
    assert not os.path.lexists(home.workspace / "p" / ".cargo")


async def test_an_untainted_command_asks_for_such_a_link(home):
    assert (await make(home, LINKED)).result.code == "RUN_BY_OTHERS_HELD"
    (asked,) = waiting(home)

    assert (await home.approve(asked.action_id)).result.success

    assert os.readlink(home.workspace / "p" / ".cargo") == "c"


async def test_a_tainted_command_that_names_one_is_denied_at_once(home):
    outcome = await home.call("shell", turn=tainted(), command="echo x > a/.npmrc")

    assert outcome.result.code == "PATH_TAINTED"
    assert home.box.specs == []


async def test_an_untainted_command_is_one_question_however_many_names_it_wrote(home):
    command = "mkdir -p v/lib/site-packages .vscode && for i in $(seq 50); do echo x > v/lib/site-packages/$i.pth; done"
    outcome = await make(home, f"{command}; echo t > .vscode/tasks.json")

    assert outcome.result.code == "RUN_BY_OTHERS_HELD"
    (asked,) = waiting(home)
    assert asked.call.tool == "quarantine_release"
    assert asked.action_id in outcome.result.output
    assert not (home.workspace / "v/lib/site-packages/1.pth").exists()
    card = home.conveyor().intake.card(asked)
    assert "v/lib/site-packages/50.pth" in card.args
    assert (card.lane, card.risk) == ("A", "R2")


async def test_the_owners_yes_puts_them_in_place_and_the_next_run_leaves_them_there(home):
    await make(home, "mkdir -p v .vscode && echo x > v/a.pth && echo t > .vscode/tasks.json")
    (asked,) = waiting(home)

    outcome = await home.approve(asked.action_id)

    assert outcome.result.success, outcome.result.output
    assert (home.workspace / "v" / "a.pth").read_text() == "x\n"
    assert (home.workspace / ".vscode" / "tasks.json").read_text() == "t\n"
    assert (await home.call("shell", command="touch other", key="next")).result.success
    assert (home.workspace / "v" / "a.pth").exists()


async def test_a_change_that_the_owner_agrees_to_replaces_what_was_put_back(home):
    (home.workspace / "a.pth").write_text("old\n")
    await make(home, "echo new > a.pth")
    assert (home.workspace / "a.pth").read_text() == "old\n"
    (asked,) = waiting(home)

    assert (await home.approve(asked.action_id)).result.success

    assert (home.workspace / "a.pth").read_text() == "new\n"


async def test_the_card_shows_what_the_held_files_hold_and_where_they_are(home):
    (home.workspace / "a.pth").write_text("same\nold\n")
    script = "printf 'same\\nnew\\n' > a.pth; mkdir .vscode; echo run-me > .vscode/tasks.json; ln -s far .cargo"
    outcome = await make(home, f"{script}; head -c 70000 /dev/zero | tr '\\0' x > .npmrc; printf '\\0' > b.pth")
    (asked,) = waiting(home)

    shown = home.conveyor().intake.card(asked).preview_or_diff

    assert "\n same\n-old\n+new" in shown
    assert "\n+run-me" in shown
    assert "\nIt leads to far" in shown
    assert shown.count("Not shown here: SHA-256 ") == 2
    for line in (line for line in shown.splitlines() if "held as" in line):
        assert os.path.lexists(line.partition("held as ")[2].rstrip(")"))
    assert outcome.action.action_id in shown


async def test_a_folder_that_a_tainted_command_replaced_comes_back(home):
    (home.workspace / ".vscode").mkdir()
    (home.workspace / ".vscode" / "tasks.json").write_text("mine")

    outcome = await make(home, "mkdir d && echo evil > d/tasks.json && rm -r .vscode && ln -s d .vscode", tainted())

    assert outcome.result.code == "RUN_BY_OTHERS_TAKEN"
    assert not (home.workspace / ".vscode").is_symlink()
    assert (home.workspace / ".vscode" / "tasks.json").read_text() == "mine"


async def test_what_cannot_be_restored_is_named(home, monkeypatch):
    monkeypatch.setattr("coilclaw.sandbox.quarantine.KEPT_BYTES", 10)
    (home.workspace / ".npmrc").write_text("more than ten bytes")

    outcome = await make(home, "echo evil > .npmrc", tainted())

    assert "What was there before could not be restored: .npmrc." in outcome.result.output


async def test_held_files_are_kept_while_they_are_young(home, monkeypatch):
    monkeypatch.setattr("coilclaw.sandbox.quarantine.KEPT_RUNS", 1)
    ids = []
    for number in range(3):
        ids.append((await make(home, f"echo x > {number}.pth", key=str(number))).action.action_id)
    assert all(quarantine(home, each).is_dir() for each in ids)

    home.app.root.quarantine._clock = lambda: home.app.clock() + timedelta(days=31)
    await make(home, "echo x > 4.pth", key="4")

    assert not any(quarantine(home, each).is_dir() for each in ids)


async def test_what_the_owner_made_there_meanwhile_is_not_replaced(home):
    await make(home, "echo new > a.pth")
    (asked,) = waiting(home)
    (home.workspace / "a.pth").write_text("mine\n")

    outcome = await home.approve(asked.action_id)

    assert not outcome.result.success
    assert (home.workspace / "a.pth").read_text() == "mine\n"


async def test_a_command_that_names_one_asks_in_full_autonomy_and_then_leaves_it(home):
    outcome = await home.call("shell", command="echo x > .npmrc; mkdir -p .vscode; echo y > .vscode/tasks.json")

    (card,) = home.owner.cards
    assert any(".npmrc" in reason and ".vscode" in reason for reason in card.reasons)
    assert outcome.result.success, outcome.result.output
    assert (home.workspace / ".vscode" / "tasks.json").exists()
    assert waiting(home) == []


async def test_installing_over_the_network_is_a_question_too_because_the_conversation_was_clean(home):
    turn = Turn("turn_n", "", "cli")
    await make(home, "echo x > a.pth", turn)
    turn.take_in("untrusted:pypi.example")

    (asked,) = waiting(home)

    assert (await home.approve(asked.action_id)).result.success
    assert (home.workspace / "a.pth").exists()


@pytest.mark.parametrize(
    "path", ["x/.git", "x/.git/config", ".GIT/config", "x/.Git", "git~1/config", "x/.g\u200cit/config"]
)
async def test_no_tool_writes_a_git_folder(home, path):
    outcome = await home.call("file_write", path=path, content="[core]\n")

    assert outcome.result.code == "PATH_PROTECTED"


@pytest.mark.parametrize(
    "paths",
    [
        ["x/config", "x/objects/info/a", "x/refs/heads/b", "x/hooks/c", "x/HEAD"],
        ["x/HEAD", "x/objects/info/a", "x/refs/heads/b"],
        ["x/config", "x/HEAD", "x/commondir"],
        ["x/head", "x/Objects/a", "x/REFS/b"],
        ["x/head/a", "x/Head/a", "x/objects/a", "x/refs/b", "x/HEAD"],
        ["x/HEAD", "x/Refs", "x/objects/a", "x/refs/b"],
    ],
)
async def test_the_last_of_the_writes_that_make_a_bare_repository_is_refused(home, paths):
    outcomes = [await home.call("file_write", path=path, content="ref: refs/heads/m\n", key=path) for path in paths]

    assert [outcome.result.success for outcome in outcomes] == [True] * (len(paths) - 1) + [False]
    assert outcomes[-1].result.code == "PATH_PROTECTED"
    assert not (home.workspace / paths[-1]).exists()


async def test_a_command_makes_some_parts_and_a_write_the_last(home):
    assert (await home.call("shell", command="mkdir -p x/objects x/refs && touch x/config")).result.success

    assert (await home.call("file_write", path="x/HEAD", content="x")).result.code == "PATH_PROTECTED"


async def test_writes_make_some_parts_and_a_command_the_last(home):
    for path in ("x/objects/a", "x/refs/b"):
        await home.call("file_write", path=path, content="x", key=path)

    outcome = await home.call("shell", command="echo ref: refs/heads/m > x/HEAD")

    assert outcome.result.code == "PATH_PROTECTED"  # the text shows it
    assert (await make(home, "echo ref: refs/heads/m > x/HEAD")).result.code == "REPOSITORY_MADE"
    assert not (home.workspace / "x" / "HEAD").exists()
    assert (home.workspace / "x" / "objects" / "a").exists()


async def test_file_write_asks_for_such_a_name_in_full_and_is_denied_when_tainted(home):
    assert (await home.call("file_write", path="a/.npmrc", content="x")).result.success
    assert len(home.owner.cards) == 1
    denied = await home.call("file_write", turn=tainted(), path="a/.npmrc", content="y", key="2")
    assert denied.result.code == "PATH_TAINTED"
    assert (home.workspace / "a" / ".npmrc").read_text() == "x"


async def test_a_write_makes_a_new_file_and_leaves_other_links_alone(home, tmp_path):
    (tmp_path / "outside.txt").write_text("mine")
    os.link(tmp_path / "outside.txt", home.workspace / "in.txt")

    assert (await home.call("file_write", path="in.txt", content="new")).result.success

    assert (tmp_path / "outside.txt").read_text() == "mine"


async def test_a_command_cannot_write_through_a_hard_link_and_the_owner_is_told(home, tmp_path):
    (tmp_path / "outside.txt").write_text("mine")
    os.link(tmp_path / "outside.txt", home.workspace / "in.txt")

    assert (await home.call("shell", command="echo evil > in.txt")).result.success

    assert (tmp_path / "outside.txt").read_text() == "mine"
    assert any("hard links" in str(fields) for _, fields in home.events)


async def test_an_undo_in_a_tainted_conversation_brings_back_no_such_name(home):
    (home.workspace / ".npmrc").write_text("old")
    (home.workspace / "a.txt").write_text("old")
    kept = home.app.root.snapshots.take("x")
    (home.workspace / ".npmrc").write_text("new")
    (home.workspace / "a.txt").write_text("new")

    await home.call("undo", turn=tainted(), snapshot=kept)

    assert (home.workspace / ".npmrc").read_text() == "new"
    assert (home.workspace / "a.txt").read_text() == "old"


async def test_an_undo_that_completes_a_repository_fails(home):
    for folder in ("x/objects", "x/refs"):
        (home.workspace / folder).mkdir(parents=True)
    (home.workspace / "x/HEAD").write_text("ref: refs/heads/m")
    kept = home.app.root.snapshots.take("x")
    (home.workspace / "x/HEAD").unlink()

    outcome = await home.call("undo", snapshot=kept)

    assert outcome.result.code == "REPOSITORY_MADE"
    assert not (home.workspace / "x" / "HEAD").exists()


async def test_a_command_that_certainly_only_reads_gets_a_workspace_it_cannot_write(home):
    await home.call("shell", command="ls -l")
    await home.call("shell", command="touch a", key="2")

    assert [spec.workspace_writable for spec in home.box.specs] == [False, True]


async def test_what_cannot_be_inspected_is_not_released_and_nothing_else_runs(home):
    folder = home.home.root / "quarantine"
    blocked = []

    def plant(spec):
        (home.workspace / "x" / ".git").mkdir(parents=True, exist_ok=True)
        (run,) = (folder / "runs").iterdir()
        (folder / run.stem).write_text("in the way")
        blocked.append(folder / run.stem)
        return finished(b"secret of the run")

    home.box = FakeBox(plant)
    assert (await home.call("shell", command="touch a")).result.code == "NOT_INSPECTED"
    home.box = FakeBox(really)
    assert (await home.call("shell", command="touch b", key="2")).result.code == "NOT_INSPECTED"
    assert not (home.workspace / "b").exists()

    blocked[0].unlink()

    assert (await home.call("shell", command="touch b", key="3")).result.success
    assert not (home.workspace / "x" / ".git").exists()


DIES = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.home import Sample
from tests.gate.test_inspection import make, really
from coilclaw.gate.turn import Turn
from coilclaw.sandbox.fake_box import FakeBox

home = Sample(Path({folder!r}), security__autonomy="full")
home.box = FakeBox(really)
home.app.reached = lambda point: os.kill(os.getpid(), signal.SIGKILL) if point == {point!r} else None
taint = {taint!r}
asyncio.run(make(home, {command!r}, Turn("t", "", "cli", taint)))
"""


@pytest.mark.parametrize("taint", [(), TAINTED], ids=["clean", "tainted"])
@pytest.mark.parametrize("point", ["done", "finishing"])
async def test_a_process_that_dies_before_the_inspection_releases_nothing(sample, tmp_path, point, taint):
    command = "git init -q x; mkdir -p v; echo x > v/a.pth"
    root = str(Path(__file__).parents[2])
    script = DIES.format(root=root, folder=str(tmp_path / "s0"), point=point, taint=taint, command=command)
    died = subprocess.run([sys.executable, "-c", script], env={**os.environ}, capture_output=True)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()

    home = sample(**SHELL)
    assert home.folder == tmp_path / "s0"
    (outcome,) = await home.conveyor().recover()

    assert not (home.workspace / "x" / ".git").exists()
    assert not (home.workspace / "v" / "a.pth").exists()
    assert "x/.git" in outcome.result.output
    assert outcome.action.status == "UNKNOWN"
    assert [action.call.tool for action in waiting(home)] == ([] if taint else ["quarantine_release"])


async def test_the_next_run_inspects_what_a_dead_one_left_though_nobody_recovered_it(sample, tmp_path):
    root = str(Path(__file__).parents[2])
    script = DIES.format(root=root, folder=str(tmp_path / "s0"), point="done", taint=(), command="git init -q x")
    subprocess.run([sys.executable, "-c", script], env={**os.environ}, capture_output=True)

    home = sample(**SHELL)
    home.box = FakeBox(really)
    assert (await home.call("shell", command="touch y", key="2")).result.success

    assert not (home.workspace / "x" / ".git").exists()
    (recovered,) = await home.conveyor().recover()
    assert "x/.git" in recovered.result.output


async def test_the_owner_says_no_and_nothing_is_put_in_place(home):
    await make(home, "echo x > a.pth")
    (asked,) = waiting(home)

    await home.app.approvals(home.conveyor()).reject(asked, reason="no", by="terminal")

    assert not (home.workspace / "a.pth").exists()
    assert load_action(home.app.db.reader, asked.action_id).status == "REJECTED"


async def test_no_model_can_ask_for_a_release(home):
    home.owner.answer = Answer(approved=True)

    outcome = await home.call("quarantine_release", action="act_1", files={"a.pth": "0" * 64})

    assert outcome.result.code == "TOOL_NOT_ALLOWED"
