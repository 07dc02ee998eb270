"""The bot's repository on GitHub: requests for a pull request and for an idle minute, the adapter beside a bare client,
and what being connected costs a server that idles."""

import asyncio
import hashlib
import hmac
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import httpx
import msgspec

from bench.home import BenchHome
from bench.mail import cpu
from bench.rounds import Timing, timings
from bench.row import Plan, Row, alone, beside
from bench.site import Line, Served, bare, memory_of, served
from coilclaw.app import EXTENSIONS
from coilclaw.config.forge import Forge, GitHubForge
from coilclaw.features.forge.forge import LocalForge
from coilclaw.features.forge.github import api as github_api
from coilclaw.features.forge.github.api import GitHubApi
from coilclaw.features.forge.github.mirror import GitHubMirror
from coilclaw.features.forge.pulls import Pulls
from coilclaw.sandbox.bot_repository import Written
from coilclaw.sandbox.fake_github import OWNER_ID, Account, FakeGitHub

GROUP = "github"
TOKEN = "bench-token-0123456789abcdefghijklmnop"


def measure(plan: Plan) -> Iterator[Row]:
    """Requests are counted, the adapter and memory are measured; the fake runs in this process for the former."""
    folder = plan.folder / GROUP
    folder.mkdir()
    with FakeGitHub(folder / "hosted.git") as fake:
        fake.accounts[TOKEN] = Account(login="bot", id=777, permissions=dict(fake.permissions))
        home = BenchHome(folder, extensions=EXTENSIONS)
        try:
            yield from _requests(plan, home, fake)
        finally:
            home.close()
        yield _idle(plan, fake)
        yield _webhooks(plan, fake)


def _requests(plan: Plan, home: BenchHome, fake: FakeGitHub) -> Iterator[Row]:
    app, forge = home.app, _connected(home, fake)
    github_api.BETWEEN_WRITES = 0.0  # the pause is the service's wish, not ours to measure
    with asyncio.Runner() as loop:
        mirror = GitHubMirror(app, home.conveyor())
        loop.run(_look(mirror))
        written = [Written(f"new{number}.md", f"text {number}\n".encode()) for number in range(10)]
        pull = forge.open_plain("bench/1", written, "A pull request", "Ten files of text.")
        assert pull is not None
        loop.run(forge.check(pull))
        before = len(fake.writes())
        loop.run(_look(mirror))
        writes = Timing.of([float(len(fake.writes()) - before)])
        yield alone(GROUP, "writes for a pull request of 10 text files", "rows", writes, at_most=6)
        loop.run(Pulls(app, home.conveyor()).close(pull.number, ""))  # nothing is open, so a look is idle
        for _ in range(3):
            loop.run(_look(mirror))
        asked, left = len(fake.requests), fake.remaining
        loop.run(_look(mirror))
        idle = Timing.of([float(len(fake.requests) - asked)])
        note = f"{left - fake.remaining} of them count against the limit"
        yield alone(GROUP, "requests of an idle minute", "rows", idle, at_most=1, note=note)
    yield _adapter(plan, app.workspace)


async def _look(mirror: GitHubMirror) -> None:
    if not await mirror.sync():
        raise RuntimeError("the look found something wrong, so nothing can be measured")


def _connected(home: BenchHome, fake: FakeGitHub) -> LocalForge:
    """A bot that was connected, and whose main the owner pushed."""
    app = home.app
    github = GitHubForge(repository=fake.name, owner_id=OWNER_ID, token_env="BOT_TOKEN", api_url=fake.base_url)
    app.config = msgspec.structs.replace(app.config, forge=Forge(kind="github", github=github))
    app.environ = {**app.environ, "BOT_TOKEN": TOKEN}
    forge = LocalForge(app)
    forge.bot.settle("before")
    subprocess.run(["git", "-C", app.workspace, "push", "-q", fake.hosted.folder, "main"], check=True)
    return forge


def _adapter(plan: Plan, workspace: Path) -> Row:
    """CPU of ten reads by the adapter, through the airlock, beside the same by a bare client."""
    folder = plan.folder / GROUP / "other.git"
    other = subprocess.Popen(
        [sys.executable, "-m", "coilclaw.sandbox.fake_github", str(folder), "0"], stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    try:
        url = other.stdout.readline().strip()
        subprocess.run(["git", "-C", workspace, "push", "-q", folder, "main"], check=True)
        home = BenchHome(plan.folder / GROUP / "other")
        github = GitHubForge(repository="owner/bot", owner_id=OWNER_ID, token_env="BOT_TOKEN", api_url=url)
        home.app.config = msgspec.structs.replace(home.app.config, forge=Forge(kind="github", github=github))
        home.app.environ = {**home.app.environ, "BOT_TOKEN": "bot-token"}
        with asyncio.Runner() as loop:
            row = _reads(plan, loop, GitHubApi(home.app), url)
        home.close()
        return row
    finally:
        other.kill()
        other.wait()


def _reads(plan: Plan, loop: asyncio.Runner, api: GitHubApi, url: str) -> Row:
    path = "/git/ref/heads/main"
    headers = {"authorization": "Bearer bot-token", "accept": "application/vnd.github+json", "connection": "close"}
    client = httpx.AsyncClient(trust_env=False, headers=headers, timeout=60)

    async def ours() -> None:
        for _ in range(10):
            if (await api.read(path)).status != 200:
                raise RuntimeError("main is not there, so nothing can be measured")

    async def bare() -> None:
        for _ in range(10):
            (await client.get(f"{url}/repos/owner/bot{path}")).json()

    cases = {"ours": cpu(lambda: loop.run(ours())), "bare": cpu(lambda: loop.run(bare()))}
    found = timings(cases, plan.size(3 * plan.rounds, plan.rounds))
    loop.run(client.aclose())
    measured, against = found["ours"].scaled(1e3), found["bare"].scaled(1e3)
    return beside(GROUP, "ten reads by the adapter: CPU", "ms", measured, "httpx", against, at_most=1.3)


def _webhooks(plan: Plan, fake: FakeGitHub) -> Row:
    """A signed delivery, which is kept and wakes the next look, beside a route that says a little."""
    number = 50 // (plan.rounds + 1)  # the route takes 60 a minute
    secret, ids = "bench-hook-0123456789", count()

    async def deliver(port: int) -> float:
        line, taken = await Line.to(port), 0.0
        for _ in range(number):
            body = b'{"zen": "%d"}' % next(ids)
            signed = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
            head = f"Host: localhost:{port}\r\nX-GitHub-Event: push\r\nX-GitHub-Delivery: delivery-{next(ids)}\r\n"
            start = time.perf_counter()
            await line.ask("POST", "/v1/forge/webhook", f"{head}X-Hub-Signature-256: sha256={signed}\r\n", body)
            taken += time.perf_counter() - start
        line.close()
        return taken / number

    async def ask(port: int) -> float:
        line, start = await Line.to(port), time.perf_counter()
        for _ in range(number):
            await line.ask("GET", "/", "Host: x\r\n")
        taken = time.perf_counter() - start
        line.close()
        return taken / number

    with (
        served(plan.folder / "hooked", _config(fake) + 'webhook_secret_env = "HOOK"\n', HOOK=secret) as site,
        bare("routes", plan.folder) as (routes, _),
        asyncio.Runner() as loop,
    ):
        loop.run(asyncio.sleep(2))  # until both have begun
        cases = {"ours": lambda: loop.run(deliver(site.port)), "bare": lambda: loop.run(ask(routes))}
        found = timings(cases, plan.rounds)
    ours, theirs = found["ours"].scaled(1e6), found["bare"].scaled(1e6)
    note = f"{1e6 / ours.median:.0f} webhooks/s, bare {1e6 / theirs.median:.0f}"
    return beside(GROUP, "a webhook", "us", ours, "a bare Litestar route", theirs, at_most=1 / 0.7, note=note)


def _config(fake: FakeGitHub) -> str:
    return (
        f'[forge]\nkind = "github"\n[forge.github]\nrepository = "{fake.name}"\nowner_id = {OWNER_ID}\n'
        f'token_env = "BOT_TOKEN"\napi_url = "{fake.base_url}"\n'
    )


def _idle(plan: Plan, fake: FakeGitHub) -> Row:
    """A server whose bot is connected, beside one whose bot is not."""

    async def settle(site: Served) -> float:
        line = await Line.to(site.port)
        for _ in range(50):  # both have read how their repository stands
            await line.ask("GET", "/v1/bot", site.head)
        line.close()
        return memory_of(site.pid)

    with (
        served(plan.folder / "there", _config(fake)) as ours,
        served(plan.folder / "here") as bare,
        asyncio.Runner() as loop,
    ):
        with_it, without = loop.run(settle(ours)), loop.run(settle(bare))
    what, note = "memory of a server that is connected, beyond one that is not", f"{with_it:.1f} and {without:.1f} MB"
    return alone(GROUP, what, "MB", Timing.of([with_it - without]), at_most=2 * (1 << 20) / 1e6, note=note)
