"""The workspace and main: the sweep names who changed what, and deploying never overwrites an edit."""

import os
import stat

import pytest

from coilclaw.features.forge.store import deployed_commit
from coilclaw.features.forge.workspace import BotWorkspace
from coilclaw.packets.errors import ToolError
from coilclaw.packets.forge import MAIN
from coilclaw.sandbox.bot_repository import BOT, PROGRAM, Written
from coilclaw.sandbox.fake_box import FakeBox, finished
from tests.features.projects.world import git
from tests.home import Sample


@pytest.fixture
def home(tmp_path):
    sample = Sample(tmp_path)
    yield sample
    sample.close()


@pytest.fixture
def bot(home):
    return BotWorkspace(home.app)


def merged(bot, *changes):
    """Main as a merge leaves it, before anything is deployed."""
    main = bot.main()
    new = bot.repository.commit(main, changes, "merged", BOT, 1_800_000_000)
    bot.repository.move(MAIN, new, main)
    return new


def test_a_clean_workspace_is_left_as_it_is(bot):
    main = bot.main()
    assert bot.fault() == ""
    assert bot.settle("before a test") == main


async def test_the_commit_names_the_action_whose_receipt_explains_a_file(home, bot):
    outcome = await home.call("file_write", path="notes/a.md", content="by the agent\n")
    (home.app.workspace / "by-hand.md").write_text("by the owner\n")
    new = bot.settle("daily")
    entry = bot.repository.log(new, 1)[0]
    assert entry.author == "Owner <owner@localhost>"
    assert f"Action: {outcome.action.action_id}" in entry.body
    assert "Origin: outside" in entry.body
    assert bot.repository.read(new, "notes/a.md") == b"by the agent\n"
    assert git(home.app.workspace, "status", "--porcelain") == ""
    assert bot.settle("again") == new


async def test_what_only_the_agent_changed_has_no_other_origin(home, bot):
    await home.call("file_write", path="a.md", content="x")
    assert "Origin: outside" not in bot.repository.log(bot.settle("daily"), 1)[0].body


async def test_an_action_is_named_once(home, bot):
    outcome = await home.call("file_write", path="a.md", content="x")
    bot.settle("daily")
    (home.app.workspace / "a.md").write_text("by the owner")
    body = bot.repository.log(bot.settle("daily"), 1)[0].body
    assert outcome.action.action_id not in body
    assert "Origin: outside" in body


async def test_the_owners_words_in_a_file_of_the_agents_are_not_credited_to_it(home, bot):
    file = home.app.workspace / "a.md"
    write = {"tool": "file_write", "path": "a.md"}
    edit = {"tool": "file_edit", "path": "a.md", "edits": [{"old": "agent", "new": "agent, again"}]}
    both = {f"Action: {(await home.call(**write, content='by the agent', key='1')).action.action_id}"}
    both.add(f"Action: {(await home.call(**edit, key='2')).action.action_id}")
    assert {*bot.repository.log(bot.settle("daily"), 1)[0].body.splitlines()[2:]} == both, "each that had a part"

    await home.call(**write, content="by the agent", key="3")
    file.write_text("by the owner, after it")
    assert "Origin: outside" in bot.repository.log(bot.settle("daily"), 1)[0].body
    file.write_text("by the owner, before it: agent")
    await home.call(**edit, key="4")
    assert "Origin: outside" in bot.repository.log(bot.settle("daily"), 1)[0].body
    await home.call(**write, content="by the agent", key="5")
    file.write_text("by the owner, in between: agent")
    await home.call(**edit, key="6")
    assert "Origin: outside" in bot.repository.log(bot.settle("daily"), 1)[0].body


async def test_what_the_owner_wrote_before_a_command_is_not_credited_to_it(home, bot):
    file = home.app.workspace / "a.md"

    def appends(spec):
        file.write_text(file.read_text() + "by a command\n")
        return finished()

    home.box = FakeBox(appends)
    file.write_text("by the owner\n")
    bot.settle("daily")
    await home.call("shell", command="make", key="1")
    body = bot.repository.log(bot.settle("daily"), 1)[0].body
    assert "Action: act_" in body
    assert "Origin: outside" not in body
    file.write_text("by the owner, again\n")
    await home.call("shell", command="make", key="2")
    assert "Origin: outside" in bot.repository.log(bot.settle("daily"), 1)[0].body


def test_removed_files_modes_and_ignored_ones(home, bot):
    workspace = home.app.workspace
    (workspace / "COMMS.md").unlink()
    script = workspace / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    (workspace / ".gitignore").write_text("/logs\n")
    (workspace / "logs").mkdir()
    (workspace / "logs" / "x").write_text("x")
    entries = bot.repository.entries(bot.settle("daily"))
    assert "COMMS.md" not in entries
    assert entries["run.sh"].mode == PROGRAM
    assert not any(path.startswith("logs/") for path in entries)


def test_links_and_pipes_are_left_out_and_nothing_waits_for_them(home, bot):
    workspace = home.app.workspace
    (workspace / "link").symlink_to("/etc/passwd")
    os.mkfifo(workspace / "pipe")
    (workspace / "a.md").write_text("a")
    entries = bot.repository.entries(bot.settle("daily"))
    assert "a.md" in entries
    assert not {"link", "pipe"} & set(entries)


def test_filters_of_the_repository_never_run(home, bot, tmp_path):
    workspace, marker = home.app.workspace, tmp_path / "ran"
    git(workspace, "config", "filter.evil.clean", f"touch {marker}; cat")
    (workspace / ".gitattributes").write_text("* filter=evil text eol=crlf\n")
    (workspace / "a.md").write_bytes(b"a\r\nb\n")
    new = bot.settle("daily")
    assert bot.repository.read(new, "a.md") == b"a\r\nb\n"
    assert not marker.exists()


def test_a_nested_repository_is_not_looked_into(home, bot):
    nested = home.app.workspace / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    (nested / "x").write_text("x")
    assert not any(path.startswith("nested") for path in bot.repository.entries(bot.settle("daily")))


def test_what_was_merged_is_put_in_place(home, bot):
    workspace = home.app.workspace
    bot.settle("first")
    new = merged(bot, Written("intel/x.md", b"x"), Written("bin/run", b"#!", PROGRAM), Written("COMMS.md", None))
    assert bot.settle("deploy") == new
    assert (workspace / "intel/x.md").read_bytes() == b"x"
    assert stat.S_IMODE((workspace / "bin/run").stat().st_mode) & 0o100
    assert not (workspace / "COMMS.md").exists()
    assert deployed_commit(home.app.db.reader) == new
    assert git(workspace, "status", "--porcelain") == ""


def test_an_edit_meanwhile_is_kept_and_committed(home, bot):
    workspace = home.app.workspace
    bot.settle("first")
    merged(bot, Written("COMMS.md", b"merged\n"), Written("b.md", b"b"))
    (workspace / "COMMS.md").write_text("the owner's own\n")
    new = bot.settle("deploy")
    assert (workspace / "COMMS.md").read_text() == "the owner's own\n"
    assert (workspace / "b.md").read_text() == "b"
    assert bot.repository.read(new, "COMMS.md") == b"the owner's own\n"
    assert "deploy_kept_edits" in [
        row[0] for row in home.app.db.reader.execute("SELECT event_type FROM audit_log").fetchall()
    ]


def test_a_lock_that_a_killed_git_left_in_the_home_stops_nothing(home, bot):
    bot.settle("first")
    (home.app.home.root / "forge" / "index.lock").touch()
    merged(bot, Written("b.md", b"b"))
    (home.app.workspace / "own.md").write_text("own")
    assert bot.repository.read(bot.settle("again"), "own.md") == b"own"


def test_a_locked_index_of_the_owner_keeps_no_merge_from_being_deployed(home, bot):
    workspace = home.app.workspace
    bot.settle("first")
    lock = workspace / ".git" / "index.lock"
    lock.touch()
    new = merged(bot, Written("b.md", b"b"))
    assert bot.settle("deploy") == new
    assert deployed_commit(home.app.db.reader) == new
    assert (workspace / "b.md").read_text() == "b"
    lock.unlink()
    bot.settle("again")
    assert git(workspace, "status", "--porcelain") == "", "the index is brought up to date later"


def test_what_the_owners_own_git_hides_is_not_committed(home, bot):
    workspace = home.app.workspace
    (workspace / ".git" / "info").mkdir(exist_ok=True)
    (workspace / ".git" / "info" / "exclude").write_text("private.txt\n")
    (workspace / "private.txt").write_text("mine alone\n")
    (workspace / "notes.md").write_text("a note\n")
    new = bot.settle("daily")
    assert bot.repository.read(new, "notes.md") is not None
    assert bot.repository.read(new, "private.txt") is None


def test_a_merge_that_changes_the_mode_alone_is_deployed(home, bot):
    workspace = home.app.workspace
    bot.settle("first")
    first = merged(bot, Written("bin/run", b"#!"))
    assert bot.settle("deploy") == first
    new = merged(bot, Written("bin/run", b"#!", PROGRAM))
    assert bot.settle("deploy") == new, "the sweep took the merged mode back"
    assert (workspace / "bin/run").stat().st_mode & 0o100


def test_long_names_that_begin_alike_keep_their_own_contents(home, bot):
    workspace = home.app.workspace
    bot.settle("first")
    long = {f"{'n' * 90}-{number}.md": f"{number}".encode() for number in range(3)}
    new = merged(bot, *(Written(name, data) for name, data in long.items()))
    assert bot.settle("deploy") == new
    assert {name: (workspace / name).read_bytes() for name in long} == long


def test_a_file_may_come_where_a_folder_was_and_a_folder_where_a_file_was(home, bot):
    workspace = home.app.workspace
    bot.settle("first")
    merged(bot, Written("a/b/c.md", b"c"), Written("d", b"d"))
    bot.settle("deploy")
    changes = Written("a/b/c.md", None), Written("a", b"a file"), Written("d", None), Written("d/e.md", b"e")
    new = merged(bot, *changes)
    assert bot.settle("deploy") == new
    assert (workspace / "a").read_text() == "a file"
    assert (workspace / "d/e.md").read_text() == "e"


def test_a_folder_with_files_of_the_owner_stays_where_a_file_should_come(home, bot):
    workspace = home.app.workspace
    bot.settle("first")
    merged(bot, Written("a", b"a file"))
    (workspace / "a").mkdir()
    (workspace / "a/own.md").write_text("own")
    new = bot.settle("deploy")
    assert (workspace / "a/own.md").read_text() == "own"
    assert bot.repository.read(new, "a/own.md") == b"own"


def test_an_edit_between_the_look_and_the_last_moment_is_kept(home, bot):
    """All files are written aside before the first takes its place; an editor may save another one meanwhile."""
    workspace = home.app.workspace
    bot.settle("first")
    merged(bot, *(Written(f"d/{name}.md", name.encode()) for name in "abc"))
    bot.settle("deploy")
    merged(bot, *(Written(f"d/{name}.md", b"merged") for name in "abc"))
    home.app.reached = lambda what: what == "deploying" and (workspace / "d/c.md").write_text("edited")
    new = bot.settle("deploy")
    home.app.reached = lambda _: None
    assert [(workspace / f"d/{name}.md").read_text() for name in "abc"] == ["merged", "merged", "edited"]
    assert sorted(os.listdir(workspace / "d")) == ["a.md", "b.md", "c.md"]
    assert bot.repository.read(new, "d/c.md") == b"edited"


@pytest.mark.parametrize("killed_at", range(1, 4))
def test_a_deployment_that_was_cut_goes_on(home, bot, killed_at):
    bot.settle("first")
    new = merged(bot, *(Written(f"d/{name}.md", name.encode()) for name in "abc"))
    count = 0

    def reached(what):
        nonlocal count
        count += what == "deploying"
        if what == "deploying" and count == killed_at:
            raise KeyboardInterrupt

    home.app.reached = reached
    with pytest.raises(KeyboardInterrupt):
        bot.settle("deploy")
    home.app.reached = lambda _: None
    assert bot.settle("again") == new
    assert sorted(path.name for path in (home.app.workspace / "d").iterdir()) == ["a.md", "b.md", "c.md"]


def test_a_sweep_that_was_cut_is_not_done_twice(home, bot):
    (home.app.workspace / "a.md").write_text("a")

    def reached(what):
        if what == "main_moved":
            raise KeyboardInterrupt

    home.app.reached = reached
    with pytest.raises(KeyboardInterrupt):
        bot.settle("first")
    home.app.reached = lambda _: None
    main = bot.main()
    assert bot.settle("again") == main


def test_the_owners_own_commits_and_a_rewritten_main_lose_nothing(home, bot):
    workspace = home.app.workspace
    first = bot.settle("first")
    (workspace / "mine.md").write_text("mine")
    git(workspace, "add", "mine.md")
    git(workspace, "commit", "-qm", "by hand")
    assert bot.settle("daily") == bot.main()
    git(workspace, "reset", "-q", "--soft", first)
    new = bot.settle("daily")
    assert bot.repository.read(new, "mine.md") == b"mine"


def test_another_branch_checked_out_is_refused_with_the_remedy(home, bot):
    git(home.app.workspace, "checkout", "-qb", "elsewhere")
    with pytest.raises(ToolError, match="checkout main"):
        bot.settle("daily")
