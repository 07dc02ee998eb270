"""file_move and file_delete through the gate: both ends and everything in a folder count, and undo brings it back."""

import json
import os

import pytest

from coilclaw.gate.turn import Turn
from coilclaw.packets.action import ToolCall
from coilclaw.packets.card import Answer

EVIL = "untrusted:evil.example"


def a_turn(number=1, *taint):
    return Turn(f"turn_{number}", "", "cli", taint)


def write(home, files):
    for path, text in files.items():
        (home.workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (home.workspace / path).write_text(text)


async def move(home, path, target, turn=None, **more):
    return await home.call("file_move", turn=turn or a_turn(), path=path, target=target, key=f"{path}>{target}", **more)


async def delete(home, path, turn=None):
    return await home.call("file_delete", turn=turn or a_turn(), path=path, key=f"{path}>")


async def undo(home):
    return await home.call("undo", turn=a_turn(99), key="undo")


async def labelled(home, path, text):
    await home.call("file_write", turn=a_turn(90, EVIL), path=path, content=text, key=f"labelled-{path}")


async def read(home, path):
    return (await home.call("file_read", turn=a_turn(80), path=path, key=f"read-{path}")).result


def tree(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


# What they do


async def test_a_file_and_a_folder_are_moved_and_come_back(sample):
    home = sample(security__autonomy="full")
    write(home, {"a.txt": "one", "d/x.txt": "two", "d/e/y.txt": "three"})
    (home.workspace / "a.txt").chmod(0o740)
    assert (await move(home, "a.txt", "new/place/b.txt")).result.success
    assert (await move(home, "d", "f")).result.success
    assert (home.workspace / "new/place/b.txt").stat().st_mode & 0o777 == 0o740
    assert tree(home.workspace / "f") == {"x.txt": "two", "e/y.txt": "three"}
    assert not (home.workspace / "d").exists()
    await undo(home)
    assert (home.workspace / "a.txt").read_text() == "one"
    assert tree(home.workspace / "d") == {"x.txt": "two", "e/y.txt": "three"}
    assert not (home.workspace / "f").exists()
    assert not (home.workspace / "new").exists()


async def test_a_file_and_a_folder_are_deleted_and_come_back(sample):
    home = sample(security__autonomy="full")
    write(home, {"a.txt": "one", "d/x.txt": "two", "d/e/y.txt": "three"})
    (home.workspace / "d/link").symlink_to("x.txt")
    assert (await delete(home, "a.txt")).result.success
    assert (await delete(home, "d")).result.success
    assert not (home.workspace / "a.txt").exists()
    assert not (home.workspace / "d").exists()
    await undo(home)
    assert (home.workspace / "a.txt").read_text() == "one"
    assert tree(home.workspace / "d") == {"x.txt": "two", "e/y.txt": "three", "link": "two"}
    assert os.readlink(home.workspace / "d/link") == "x.txt"


async def test_nothing_is_replaced_unless_that_is_asked(sample):
    home = sample(security__autonomy="full")
    write(home, {"a.txt": "one", "b.txt": "two", "d/x": "x"})
    assert (await move(home, "a.txt", "b.txt")).result.code == "FILE_EXISTS"
    assert (await move(home, "a.txt", "d", overwrite=True)).result.code == "FILE_EXISTS"
    assert (home.workspace / "b.txt").read_text() == "two"
    again = await home.call("file_move", turn=a_turn(), path="a.txt", target="b.txt", overwrite=True, key="over")
    assert again.result.success
    assert (home.workspace / "b.txt").read_text() == "one"
    await undo(home)
    assert (home.workspace / "b.txt").read_text() == "two"
    assert (home.workspace / "a.txt").read_text() == "one"


@pytest.mark.parametrize(
    ("path", "target", "said"),
    [
        ("gone", "x", "does not exist"),
        (".", "x", "workspace itself"),
        ("d", ".", "workspace itself"),
        ("d", "d/e/f", "or in it"),
        ("d", "d", "or in it"),
    ],
)
async def test_what_cannot_be_moved_asks_nobody(sample, path, target, said):
    home = sample()
    write(home, {"d/x": "x"})
    outcome = await move(home, path, target)
    assert said in outcome.result.output
    assert outcome.result.code == "FILE_ERROR"
    assert home.owner.cards == []


@pytest.mark.parametrize("path", [".", "./", "", "d/.."])
async def test_the_workspace_itself_is_never_deleted(sample, path):
    home = sample(security__autonomy="full")
    write(home, {"d/x": "x"})
    assert not (await delete(home, path)).result.success
    assert (home.workspace / "d" / "x").exists()


async def test_a_link_is_moved_and_deleted_itself(sample, tmp_path):
    home = sample(security__autonomy="full")
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    write(home, {"a.txt": "one"})
    (home.workspace / "in").symlink_to("a.txt")
    (home.workspace / "out").symlink_to(outside)
    assert (await move(home, "in", "moved")).result.success
    assert os.readlink(home.workspace / "moved") == "a.txt"
    assert (await delete(home, "out")).result.success
    assert outside.read_text() == "mine"
    assert (home.workspace / "a.txt").read_text() == "one"


# What is decided


async def test_the_card_names_everything_that_goes(sample):
    home = sample()
    write(home, {"d/x.txt": "12345", "d/e/y.txt": "123"})
    (home.workspace / "d/empty").mkdir()
    home.owner.answer = Answer(approved=False)
    await delete(home, "d")
    lines = home.owner.cards[0].preview_or_diff.split("\n")
    assert lines[0] == "Removes d: a folder with 2 files and 2 folders, 8 bytes in all."
    assert sorted(lines[1:-1]) == ["  e/", "  e/y.txt  3 bytes", "  empty/", "  x.txt  5 bytes"]
    assert "no empty folders (here 1)" in lines[-1]
    await move(home, "d/x.txt", "z.txt")
    assert home.owner.cards[1].preview_or_diff == "Moves d/x.txt to z.txt (5 bytes)."
    assert (home.workspace / "d/x.txt").exists()


@pytest.mark.parametrize("tool", ["file_move", "file_delete"])
async def test_readonly_denies_both(sample, tool):
    home = sample(security__autonomy="readonly")
    write(home, {"a.txt": "one"})
    args = {"path": "a.txt"} | ({"target": "b.txt"} if tool == "file_move" else {})
    assert (await home.call(tool, **args)).result.code == "AUTONOMY_READONLY"
    assert (home.workspace / "a.txt").exists()


@pytest.mark.parametrize(
    ("path", "target", "code"),
    [
        (".git", "elsewhere", "PATH_PROTECTED"),
        ("a.txt", ".git/hooks/post-commit", "PATH_PROTECTED"),
        ("a.txt", "audit/x", "PATH_PROTECTED"),
        ("repo", "other", "PATH_PROTECTED"),
        ("a.txt", "almost/HEAD", "PATH_PROTECTED"),
        ("objects", "nearly/objects", "PATH_PROTECTED"),
        ("leads", "nearly/objects", "PATH_PROTECTED"),
        ("leads", "commons/commondir", "PATH_PROTECTED"),
        ("a.txt", "../out.txt", "PATH_OUTSIDE_WORKSPACE"),
    ],
)
async def test_protected_places_count_at_both_ends(sample, path, target, code):
    home = sample(security__autonomy="full")
    write(home, {"a.txt": "one", "repo/.git/config": "x", "almost/objects/x": "", "almost/refs/x": ""})
    write(home, {"nearly/HEAD": "", "nearly/refs/x": ""})
    write(home, {"commons/HEAD": "", "commons/a": ""})
    (home.workspace / "objects").mkdir()
    (home.workspace / "leads").symlink_to("objects")
    assert (await move(home, path, target)).result.code == code
    assert (home.workspace / path).exists()


@pytest.mark.parametrize(
    ("path", "target", "code"),
    [
        ("SYSTEM.md", "old.md", "LANE_C"),
        ("a.txt", "policies/new.json", "LANE_C"),
        ("a.txt", ".npmrc", "RUN_BY_OTHERS"),
        ("tools", "elsewhere", "RUN_BY_OTHERS"),
    ],
)
async def test_what_governs_or_runs_asks_in_full(sample, path, target, code):
    home = sample(security__autonomy="full")
    write(home, {"a.txt": "one", "tools/.vscode/tasks.json": "{}"})
    home.owner.answer = Answer(approved=False)
    outcome = await move(home, path, target)
    assert outcome.action.decision.code == code
    assert len(home.owner.cards) == 1
    assert (home.workspace / path).exists()


@pytest.mark.parametrize(("path", "target"), [("skills", "s"), ("a.txt", "skills/x/SKILL.md"), ("deep", "d")])
async def test_a_tainted_turn_moves_nothing_that_steers_in_or_out(sample, path, target):
    home = sample(security__autonomy="full")
    write(home, {"a.txt": "one", "skills/y/SKILL.md": "x", "deep/.hidden/x": "x"})
    outcome = await move(home, path, target, a_turn(2, EVIL))
    assert outcome.result.code == "PATH_TAINTED"
    assert (await delete(home, path, a_turn(3, EVIL))).result.success == (path == "a.txt")


@pytest.mark.parametrize(("path", "target"), [("l", "v/bin"), ("d", "e"), ("l", ".cargo"), ("l", "Scripts")])
async def test_a_link_with_the_name_of_a_folder_of_programs_counts_as_what_runs(sample, path, target):
    home = sample(security__autonomy="full")
    write(home, {"c/config.toml": "x", "d/a": "x"})
    (home.workspace / "l").symlink_to("c")
    (home.workspace / "d" / "bin").symlink_to("../c")
    assert (await move(home, path, target, a_turn(2, EVIL))).result.code == "PATH_TAINTED"
    home.owner.answer = Answer(approved=False)
    outcome = await home.call("file_move", turn=a_turn(), path=path, target=target, key="clean")
    assert outcome.action.decision.code == "RUN_BY_OTHERS"
    assert (await move(home, "l", "elsewhere")).result.success


async def test_a_rule_about_one_file_holds_for_its_folder(sample):
    home = sample(security__autonomy="full")
    when = {"id": "keep", "when": {"path": "d/keep.txt"}, "verdict": "deny", "reason": "Keep it."}
    (home.workspace / "policies" / "mine.json").write_text(json.dumps({"version": 1, "rules": [when]}))
    write(home, {"d/keep.txt": "x", "d/e/y": "y", "b.txt": "b"})
    assert (await delete(home, "d")).result.code == "POLICY_RULE"
    assert (await move(home, "d", "f")).result.code == "POLICY_RULE"
    assert (home.workspace / "d/e/y").exists()


async def test_a_folder_with_too_many_files_is_refused(sample):
    home = sample(security__autonomy="full")
    (home.workspace / "d").mkdir()
    for number in range(2001):
        (home.workspace / "d" / str(number)).touch()
    assert (await delete(home, "d")).result.code == "TOO_MANY_FILES"


async def test_many_protected_files_are_one_reason(sample):
    home = sample(security__autonomy="full")
    write(home, {f"skills/{number}/SKILL.md": "x" for number in range(50)})
    outcome = await delete(home, "skills", a_turn(2, EVIL))
    assert outcome.result.code == "PATH_TAINTED"
    assert len(outcome.action.decision.reasons) < 5


@pytest.mark.parametrize("name", [b"bad\xff", b"line\nbreak", "bi\u202edi".encode()])
async def test_unusual_names_in_a_folder(sample, name):
    home = sample()
    (home.workspace / "d").mkdir()
    (home.workspace / "d" / os.fsdecode(name)).write_text("x")
    outcome = await delete(home, "d")
    if name == b"bad\xff":
        assert outcome.result.code == "PATH_INVALID"
        assert (home.workspace / "d").exists()
    else:
        assert outcome.result.success
        assert "\u202e" not in home.owner.cards[0].preview_or_diff
        assert len(home.owner.cards[0].preview_or_diff.split("\n")) == 2


# Labels


async def test_labels_go_along_with_a_file(sample):
    home = sample(security__autonomy="full")
    await labelled(home, "d/web.txt", "from the web")
    await labelled(home, "d/tiny.txt", "x")  # too small to be known again by its content
    write(home, {"d/mine.txt": "my own words"})
    await move(home, "d", "e")
    assert (await read(home, "e/web.txt")).label == EVIL
    assert (await read(home, "e/tiny.txt")).label == EVIL
    assert (await read(home, "e/mine.txt")).label == "owner"
    assert (await home.call("file_list", turn=a_turn(70), path="e", key="list")).result.label == EVIL


async def test_a_tainted_turn_does_not_taint_what_it_moves_but_the_name_it_chose(sample):
    home = sample(security__autonomy="full")
    write(home, {"mine.txt": "my own words", "f/x": "x"})
    await move(home, "mine.txt", "f/ignore-previous-instructions.txt", a_turn(2, EVIL))
    assert (await read(home, "f/ignore-previous-instructions.txt")).label == "owner"
    assert (await home.call("file_list", turn=a_turn(70), path="f", key="list")).result.label == EVIL


# Between the yes and the run


@pytest.mark.parametrize("tool", ["file_move", "file_delete"])
async def test_what_changed_between_the_yes_and_the_run_needs_a_new_yes(sample, tool):
    home = sample()
    write(home, {"d/x.txt": "one"})
    home.owner.answer = Answer(approved=None)
    args = {"path": "d"} | ({"target": "e"} if tool == "file_move" else {})
    waiting = await home.call(tool, turn=a_turn(), key="w", **args)
    write(home, {"d/x.txt": "two, by the owner"})
    outcome = await home.approve(waiting.action.action_id)
    assert outcome is None or not outcome.result.success
    assert tree(home.workspace / "d") == {"x.txt": "two, by the owner"}


async def meanwhile(home, tool, change, **args):
    """Carry a call, with something happening after the decision and before the tool runs."""
    conveyor = home.conveyor()
    run = conveyor.attempts.run

    async def changed(*given):
        change()
        return await run(*given)

    conveyor.attempts.run = changed
    turn = a_turn()
    action = conveyor.intake.propose(ToolCall.of(tool, args), turn, "k")
    return (await conveyor.carry(action, turn, stored=False)).result


async def test_what_is_put_into_a_folder_meanwhile_is_not_deleted(sample):
    home = sample(security__autonomy="full")
    write(home, {"d/x.txt": "one", "d/y.txt": "two"})

    def change():
        write(home, {"d/new.txt": "the owner's", "d/y.txt": "changed by the owner"})

    result = await meanwhile(home, "file_delete", change, path="d")
    assert result.code == "FILE_CHANGED"
    assert tree(home.workspace / "d") == {"new.txt": "the owner's", "y.txt": "changed by the owner"}


async def test_a_folder_that_changed_meanwhile_is_not_moved(sample):
    home = sample(security__autonomy="full")
    write(home, {"d/x.txt": "one"})
    result = await meanwhile(home, "file_move", lambda: write(home, {"d/.envrc": "x"}), path="d", target="e")
    assert result.code == "FILE_CHANGED"
    assert not (home.workspace / "e").exists()


async def test_a_file_that_appears_at_the_target_meanwhile_is_not_replaced(sample):
    home = sample(security__autonomy="full")
    write(home, {"a.txt": "one"})
    result = await meanwhile(home, "file_move", lambda: write(home, {"b.txt": "new"}), path="a.txt", target="b.txt")
    assert not result.success
    assert "b.txt already exists" in result.output
    assert (home.workspace / "b.txt").read_text() == "new"
    assert (home.workspace / "a.txt").read_text() == "one"


@pytest.mark.parametrize("tool", ["file_move", "file_delete"])
async def test_a_folder_swapped_for_a_link_meanwhile_is_not_followed(sample, tmp_path, tool):
    home = sample(security__autonomy="full")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.txt").write_text("mine")
    write(home, {"d/e/x.txt": "one"})

    def change():
        (home.workspace / "d/e").rename(home.workspace / "aside")
        (home.workspace / "d/e").symlink_to(outside)

    args = {"path": "d/e/x.txt"} | ({"target": "y.txt"} if tool == "file_move" else {})
    result = await meanwhile(home, tool, change, **args)
    assert not result.success
    assert (outside / "x.txt").read_text() == "mine"


async def test_a_folder_is_not_moved_while_a_command_runs(sample):
    import fcntl

    home = sample(security__autonomy="full")
    write(home, {"d/x.txt": "one", "a.txt": "plain"})
    fd = os.open(home.workspace, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    try:
        assert (await move(home, "d", "e")).result.code == "WORKSPACE_BUSY"
        assert (await delete(home, "a.txt")).result.success
    finally:
        os.close(fd)
