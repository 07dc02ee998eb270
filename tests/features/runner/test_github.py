"""Repositories on GitHub: fetched in a box through the real airlock, from a real git server on loopback."""

import contextlib
from pathlib import Path

import pytest

from coilclaw.airlock import Airlock, Listing
from coilclaw.config.runner import Repo
from coilclaw.features.runner.checkouts import Checkouts
from coilclaw.features.runner.sources import RepoSource
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ids import utc_now
from coilclaw.runtime.keyring import set_secret
from tests.features.runner.git_server import GitServer
from tests.features.runner.repo_world import git

pytestmark = pytest.mark.slow
TOKEN = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4"


class Hub:
    """A world whose github.test is a server of ours."""

    def __init__(self, world, token: str = "") -> None:
        self.world = world
        self.top = world.sample.folder / "hub"
        (self.top / "owner").mkdir(parents=True)
        self.repository = self.top / "owner" / "tool.git"
        git(self.top, "clone", "-q", "--bare", str(world.folder), str(self.repository))
        self.server = GitServer(self.top, token)
        self.lines: list[object] = []

        async def resolve(host: str) -> list[str]:
            return ["127.0.0.2"]

        app = world.app
        app.airlock = Airlock(Listing.build(), log=self.lines.append, clock=utc_now, resolve=resolve)
        world.checkouts = Checkouts(app, github=f"http://github.test:{self.server.port}")
        self.source = RepoSource(
            provider="github", owner="owner", name="tool", repository="tool", path="", token_env="GH" if token else ""
        )

    def push(self, files: dict[str, str]) -> str:
        commit = self.world.commit(files)
        git(self.world.folder, "push", "-q", "--force", str(self.repository), "main")
        return commit


@pytest.fixture
def hub_of():
    with contextlib.ExitStack() as stack:

        def make(world, token: str = "") -> Hub:
            hub = Hub(world, token)
            stack.callback(hub.server.close)
            return hub

        yield make


async def test_a_repository_is_fetched_and_later_only_what_is_new(each_world, hub_of):
    world, hub = each_world, hub_of(each_world)
    first = await world.prepare(source=hub.source)
    assert Path(first.path, "README.md").read_text() == "hello\n"
    assert await world.changes(first) == {}
    packs = {path.name for path in (world.cache() / "objects" / "pack").glob("*.pack")}
    new = hub.push({"later": "x\n" * 10})
    second = await world.prepare("sess_2", "main", source=hub.source)
    assert second.base == new
    (added,) = {path for path in (world.cache() / "objects" / "pack").glob("*.pack") if path.name not in packs}
    assert added.stat().st_size < 1000, "what the cache has is not fetched again"
    assert git(world.cache(), "fsck", "--full", "--strict") == ""
    told = await world.inside(second, "git remote get-url origin; git ls-remote origin 2>&1 | tail -1")
    assert told.startswith(f"http://github.test:{hub.server.port}/owner/tool.git\n")
    assert "unable to access" in told, "a session's own box reaches nothing"
    hub.server.requests.clear()
    await world.prepare("sess_3", first.base, "commit", source=hub.source)
    assert hub.server.requests == [], "a commit that is there needs no network"


async def test_a_private_repository_is_read_with_the_token_that_its_table_names(world_of, hub_of):
    world = world_of(repos={"tool": Repo(github="owner/tool", token_env="GH")})
    hub = hub_of(world, TOKEN)
    with pytest.raises(ToolError, match="GH is not set") as caught:
        await world.prepare(source=hub.source)
    assert caught.value.code == "CLONE_FAILED"
    set_secret(world.app, "GH", "ghp_" + "wrong" * 6)
    with pytest.raises(ToolError) as caught:
        await world.prepare(source=hub.source)
    assert "wrong" not in str(caught.value)
    set_secret(world.app, "GH", TOKEN)
    checkout = await world.prepare(source=hub.source)
    kept = [path for path in world.sessions.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]
    assert kept == []
    assert TOKEN not in await world.inside(checkout, "env; git config --list")


async def test_the_box_of_a_fetch_reaches_that_host_alone(world, hub_of):
    hub = hub_of(world)
    await world.prepare(source=hub.source)
    assert {line.host for line in hub.lines} == {"github.test"}


@pytest.mark.parametrize("how", ["gone", "broken", "malformed", "down"])
async def test_what_cannot_be_fetched_is_refused_and_the_cache_stays(world, hub_of, how):
    hub = hub_of(world)
    await world.prepare(source=hub.source)
    hub.push({"later": "x\n"})
    if how == "gone":
        hub.repository.rename(hub.top / "elsewhere")
    elif how == "broken":
        for path in (hub.repository / "objects").rglob("*"):
            if path.is_file() and path.stat().st_size < 200:
                path.chmod(0o600)
                path.write_bytes(b"broken")
    elif how == "malformed":
        blob = bytes.fromhex(git(hub.repository, "rev-parse", "main:README.md"))
        words = ("hash-object", "-t", "tree", "-w", "--literally", "--stdin")
        tree = git(hub.repository, *words, given=b"100644 .git\0" + blob)
        commit = git(hub.repository, "commit-tree", "-m", "x", tree)
        git(hub.repository, "update-ref", "refs/heads/main", commit)
    else:
        hub.server.close()
        hub.server.close = lambda: None
    with pytest.raises(ToolError) as caught:
        await world.prepare("sess_2", source=hub.source)
    assert caught.value.code == "CLONE_FAILED"
    assert git(world.cache(), "fsck", "--full", "--strict") == ""
    assert not (world.sessions / "sess_2").exists()
