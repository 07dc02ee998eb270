"""git_commit: the owner sees what is committed, nothing else is, and nothing of the repository runs for it."""

import asyncio
import os

import pytest

from coilclaw.packets.action import ToolCall
from coilclaw.packets.card import nobody
from coilclaw.store.actions import load_action
from coilclaw.store.projects import vouch_for
from tests.features.projects.world import add, folder, git, repository, turn

EVIL = "untrusted:evil.example"


@pytest.fixture
def home(sample):
    made = sample(security__autonomy="full")
    made.code = folder(made, "code", **{"a.txt": "one\n", "b.txt": "two\n"})
    repository(made.code)
    made.project = add(made, made.code)
    return made


def commit(home, key="k", labels=(), **args):
    return home.call("git_commit", turn(home, home.project, labels=labels), key=key, **args)


async def test_the_card_shows_message_and_difference_and_the_yes_commits_them(home):
    (home.code / "a.txt").write_text("one\nmore\n")
    (home.code / "new file.txt").write_text("new\n")
    (home.code / "b.txt").unlink()
    done = await commit(home, message="Add more\n\nAnd why.")
    assert done.result.success, done.result.output
    (card,) = home.owner.cards
    assert f"in project code ({home.code})" in card.target_entity
    assert all(
        words in card.preview_or_diff for words in ("Add more\n\nAnd why.", "+more", "+++ b/new file.txt", "-two")
    )
    assert "(Commits 3 files on main as CoilClaw <coilclaw@localhost>." in card.preview_or_diff
    assert git(home.code, "log", "-1", "--format=%B").strip() == "Add more\n\nAnd why."
    assert git(home.code, "status", "--porcelain") == ""
    assert git(home.code, "show", "--stat", "--format=", "HEAD").count("|") == 3
    assert git(home.code, "rev-list", "--count", "HEAD").strip() == "2"
    assert home.receipts()[-1].status == "allowed"
    assert not list((home.home.root / "projects" / home.project).glob("commit-*"))


@pytest.mark.parametrize("autonomy", ["supervised", "full", "readonly"])
async def test_it_asks_in_every_autonomy_and_is_refused_where_nothing_is_written(sample, autonomy):
    home = sample(security__autonomy=autonomy)
    home.code = folder(home, "code", **{"a.txt": "1\n"})
    repository(home.code)
    home.project = add(home, home.code)
    (home.code / "a.txt").write_text("2\n")
    done = await commit(home, message="x")
    assert done.result.success == (autonomy != "readonly")
    assert len(home.owner.cards) == (autonomy != "readonly")
    assert all("(Commits 1 file on " in card.preview_or_diff for card in home.owner.cards)


async def test_only_the_named_paths_are_committed_and_the_rest_stays_as_staged(home):
    (home.code / "a.txt").write_text("changed\n")
    (home.code / "b.txt").write_text("staged\n")
    git(home.code, "add", "b.txt")
    (home.code / "sub").mkdir()
    (home.code / "sub" / "c.txt").write_text("c\n")
    assert (await commit(home, message="part", paths=["a.txt", "sub"])).result.success
    assert sorted(git(home.code, "show", "--name-only", "--format=", "HEAD").split()) == ["a.txt", "sub/c.txt"]
    assert git(home.code, "status", "--porcelain") == "M  b.txt\n"


@pytest.mark.parametrize(("vouched", "name"), [(True, "Ada At Work"), (False, "Ada Owner")])
async def test_the_owners_own_identity_is_used_and_the_repositorys_where_it_is_vouched_for(home, vouched, name):
    user = home.folder / "user"
    user.mkdir(exist_ok=True)
    (user / ".gitconfig").write_text("[user]\n\tname = Ada Owner\n\temail = ada@example.org\n")
    git(home.code, "config", "user.name", "Ada At Work")
    home.app.db.write_now(lambda tx: tx.execute("UPDATE projects SET vouched = ?", (vouched,)))
    (home.code / "a.txt").write_text("x\n")
    assert (await commit(home, message="m")).result.success
    assert git(home.code, "log", "-1", "--format=%an <%ae> %cn").strip() == f"{name} <ada@example.org> {name}"


@pytest.mark.parametrize("what", ["file", "branch", "identity"])
async def test_what_changed_since_the_card_needs_a_new_yes(home, what):
    (home.code / "a.txt").write_text("shown\n")
    waiting = turn(home, home.project)
    conveyor = home.app.conveyor(nobody)
    action = conveyor.intake.propose(ToolCall.of("git_commit", {"message": "m"}), waiting, "k")
    await conveyor.carry(action, waiting, stored=False)
    before = git(home.code, "rev-parse", "HEAD")
    if what == "file":
        (home.code / "a.txt").write_text("not shown\n")
    elif what == "branch":
        git(home.code, "checkout", "-q", "-b", "other")
    else:
        (home.folder / "user").mkdir(exist_ok=True)
        (home.folder / "user" / ".gitconfig").write_text("[user]\n\tname = Other\n")
    ended = await home.approve(action.action_id)
    assert not ended.result.success
    assert git(home.code, "rev-parse", "HEAD") == before


async def test_first_commit_of_a_repository_and_a_detached_head(sample):
    home = sample(security__autonomy="full")
    home.code = folder(home, "code", **{"a.txt": "1\n"})
    git(home.code, "init", "-q")
    home.project = add(home, home.code)
    assert (await commit(home, message="first")).result.success
    assert git(home.code, "status", "--porcelain", "-b").splitlines() == ["## main"]
    git(home.code, "checkout", "-q", "--detach")
    (home.code / "a.txt").write_text("2\n")
    assert (await commit(home, key="k2", message="second")).result.success
    assert git(home.code, "rev-list", "--count", "HEAD").strip() == "2"
    assert git(home.code, "rev-list", "--count", "main").strip() == "1"


async def test_nothing_that_a_repository_configures_runs(home):
    """Hooks, filters, monitors, converters, signing, pagers, editors, includes and nested repositories."""
    ran = home.folder / "ran"
    trap = home.folder / "trap"
    trap.write_text(f"#!/bin/sh\necho $0 $* >> {ran}\ncat\nexit 0\n")
    trap.chmod(0o755)
    for hook in ("pre-commit", "post-commit", "commit-msg", "prepare-commit-msg", "reference-transaction",
                 "post-index-change", "pre-auto-gc", "fsmonitor-watchman"):  # fmt: skip
        place = home.code / ".git" / "hooks" / hook
        place.write_text(trap.read_text())
        place.chmod(0o755)
    included = home.folder / "included"
    included.write_text(f'[filter "inc"]\n\tclean = {trap}\n')
    settings = {
        "core.fsmonitor": str(trap), "core.hooksPath": str(home.code / ".git" / "hooks"), "core.editor": str(trap),
        "core.pager": str(trap), "core.sshCommand": str(trap), "core.askPass": str(trap), "diff.external": str(trap),
        "diff.evil.textconv": str(trap), "diff.evil.command": str(trap), "filter.evil.clean": str(trap),
        "filter.evil.smudge": str(trap), "filter.evil.process": str(trap), "commit.gpgSign": "true",
        "gpg.program": str(trap), "merge.evil.driver": str(trap), "credential.helper": str(trap),
        "include.path": str(included), "alias.commit-tree": f"!{trap}", "alias.update-ref": f"!{trap}",
        "core.alternateRefsCommand": str(trap), "sequence.editor": str(trap), "interactive.diffFilter": str(trap),
        "core.worktree": str(home.workspace), "uploadpack.packObjectsHook": str(trap), "gc.auto": "1",
        "extensions.worktreeConfig": "false",
    }  # fmt: skip
    nested = home.code / "nested"
    nested.mkdir()
    repository(nested)
    git(nested, "config", "core.fsmonitor", str(trap))
    (nested / "x.txt").write_text("x")
    git(home.code, "add", "nested")
    git(home.code, "commit", "-qm", "nested", "--no-verify")
    ran.unlink(missing_ok=True)
    for key, value in settings.items():
        git(home.code, "config", "--file", ".git/config", key, value)
    (home.code / ".git" / "info" / "attributes").write_text("*.bin diff=evil merge=evil\n")
    (home.code / "a.txt").write_text("changed\n")
    (home.code / "c.bin").write_bytes(b"\0\1")
    done = await commit(home, message="careful")
    assert done.result.success, done.result.output
    assert not ran.exists(), ran.read_text()
    assert not list(home.workspace.glob("c.bin"))


@pytest.mark.parametrize("where", [".gitattributes", ".git/info/attributes"])
async def test_files_that_need_a_filter_are_left_to_the_owner(home, where):
    ran = home.folder / "ran"
    git(home.code, "config", "filter.evil.clean", f"sh -c 'touch {ran}; cat'")
    (home.code / where).write_text("*.txt filter=evil\n")
    (home.code / "a.txt").write_text("changed\n")
    done = await commit(home, message="m", paths=["a.txt"])
    assert (done.result.success, "filter" in done.result.output) == (False, True)
    assert not home.owner.cards
    assert not ran.exists()


async def test_a_repository_that_leads_elsewhere_or_is_busy_is_left_alone(home, tmp_path):
    (home.code / "a.txt").write_text("changed\n")
    target = tmp_path / "victim"
    target.write_text("")
    log = home.code / ".git" / "logs" / "HEAD"
    log.rename(tmp_path / "log")
    log.symlink_to(target)
    assert "is a link" in (await commit(home, message="$(touch x)")).result.output
    log.unlink()
    (home.code / ".git" / "MERGE_HEAD").write_text("0" * 40)
    assert "in progress" in (await commit(home, key="k2", message="m")).result.output
    (home.code / ".git" / "MERGE_HEAD").unlink()
    (home.code / ".git" / "index.lock").touch()
    assert "another git" in (await commit(home, key="k3", message="m")).result.output
    assert target.read_text() == ""
    assert git(home.code, "rev-list", "--count", "HEAD").strip() == "1"
    (home.code / ".git" / "index.lock").unlink()
    assert (await commit(home, key="k4", message="m")).result.success


async def test_the_workspace_and_a_folder_without_a_repository_have_no_commits(sample):
    home = sample(security__autonomy="full")
    plain = add(home, folder(home, "plain", a="1"))
    for project, why in (("", "runtime"), (plain, "not a git repository")):
        done = await home.call("git_commit", turn(home, project), key=f"k{project}", message="m")
        assert not done.result.success
        assert why in done.result.output
    assert not home.owner.cards


async def test_nothing_outside_the_project_is_committed(home):
    for number, path in enumerate(("../other", "/etc/passwd", str(home.workspace / "SYSTEM.md"), ".git/config")):
        done = await commit(home, key=f"k{number}", message="m", paths=[path])
        assert not done.result.success, path
    (home.code / "away").symlink_to("/etc/passwd")
    assert (await commit(home, key="link", message="m", paths=["."])).result.success
    assert git(home.code, "cat-file", "-p", "HEAD:away") == "/etc/passwd"


async def test_a_tainted_turn_commits_no_name_that_other_programs_run(home):
    (home.code / ".vscode").mkdir()
    (home.code / ".vscode" / "tasks.json").write_text("{}")
    (home.code / "a.txt").write_text("changed\n")
    refused = await commit(home, message="m", labels=(EVIL,))
    assert refused.result.code == "PATH_TAINTED"
    assert not home.owner.cards
    assert (await commit(home, key="k2", message="m", labels=(EVIL,), paths=["a.txt"])).result.success
    assert (await commit(home, key="k3", message="m")).result.success


async def test_a_labelled_file_taints_the_commit_that_holds_it(home):
    labels = home.app.project_root(home.project).labels
    (home.code / "a.txt").write_text("from the web\n")
    home.app.db.write_now(lambda tx: labels.mark(tx, labels.look(["a.txt"]), [EVIL]))
    (home.code / ".npmrc").write_text("x\n")
    assert (await commit(home, message="m")).result.code == "PATH_TAINTED"
    home.app.db.write_now(lambda tx: vouch_for(tx, home.project, vouched=False))
    assert (await commit(home, key="k2", message="m", paths=["b.txt", ".npmrc"])).result.code == "PATH_TAINTED"


async def test_too_much_is_not_put_on_a_card(home):
    (home.code / "large.txt").write_text("line\n" * 400_000)
    done = await commit(home, message="m")
    assert (done.result.success, "too much to show" in done.result.output) == (False, True)
    (home.code / "large.txt").unlink()
    for number in range(1100):
        (home.code / f"f{number}").touch()
    done = await commit(home, key="k2", message="m")
    assert (done.result.success, "more than one commit" in done.result.output) == (False, True)


@pytest.mark.parametrize("where", ["committed", ".gitattributes", ".git/info/attributes"])
async def test_no_attribute_of_a_repository_hides_a_change_from_the_card(home, where):
    (home.code / (".gitattributes" if where == "committed" else where)).write_text("* -diff\n*.txt binary\n")
    if where == "committed":
        git(home.code, "add", "-A")
        git(home.code, "commit", "-qm", "attributes")
    (home.code / "a.txt").write_text("one\nhidden line\n")
    done = await commit(home, message="m", paths=["a.txt"])
    assert done.result.success, done.result.output
    (card,) = home.owner.cards
    assert "+hidden line" in card.preview_or_diff


@pytest.mark.parametrize("name", [".gitignore", ".git/config"])
async def test_a_repository_in_which_git_waits_for_ever_is_given_up_soon_and_left_alone(home, monkeypatch, name):
    monkeypatch.setattr("coilclaw.gate.committing.PLAN_SECONDS", 0.5)
    (home.code / "a.txt").write_text("x\n")
    (home.code / name).unlink(missing_ok=True)
    os.mkfifo(home.code / name)
    done = await commit(home, message="m")
    assert (done.result.success, done.result.code) == (False, "COMMIT_SLOW")

    (home.code / name).unlink()
    done = await commit(home, key="k2", message="m")
    assert (done.result.success, done.result.code) == (False, "COMMIT_SLOW")
    assert home.owner.cards == []


async def held_git(pipe):
    """Wait until git waits for whoever writes to the pipe, and hold it there; its end lets git go on."""
    while True:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads it yet
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("stage", ["proposed", "carried", "approved", "shown"])
async def test_nobody_else_waits_while_git_is_asked(home, monkeypatch, stage):
    monkeypatch.setattr("coilclaw.gate.committing.PLAN_SECONDS", 60.0)
    (home.code / "a.txt").write_text("x\n")
    conveyor, asking = home.app.conveyor(nobody), turn(home, home.project)
    call = ToolCall.of("git_commit", {"message": "m"})
    action = None
    if stage != "proposed":
        action = conveyor.intake.propose(call, asking, "k")
    if stage in ("approved", "shown"):
        await conveyor.carry(action, asking, stored=False)
        action = load_action(home.app.db.reader, action.action_id)
    pipe = home.code / ".gitignore"
    os.mkfifo(pipe)
    work = {
        "proposed": lambda: conveyor.intake.proposed(call, asking, "k"),
        "carried": lambda: conveyor.carry(action, asking, stored=False),
        "approved": lambda: home.app.approvals(conveyor).approve(action, by="terminal", digest=action.digest),
        "shown": lambda: conveyor.intake.shown(action),
    }[stage]
    looking = asyncio.ensure_future(work())
    held = await asyncio.wait_for(held_git(pipe), 60)
    assert not looking.done(), "the event loop goes on while git waits"
    pipe.unlink()
    pipe.write_text("# a change that no card has shown\n")
    os.close(held)
    await looking
    assert git(home.code, "rev-list", "--count", "HEAD").strip() == "1"


async def test_a_commit_that_is_cut_off_while_git_is_asked_has_its_end_and_no_effect(home, monkeypatch):
    monkeypatch.setattr("coilclaw.gate.committing.PLAN_SECONDS", 60.0)
    (home.code / "a.txt").write_text("x\n")
    conveyor, asking = home.app.conveyor(nobody), turn(home, home.project)
    action = conveyor.intake.propose(ToolCall.of("git_commit", {"message": "m"}), asking, "k")
    os.mkfifo(home.code / ".gitignore")
    work = asyncio.ensure_future(conveyor.carry(action, asking, stored=False))
    held = await asyncio.wait_for(held_git(home.code / ".gitignore"), 60)
    work.cancel()
    os.close(held)
    with pytest.raises(asyncio.CancelledError):
        await work
    assert home.receipts()[-1].code == "CANCELLED", home.receipts()[-1]
    assert git(home.code, "rev-list", "--count", "HEAD").strip() == "1"
