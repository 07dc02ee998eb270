"""Owner proof: what each door must show, and that there is no way round it."""

import ast
import inspect
import threading
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import msgspec
import pytest

import coilclaw
from coilclaw.gate.conveyor import Outcome
from coilclaw.gate.enrolment import Enrolment
from coilclaw.gate.proof import OwnerProof
from coilclaw.gate.records import Records
from coilclaw.gate.turn import Turn
from coilclaw.ledger.story import story_of
from coilclaw.packets.action import ToolCall
from coilclaw.packets.card import Answer
from coilclaw.packets.errors import ProofNeeded, UsageError
from coilclaw.packets.ids import stamp
from coilclaw.sandbox.fake_receiver import Receiver, serve
from coilclaw.store import actions as action_rows
from coilclaw.store.devices import revoke_device
from coilclaw.store.passkeys import assertions_of, load_passkey, remove_passkey
from tests.gate.proof_world import DEVICE, World
from tests.soft_passkey import PRESENT, SoftPasskey

SOURCE = Path(coilclaw.__file__).parent


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.home.close()


@pytest.fixture
def receiving(tmp_path):
    @contextmanager
    def make(**overrides):
        server = serve(Receiver(tmp_path / "received.jsonl", deduplicates=False, lookup=False))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        made = World(tmp_path, f"http://127.0.0.1:{server.server_port}/in", **overrides)
        try:
            yield made
        finally:
            made.home.close()
            server.shutdown()
            server.server_close()

    return make


# What is needed

UNKNOWN = ("", "somebody", "owner", "device:", "device", "Terminal", "terminal ", "cli", "--YES")
NOTHING_REGISTERED = {
    ("A", DEVICE): "",
    ("B", DEVICE): "passkey_missing",
    ("C", DEVICE): "passkey_missing",
    ("A", "terminal"): "",
    ("B", "terminal"): "",
    ("C", "terminal"): "",
    ("A", "--yes"): "",
    ("B", "--yes"): "terminal",
    ("C", "--yes"): "terminal",
    **{(lane, by): "terminal" for lane in "ABC" for by in UNKNOWN},
}
REGISTERED = {**NOTHING_REGISTERED, ("B", DEVICE): "passkey", ("C", DEVICE): "passkey", ("C", "terminal"): "panel"}


@pytest.mark.parametrize(("lane", "by"), sorted(NOTHING_REGISTERED))
def test_what_a_door_must_show(world, lane, by):
    owner = world.app.owner_proof
    assert owner.needed(world.app.db.reader, lane, by) == NOTHING_REGISTERED[lane, by]
    passkey = SoftPasskey().enrol(world.app)
    assert owner.needed(world.app.db.reader, lane, by) == REGISTERED[lane, by]
    world.app.db.write_now(lambda tx: remove_passkey(tx, world.app.clock, passkey.id))
    assert owner.needed(world.app.db.reader, lane, by) == NOTHING_REGISTERED[lane, by]


def test_lane_b_can_be_left_to_the_token_and_lane_c_cannot(world):
    SoftPasskey().enrol(world.app)
    owner = OwnerProof(world.app.db, world.app.clock, lane_b=lambda: "token", place=world.app.passkey_place)
    assert [owner.needed(world.app.db.reader, lane, DEVICE) for lane in "ABC"] == ["", "", "passkey"]


@pytest.mark.parametrize("lane", ["A", "B", "C"])
async def test_a_device_that_was_thrown_out_meanwhile_answers_nothing(world, lane):
    passkey = SoftPasskey().enrol(world.app)
    action = await world.waiting(lane)
    proof = passkey.approval(world.app, action) if lane != "A" else None
    world.app.db.write_now(lambda tx: revoke_device(tx, "dev_test", stamp(world.app.clock())))
    for by in (DEVICE, "device:nobody"):
        with pytest.raises(ProofNeeded, match="no longer paired"):
            await world.approve(action, by=by, proof=proof)
    assert world.load(action.action_id).status == "PENDING"


# Doors that are none


async def nobody_approves(world, action, by):
    await world.approve(action, by=by)


async def nobody_approves_the_row(world, action, by):
    records = world.home.conveyor().records
    await world.app.db.write(lambda tx: records.approve(tx, action, by, None, None))


async def nobody_begins(world, action, by):
    records = world.home.conveyor().records
    said_yes = msgspec.structs.replace(action, approved_by=by)
    await records.begin(
        said_yes, stored=True, approved_now=True, stopped=lambda: False, refused=lambda: None, in_transaction=None
    )


async def nobody_reopens(world, action, by):
    unknown(world, action)
    later = stamp(world.app.clock() + timedelta(hours=1))
    records = world.home.conveyor().records
    await world.app.db.write(lambda tx: records.reopen(tx, action, by, later, None))


async def nobody_resolves(world, action, by):
    unknown(world, action)
    approvals = world.app.approvals(world.home.conveyor())
    await approvals.resolve(world.load(action.action_id), "executed", by=by)


async def nobody_is_asked_for(world, action, by):
    lane = action.decision.lane
    world.app.db.write_now(
        lambda tx: world.app.owner_proof.require(
            tx, lane=lane, purpose="estop.clear", subject="estop", by=by, assertion=None
        )
    )


async def nobody_demands(world, action, by):
    passkey = SoftPasskey().enrol(world.app)
    proof = passkey.approval(world.app, action)
    world.app.db.write_now(
        lambda tx: world.app.owner_proof.demand(
            tx, purpose="approve", subject=action.action_id, by=by, assertion=proof, digest=action.digest
        )
    )


async def nobody_answers_in_a_turn(world, action, by):
    tool, args = action.call.tool, msgspec.json.decode(action.call.args_bytes)
    world.home.owner.answer = Answer(approved=True, by=by)
    outcome = await world.home.call(tool, key=f"again{by}", **args)
    world.home.owner.answer = Answer(approved=None)
    assert outcome.pending
    raise ProofNeeded("it waits")


NOBODYS_WAYS = (
    nobody_approves,
    nobody_approves_the_row,
    nobody_begins,
    nobody_reopens,
    nobody_resolves,
    nobody_is_asked_for,
    nobody_demands,
    nobody_answers_in_a_turn,
)


@pytest.mark.parametrize("way", NOBODYS_WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("lane", ["A", "B", "C"])
async def test_who_comes_by_no_known_door_speaks_for_nobody(world, lane, way):
    for by in ("", "somebody", "device:"):
        action = await world.waiting(lane, key=f"k{by}")
        with pytest.raises(ProofNeeded):
            await way(world, action, by)
        assert world.load(action.action_id).status in ("PENDING", "UNKNOWN")
    assert world.events("tool_approved") == []
    assert world.events("tool_begun") == []


@pytest.mark.parametrize("lane", ["A", "B", "C"])
async def test_a_row_that_nobody_known_approved_is_not_carried_out(world, lane):
    action = await world.waiting(lane)
    forged = "UPDATE proposed_actions SET status = 'APPROVED', approved_by = 'somebody' WHERE action_id = ?"
    world.app.db.write_now(lambda tx: tx.execute(forged, (action.action_id,)))
    await world.home.conveyor().execute(world.load(action.action_id))
    assert world.load(action.action_id).status == "REJECTED"
    assert world.events("tool_begun") == []


async def test_yes_in_advance_does_not_cover_what_untrusted_content_may_have_a_hand_in(world):
    """The channel does not say so either; this is the gate's own word."""
    world.home.owner.answer = Answer(approved=True, by="--yes")
    tainted = Turn("turn_1", "", "cli", ("untrusted:web",))
    outcome = await world.home.call("file_write", turn=tainted, path="notes.txt", content="x")
    assert outcome.pending
    waiting = world.load(outcome.action.action_id)
    with pytest.raises(ProofNeeded, match="unseen"):
        await world.approve(waiting, by="--yes")
    assert not (world.home.workspace / "notes.txt").exists()
    clean = await world.home.call("file_write", key="clean", path="notes.txt", content="x")
    assert clean.result.success


# Approving with a passkey


@pytest.mark.parametrize("kind", ["ES256", "EdDSA", "RS256"])
async def test_a_passkey_approves_what_waits_and_what_it_signed_is_kept(world, kind):
    passkey = SoftPasskey(kind).enrol(world.app)
    action = await world.waiting("C")
    approved = await world.approve(action, proof=passkey.approval(world.app, action))
    assert (approved.status, world.load(action.action_id).approved_by) == ("APPROVED", DEVICE)
    (kept,) = assertions_of(world.app.db.reader, action.action_id)
    assert (kept.digest, kept.valid_until, kept.device_id) == (action.digest, action.expires_at, "dev_test")
    (told,) = world.events("tool_approved")
    assert (told["proof"], told["assertion_id"], told["by"]) == ("passkey", kept.assertion_id, DEVICE)
    assert len(told["assertion_hash"]) == 64
    (proved,) = world.events("owner_proved")
    assert (proved["purpose"], proved["subject"]) == ("approve", action.action_id)
    assert load_passkey(world.app.db.reader, passkey.id).sign_count == 1


@pytest.mark.parametrize("lane", ["B", "C"])
async def test_a_device_without_a_passkey_leaves_it_waiting(world, lane):
    action = await world.waiting(lane)
    with pytest.raises(ProofNeeded, match="none is registered"):
        await world.approve(action)
    SoftPasskey().enrol(world.app)
    with pytest.raises(ProofNeeded, match="needs your passkey"):
        await world.approve(action)
    assert world.load(action.action_id).status == "PENDING"
    assert world.events("tool_approved") == []


async def test_a_device_approves_lane_a_by_its_token(world):
    SoftPasskey().enrol(world.app)
    action = await world.waiting("A")
    assert (await world.approve(action)).status == "APPROVED"
    assert [told["proof"] for told in world.events("tool_approved")] == ["token"]


async def test_lane_b_by_token_is_told_apart(tmp_path):
    from coilclaw.config.schema import Approvals

    world = World(tmp_path, approvals=Approvals(lane_b_proof="token"))
    SoftPasskey().enrol(world.app)
    assert (await world.approve(await world.waiting("B"))).status == "APPROVED"
    assert [told["proof"] for told in world.events("tool_approved")] == ["token"]
    with pytest.raises(ProofNeeded):
        await world.approve(await world.waiting("C", "k2"))
    world.home.close()


def refusals():
    """Each wrong answer by name: what is done to the world, and what it is refused for."""
    day = timedelta(days=1)

    async def another_action(world, passkey, action):
        return passkey.approval(world.app, await world.waiting("C", "k2"))

    async def replayed(world, passkey, action):
        other = await world.waiting("C", "k2")
        proof = passkey.approval(world.app, other)
        await world.approve(other, proof=proof)
        return proof

    async def removed(world, passkey, action):
        proof = passkey.approval(world.app, action)
        world.app.db.write_now(lambda tx: remove_passkey(tx, world.app.clock, passkey.id))
        SoftPasskey().enrol(world.app)
        return proof

    async def late(world, passkey, action):
        proof = passkey.approval(world.app, action)
        world.later += timedelta(minutes=5)
        return proof

    async def forged(world, passkey, action):
        proof = passkey.approval(world.app, action)
        response = msgspec.structs.replace(proof.response, signature=proof.response.signature[:-8] + "AAAAAAAA")
        return msgspec.structs.replace(proof, response=response)

    async def stranger(world, passkey, action):
        return SoftPasskey().approval(world.app, action)

    async def impostor(world, passkey, action):
        other = SoftPasskey()
        other.raw_id, other.id = passkey.raw_id, passkey.id
        return other.approval(world.app, action)

    def signing(**wrong):
        async def make(world, passkey, action):
            return passkey.approval(world.app, action, **wrong)

        return make

    later = stamp(coilclaw_now() + day)
    return {
        "another action's": (another_action, "something else"),
        "replayed": (replayed, "already answered"),
        "removed passkey": (removed, "no such passkey"),
        "too late": (late, "expired"),
        "forged": (forged, "signature"),
        "a stranger's passkey": (stranger, "no such passkey"),
        "an impostor's key": (impostor, "signature"),
        "another purpose": (signing(purpose="resolve"), "something else"),
        "signed digest": (signing(digest="0" * 64), "has changed"),
        "signed expiry": (signing(valid_until=later), "has changed"),
        "another device": (signing(device_id="dev_other"), "no such challenge"),
        "no such challenge": (signing(challenge_id="chl_0"), "no such challenge"),
        "nobody verified": (signing(flags=PRESENT), "did not verify you"),
        "nobody present": (signing(flags=0), "touched"),
        "wrong origin": (signing(origin="http://127.0.0.1:8377"), "different origin"),
        "wrong port": (signing(origin="http://localhost:8378"), "different origin"),
        "wrong scheme": (signing(origin="https://localhost:8377"), "different origin"),
        "wrong site": (signing(rp_id="evil.example"), "different site"),
        "wrong type": (signing(kind="webauthn.create"), "type"),
        "within a frame": (signing(crossOrigin=True), "frame of another site"),
    }


def coilclaw_now():
    from coilclaw.packets.ids import utc_now

    return utc_now()


@pytest.mark.parametrize("wrong", sorted(refusals()))
async def test_an_answer_that_is_invalid_leaves_it_waiting(world, wrong):
    make, reason = refusals()[wrong]
    passkey = SoftPasskey().enrol(world.app)
    action = await world.waiting("C")
    if wrong == "no such challenge":
        proof = msgspec.structs.replace(passkey.approval(world.app, action), challenge_id="chl_0")
    else:
        proof = await make(world, passkey, action)
    before = load_passkey(world.app.db.reader, passkey.id).sign_count
    with pytest.raises(ProofNeeded, match=reason):
        await world.approve(action, proof=proof)
    assert world.load(action.action_id).status == "PENDING"
    assert load_passkey(world.app.db.reader, passkey.id).sign_count == before
    assert assertions_of(world.app.db.reader, action.action_id) == []
    assert [told["subject"] for told in world.events("owner_proof_refused")] == [action.action_id]


@pytest.mark.parametrize("back", [7, 6, 0])
async def test_passkey_whose_counter_goes_back_is_suspended_at_once(world, back):
    passkey = SoftPasskey().enrol(world.app)
    first, second = await world.waiting("C"), await world.waiting("C", "k2")
    await world.approve(first, proof=passkey.approval(world.app, first, count=7))
    with pytest.raises(ProofNeeded, match="counter went back"):
        await world.approve(second, proof=passkey.approval(world.app, second, count=back))
    assert [told["credential_id"] for told in world.events("passkey_counter_back")] == [passkey.id]
    assert len(world.events("passkey_suspended")) == 1
    for count in (8, 9, 1000):  # a copy counts on as well
        with pytest.raises(ProofNeeded, match="suspended"):
            await world.approve(second, proof=passkey.approval(world.app, second, count=count))
    assert world.load(second.action_id).status == "PENDING"
    assert world.app.owner_proof.usable(world.app.db.reader) == []


async def test_terminal_proves_nothing_while_the_only_passkey_is_suspended(world):
    passkey = SoftPasskey().enrol(world.app)
    first, second = await world.waiting("C"), await world.waiting("C", "k2")
    await world.approve(first, proof=passkey.approval(world.app, first, count=7))
    with pytest.raises(ProofNeeded):
        await world.approve(second, proof=passkey.approval(world.app, second, count=1))
    world.events("passkey_suspended")
    with pytest.raises(ProofNeeded):
        await world.approve(second, by="terminal")
    enrolment = Enrolment(world.app.owner_proof, world.app.clock)
    with pytest.raises(UsageError):
        world.app.db.write_now(lambda tx: enrolment.clear_at_terminal(tx, passkey.id, "wrong"))
    world.app.db.write_now(lambda tx: enrolment.clear_at_terminal(tx, passkey.id, passkey.id[-6:]))
    assert [told["by"] for told in world.events("passkey_cleared")] == ["terminal"]
    # The owner's own authenticator may be behind its copy: after clearing, its next count is the one that holds.
    assert (await world.approve(second, proof=passkey.approval(world.app, second, count=2))).status == "APPROVED"


async def test_suspended_passkey_is_cleared_by_another_and_not_by_itself(world):
    copied, other = SoftPasskey().enrol(world.app), SoftPasskey().enrol(world.app)
    action = await world.waiting("C")
    await world.approve(action, proof=copied.approval(world.app, action, count=7))
    second = await world.waiting("C", "k2")
    with pytest.raises(ProofNeeded):
        await world.approve(second, proof=copied.approval(world.app, second, count=3))
    world.events("passkey_suspended")
    enrolment = Enrolment(world.app.owner_proof, world.app.clock)
    asked = {"purpose": "passkey.clear", "subject": copied.id}
    for passkey, holds in ((copied, False), (other, True)):
        proof = passkey.answer(world.app, **asked)
        clear = partial(enrolment.clear, credential_id=copied.id, by=DEVICE, proof=proof)
        if holds:
            world.app.db.write_now(clear)
        else:
            with pytest.raises(ProofNeeded, match="suspended"):
                world.app.db.write_now(clear)
    assert (await world.approve(second, proof=copied.approval(world.app, second))).status == "APPROVED"


async def test_authenticator_that_never_counts_is_not_suspended(world):
    passkey = SoftPasskey().enrol(world.app)
    for key in ("k1", "k2", "k3"):
        action = await world.waiting("C", key)
        assert (await world.approve(action, proof=passkey.approval(world.app, action, count=0))).status == "APPROVED"


async def test_a_passkey_that_does_not_count_is_believed_as_long_as_it_never_did(world):
    passkey = SoftPasskey().enrol(world.app)
    for key in ("k1", "k2"):
        action = await world.waiting("C", key)
        assert (await world.approve(action, proof=passkey.approval(world.app, action, count=0))).status == "APPROVED"


async def test_an_action_that_changed_in_between_is_not_approved_by_the_old_signature(world):
    passkey = SoftPasskey().enrol(world.app)
    action = await world.waiting("C")
    proof = passkey.approval(world.app, action)
    later = stamp(world.app.clock() + timedelta(hours=100))
    world.app.db.write_now(
        lambda tx: tx.execute("UPDATE proposed_actions SET expires_at = ? WHERE 1", (later,)).rowcount
    )
    with pytest.raises(ProofNeeded, match="has changed"):
        await world.approve(action, proof=proof)
    assert world.load(action.action_id).status == "PENDING"


async def test_who_comes_second_with_a_good_signature_changes_nothing(world):
    passkey = SoftPasskey().enrol(world.app)
    action = await world.waiting("C")
    one, two = passkey.approval(world.app, action), passkey.approval(world.app, action)
    assert (await world.approve(action, proof=one)).status == "APPROVED"
    assert (await world.approve(action, proof=two)).status == "APPROVED"
    assert len(assertions_of(world.app.db.reader, action.action_id)) == 1
    assert len(world.events("tool_approved")) == 1


async def test_a_passkey_of_another_address_is_not_usable_here(world):
    SoftPasskey(rp_id="coil.example.net", origin="https://coil.example.net").enrol(world.app)
    passkey = SoftPasskey(rp_id="other.example").enrol(world.app)
    assert world.app.owner_proof.usable(world.app.db.reader) == []
    action = await world.waiting("C")
    with pytest.raises(ProofNeeded, match="another address"):
        await world.approve(action, proof=passkey.approval(world.app, action))


# No way round


async def at_the_prompt(world, action):
    """A yes in the middle of a turn."""
    world.home.owner.answer = Answer(approved=True)
    outcome = await world.home.call("file_write", key="prompt", path="SYSTEM.md", content="mine")
    assert outcome.pending
    assert "panel" in outcome.result.output
    raise ProofNeeded(outcome.action.action_id)


async def with_yes(world, action):
    world.home.owner.answer = Answer(approved=True, by="--yes")
    outcome = await world.home.call("file_write", key="prompt", path="SYSTEM.md", content="mine")
    assert outcome.pending
    raise ProofNeeded(outcome.action.action_id)


async def by_the_terminal(world, action):
    await world.approve(action, by="terminal")


async def by_a_device(world, action):
    await world.approve(action)


async def by_nobody_known(world, action):
    await world.approve(action, by="somebody")


async def by_the_rows(world, action):
    records = world.home.conveyor().records
    await world.app.db.write(lambda tx: records.approve(tx, action, "terminal", None, None))


async def by_beginning(world, action):
    records = world.home.conveyor().records
    said_yes = msgspec.structs.replace(action, approved_by="terminal")
    for approved_now in (True, False):
        with pytest.raises(ProofNeeded):
            await records.begin(
                said_yes,
                stored=True,
                approved_now=approved_now,
                stopped=lambda: False,
                refused=lambda: None,
                in_transaction=None,
            )
    raise ProofNeeded("both")


async def by_reopening(world, action):
    unknown(world, action)
    records = world.home.conveyor().records
    later = stamp(world.app.clock() + timedelta(hours=1))
    await world.app.db.write(lambda tx: records.reopen(tx, action, "terminal", later, None))


async def by_resolving(world, action):
    unknown(world, action)
    approvals = world.app.approvals(world.home.conveyor())
    await approvals.resolve(world.load(action.action_id), "retry", by="terminal")


async def by_resolving_from_a_device(world, action):
    unknown(world, action)
    approvals = world.app.approvals(world.home.conveyor())
    await approvals.resolve(world.load(action.action_id), "retry", by=DEVICE)


def unknown(world, action):
    def write(tx):
        tx.execute(
            "UPDATE proposed_actions SET status = 'UNKNOWN', begun_at = 'x' WHERE action_id = ?", (action.action_id,)
        )

    world.app.db.write_now(write)


WAYS = (
    at_the_prompt,
    with_yes,
    by_the_terminal,
    by_a_device,
    by_nobody_known,
    by_the_rows,
    by_beginning,
    by_reopening,
    by_resolving,
    by_resolving_from_a_device,
)


@pytest.mark.parametrize("way", WAYS)
async def test_with_a_passkey_registered_lane_c_is_approved_in_no_other_way(world, way):
    SoftPasskey().enrol(world.app)
    action = await world.waiting("C")
    with pytest.raises(ProofNeeded):
        await way(world, action)
    assert "APPROVED" not in world.home.statuses()
    assert world.events("tool_approved") == []
    assert world.events("tool_begun") == []
    assert (world.home.workspace / "SYSTEM.md").read_text() not in ("k1", "mine")


def functions_that_approve():
    """Every function of the store that can set a row to APPROVED."""
    found = set()
    for name, function in inspect.getmembers(action_rows, inspect.isfunction):
        if "SET status = 'APPROVED'" in inspect.getsource(function) or "SET status = ?" in inspect.getsource(function):
            found.add(name)
    return found


def test_rows_become_approved_in_no_place_that_the_ways_above_do_not_go_through():
    """A new place needs its proof and its line in WAYS."""
    assert functions_that_approve() == {
        "approve_action",
        "begin_action",
        "reopen_action",
        "put_off_action",  # only what is APPROVED stays so
        "finish_action",  # only to a final status
    }
    callers: dict[str, set[str]] = {}
    texts = set()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        where = str(path.relative_to(SOURCE))
        if "UPDATE proposed_actions" in text or "INSERT INTO proposed_actions" in text:
            texts.add(where)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                if called in ("approve_action", "begin_action", "reopen_action"):
                    callers.setdefault(called, set()).add(where)
    callers["approve_action"].remove(
        "features/status/canaries.py"
    )  # a range of its own, where forged rows must not get through
    assert callers == {name: {"gate/records.py"} for name in ("approve_action", "begin_action", "reopen_action")}
    assert texts == {"store/actions.py"}
    for name in ("approve", "reopen", "resolved", "begin"):
        assert "self._prove(" in inspect.getsource(getattr(Records, name)) or "self.resolved(" in inspect.getsource(
            getattr(Records, name)
        )


async def test_a_row_is_stored_approved_by_nobody(world):
    """What is stored anew begins as PENDING, whatever it says of itself."""
    conveyor = world.home.conveyor()
    turn = Turn("turn_9", "", "cli")
    action = conveyor.intake.propose(ToolCall.of("file_write", {"path": "SYSTEM.md", "content": "x"}), turn, "k9")
    assert (action.status, action.approved_by) == ("PENDING", None)


async def test_a_passkey_registered_while_the_question_was_put_makes_the_yes_wait(world):
    async def slow_yes(card):
        SoftPasskey().enrol(world.app)
        return Answer(approved=True)

    conveyor = world.app.conveyor(slow_yes)
    turn = Turn("turn_9", "", "cli")
    action = conveyor.intake.propose(ToolCall.of("file_write", {"path": "SYSTEM.md", "content": "x"}), turn, "k9")
    outcome = await conveyor.carry(action, turn, stored=False)
    assert outcome.pending
    assert world.home.statuses() == ["PENDING"]


async def test_the_terminal_is_the_owner_until_there_is_a_passkey_and_again_after_the_last_is_gone(world):
    action = await world.waiting("C")
    assert (await world.approve(action, by="terminal")).status == "APPROVED"
    passkey = SoftPasskey().enrol(world.app)
    other = await world.waiting("C", "k2")
    with pytest.raises(ProofNeeded, match="in the panel"):
        await world.approve(other, by="terminal")
    world.app.db.write_now(lambda tx: remove_passkey(tx, world.app.clock, passkey.id))
    assert (await world.approve(other, by="terminal")).status == "APPROVED"
    assert [told["proof"] for told in world.events("tool_approved")] == ["terminal", "terminal"]


async def test_the_prompt_says_that_its_yes_will_not_do(world):
    SoftPasskey().enrol(world.app)
    world.home.owner.answer = Answer(approved=True)
    outcome = await world.home.call("file_write", key="k", path="SYSTEM.md", content="mine")
    assert outcome.pending
    assert "panel" in world.home.owner.cards[-1].reasons[-1]
    world.home.owner.answer = Answer(approved=False, reason="no")
    refused = await world.home.call("file_write", key="k2", path="SYSTEM.md", content="mine")
    assert refused.action.status == "REJECTED"


# Unknown ends


async def test_a_signature_for_one_verdict_does_not_serve_another(receiving):
    with receiving() as world:
        passkey = SoftPasskey().enrol(world.app)
        outcome = await world.home.call(
            "webhook_send", key="k1", target="door", payload={"text": "x", "answers": [500]}
        )
        action = world.load(outcome.action.action_id)
        await world.approve(action, proof=passkey.approval(world.app, action))
        conveyor = world.home.conveyor()
        await conveyor.execute(world.load(action.action_id))
        lost = world.load(action.action_id)
        assert lost.status == "UNKNOWN"
        approvals = world.app.approvals(conveyor)
        asked = {"purpose": "resolve", "valid_until": lost.expires_at}
        proof = passkey.approval(world.app, lost, **asked, digest=f"{lost.digest}:not-executed")
        for verdict in ("retry", "executed"):
            with pytest.raises(ProofNeeded, match="has changed"):
                await approvals.resolve(lost, verdict, by=DEVICE, proof=proof)
        with pytest.raises(ProofNeeded, match="needs your passkey"):
            await approvals.resolve(lost, "executed", by=DEVICE)
        assert world.load(action.action_id).status == "UNKNOWN"
        answered = await approvals.resolve(lost, "not-executed", by=DEVICE, proof=proof)
        assert isinstance(answered, Outcome)
        assert world.load(action.action_id).status == "FAILED"
        assert [(told["verdict"], told["proof"]) for told in world.events("tool_resolved")] == [
            ("not-executed", "passkey")
        ]


async def test_doing_it_again_needs_its_own_signature(receiving):
    with receiving() as world:
        passkey = SoftPasskey().enrol(world.app)
        outcome = await world.home.call(
            "webhook_send", key="k1", target="door", payload={"text": "x", "answers": [500]}
        )
        action = world.load(outcome.action.action_id)
        proof = passkey.approval(world.app, action)
        await world.approve(action, proof=proof)
        conveyor = world.home.conveyor()
        await conveyor.execute(world.load(action.action_id))
        lost = world.load(action.action_id)
        approvals = world.app.approvals(conveyor)
        with pytest.raises(ProofNeeded):
            await approvals.resolve(lost, "retry", by=DEVICE, proof=proof)
        again = passkey.approval(world.app, lost, purpose="resolve", digest=f"{lost.digest}:retry")
        reopened = await approvals.resolve(lost, "retry", by=DEVICE, proof=again)
        assert reopened.status == "APPROVED"
        (told,) = world.events("tool_resolved")
        assert (told["proof"], told["expires_at"]) == ("passkey", reopened.expires_at)
        await conveyor.execute(reopened)
        assert world.load(action.action_id).status == "EXECUTED"
        story = story_of(world.app.db.reader, action.action_id)
        assert story.agrees, story.disagreements
        assert [each.purpose for each in story.approval.signatures] == ["approve", "resolve"]
        assert story.approval.proof.purpose == "resolve"
