"""Where a path really leads."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coilclaw.gate.paths import Places, box_read_only, classify, look_at
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ids import utc_now
from coilclaw.sandbox.quarantine import Quarantine
from coilclaw.sandbox.survey import survey


@pytest.fixture
def places(tmp_path):
    workspace, home, user = tmp_path / "ws", tmp_path / "home", tmp_path / "user"
    for folder in (workspace / "sub", home, user / ".ssh"):
        folder.mkdir(parents=True)
    return Places.of(workspace, home, user, ("/etc", str(user / ".ssh")))


@pytest.mark.parametrize("asked", ["a.txt", "./a.txt", "sub/../a.txt", "sub//./../a.txt"])
def test_dots_are_resolved(places, asked):
    assert look_at(asked, places, write=False).relative == "a.txt"


@pytest.mark.parametrize("asked", ["..", "../x", "/", "/tmp/x", "sub/../../x", "~", "~/x", "~root/x"])
def test_outside_is_outside(places, asked):
    assert look_at(asked, places, write=False).relative is None


def test_an_absolute_path_inside_is_inside(places):
    assert look_at(f"{places.workspace}/sub/x", places, write=False).relative == "sub/x"


def test_a_link_out_of_the_workspace_is_outside(places, tmp_path):
    os.symlink("/usr", f"{places.workspace}/out")
    assert look_at("out/bin/ls", places, write=False).relative is None


def test_a_link_within_the_workspace_gets_the_class_of_where_it_leads(places):
    os.mkdir(f"{places.workspace}/policies")
    os.symlink("policies", f"{places.workspace}/harmless")
    fact = look_at("harmless/x.json", places, write=True)
    assert (fact.relative, fact.path_class) == ("policies/x.json", "owner")


def test_a_link_into_git_is_git(places):
    os.mkdir(f"{places.workspace}/.git")
    os.symlink("../.git", f"{places.workspace}/sub/g")
    assert look_at("sub/g/hooks/pre-commit", places, write=True).path_class == "never"


def test_forbidden_places_are_forbidden_by_name_and_by_link(places):
    assert look_at("/etc/passwd", places, write=False).forbidden_by == "/etc"
    assert look_at("~/.ssh/id_rsa", places, write=False).forbidden_by.endswith(".ssh")
    os.symlink("/etc", f"{places.workspace}/conf")
    assert look_at("conf/passwd", places, write=False).forbidden_by == "/etc"


def test_the_home_is_seen_through_links(places):
    os.symlink(places.home, f"{places.workspace}/h")
    assert look_at("h/config.toml", places, write=False).in_home


@pytest.mark.parametrize("asked", ["", "a\0b", "x" * 5000])
def test_what_cannot_be_a_path_is_a_fault(places, asked):
    assert look_at(asked, places, write=False).fault


def test_a_workspace_below_a_forbidden_path_still_works(tmp_path):
    workspace = tmp_path / "ws"
    workspace.mkdir()
    places = Places.of(workspace, tmp_path / "home", tmp_path, (str(tmp_path),))
    assert look_at("a", places, write=False).forbidden_by == ""
    assert look_at("../x", places, write=False).forbidden_by == str(tmp_path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=300)
@given(st.lists(st.sampled_from(["..", ".", "sub", "a", "", "~", "/", ".git"]), max_size=8))
def test_inside_means_the_resolved_path_begins_with_the_workspace(places, parts):
    fact = look_at("/".join(parts) or ".", places, write=True)
    if fact.relative is not None:
        resolved = os.path.realpath(os.path.join(places.workspace, fact.relative))
        assert resolved == places.workspace or resolved.startswith(places.workspace + "/")
        assert ".." not in fact.relative.split("/")


def test_a_box_writes_what_starts_work_only_where_that_was_asked(tmp_path):
    places = Places.of(tmp_path, tmp_path.parent / "home", tmp_path, ())
    asked, other = (box_read_only(places, (), guarded=False, starting=each) for each in (False, True))
    assert set(other) - set(asked) == {str(tmp_path / "cron"), str(tmp_path / "sops")}


def test_a_tainted_box_may_write_less(tmp_path):
    (tmp_path / ".envrc").touch()
    clean = box_read_only(
        Places.of(tmp_path, tmp_path.parent / "home", tmp_path, ()), (), guarded=False, starting=False
    )
    tainted = box_read_only(
        Places.of(tmp_path, tmp_path.parent / "home", tmp_path, ()), (), guarded=True, starting=True
    )
    assert set(clean) < set(tainted)
    assert str(tmp_path / ".git") in clean
    assert str(tmp_path / ".envrc") in tainted


def test_repositories_below_the_workspace_are_found_wherever_they_are(tmp_path):
    for number in range(300):
        (tmp_path / "zz" / str(number)).mkdir(parents=True)
    (tmp_path / "node_modules" / "b" / ".venv" / "d" / "e" / ".git").mkdir(parents=True)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / ".git").write_text("gitdir: elsewhere")
    (tmp_path / "bare" / "objects").mkdir(parents=True)
    (tmp_path / "bare" / "refs").mkdir()
    (tmp_path / "bare" / "HEAD").touch()
    found = box_read_only(
        Places.of(tmp_path, tmp_path.parent / "home", tmp_path, ()),
        survey(tmp_path).repositories,
        guarded=False,
        starting=False,
    )
    assert {f"{tmp_path}/{path}" for path in ("node_modules/b/.venv/d/e/.git", "tree/.git", "bare")} <= set(found)


def test_a_workspace_with_too_many_repositories_is_refused(tmp_path):
    for number in range(320):
        (tmp_path / "ws" / str(number) / ".git").mkdir(parents=True)
    quarantine = Quarantine(tmp_path / "ws", tmp_path / "quarantine", utc_now)
    with pytest.raises(ToolError, match="too many"):
        quarantine.begin("act_1", tainted=False, names=True, allowed=(), links=False)


@pytest.mark.parametrize(
    ("path", "path_class"),
    [
        ("bare/HEAD", "never"), ("own/config", "never"), ("own/a/b", "never"), ("half/refs/x", "never"),
        ("half/HEAD", "plain"),
        ("link", "executed"), ("plain.txt", "plain"), ("half/objects/x", "plain"),
    ],
)  # fmt: skip
def test_a_write_that_would_complete_a_repository_is_never_allowed(tmp_path, path, path_class):
    places = Places.of(tmp_path, tmp_path.parent / "home", tmp_path, ())
    for folder in ("bare/objects", "bare/refs", "half/objects", "own/objects", "own/refs"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "half" / "HEAD").touch()
    (tmp_path / "own" / "HEAD").touch()
    (tmp_path / ".envrc").symlink_to("plain.txt")
    asked = ".envrc" if path == "link" else path
    assert look_at(asked, places, write=True).path_class == path_class
    assert look_at("own/config", places, write=False).path_class == "plain"


@pytest.mark.parametrize(
    ("relative", "path_class"),
    [
        ("", "plain"), ("a/b.txt", "plain"), ("SYSTEM.md", "owner"), ("system.MD", "owner"), ("sub/SYSTEM.md", "plain"),
        ("policies/x", "owner"), (".github/workflows/x.yml", "owner"), ("agent/loop.py", "owner"),
        ("skills/x", "guarded"),
        ("memory/x", "informal"), ("memory/PREFERENCES.md", "guarded"), ("intel/x", "informal"),
        (".bashrc", "executed"),
        (".x", "guarded"), ("a/.Envrc", "executed"), ("skills/x/.envrc", "executed"), ("memory/AGENTS.md", "executed"),
        ("a/.vscode/tasks.json", "executed"), ("lib/site-packages/x.pth", "executed"), ("jobs/.envrc", "never"),
        (".github/.envrc", "owner"), ("x/.github/y", "executed"), (".cargo/config.toml", "executed"),
        (".cargo/registry", "guarded"), ("package.json", "plain"), ("x/.GIT/config", "never"), ("git~1", "never"),
        ("x/.g\u200cit", "never"), (".gitignore", "guarded"),
        (".git", "never"), ("x/.git/config", "never"), ("jobs/x", "never"), ("audit", "never"),
    ],
)  # fmt: skip
def test_the_classes_of_the_design(relative, path_class):
    assert classify(relative) == path_class


def test_what_is_kept_as_memory_is_closed_to_a_command_on_demand(places):
    names = {os.path.basename(path) for path in box_read_only(places, (), guarded=True, starting=True, informal=True)}
    assert {"memory", "intel", "skills"} <= names
    assert "intel" not in {os.path.basename(path) for path in box_read_only(places, (), guarded=True, starting=True)}
