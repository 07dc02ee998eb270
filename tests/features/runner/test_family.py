"""Sessions that sessions began: within their parents, counted together, stopped with them."""

import msgspec
import pytest

from coilclaw.config.runner import Org
from coilclaw.features.runner.box import box_spec
from coilclaw.features.runner.family_tree import in_order
from coilclaw.features.runner.lineage import MOST_BELOW, MOST_IN_FAMILY, child_of
from coilclaw.features.runner.session_tools import session_taint
from coilclaw.features.runner.spec import StartSession
from coilclaw.features.runner.store import add_session, load_session, needed_session, put_session, sessions_before
from coilclaw.features.runner.store.family import below, family_of, tokens_of_family
from coilclaw.features.runner.views import session_view
from coilclaw.gate.turn import Turn
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ids import new_id
from coilclaw.runtime.keyring import set_secret
from tests.features.runner.session_world import REPO, SessionWorld, until
from tests.features.runner.test_hooks import ended, with_fake

POLICY = {"shell_allowlist": ["ls"], "shell_denylist": ["rm"], "forbidden_paths": ["private"]}


@pytest.fixture
def world(sample):
    return with_fake(SessionWorld(sample))


def row_of(world, parent="", state="RUNNING", **body):
    """A session that nothing runs in."""
    app, session_id = world.app, new_id("sess", world.app.clock())
    wanted = msgspec.convert({"repo": REPO, "provider": "fake", "parent_id": parent, **body}, StartSession)

    def write(tx):
        session = add_session(tx, app.clock, session_id, wanted, action_id="", by="owner")
        put_session(tx, msgspec.structs.replace(session, state=state))

    app.db.write_now(write)
    return session_id


def wanted(**body):
    return msgspec.convert({"repo": REPO, "provider": "fake", "structured": True, **body}, StartSession)


def refused(world, parent, **body):
    with pytest.raises(ToolError) as found:
        child_of(world.app.db.reader, parent, wanted(**body))
    return found.value.code


def test_child_has_what_its_parent_has_and_no_more(world):
    parent = row_of(world, policy=POLICY, mode="read", org_id="acme", job_id="job_1")
    child = child_of(world.app.db.reader, parent, wanted())
    assert (child.parent_id, child.mode, child.org_id, child.job_id) == (parent, "read", "acme", "job_1")
    assert child.policy == needed_session(world.app.db.reader, parent).spec.policy


@pytest.mark.parametrize(
    "body",
    [
        {"repo": {"name": "other"}},
        {"repo": {"provider": "project", "name": "site"}},
        {"policy": {"network": {"mode": "open"}}},
        {"provider": "shell", "structured": False},
    ],
)
def test_what_its_parent_has_not_cannot_be_given_on(world, body):
    assert refused(world, row_of(world), **body) == "NOT_WITHIN_PARENT"


def test_network_of_its_parent_can_be_given_on_or_left_out(world):
    parent = row_of(world, policy={"network": {"mode": "open"}})
    for mode in ("open", "restricted"):
        child = child_of(world.app.db.reader, parent, wanted(policy={"network": {"mode": mode}}))
        assert child.policy.network.mode == mode


def test_nesting_ends_at_grandchildren(world):
    root = row_of(world)
    child = row_of(world, root)
    grandchild = row_of(world, child)
    assert child_of(world.app.db.reader, child, wanted()).parent_id == child
    assert refused(world, grandchild) == "NOT_WITHIN_PARENT"


def test_session_that_ends_begins_nothing_more(world):
    for state in ("STOPPING", "COMPLETED", "FAILED"):
        assert refused(world, row_of(world, state=state)) == "NOT_WITHIN_PARENT"


def test_fan_out_and_total_are_capped(world):
    root = row_of(world)
    for _ in range(MOST_BELOW):
        row_of(world, root)
    assert refused(world, root) == "TOO_MANY_SESSIONS"
    other = row_of(world)
    children = [row_of(world, other, "COMPLETED") for _ in range(MOST_IN_FAMILY)]
    assert refused(world, other) == "TOO_MANY_SESSIONS"
    assert {each.session_id for each in below(world.app.db.reader, other)} == set(children)


def test_family_shares_budget_and_taint(world):
    root = row_of(world)
    child = row_of(world, root)
    reader = world.app.db.reader

    def use(tx):
        for each, tokens in ((root, 5), (child, 7)):
            put_session(tx, msgspec.structs.replace(needed_session(tx, each), input_tokens=tokens))

    world.app.db.write_now(use)
    assert [tokens_of_family(reader, needed_session(reader, each)) for each in (root, child)] == [12, 12]
    assert [each.session_id for each in family_of(reader, needed_session(reader, child))] == [root, child]
    misled = row_of(world, root, repo={"provider": "github", "owner": "x", "name": "site"})
    assert session_taint(world.app, needed_session(reader, misled)) == ("untrusted:repo:x/site",)


async def test_session_stays_while_its_family_runs(world):
    """With it would go what it used, and what it read and told the others."""
    root = row_of(world)
    child = row_of(world, root, "COMPLETED")
    with pytest.raises(ToolError, match=root):
        await world.sessions.remove(child)
    assert below(world.app.db.reader, root)
    world.app.db.write_now(
        lambda tx: put_session(tx, msgspec.structs.replace(needed_session(tx, root), state="COMPLETED"))
    )
    await world.sessions.remove(child)
    assert not below(world.app.db.reader, root)


async def test_request_cannot_name_a_parent(world):
    async with world.serving() as site:
        body = {"repo": REPO, "provider": "fake", "parent_id": row_of(world)}
        answer = await site.http.post("/runner/v1/sessions", json=body)
        assert answer.status_code == 422, answer.text
        assert "parent_id" in answer.text


@pytest.mark.slow
async def test_session_that_a_model_began_has_only_the_secrets_that_are_granted_to_such(sessions_of_a_home):
    world = sessions_of_a_home()
    app = world.app
    for name in ("ONE_SECRET", "TWO_SECRET"):
        set_secret(app, name, f"{name}-value-1234")
    app.config = msgspec.structs.replace(app.config, orgs={"self": Org(secrets=("ONE_SECRET", "TWO_SECRET"))})

    def given(session_id):
        row = world.row(session_id)
        spec = box_spec(app, world.sessions.checkouts, row, row.checkout)
        return [name for name, _ in spec.environment if name.endswith("_SECRET")]

    async with world.serving() as site:
        by_owner = await world.start(site)
        called = await world.sample.call("session_spawn", Turn("turn_1", "conv_1", "chat"), "k", repo="site")
        by_agent = called.result.output.split()[1]
        assert (given(by_owner), given(by_agent)) == (["ONE_SECRET", "TWO_SECRET"], [])
        runner = msgspec.structs.replace(app.config.runner, spawned_secrets=("TWO_SECRET", "OTHER_SECRET"))
        app.config = msgspec.structs.replace(app.config, runner=runner)
        assert given(by_agent) == ["TWO_SECRET"]
        assert "ONE_SECRET" not in str(world.sample.owner.cards[-1])


async def spawned(world, parent, key, **args):
    """A session that the program of another one began, through the gate."""
    turn = Turn(parent, "", "session")
    called = await world.sample.call("session_spawn", turn, key, repo="site", provider="fake", **args)
    assert called.result.success, called.result.output
    return called.result.output.split()[1]


@pytest.mark.slow
async def test_stopping_a_parent_stops_its_children(sessions_of_a_home):
    world = with_fake(sessions_of_a_home())
    async with world.serving() as site:
        parent = await world.start(site)
        children = [await spawned(world, parent, f"k{each}", goal="run: frobnicate") for each in range(2)]
        grandchild = await spawned(world, children[0], "k3", goal="run: frobnicate")
        assert [each.session_id for each in below(world.app.db.reader, children[0])] == [grandchild]
        tree = (await site.http.get(f"/runner/v1/sessions/{grandchild}/tree")).json()["items"]
        assert [(each["session_id"], each["parent_id"]) for each in tree] == [
            (parent, ""), (children[0], parent), (children[1], parent), (grandchild, children[0]),
        ]  # fmt: skip
        assert [depth for depth, _ in in_order([session_view(world.app, each) for each in rows_of(world)])] == [
            0, 1, 2, 1,
        ]  # fmt: skip
        await world.sessions.stop(parent)
        for each in (parent, *children, grandchild):
            assert (await ended(world, each)).code == "STOPPED"


def rows_of(world):
    return sessions_before(world.app.db.reader, None, 100)[::-1]


@pytest.mark.slow
async def test_children_of_a_parent_that_ended_otherwise_are_stopped(sessions_of_a_home):
    world = with_fake(sessions_of_a_home())
    async with world.serving() as site:
        parent = await world.start(site)
        child = await spawned(world, parent, "k1", goal="run: frobnicate")
        await until(lambda: load_session(world.app.db.reader, child).state == "RUNNING")
        await world.sessions.type_in(parent, "exit", line=True)
        assert (await ended(world, parent)).code == "EXITED"
        assert (await ended(world, child)).code == "STOPPED"


@pytest.mark.slow
async def test_session_uses_the_sessions_it_began_and_no_others(sessions_of_a_home):
    world = with_fake(sessions_of_a_home())
    async with world.serving() as site:
        parent, other = await world.start(site), await world.start(site)
        child = await spawned(world, parent, "k1", goal="write: made.txt text\nsay: All done.")
        await ended(world, child)
        found = await world.sample.call("session_result", Turn(parent, "", "session"), "r1", session_id=child)
        assert "made.txt" in found.result.output
        assert found.result.label == f"untrusted:{child}"
        for number, (who, whose) in enumerate(((other, child), (parent, other), (child, parent))):
            for tool, more in (("session_send", {"line": "x"}), ("session_wait", {}), ("session_result", {})):
                turn = Turn(who, "", "session")
                called = await world.sample.call(tool, turn, f"{tool}{number}", session_id=whose, **more)
                assert (called.result.success, called.result.code) == (False, "NO_SUCH_SESSION")
