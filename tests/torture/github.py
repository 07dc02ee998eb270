"""Kill processes at each boundary between here and GitHub: one pull request there, one merge, and main the same."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from coilclaw.config.forge import GitHubForge
from coilclaw.features.forge.github import api
from coilclaw.features.forge.github.mirror import GitHubMirror
from coilclaw.features.forge.github.store import github_state
from coilclaw.features.forge.merge_records import home_records
from coilclaw.features.forge.verify import verify_clone
from coilclaw.features.jobs.background import Background
from coilclaw.features.jobs.job_requests import Request
from coilclaw.packets.job import ENDED
from coilclaw.runtime import Runtime
from coilclaw.sandbox.fake_github import OWNER_ID
from coilclaw.store.jobs import list_jobs
from tests.torture.chamber import await_child, child
from tests.torture.pulls import Pulled, Writer, git_says, opened_home, wrong

BY_THE_GATE = ("github_branch", "github_made", "github_opened", "github_merged")
"""The branch is there; the pull request; all of it; GitHub merged it."""
BY_THE_OWNER = ("github_taking_in", "github_taken_in")
"""The owner merged it there: main here is about to move, and has moved."""
POINTS = (*BY_THE_GATE, *BY_THE_OWNER)
ROUNDS = 8


class Hub:
    """The fake of GitHub as a program of its own, which outlives every process that is killed."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.key = folder / "hub", folder / "KEY.pem"
        private = rsa.generate_private_key(65537, 2048)
        self.key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))

    def __enter__(self) -> Self:
        program = [sys.executable, "-m", "coilclaw.sandbox.fake_github", self.folder, self.key, "0"]
        self._fake = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
        assert self._fake.stdout is not None
        self.address = self._fake.stdout.readline().strip()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._fake.terminate()
        self._fake.communicate()

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """A request of the owner's."""
        asked = urllib.request.Request(
            f"{self.address}/repos/owner/bot{path}", method=method, data=json.dumps(body).encode() if body else None,
            headers={"Authorization": "Bearer owner-token"},
        )  # fmt: skip
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked) as answer:
            return json.load(answer)

    def settings(self) -> GitHubForge:
        """What a home needs to use it."""
        return GitHubForge(
            repository="owner/bot", owner_id=OWNER_ID, app_id=17, installation_id=4242, private_key_env="BOT_KEY",
            api_url=self.address,
        )  # fmt: skip


def _open(base: Path, hub: Hub, point: str) -> Runtime:
    app = opened_home(base, lambda _: None, {"BOT_KEY": hub.key.read_text()})
    mode = "strict" if point in BY_THE_OWNER else "whitelist"
    forge = msgspec.structs.replace(app.config.forge, kind="github", github=hub.settings(), merge_mode=mode)
    app.config = msgspec.structs.replace(app.config, forge=forge)
    app.provider = lambda name="": Writer()
    return app


def _live(base: Path, hub: Hub, point: str, name: str, *, killed: bool) -> str:
    """A worker's life: killed at the boundary, or until nothing is left to do."""
    api.BETWEEN_WRITES = 0.0

    def reached(at: str) -> None:
        if at == point:
            os.kill(os.getpid(), signal.SIGKILL)

    async def live() -> None:
        app = _open(base, hub, point)
        app.reached = reached if killed else app.reached
        background = Background(app)
        mirror = GitHubMirror(app, background.conveyor)
        if name:
            await background.desk().create(Request(goal=f"write {name} now", thread_id=f"conv_{name}", channel="cli"))
        for _ in range(ROUNDS):
            with background.named() as worker:
                await background.worker(worker).drain(asyncio.Event())
            await mirror.sync()
            done = all(job.state in ENDED for job in list_jobs(app.db.reader, None, 1000))
            if done and not github_state(app.db.reader).fault:
                break
        app.close()

    asyncio.run(live())
    return ""


def kill_between(base: Path, template: Path, point: str, kills: int) -> Pulled:
    """Kill that often at a boundary, each followed by a fresh process that brings everything to its end."""
    shutil.copytree(template, base, symlinks=True)
    tally, names = Pulled(point), list[str]()
    with Hub(base / "there") as hub:
        app = _open(base, hub, point)
        git_says(app, "push", "-q", str(hub.folder), "main")
        app.close()
        while tally.kills < kills and len(names) < kills + 5:
            names.append(f"n{len(names)}")
            name = names[-1]
            if point in BY_THE_OWNER:
                await_child(*child(lambda name=name: _live(base, hub, point, name, killed=False)))
                hub.ask("PUT", f"/pulls/{len(names)}/merge", {"merge_method": "merge"})
                name = ""
            tally.kills += await_child(*child(lambda name=name: _live(base, hub, point, name, killed=True)))[0]
            await_child(*child(lambda: _live(base, hub, point, "", killed=False)))
        if tally.kills < kills:
            tally.said.append(f"{point} was reached only {tally.kills} times")
        _judge(tally, base, hub, point, names)
    return tally


def _judge(tally: Pulled, base: Path, hub: Hub, point: str, names: list[str]) -> None:
    app = _open(base, hub, point)
    for job in list_jobs(app.db.reader, None, 1000):
        tally.jobs += 1
        if job.state != "DONE":
            wrong(tally, "lost", f"{job.job_id} is {job.state}: {job.reason}")
    for name in names:
        for path in (f"intel/{name}-a.md", f"intel/{name}-b.md"):
            if not (app.workspace / path).exists() or not git_says(app, "ls-tree", "main", "--", path):
                wrong(tally, "lost", f"{path} is not in force")
    pulls = hub.ask("GET", "/pulls?state=all")
    if len(pulls) != len(names):
        wrong(tally, "twice" if len(pulls) > len(names) else "lost", f"{len(pulls)} pull requests there")
    if not all(each["merged"] for each in pulls):
        wrong(tally, "lost", "a pull request there is not merged")
    if hub.ask("GET", "/git/ref/heads/main")["object"]["sha"] != git_says(app, "rev-parse", "main"):
        wrong(tally, "lost", f"main is not the same: {github_state(app.db.reader).fault}")
    for found in verify_clone(app.workspace, home_records(app.db.reader)).findings:
        if found.path != "heads.jsonl":  # nobody signs heads in these lives
            wrong(tally, "lost", f"{found.path or found.commit}: {found.words}")
    app.close()
