"""Mail: a search through gate and airlock, beside the same requests made by a plain client with the same commit; and
what two connected accounts cost a server that idles."""

import asyncio
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import httpx
import msgspec

from bench.gate import BareCommits, last_row
from bench.home import BenchHome
from bench.rounds import Case, Timing, timings
from bench.row import Plan, Row, alone, beside
from bench.site import Line, Served, environment, memory_of, served
from coilclaw.app import EXTENSIONS
from coilclaw.config import Home, load
from coilclaw.config.google import Google
from coilclaw.features.mail.accounts import PROVIDER, SCOPES
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import Identity, ToolCall
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ids import utc_now
from coilclaw.runtime import Runtime
from coilclaw.store.oauth import put_token
from coilclaw.store.tx import Tx

THREADS = "/gmail/v1/users/me/threads"


def measure(plan: Plan) -> Iterator[Row]:
    """CPU of one search that finds two conversations: three requests and one commit."""
    fake = subprocess.Popen(
        [sys.executable, "-m", "coilclaw.sandbox.fake_google", "--connected"], stdout=subprocess.PIPE, text=True
    )
    assert fake.stdout is not None
    try:
        told = json.loads(fake.stdout.readline())
        yield from _search(plan, told["url"], told["refresh"], told["access"])
        yield _idle(plan, told["url"])
    finally:
        fake.kill()
        fake.wait()


def _search(plan: Plan, url: str, refresh: str, access: str) -> Iterator[Row]:
    home = BenchHome(plan.folder / "mail")
    app = home.app
    app.extensions = EXTENSIONS
    places = {"authorize_url": f"{url}/o/oauth2/v2/auth", "token_url": f"{url}/token", "revoke_url": f"{url}/revoke"}
    google = Google(
        client_id="fake-client.apps.example",
        client_secret_env="GOOGLE_SECRET",
        gmail_url=url,
        calendar_url=url,
        **places,
    )
    app.config = msgspec.structs.replace(app.config, google=google)
    app.environ = {**app.environ, "GOOGLE_SECRET": "fake-google-secret"}
    app.db.write_now(
        lambda tx: put_token(
            tx,
            utc_now,
            app.vault,
            provider=PROVIDER,
            identity="user",
            refresh_token=refresh,
            scopes=SCOPES["user"],
        )
    )
    conveyor = home.conveyor()
    number = iter(range(1_000_000))

    async def ours() -> None:
        turn = Turn("turn_bench", "", "cli")
        call = ToolCall.of("gmail_search_threads", {"query": "in:inbox"}, identity="user")
        action = await conveyor.intake.proposed(call, turn, f"mail-{next(number)}")
        outcome = await conveyor.carry(action, turn, stored=False)
        if not outcome.result.success:
            raise ToolError(f"the search failed: {outcome.result.output}")

    bearer = {"Authorization": f"Bearer {access}", "Connection": "close"}

    client = httpx.AsyncClient(trust_env=False, headers=bearer, timeout=60)  # made once: its certificates cost more

    async def by_httpx() -> None:
        found = (await client.get(f"{url}{THREADS}", params={"q": "in:inbox"})).json()
        for each in found["threads"]:
            (await client.get(f"{url}{THREADS}/{each['id']}", params={"format": "metadata"})).json()

    def by_hand() -> None:
        found = _get(url, f"{THREADS}?q=in:inbox", bearer)
        for each in found["threads"]:
            _get(url, f"{THREADS}/{each['id']}?format=metadata", bearer)

    bare = BareCommits(home.database.with_name("bare.sqlite"))
    with asyncio.Runner() as loop:
        loop.run(ours())
        rows = [last_row(app.db.reader, table) for table in ("proposed_actions", "receipts", "audit_log", "audit_log")]
        found = timings(
            {
                "ours": cpu(lambda: loop.run(ours())),
                "httpx": cpu(lambda: (loop.run(by_httpx()), bare.commit(*rows))),
                "http.client": cpu(lambda: (by_hand(), bare.commit(*rows))),
            },
            plan.size(5 * plan.rounds, plan.rounds),
        )
        loop.run(client.aclose())
    bare.close()
    home.close()
    measured = found["ours"].scaled(1e3)
    what, plain = "a mail search: CPU", found["http.client"].scaled(1e3)
    yield beside("mail", what, "ms", measured, "httpx and the commit", found["httpx"].scaled(1e3), at_most=1.5)
    yield beside("mail", what, "ms", measured, "http.client and the commit", plain)


def _idle(plan: Plan, url: str) -> Row:
    """A server with both accounts beside one without, each asked for its accounts first."""
    addresses = "".join(f'{key} = "{url}/"\n' for key in ("authorize_url", "token_url", "revoke_url"))
    config = f'[google]\nclient_id = "bench"\ngmail_url = "{url}"\ncalendar_url = "{url}"\n{addresses}'
    with served(plan.folder / "with", config) as ours, served(plan.folder / "without") as bare:
        home = Home(plan.folder / "with" / ".coilclaw")
        environ = environment(plan.folder / "with")
        app = Runtime(home, load(home, environ).config, environ, _say_nothing, extensions=EXTENSIONS)
        for identity, scopes in SCOPES.items():
            _connect(app, identity, scopes)
        app.close()

        async def settle(site: Served) -> float:
            line = await Line.to(site.port)
            for _ in range(50):
                await line.ask("GET", "/v1/accounts", site.head)
            line.close()
            return memory_of(site.pid)

        with asyncio.Runner() as loop:
            with_both, without = loop.run(settle(ours)), loop.run(settle(bare))
    what, note = "memory of a server with both accounts, beyond one without", f"{with_both:.1f} and {without:.1f} MB"
    more = Timing.of([with_both - without])
    return alone("mail", what, "MB", more, at_most=2 * (1 << 20) / 1e6, note=note)


def _say_nothing(level: str, event: str, fields: dict[str, Json]) -> None:
    """Nobody reads a log here."""


def _connect(app: Runtime, identity: Identity, scopes: tuple[str, ...]) -> None:
    def write(tx: Tx) -> None:
        token = f"bench-{identity}"  # sealed as any other, and never renewed
        put_token(tx, utc_now, app.vault, provider=PROVIDER, identity=identity, refresh_token=token, scopes=scopes)

    app.db.write_now(write)


def _get(url: str, path: str, headers: dict[str, str]) -> dict[str, list[dict[str, str]]]:
    connection = http.client.HTTPConnection(url.partition("://")[2], timeout=60)
    connection.request("GET", path, headers=headers)
    return json.loads(connection.getresponse().read())


def cpu(work: Callable[[], object]) -> Case:
    """A case of the CPU time that work takes."""

    def case() -> float:
        start = time.process_time()
        work()
        return time.process_time() - start

    return case
