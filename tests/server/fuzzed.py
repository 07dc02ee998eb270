"""A home full of things, served in a thread of its own for the fuzzer."""

import asyncio
import json
import random
import threading

from tests.home import Sample
from tests.server.site import enrol, served_whole

NAMES = {"/v1/policies/{name}": ["mine.json"], "/v1/providers/{name}/test": ["local"]}


class Fuzzed:
    """One served home with threads, actions, jobs, schedules, artifacts and receipts in it."""

    def __init__(self, folder) -> None:
        self.folder = folder
        self.ready = threading.Event()
        self.address = ""
        self.ids: dict[str, list[str]] = {}
        self._chance = random.Random(7)
        self._sample: Sample | None = None
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        sample = Sample(self.folder)
        self._sample = sample
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with served_whole(sample) as site:
            await self._fill(sample, site)
            self.address = f"http://localhost:{site.port}"
            self.ready.set()
            await self._stop.wait()
        sample.app.close()

    async def _fill(self, sample, site) -> None:
        """Something of every kind, so that ids can be real ones."""
        http = site.http
        for words in ("What files are here?", "write bread and milk to shopping.md"):
            (await http.post("/chat", json={"message": words, "wait_seconds": 20})).raise_for_status()
        (await http.post("/v1/jobs", json={"goal": "tidy up"})).raise_for_status()
        raw = {"Content-Type": "application/octet-stream"}
        (await http.post("/v1/files?name=a.txt", content=b"hello", headers=raw)).raise_for_status()
        (sample.workspace / "policies").mkdir(exist_ok=True)
        (sample.workspace / "policies" / "mine.json").write_text(json.dumps({"version": 1, "rules": []}))
        tables = {
            "thread_id": "SELECT thread_id FROM threads",
            "turn_id": "SELECT turn_id FROM turns",
            "action_id": "SELECT action_id FROM proposed_actions",
            "job_id": "SELECT job_id FROM jobs",
            "artifact_id": "SELECT artifact_id FROM artifacts",
            "receipt_id": "SELECT receipt_id FROM receipts",
            "device_id": "SELECT device_id FROM devices",
        }
        for name, query in tables.items():
            self.ids[name] = [row[0] for row in sample.app.db.reader.execute(query)]
            assert self.ids[name], f"there is nothing with a {name}"

    def stop(self) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)

    def prepared(self, case, *, ids: bool) -> dict[str, str]:
        """The headers for a case; with `ids`, every second time its ids are real. One before may have signed out or
        stopped us."""
        assert self._sample is not None
        self._sample.app.estop.clear()
        self.ids["name"] = NAMES.get(case.path, [])
        for name in case.path_parameters or {}:
            if ids and self.ids.get(name) and self._chance.random() < 0.5:
                case.path_parameters[name] = self._chance.choice(self.ids[name])
        self._sample.app.db.write_now(
            lambda tx: tx.execute("UPDATE devices SET revoked_at = NULL WHERE device_id = 'dev_test'").rowcount
        )
        return {"Authorization": f"Bearer {enrol(self._sample)}"}
