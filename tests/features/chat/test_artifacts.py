"""Artifacts over real HTTP: always a download, text without secrets, other bytes as they are."""

import hashlib

import pytest

from coilclaw.features.chat.store.artifacts import keep_artifact
from tests.features.chat.talking import talking

SECRET = "sup3r-s3cret-value-123456"


def keep(home, content, name="report.md", artifact_id="art_1", label="internal"):
    home.app.db.write_now(
        lambda tx: keep_artifact(
            tx, home.app.clock, artifact_id=artifact_id, kind="report", name=name, content=content, label=label
        )
    )


async def test_an_artifact_says_what_it_is(sample):
    home = sample()
    keep(home, b"<script>alert(1)</script>", label="untrusted:web")
    async with talking(home, running=False) as site:
        told = (await site.http.get("/v1/artifacts/art_1")).json()
        assert (told["kind"], told["name"], told["size"]) == ("report", "report.md", 25)
        assert (told["label"], told["untrusted"], told["job_id"]) == ("untrusted:web", True, None)
        assert told["sha256"] == hashlib.sha256(b"<script>alert(1)</script>").hexdigest()


@pytest.mark.parametrize("name", ["page.html", "", 'a"; filename="b.exe', "line\r\nX-Evil: 1", "é/ü.txt", "x" * 200])
async def test_it_is_downloaded_and_never_shown_as_a_page(sample, name):
    home = sample()
    keep(home, b"<script>alert(1)</script>", name)
    async with talking(home, running=False) as site:
        answer = await site.http.get("/v1/artifacts/art_1/content")
        assert answer.status_code == 200
        assert answer.content == b"<script>alert(1)</script>"
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-disposition"].startswith("attachment; filename*=UTF-8''")
        assert "x-evil" not in answer.headers


async def test_text_leaves_without_secrets_and_other_bytes_as_they_are(sample):
    home = sample()
    home.app.redactor.register("KEY", SECRET)
    binary = b"\xff\xfe" + bytes(range(256))
    keep(home, f"the key is {SECRET}.".encode())
    keep(home, binary, artifact_id="art_2")
    async with talking(home, running=False) as site:
        text = await site.http.get("/v1/artifacts/art_1/content")
        assert SECRET not in text.text
        assert text.text.startswith("the key is ")
        assert (await site.http.get("/v1/artifacts/art_2/content")).content == binary


async def test_what_is_known_is_not_sent_again(sample):
    home = sample()
    keep(home, b"same")
    async with talking(home, running=False) as site:
        path = "/v1/artifacts/art_1/content"
        tag = (await site.http.get(path)).headers["etag"]
        again = await site.http.get(path, headers={"If-None-Match": f'"other", {tag}'})
        assert (again.status_code, again.content) == (304, b"")
        assert (await site.http.get(path, headers={"If-None-Match": '"other"'})).status_code == 200


async def test_what_a_job_left_can_be_downloaded(sample):
    from coilclaw.features.jobs.background import Background
    from coilclaw.features.jobs.job_requests import Request
    from coilclaw.store.job_history import add_job_artifact

    home = sample()
    job = await Background(home.app).desk().create(Request(goal="report", thread_id="conv_1", channel="cli"))
    artifact_id = home.app.db.write_now(
        lambda tx: add_job_artifact(
            tx, home.app.clock, job, kind="report", name="r.md", content=b"done", label="internal"
        )
    )
    async with talking(home, running=False) as site:
        assert (await site.http.get(f"/v1/artifacts/{artifact_id}")).json()["job_id"] == job.job_id
        assert (await site.http.get(f"/v1/artifacts/{artifact_id}/content")).content == b"done"


@pytest.mark.parametrize("path", ["/v1/artifacts/art_none", "/v1/artifacts/art_none/content", "/v1/artifacts/%00"])
async def test_what_is_not_kept_is_not_found(sample, path):
    async with talking(sample(), running=False) as site:
        assert (await site.http.get(path)).status_code == 404
