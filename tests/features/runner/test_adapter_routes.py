"""Versions of coding programs over HTTP: seen and chosen by the owner's devices alone, with a receipt."""

import pytest

from coilclaw.features.runner.adapters.versions import Versions
from tests.features.runner.test_versions import ADAPTER, npm_folder, proved


@pytest.fixture
def world(sessions_of_a_home, tmp_path):
    made = sessions_of_a_home()
    versions = Versions(made.app)
    for version in ("1.0.0", "1.1.0", "1.2.0"):
        versions.take(ADAPTER, npm_folder(tmp_path / version, version))
    for version in ("1.0.0", "1.1.0"):
        proved(versions, version)
        versions.use(ADAPTER, version)
    return made


async def claude(site):
    answer = await site.http.get("/runner/v1/adapters")
    return next(each for each in answer.json()["items"] if each["name"] == "claude")


async def test_versions_are_listed_chosen_and_rolled_back(world):
    async with world.serving() as site:
        shown = await claude(site)
        assert [(each["version"], each["in_use"], each["proof"]) for each in shown["versions"]] == [
            ("1.0.0", False, "passed"),
            ("1.1.0", True, "passed"),
            ("1.2.0", False, "none"),
        ]
        assert (shown["package"], shown["previous"]) == (ADAPTER.package, "1.0.0")
        back = await site.http.post("/runner/v1/adapters/claude", json={"change": "rollback"})
        assert back.status_code == 200, back.text
        assert [each["version"] for each in back.json()["versions"] if each["in_use"]] == ["1.0.0"]
        used = await site.http.post("/runner/v1/adapters/claude", json={"change": "use", "version": "1.1.0"})
        assert used.status_code == 200, used.text
    receipts = world.app.db.reader.execute("SELECT line FROM receipts WHERE line LIKE '%adapter_change%'").fetchall()
    assert len(receipts) == 2


async def test_unproved_version_is_refused_and_tokens_see_nothing(world):
    async with world.serving() as site:
        refused = await site.http.post("/runner/v1/adapters/claude", json={"change": "use", "version": "1.2.0"})
        assert (refused.status_code, refused.json()["code"]) == (409, "NOT_CHANGED")
        assert "not passed its proof" in refused.json()["detail"]
        assert (await site.http.post("/runner/v1/adapters/vim", json={"change": "rollback"})).status_code == 404
        token = (await site.http.post("/runner/v1/tokens", json={"org_id": "self", "access": "drive"})).json()["token"]
        program = site.client(headers={"Authorization": f"Bearer {token}"})
        assert (await program.get("/runner/v1/adapters")).status_code == 403
        body = {"change": "rollback"}
        assert (await program.post("/runner/v1/adapters/claude", json=body)).status_code == 403
    assert Versions(world.app).history(ADAPTER)[0] == "1.1.0"
