"""Projects at the terminal and over HTTP, with the real executable and a real server."""

import json
import os
import subprocess
import sys

import pytest

from coilclaw.features.chat.feature import chat_part
from coilclaw.features.projects.feature import projects_part
from coilclaw.gate.turn import Turn
from coilclaw.store.projects import open_projects, project_of
from tests.features.projects.world import add, folder
from tests.server.parts import joined
from tests.server.site import served


def run(home, *args, cwd=None):
    env = {**os.environ, **home.environ, "COILCLAW_HOME": str(home.home.root)}
    return subprocess.run(
        [sys.executable, "-c", "import sys; from coilclaw.cli import main; sys.exit(main())", *args],
        env=env,
        cwd=cwd or home.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def writes(path, content="x"):
    return {"tool_calls": [{"tool": "file_write", "args": {"path": path, "content": content}}]}


def talk(home, *args, cwd, script):
    home.script(*script)
    done = run(home, "agent", "-m", "do it", "--yes", "--json", *args, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
async def test_a_project_is_added_listed_and_removed(sample):
    home = sample()
    path = folder(home)
    unsaid = run(home, "project", "add", str(path))
    assert (unsaid.returncode, "--no-vouch" in unsaid.stderr) == (2, True)
    waits = run(home, "project", "add", str(path), "--no-vouch", "--name", "site")
    assert waits.returncode == 4, waits.stderr
    assert not open_projects(home.app.db.reader)
    (action,) = home.app.db.reader.execute("SELECT action_id FROM proposed_actions").fetchone()
    assert (await home.approve(action)).result.success
    (listed,) = json.loads(run(home, "project", "list", "--json").stdout)
    assert (listed["name"], listed["path"], listed["vouched"], listed["fault"]) == ("site", str(path), False, "")
    again = run(home, "project", "add", str(path), "--vouch")
    assert (again.returncode, "is the project site" in again.stderr) == (2, True)
    wrong = run(home, "project", "remove", "sit")
    assert (wrong.returncode, "site" in wrong.stderr) == (2, True)
    assert run(home, "project", "remove", "site").returncode == 0
    assert json.loads(run(home, "project", "list", "--json").stdout) == []


@pytest.mark.slow
def test_a_call_is_tried_in_a_project(sample):
    home = sample()
    path = folder(home)
    call = json.dumps({"tool": "file_read", "args": {"path": str(path / "a.txt")}})
    add(home, path, name="site")

    def verdict(*more):
        done = run(home, "policy", "check", "--json", call, *more)
        return json.loads(done.stdout)["verdict"] if done.returncode == 0 else done.stderr

    assert (verdict(), verdict("--project", "site")) == ("deny", "allow")
    assert "no project 'sit'" in verdict("--project", "sit")


@pytest.mark.slow
def test_the_agent_works_where_it_is_started_or_told_and_a_conversation_stays_there(sample):
    home = sample()
    code = folder(home)
    (code / "deep").mkdir()
    project = add(home, code)
    begun = talk(home, cwd=code / "deep", script=[writes("one.txt"), {"text": "done"}])
    assert (begun["project"], (code / "one.txt").exists()) == ("code", True)
    assert project_of(home.app.db.reader, begun["conversation_id"]) == project
    talk(home, "-c", begun["conversation_id"], cwd=home.folder, script=[writes("two.txt"), {"text": "done"}])
    assert (code / "two.txt").exists()
    talk(home, "--project", "code", cwd=home.folder, script=[writes("three.txt"), {"text": "done"}])
    assert (code / "three.txt").exists()
    aside = talk(home, "--no-project", cwd=code, script=[writes("four.txt"), {"text": "done"}])
    assert (aside["project"], (home.workspace / "four.txt").exists()) == ("", True)
    assert not (code / "four.txt").exists()
    moved = run(home, "agent", "-m", "x", "-c", aside["conversation_id"], "--project", "code")
    assert (moved.returncode, "works in the workspace" in moved.stderr) == (2, True)
    assert run(home, "undo", "--project", "code", "--yes").returncode == 0
    assert not (code / "three.txt").exists()
    assert (home.workspace / "four.txt").exists()
    code.rename(code.parent / "aside")
    gone = run(home, "agent", "-m", "x", "-c", begun["conversation_id"])
    named = run(home, "agent", "-m", "x", "--project", "code")
    assert (gone.returncode, named.returncode) == (2, 2)
    assert "PROJECT_GONE" in gone.stderr
    assert "PROJECT_GONE" in named.stderr


async def test_projects_and_the_project_of_a_conversation_are_shown_over_http(sample):
    home = sample()
    code = folder(home)
    project = add(home, code)

    def parts(serving):
        return joined(serving, chat_part, projects_part)

    async with served(home, parts) as site:
        (listed,) = (await site.http.get("/v1/projects")).json()["items"]
        assert (listed["project_id"], listed["name"], listed["path"]) == (project, "code", str(code))
        made = (await site.http.post("/v1/chat/threads", json={"project": "code"})).json()
        assert made["project"] == "code"
        assert project_of(home.app.db.reader, made["thread_id"]) == project
        plain = (await site.http.post("/v1/chat/threads", json={})).json()
        assert plain["project"] is None
        shown = (await site.http.get(f"/v1/chat/threads/{made['thread_id']}")).json()
        assert shown["project"] == "code"
        assert (await site.http.post("/v1/chat/threads", json={"project": "none"})).status_code == 422
        assert (await site.http.post("/v1/projects", json={})).status_code == 400
        assert (await site.bare.get("/v1/projects")).status_code == 401
        assert (await site.http.get("/v1/projects")).json()["items"][0]["conversations"] == 1


async def test_a_project_is_removed_over_http_and_nothing_works_there_any_more(sample):
    home = sample()
    code = folder(home)
    project = add(home, code)
    async with served(home, projects_part) as site:
        assert (await site.bare.delete(f"/v1/projects/{project}")).status_code == 401
        assert (await site.http.delete("/v1/projects/prj_none")).status_code == 404
        for _ in range(2):
            assert (await site.http.delete(f"/v1/projects/{project}")).status_code == 204
        assert (await site.http.get("/v1/projects")).json()["items"] == []
    assert code.is_dir()
    denied = await home.call("file_list", Turn("turn_1", project, "gateway"), path=".")
    assert denied.result.code == "PROJECT_GONE"
    removed = home.app.db.reader.execute("SELECT count(*) FROM audit_log WHERE event_type = 'project_removed'")
    assert removed.fetchone() == (1,)
