"""Letting the agent into a folder: only the owner does, and only into a folder that can be one."""

import os

import pytest

from coilclaw.features.projects.folder import check_folder, check_name
from coilclaw.gate.turn import Turn
from coilclaw.packets.errors import UsageError
from coilclaw.store.projects import drop_project, open_projects
from tests.features.projects.world import add, folder

HAND = Turn("turn_hand", "", "gateway")


def args_of(home, path, *, name="code", vouch=True):
    found = check_folder(home.app, str(path))
    return {"name": name, "path": found.path, "inode": found.inode, "vouch": vouch}


@pytest.mark.parametrize("autonomy", ["supervised", "full"])
async def test_the_owner_is_asked_and_the_yes_makes_a_row_a_receipt_and_an_event(sample, autonomy):
    home = sample(security__autonomy=autonomy)
    path = folder(home)
    outcome = await home.call("project_add", HAND, **args_of(home, path, vouch=False))
    assert outcome.result.success, outcome.result.output
    (card,) = home.owner.cards
    assert (card.lane, str(path) in card.preview_or_diff) == ("C", True)
    assert "untrusted until you vouch" in card.preview_or_diff
    (project,) = open_projects(home.app.db.reader)
    assert (project.name, project.path, project.vouched) == ("code", str(path), False)
    assert (home.receipts()[-1].tool, home.receipts()[-1].status) == ("project_add", "allowed")
    events = home.app.db.reader.execute("SELECT event_type FROM audit_log").fetchall()
    assert ("project_added",) in events


async def test_a_no_adds_nothing(sample):
    home = sample()
    home.owner.answer = type(home.owner.answer)(approved=False, reason="no")
    path = folder(home)
    await home.call("project_add", HAND, **args_of(home, path))
    assert not open_projects(home.app.db.reader)


async def test_readonly_bounds_the_agent_and_not_the_owner(sample):
    home = sample(security__autonomy="readonly")
    added = await home.call("project_add", HAND, **args_of(home, folder(home)))
    assert added.result.success
    assert home.owner.cards[-1].lane == "C"


@pytest.mark.parametrize("source", ["chat", "job", "schedule", "sop", "cli"])
async def test_no_model_can_add_or_vouch_for_a_project(sample, source):
    home = sample(security__autonomy="full")
    path = folder(home)
    refused = await home.call("project_add", Turn("turn_m", "", source), **args_of(home, path))
    assert refused.result.code == "TOOL_NOT_ALLOWED"
    project = add(home, folder(home, "other"), vouched=False)
    vouch = {"project_id": project, "name": "other", "path": str(home.folder / "own" / "other")}
    assert (await home.call("project_vouch", Turn("turn_v", "", source), **vouch)).result.code == "TOOL_NOT_ALLOWED"
    assert not home.owner.cards
    assert [each.vouched for each in open_projects(home.app.db.reader)] == [False]
    assert not {"project_add", "project_vouch"} & home.app.allowed_tools


async def test_vouching_later_is_asked_for_too(sample):
    home = sample()
    path = folder(home)
    project = add(home, path, vouched=False)
    done = await home.call("project_vouch", HAND, project_id=project, name="code", path=str(path))
    assert done.result.success
    assert home.owner.cards[0].lane == "C"
    assert open_projects(home.app.db.reader)[0].vouched


async def test_a_folder_that_was_swapped_after_it_was_shown_is_not_added(sample):
    home = sample()
    path = folder(home)
    args = args_of(home, path)
    path.rename(path.parent / "aside")
    path.mkdir()
    (path / "x").touch()
    assert (await home.call("project_add", HAND, **args)).result.code == "CHANGED_MEANWHILE"
    assert not open_projects(home.app.db.reader)


def test_folders_that_cannot_be_projects_are_refused_with_the_reason_and_a_way_out(sample):
    home = sample(security__forbidden_paths=(os.path.realpath("/etc"),))
    path = folder(home, "code", a="1")
    user = home.folder / "user"
    (user / "deep").mkdir(parents=True)
    (home.workspace / "sub").mkdir()
    (home.app.config.sessions_dir / "sess_1").mkdir(parents=True)
    (home.folder / "own" / "link").symlink_to(path)
    add(home, folder(home, "taken"))
    (home.folder / "own" / "taken" / "inner").mkdir()
    refused = {
        "/": "whole machine",
        str(user): "home directory",
        str(home.folder): "home directory",
        str(home.home.root): "is CoilClaw's home",
        str(home.home.root / "keys"): "inside CoilClaw's home",
        str(home.workspace): "is the workspace",
        str(home.workspace / "sub"): "inside the workspace",
        str(home.app.config.sessions_dir / "sess_1"): "inside the folder of coding sessions",
        str(home.folder / "own" / "link"): str(path),
        str(path / "a"): "not a folder",
        str(path / "missing"): "No such file",
        "/etc": "system",
        "/usr/lib": "system",
        str(home.folder / "own" / "taken"): "is the project taken",
        str(home.folder / "own" / "taken" / "inner"): "inside the project taken",
        str(home.folder / "own"): "contains the project taken",
        "": "not a path",
        "a\0b": "not a path",
    }
    for given, why in refused.items():
        with pytest.raises(UsageError) as caught:
            check_folder(home.app, given)
        assert why in str(caught.value), given
        assert caught.value.remedy, given
    assert check_folder(home.app, str(user / "deep")).path == str(user / "deep")


def test_a_folder_below_a_forbidden_path_or_around_the_home_is_refused(sample):
    home = sample()
    home.app.environ = {"HOME": "/nonexistent"}
    with pytest.raises(UsageError, match="contains CoilClaw's home"):
        check_folder(home.app, str(home.home.root.parent))
    path = folder(home)
    closed = sample(security__forbidden_paths=(path.parent,))
    with pytest.raises(UsageError, match="forbidden"):
        check_folder(closed.app, str(path))


def test_names_are_plain_and_used_once(sample):
    home = sample()
    add(home, folder(home), name="code")
    for name in ("code", "-x", "a b", "a/b", "..", "é", "x" * 65, "prj_1"):
        with pytest.raises(UsageError) as caught:
            check_name(home.app, name, "/x/y")
        assert caught.value.remedy
    assert check_name(home.app, "", "/x/fresh") == "fresh"


async def test_the_same_folder_added_again_is_the_same_project(sample):
    home = sample()
    path = folder(home)
    await home.call("project_add", HAND, **args_of(home, path))
    (first,) = open_projects(home.app.db.reader)
    home.app.db.write_now(lambda tx: drop_project(tx, home.app.clock, first.project_id))
    await home.call("project_add", HAND, key="again", **args_of(home, path, name="again", vouch=False))
    (second,) = open_projects(home.app.db.reader)
    assert (second.project_id, second.name, second.vouched) == (first.project_id, "again", False)
