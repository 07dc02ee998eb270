"""The owner's signature is verified again from stored data, and whatever was edited since shows."""

import msgspec
import pytest

from coilclaw.config.schema import Approvals
from coilclaw.ledger.story import story_of
from coilclaw.packets.ids import stamp
from coilclaw.store.passkeys import remove_passkey
from tests.gate.proof_world import World
from tests.soft_passkey import SoftPasskey


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.home.close()


async def approved(world, lane="C", key="k1", passkey=None):
    """An action that the owner approved with a passkey, and that was carried out."""
    passkey = passkey or SoftPasskey().enrol(world.app, name="my phone")
    action = await world.waiting(lane, key)
    await world.approve(action, proof=passkey.approval(world.app, action))
    await world.home.conveyor().execute(world.load(action.action_id))
    return action.action_id


def story(world, action_id):
    return story_of(world.app.db.reader, action_id)


def edit(world, sql, *values):
    changed = world.app.db.write_now(lambda tx: tx.execute(sql, values).rowcount)
    assert changed == 1


async def test_a_story_tells_who_signed_and_that_it_still_verifies(world):
    action_id = await approved(world)
    told = story(world, action_id)
    assert told.agrees, told.disagreements
    assert told.status == "EXECUTED"
    proof = told.approval.proof
    assert (told.approval.shown, proof.passkey_name, proof.device_id) == ("passkey", "my phone", "dev_test")
    assert (proof.holds, proof.purpose, proof.disagreements) == (True, "approve", ())
    assert told.approval.signatures == (proof,)


async def test_the_story_in_words_names_the_passkey(world):
    from coilclaw.features.records.story_text import paragraphs

    lines = dict(paragraphs(story(world, await approved(world))))["Approved"]
    (text,) = [text for name, text in lines if name == "signed"]
    assert "'my phone'" in text
    assert "still verifies" in text


EDITS = {
    "the digest": "UPDATE proposed_actions SET digest = 'f' WHERE action_id = ?1",
    "the expiry": "UPDATE proposed_actions SET expires_at = '2999-01-01T00:00:00.000Z' WHERE action_id = ?1",
    "the approver": "UPDATE proposed_actions SET approved_by = 'terminal' WHERE action_id = ?1",
    "the signature": "UPDATE assertions SET signature = x'3006020101020101' WHERE subject = ?1",
    "the signature's type": "UPDATE assertions SET signature = 'text' WHERE subject = ?1",
    "what the authenticator said": "UPDATE assertions SET authenticator_data = zeroblob(37) WHERE subject = ?1",
    "what the browser said": "UPDATE assertions SET client_data = x'7b7d' WHERE subject = ?1",
    "the question's digest": "UPDATE assertions SET digest = 'f' WHERE subject = ?1",
    "the question's expiry": "UPDATE assertions SET valid_until = '2999-01-01T00:00:00.000Z' WHERE subject = ?1",
    "the nonce": "UPDATE assertions SET nonce = 'x' WHERE subject = ?1",
    "the device": "UPDATE assertions SET device_id = 'dev_other' WHERE subject = ?1",
    "the origin": "UPDATE assertions SET origin = 'https://evil.example' WHERE subject = ?1",
    "the time": "UPDATE assertions SET created_at = '2001-01-01T00:00:00.000Z' WHERE subject = ?1",
    "the purpose": "UPDATE assertions SET purpose = 'resolve' WHERE subject = ?1",
    "which passkey": "UPDATE assertions SET credential_id = 'x' WHERE subject = ?1",
    "the key": "UPDATE assertions SET public_key = x'00' WHERE subject = ?1",
    "the registered key": "UPDATE passkeys SET public_key = x'00' WHERE ?1 != ''",
    "when it was registered": "UPDATE passkeys SET created_at = '2999-01-01T00:00:00.000Z' WHERE ?1 != ''",
    "when it was removed": "UPDATE passkeys SET removed_at = '2001-01-01T00:00:00.000Z' WHERE ?1 != ''",
    "that it was signed": "DELETE FROM assertions WHERE subject = ?1",
    "that it was approved": "DELETE FROM audit_log WHERE event_type = 'tool_approved' AND entity_id = ?1",
    "what stood behind it": (
        "UPDATE audit_log SET payload_json = json_set(payload_json, '$.proof', 'token')"
        " WHERE event_type = 'tool_approved' AND entity_id = ?1"
    ),
}


@pytest.mark.parametrize("what", sorted(EDITS))
async def test_editing_anything_the_signature_stands_on_shows(world, what):
    action_id = await approved(world)
    edit(world, EDITS[what], action_id)
    told = story(world, action_id)
    assert not told.agrees
    assert told.disagreements


async def test_another_key_that_signs_the_same_is_not_the_registered_one(world):
    """Who can write the database can sign with a key of their own, but not with the owner's."""
    passkey = SoftPasskey().enrol(world.app)
    action = await world.waiting("C")
    await world.approve(action, proof=passkey.approval(world.app, action))
    other = SoftPasskey()
    other.raw_id, other.id = passkey.raw_id, passkey.id
    (told,) = world.app.db.reader.execute("SELECT nonce FROM assertions").fetchone()
    from coilclaw.packets.proof import Question

    question = Question(
        purpose="approve", subject=action.action_id, digest=action.digest, valid_until=action.expires_at, nonce=told
    )
    forged = other.sign(question.challenge)["response"]
    from coilclaw.secrets.passkey import decode

    edit(
        world,
        "UPDATE assertions SET public_key = ?, authenticator_data = ?, client_data = ?, signature = ?",
        other.public_key,
        decode(forged["authenticatorData"], ""),
        decode(forged["clientDataJSON"], ""),
        decode(forged["signature"], ""),
    )
    found = story(world, action.action_id)
    assert found.approval.proof.holds
    assert not found.agrees
    assert any("key is not" in text for text in found.disagreements)


async def test_a_passkey_removed_later_still_stands_behind_what_it_signed(world):
    passkey = SoftPasskey().enrol(world.app)
    action_id = await approved(world, passkey=passkey)
    world.app.db.write_now(lambda tx: remove_passkey(tx, world.app.clock, passkey.id))
    assert story(world, action_id).agrees


@pytest.mark.parametrize("lane", ["B", "C"])
async def test_a_row_that_claims_a_device_approved_it_without_a_signature_is_found(world, lane):
    action = await world.waiting(lane)
    edit(
        world,
        "UPDATE proposed_actions SET status = 'APPROVED', approved_by = 'device:dev_test', approved_at = ? WHERE 1",
        stamp(world.app.clock()),
    )
    found = story(world, action.action_id)
    assert not found.agrees
    assert "no passkey signature is recorded" in " ".join(found.disagreements)


async def test_lane_b_by_token_is_told_and_agrees(tmp_path):
    world = World(tmp_path, approvals=Approvals(lane_b_proof="token"))
    action = await world.waiting("B")
    await world.approve(action)
    found = story(world, action.action_id)
    assert (found.agrees, found.approval.shown, found.approval.proof) == (True, "token", None)
    edit(world, "UPDATE proposed_actions SET lane = 'C' WHERE action_id = ?", action.action_id)
    assert not story(world, action.action_id).agrees
    world.home.close()


async def test_what_was_approved_at_the_terminal_needs_no_signature(world):
    action = await world.waiting("C")
    await world.approve(action, by="terminal")
    found = story(world, action.action_id)
    assert (found.agrees, found.approval.shown) == (True, "terminal")


async def test_an_approval_whose_events_were_pruned_is_verified_from_its_signature(world):
    action_id = await approved(world)
    world.app.db.write_now(lambda tx: tx.execute("DELETE FROM audit_log").rowcount)
    found = story(world, action_id)
    assert found.agrees, found.disagreements
    assert (found.approval.shown, found.approval.proof.holds) == ("passkey", True)
    edit(world, "UPDATE assertions SET digest = 'f'")
    assert not story(world, action_id).agrees


async def test_the_story_is_plain_json(world):
    action_id = await approved(world)
    assert msgspec.json.decode(msgspec.json.encode(story(world, action_id)))["approval"]["proof"]["holds"] is True
