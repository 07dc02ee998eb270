"""Requests with an Idempotency-Key: done once, answered alike, over real HTTP and through the end of a process."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from coilclaw.packets.canonical import sha256_hex
from coilclaw.server.problems import MEDIA_TYPE
from tests.server.echo import echo_part
from tests.server.phone import events
from tests.server.site import enrol, served


def rows(sample):
    return sample.app.db.reader.execute("SELECT device_id, key, status FROM requests ORDER BY key").fetchall()


async def say(client, text, key):
    return await client.post("/v1/echo", json={"text": text}, headers={"Idempotency-Key": key})


async def test_the_same_request_again_is_answered_with_the_same(sample):
    made = sample()
    async with served(made, echo_part) as site:
        first, again = await say(site.http, "a", "k"), await say(site.http, "a", "k")
        assert (again.status_code, again.json()) == (first.status_code, first.json())
        assert again.headers["content-type"] == first.headers["content-type"]
        assert "idempotency-replayed" not in first.headers
        assert again.headers["idempotency-replayed"] == "true"
        assert again.headers["cache-control"] == "no-store"
        assert site.serving.doings.done == ["a"]
        assert first.json()["request_key"] == sha256_hex(f"dev_test\n{sha256_hex(b'k')}".encode())
        assert rows(made) == [("dev_test", sha256_hex(b"k"), 201)]


async def test_without_a_key_every_request_is_its_own(sample):
    made = sample()
    async with served(made, echo_part) as site:
        for _ in range(2):
            assert (await site.http.post("/v1/echo", json={"text": "a"})).json()["request_key"] is None
        assert site.serving.doings.done == ["a", "a"]
        assert rows(made) == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/echo", {"text": "b"}),
        ("POST", "/v1/echo?x=1", {"text": "a"}),
        ("PUT", "/v1/echo/x", {"text": "a"}),
    ],
)
async def test_a_key_used_for_another_request_is_a_conflict(sample, method, path, body):
    made = sample()
    async with served(made, echo_part) as site:
        await say(site.http, "a", "k")
        answer = await site.http.request(method, path, json=body, headers={"Idempotency-Key": "k"})
        assert (answer.status_code, answer.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")
        assert answer.headers["content-type"] == MEDIA_TYPE
        assert site.serving.doings.done == ["a"]
        assert [each[0] for each in events(made, "idempotency_conflict")] == ["idempotency_conflict"]


async def test_what_has_no_route_uses_no_key_up(sample):
    made = sample()
    async with served(made, echo_part) as site:
        await say(site.http, "a", "k")
        headers = {"Idempotency-Key": "k"}
        assert (await site.http.delete("/v1/echo", headers=headers)).status_code == 405
        assert (await site.http.post("/v1/nothing", headers=headers)).status_code == 404
        assert events(made, "idempotency_conflict") == []
        assert rows(made) == [("dev_test", sha256_hex(b"k"), 201)]


async def test_keys_belong_to_devices(sample):
    async with served(sample(), echo_part) as site:
        other = site.device()
        first, second = await say(site.http, "a", "k"), await say(other, "b", "k")
        assert (first.json()["text"], second.json()["text"]) == ("a", "b")
        assert first.json()["request_key"] != second.json()["request_key"]


async def test_a_request_that_is_being_answered_is_not_begun_again(sample):
    made = sample()
    async with served(made, echo_part) as site:
        headers = {"Idempotency-Key": "k"}
        first = asyncio.ensure_future(site.http.post("/v1/echo/wait", headers=headers))
        await site.serving.doings.begun.wait()
        again = await site.http.post("/v1/echo/wait", headers=headers)
        assert (again.status_code, again.json()["code"]) == (409, "IN_PROGRESS")
        assert again.headers["retry-after"] == "1"
        site.serving.doings.go.set()
        assert (await first).status_code == 201
        last = await site.http.post("/v1/echo/wait", headers=headers)
        assert last.headers["idempotency-replayed"] == "true"
        assert site.serving.doings.done == ["waited"]


async def test_a_client_that_leaves_changes_nothing(sample):
    made = sample()
    async with served(made, echo_part) as site:
        headers = {"Idempotency-Key": "k"}
        impatient = site.client(headers={"Authorization": f"Bearer {site.token}", **headers})
        first = asyncio.ensure_future(impatient.post("/v1/echo/wait"))
        await site.serving.doings.begun.wait()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await impatient.aclose()
        site.serving.doings.go.set()
        for _ in range(200):
            answer = await site.http.post("/v1/echo/wait", headers=headers)
            if answer.status_code == 201:
                break
            await asyncio.sleep(0.01)
        assert answer.headers["idempotency-replayed"] == "true"
        assert site.serving.doings.done == ["waited"]


@pytest.mark.parametrize("status", [500, 503, 429, 413, 408])
async def test_an_answer_that_may_be_another_next_time_is_not_kept(sample, status):
    made = sample()
    async with served(made, echo_part) as site:
        site.serving.doings.status = status
        assert (await say(site.http, "a", "k")).status_code == status
        assert rows(made) == []
        site.serving.doings.status = 201
        assert (await say(site.http, "a", "k")).status_code == 201
        assert len(site.serving.doings.done) == 2


async def test_a_failure_is_not_kept_and_a_refusal_is(sample):
    made = sample()
    async with served(made, echo_part) as site:
        for name, statuses in (("broken", [500, 500]), ("conflict", [409, 409])):
            headers = {"Idempotency-Key": name}
            answers = [await site.http.put(f"/v1/echo/{name}", headers=headers) for _ in range(2)]
            assert [answer.status_code for answer in answers] == statuses
        assert site.serving.doings.done == ["broken", "broken", "conflict"]
        assert answers[1].headers["content-type"] == MEDIA_TYPE


async def test_a_large_answer_is_not_kept(sample):
    made = sample()
    async with served(made, echo_part) as site:
        site.serving.doings.pad = "x" * (256 << 10)
        for _ in range(2):
            assert (await say(site.http, "a", "k")).status_code == 201
        assert site.serving.doings.done == ["a", "a"]
        assert rows(made) == []


async def test_secrets_are_never_kept_with_an_answer(sample):
    made = sample()
    async with served(made) as site:
        headers = {"Idempotency-Key": "k"}
        codes = [(await site.http.post("/v1/pairing/code", json={}, headers=headers)).json()["code"] for _ in range(2)]
        assert codes[0] != codes[1]
        assert rows(made) == []
        browser = site.browser()
        assert (await browser.post("/v1/sign-in/end", headers=headers)).status_code == 204
        assert rows(made) == []


@pytest.mark.parametrize("key", ["", "x" * 201, "\u00e9", "a\tb"])
async def test_what_is_not_a_key_is_refused(sample, key):
    async with served(sample(), echo_part) as site:
        headers = [(b"Idempotency-Key", key.encode())]
        answer = await site.http.post("/v1/echo", json={"text": "a"}, headers=headers)
        assert answer.status_code == 400
        assert site.serving.doings.done == []


async def test_what_is_open_takes_no_key(sample):
    made = sample()
    async with served(made) as site:
        answer = await site.bare.post("/v1/pairing/bind", json={}, headers={"Idempotency-Key": "k"})
        assert answer.status_code == 400
        assert rows(made) == []


async def test_a_request_of_a_process_that_is_gone_is_begun_again(sample):
    made = sample()
    async with served(made, echo_part) as site:
        await say(site.http, "a", "k")
        made.app.db.write_now(lambda tx: tx.execute("UPDATE requests SET status = NULL, worker = 'serve_gone'"))
        assert (await say(site.http, "a", "k")).status_code == 201
        assert site.serving.doings.done == ["a", "a"]


async def test_a_request_of_a_process_that_lives_is_not(sample):
    from coilclaw.store.lock import HeldLock

    made = sample()
    lock = HeldLock(made.home.locks_dir / "serve_other.lock")
    async with served(made, echo_part) as site:
        await say(site.http, "a", "k")
        made.app.db.write_now(lambda tx: tx.execute("UPDATE requests SET status = NULL, worker = 'serve_other'"))
        answer = await say(site.http, "a", "k")
        assert (answer.status_code, answer.json()["code"]) == (409, "IN_PROGRESS")
        lock.close()
        assert (await say(site.http, "a", "k")).status_code == 201


# kill -9 between the effect and the answer

DOOMED = """
import asyncio, os, signal, sys
from pathlib import Path
from litestar import Controller, post
from litestar.di import NamedDependency
from coilclaw.server.core import Core
from coilclaw.server.part import Part
from tests.home import Sample
from tests.server.site import enrol, served

class Notes(Controller):
    path = "/v1/doomed"

    @post("/")
    async def add(self, core: NamedDependency[Core], request_key: NamedDependency[str | None]) -> dict[str, str]:
        def work(tx):
            name = f"doomed_{request_key[:19]}"
            tx.execute("INSERT INTO meta (key, value) VALUES (?, 'x') ON CONFLICT DO NOTHING", (name,))
            return name
        name = await core.db.write(work)
        if sys.argv[2] == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        return {"name": name}

async def main():
    sample = Sample(Path(sys.argv[1]))
    async with served(sample, lambda serving: Part(controllers=(Notes,))) as site:
        print(site.port, site.token, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


def doomed(folder, how):
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", DOOMED, str(folder), how],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        text=True,
    )
    port, token = process.stdout.readline().split()
    return process, port, token


@pytest.mark.slow
def test_kill_nine_between_effect_and_answer_then_the_same_request_does_nothing_twice(tmp_path):
    def ask(port, token):
        return httpx.post(
            f"http://localhost:{port}/v1/doomed",
            headers={"Authorization": f"Bearer {token}", "Idempotency-Key": "once"},
            timeout=280,
            trust_env=False,
        )

    process, port, token = doomed(tmp_path, "die")
    with pytest.raises(httpx.TransportError):
        ask(port, token)
    assert process.wait(120) == -signal.SIGKILL
    process.stdout.close()
    process, port, token = doomed(tmp_path, "live")
    try:
        first, again = ask(port, token), ask(port, token)
    finally:
        process.kill()
        process.wait(120)
        process.stdout.close()
    assert first.status_code == 201
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json() == first.json()
    import sqlite3

    db = sqlite3.connect(next(tmp_path.rglob("memory.sqlite")))
    assert db.execute("SELECT count(*) FROM meta WHERE key LIKE 'doomed_%'").fetchone() == (1,)
    assert db.execute("SELECT status FROM requests").fetchall() == [(201,)]
    db.close()
    assert json.loads(first.text)["name"].startswith("doomed_")


async def test_a_token_of_another_time_of_the_same_device_shares_its_keys(sample):
    made = sample()
    async with served(made, echo_part) as site:
        await say(site.http, "a", "k")
        token = enrol(made, "dev_test", "tok_second")
        second = site.client(headers={"Authorization": f"Bearer {token}"})
        assert (await say(second, "a", "k")).headers["idempotency-replayed"] == "true"
