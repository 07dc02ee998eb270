"""Projects added by a paired device: proposed, approved with a passkey, and no other way."""

import asyncio

import pytest

from coilclaw.features.projects.feature import projects_part
from coilclaw.store.actions import load_action
from coilclaw.store.projects import open_projects
from tests.features.projects.world import add, folder
from tests.server.house import code_of, passkey_of, signed
from tests.server.parts import queue_part
from tests.server.site import served, unlimited


def house(home):
    """Serve approvals and projects."""
    return served(home, queue_part, projects_part, rates=unlimited())


async def approved(home, site, passkey, action_id):
    """Approve with the passkey, and wait until it is over."""
    card = (await site.http.get(f"/v1/approvals/{action_id}")).json()
    body = {"digest": card["digest"], "seen": card["seen"]}
    bare = await site.http.post(f"/v1/approvals/{action_id}/approve", json=body)
    assert bare.status_code in (401, 403)
    action = load_action(home.app.db.reader, action_id)
    asked = {"subject": action_id, "digest": action.digest, "valid_until": action.expires_at}
    proof = signed(site, passkey, purpose="approve", **asked)
    done = await site.http.post(f"/v1/approvals/{action_id}/approve", json={**body, "proof": proof})
    assert done.status_code == 200
    return card


async def test_a_project_is_added_and_vouched_for_only_with_the_passkey(sample):
    home = sample()
    path = folder(home)
    async with house(home) as site:
        passkey = passkey_of(site)
        wanted = {"path": str(path), "vouch": False}
        answer = await site.http.post("/v1/projects", json=wanted, headers={"Idempotency-Key": "once"})
        assert answer.status_code == 202
        told = answer.json()
        assert (told["status"], told["needs"]) == ("PENDING", "passkey")
        assert open_projects(home.app.db.reader) == []
        card = await approved(home, site, passkey, told["action_id"])
        assert card["lane"] == "C"
        assert f"Let the agent work in {path} (project code)" in card["preview_or_diff"]
        (project,) = await until(lambda: open_projects(home.app.db.reader))
        assert (project.path, project.vouched) == (str(path), False)
        again = await site.http.post("/v1/projects", json=wanted, headers={"Idempotency-Key": "once"})
        assert again.json()["action_id"] == told["action_id"]

        vouching = (await site.http.post(f"/v1/projects/{project.project_id}/vouch")).json()
        assert not open_projects(home.app.db.reader)[0].vouched
        await approved(home, site, passkey, vouching["action_id"])
        await until(lambda: open_projects(home.app.db.reader)[0].vouched)


async def until(look):
    """Wait until something is there; what it is."""
    for _ in range(56_000):
        if found := look():
            return found
        await asyncio.sleep(0.005)
    raise AssertionError("it did not come")


@pytest.mark.parametrize("path", ["code", "../code", "/nowhere/at/all", "/", "/etc"])
async def test_a_folder_that_cannot_be_one_is_refused_and_nothing_waits(sample, path):
    home = sample()
    async with house(home) as site:
        refused = await site.http.post("/v1/projects", json={"path": path, "vouch": True})
        assert code_of(refused, 422) == "NO_PROJECT"
        assert (await site.http.get("/v1/approvals")).json()["items"] == []


async def test_nobody_adds_or_vouches_without_being_paired(sample):
    home = sample()
    project = add(home, folder(home), vouched=False)
    async with house(home) as site:
        body = {"path": str(folder(home, "other")), "vouch": True}
        assert (await site.bare.post("/v1/projects", json=body)).status_code == 401
        assert (await site.bare.post(f"/v1/projects/{project}/vouch")).status_code == 401
        assert (await site.http.post("/v1/projects/prj_none/vouch")).status_code == 404
    assert [each.vouched for each in open_projects(home.app.db.reader)] == [False]
