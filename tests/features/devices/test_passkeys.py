"""The routes of passkeys over real HTTP, with passkeys in software."""

import hashlib
from contextlib import asynccontextmanager
from datetime import timedelta

import msgspec
import pytest

from coilclaw.packets.canonical import canonical_bytes
from coilclaw.packets.card import Answer
from coilclaw.secrets.passkey import decode, encode
from coilclaw.store.actions import load_action
from coilclaw.store.passkeys import list_passkeys
from tests.server.site import served, unlimited
from tests.soft_passkey import PRESENT, SoftPasskey


class World:
    """A served home, and passkeys that belong to it."""

    def __init__(self, site):
        self.site = site
        self.http = site.http
        self.app = site.sample.app

    def passkey(self, **more):
        return SoftPasskey(origin=self.site.origin, **more)

    async def begin(self, http=None, status=201):
        answer = await (http or self.http).post("/v1/passkeys/registration")
        assert answer.status_code == status, answer.text
        return answer.json()

    async def register(self, passkey, *, began=None, proof=None, status=201, http=None, name="phone", **wrong):
        began = began or await self.begin(http)
        body = {
            "challenge_id": began["challenge_id"],
            "credential": passkey.make(decode(began["options"]["challenge"], ""), **wrong),
            "name": name,
            **({"proof": proof} if proof else {}),
        }
        answer = await (http or self.http).post("/v1/passkeys", json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def ask(self, purpose, subject, *, status=201, http=None, **more):
        body = {"purpose": purpose, "subject": subject, **more}
        answer = await (http or self.http).post("/v1/passkeys/challenge", json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def sign(self, passkey, purpose, subject, **more):
        asked = await self.ask(purpose, subject, **more)
        return passkey.sign(decode(asked["options"]["challenge"], ""), challenge_id=asked["challenge_id"])

    async def waiting(self, key="k1", path="SYSTEM.md"):
        self.site.sample.owner.answer = Answer(approved=None)
        outcome = await self.site.sample.call("file_write", key=key, path=path, content=key)
        return load_action(self.app.db.reader, outcome.action.action_id)

    async def edit(self, sql, *values):
        await self.app.db.write(lambda tx: tx.execute(sql, values).rowcount)

    def events(self, event_type):
        rows = self.app.db.reader.execute(
            "SELECT entity_id, payload_json FROM audit_log WHERE event_type = ? ORDER BY seq", (event_type,)
        )
        return [(row[0], msgspec.json.decode(row[1])) for row in rows]


@pytest.fixture
def world(sample):
    @asynccontextmanager
    async def make(**overrides):
        async with served(sample(**overrides), rates=unlimited()) as site:
            yield World(site)

    return make


# Registering


async def test_the_first_passkey_is_registered_right_after_pairing(world):
    async with world() as w:
        began = await w.begin()
        options = began["options"]
        assert (options["rp"]["id"], options["attestation"], began["proof_needed"]) == ("localhost", "none", False)
        assert options["authenticatorSelection"] == {
            "residentKey": "preferred",
            "requireResidentKey": False,
            "userVerification": "required",
        }
        assert [each["alg"] for each in options["pubKeyCredParams"]] == [-7, -8, -257]
        passkey = w.passkey()
        made = await w.register(passkey, began=began, name="my phone")
        assert (made["passkey_id"], made["name"], made["device_id"]) == (passkey.id, "my phone", "dev_test")
        assert made["transports"] == ["internal"]
        listed = (await w.http.get("/v1/passkeys")).json()
        assert listed == {"items": [made], "next_cursor": None}
        ((entity, told),) = w.events("passkey_registered")
        assert (entity, told["first"]) == (passkey.id, True)
        assert told["key_hash"] == hashlib.sha256(passkey.public_key).hexdigest()


async def test_no_key_material_leaves(world):
    async with world() as w:
        passkey = w.passkey()
        await w.register(passkey)
        text = (await w.http.get("/v1/passkeys")).text
        assert encode(passkey.public_key) not in text
        assert "public_key" not in text


async def test_ten_minutes_after_pairing_the_first_is_refused(world):
    async with world() as w:
        began = await w.begin()
        paired = w.app.clock() - timedelta(minutes=10, seconds=1)
        await w.edit("UPDATE devices SET created_at = ?", paired.isoformat().replace("+00:00", "Z"))
        problem = await w.begin(status=403)
        assert "pair" in problem["remedy"].lower()
        assert (await w.register(w.passkey(), began=began, status=403))["code"] == "PROOF_NEEDED"
        assert list_passkeys(w.app.db.reader) == []


async def test_a_device_paired_in_the_future_has_no_endless_window(world):
    async with world() as w:
        await w.edit("UPDATE devices SET created_at = '2999-01-01T00:00:00.000Z'")
        await w.begin(status=403)


async def test_a_further_one_needs_the_signature_of_one_that_is_there(world):
    async with world() as w:
        first, second, third = w.passkey(), w.passkey(), w.passkey()
        await w.register(first)
        began = await w.begin()
        assert began["proof_needed"]
        assert [each["id"] for each in began["options"]["excludeCredentials"]] == [first.id]
        assert (await w.register(second, began=began, status=403))["code"] == "PROOF_NEEDED"
        proof = await w.sign(first, "passkey.add", third.id)
        await w.register(second, began=began, proof=proof, status=403)  # it vouched for another one
        await w.register(second, began=began, proof=await w.sign(first, "passkey.add", second.id))
        assert [each.credential_id for each in list_passkeys(w.app.db.reader)] == [first.id, second.id]


async def test_a_further_one_is_registered_however_long_ago_the_pairing_was(world):
    async with world() as w:
        first, second = w.passkey(), w.passkey()
        await w.register(first)
        await w.edit("UPDATE devices SET created_at = '2001-01-01T00:00:00.000Z'")
        await w.register(second, proof=await w.sign(first, "passkey.add", second.id))


async def test_two_who_begin_at_once_do_not_both_become_the_first(world):
    async with world() as w:
        one, two = await w.begin(), await w.begin()
        await w.register(w.passkey(), began=one)
        await w.register(w.passkey(), began=two, status=403)
        assert len(list_passkeys(w.app.db.reader)) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"flags": PRESENT},
        {"origin": "http://localhost:1"},
        {"rp_id": "evil.example"},
        {"kind": "webauthn.get"},
        {"crossOrigin": True},
    ],
)
async def test_a_registration_that_is_invalid_is_refused(world, wrong):
    async with world() as w:
        problem = await w.register(w.passkey(), status=403, **wrong)
        assert (problem["code"], bool(problem["remedy"])) == ("PROOF_NEEDED", True)
        assert list_passkeys(w.app.db.reader) == []


async def test_sending_the_same_registration_again_changes_nothing(world):
    async with world() as w:
        passkey, began = w.passkey(), await w.begin()
        made = await w.register(passkey, began=began)
        assert await w.register(passkey, began=began) == made
        assert len(w.events("passkey_registered")) == 1
        await w.register(w.passkey(), began=began, status=403)


async def test_a_registration_belongs_to_the_device_that_began_it(world):
    async with world() as w:
        other = w.site.device()
        began = await w.begin(other)
        await w.register(w.passkey(), began=began, status=403)
        await w.register(w.passkey(), began=began, http=other)


async def test_a_removed_passkey_is_not_registered_again(world):
    async with world() as w:
        first = w.passkey()
        await w.register(first)
        await w.http.post(
            f"/v1/passkeys/{first.id}/remove", json={"proof": await w.sign(first, "passkey.remove", first.id)}
        )
        assert (await w.register(first, status=409))["code"] == "CONFLICT"


async def test_there_are_never_more_than_twenty(world):
    async with world() as w:
        for _ in range(20):
            w.passkey().enrol(w.app)
        assert (await w.begin(status=409))["code"] == "CONFLICT"


# Asking


async def test_the_question_binds_the_action_its_digest_and_its_expiry(world):
    async with world() as w:
        passkey = w.passkey()
        await w.register(passkey)
        action = await w.waiting()
        asked = await w.ask("approve", action.action_id)
        question, options = asked["question"], asked["options"]
        assert (question["subject"], question["digest"]) == (action.action_id, action.digest)
        assert (question["purpose"], question["valid_until"]) == ("approve", action.expires_at)
        signed = hashlib.sha256(canonical_bytes({"coilclaw": "owner proof 1", **question})).digest()
        assert options == {
            "challenge": encode(signed),
            "timeout": 300_000,
            "rpId": "localhost",
            "allowCredentials": [{"id": passkey.id, "type": "public-key", "transports": ["internal"]}],
            "userVerification": "required",
        }
        assert (await w.ask("approve", action.action_id))["options"]["challenge"] != options["challenge"]


async def test_what_does_not_wait_is_not_asked_about(world):
    async with world() as w:
        await w.register(w.passkey())
        await w.ask("approve", "act_none", status=404)
        action = await w.waiting()
        await w.ask("resolve", action.action_id, status=409)
        await w.edit("UPDATE proposed_actions SET expires_at = '2001-01-01T00:00:00.000Z'")
        assert (await w.ask("approve", action.action_id, status=409))["code"] == "NOT_WAITING"
        await w.edit("UPDATE proposed_actions SET status = 'REJECTED', expires_at = '2999-01-01T00:00:00.000Z'")
        await w.ask("approve", action.action_id, status=409)


async def test_what_would_do_something_else_by_now_is_not_asked_about(world):
    async with world() as w:
        await w.register(w.passkey())
        action = await w.waiting()
        await w.edit("UPDATE proposed_actions SET digest = 'other'")
        assert (await w.ask("approve", action.action_id, status=409))["code"] == "CHANGED"


async def test_the_verdict_on_an_unknown_end_is_signed(world):
    async with world() as w:
        await w.register(w.passkey())
        action = await w.waiting()
        await w.edit("UPDATE proposed_actions SET status = 'UNKNOWN'")
        for verdict in ("executed", "not-executed", "retry"):
            asked = await w.ask("resolve", action.action_id, verdict=verdict)
            assert asked["question"]["digest"] == f"{action.digest}:{verdict}"


@pytest.mark.parametrize(
    ("purpose", "subject", "status"),
    [
        ("estop.clear", "estop", 409),
        ("estop.clear", "other", 422),
        ("passkey.remove", "none", 404),
        ("passkey.add", "bmV3", 201),
        ("device.add", "dev_test", 201),
        ("device.add", "dev_other", 422),
        ("device.confirm", "dev_test", 201),
        ("device.revoke", "dev_none", 404),
        ("world.conquer", "x", 400),
    ],
)
async def test_each_purpose_has_its_subjects(world, purpose, subject, status):
    async with world() as w:
        await w.register(w.passkey())
        await w.ask(purpose, subject, status=status)


async def test_without_a_passkey_for_this_address_there_is_nothing_to_sign_with(world):
    async with world() as w:
        w.app.estop.engage("here", "2026-03-01T12:00:00.000Z")
        assert (await w.ask("estop.clear", "estop", status=403))["code"] == "PROOF_NEEDED"
        SoftPasskey(rp_id="other.example").enrol(w.app)
        problem = await w.ask("estop.clear", "estop", status=403)
        assert "for this address" in problem["detail"]
        (listed,) = (await w.http.get("/v1/passkeys")).json()["items"]
        assert listed["usable"] is False


async def test_an_unconfirmed_device_may_only_ask_to_be_confirmed(world):
    async with world() as w:
        await w.register(w.passkey())
        stranger = w.site.device(confirmed=False)
        w.app.estop.engage("here", "2026-03-01T12:00:00.000Z")
        await w.ask("estop.clear", "estop", http=stranger, status=403)
        w.app.estop.clear()
        await w.ask("device.confirm", "dev_test", http=stranger, status=403)
        (own,) = w.app.db.reader.execute("SELECT device_id FROM devices WHERE confirmed_at IS NULL").fetchone()
        await w.ask("device.confirm", own, http=stranger)


async def test_the_public_address_is_where_passkeys_belong(world):
    from coilclaw.config.schema import Server

    async with world(server=Server(public_url="https://coil.example.net/")) as w:
        began = await w.begin()
        assert began["options"]["rp"]["id"] == "coil.example.net"
        wrong = SoftPasskey(origin=w.site.origin)
        await w.register(wrong, began=began, status=403)
        right = SoftPasskey(rp_id="coil.example.net", origin="https://coil.example.net")
        await w.register(right, began=began)


# Naming and removing


async def test_a_passkey_gets_another_name(world):
    async with world() as w:
        passkey = w.passkey()
        await w.register(passkey)
        answer = await w.http.patch(f"/v1/passkeys/{passkey.id}", json={"name": "new \u202ename"})
        assert (answer.status_code, answer.json()["name"]) == (200, "new ⟨U+202E⟩name")
        assert [entity for entity, _ in w.events("passkey_renamed")] == [passkey.id]
        assert (await w.http.patch("/v1/passkeys/none", json={"name": "x"})).status_code == 404
        assert (await w.http.patch(f"/v1/passkeys/{passkey.id}", json={"name": ""})).status_code == 400


async def test_a_passkey_is_removed_by_another_and_the_last_only_by_itself(world):
    async with world() as w:
        first, second = w.passkey(), w.passkey()
        await w.register(first)
        await w.register(second, proof=await w.sign(first, "passkey.add", second.id))
        path = f"/v1/passkeys/{first.id}/remove"
        assert (await w.http.post(path, json={})).status_code == 403
        wrong = await w.sign(second, "passkey.remove", second.id)
        assert (await w.http.post(path, json={"proof": wrong})).status_code == 403
        proof = await w.sign(second, "passkey.remove", first.id)
        removed = await w.http.post(path, json={"proof": proof})
        assert (removed.status_code, removed.json()["removed_at"] is not None) == (200, True)
        assert (await w.http.post(path, json={"proof": proof})).json() == removed.json()
        last = f"/v1/passkeys/{second.id}/remove"
        asked = await w.ask("passkey.remove", second.id)
        gone = first.sign(decode(asked["options"]["challenge"], ""), challenge_id=asked["challenge_id"])
        assert (await w.http.post(last, json={"proof": gone})).status_code == 403
        own = await w.sign(second, "passkey.remove", second.id)
        assert (await w.http.post(last, json={"proof": own})).status_code == 200
        assert [told["left"] for _, told in w.events("passkey_removed")] == [1, 0]
        assert (await w.http.post("/v1/passkeys/none/remove", json={})).status_code == 404


async def test_copied_passkey_is_told_suspended_and_cleared_with_another(world):
    async with world() as w:
        copied, other = w.passkey(), w.passkey()
        await w.register(copied)
        await w.register(other, proof=await w.sign(copied, "passkey.add", other.id))
        path = f"/v1/passkeys/{copied.id}"
        asked = await w.ask("passkey.remove", other.id)
        back = copied.sign(decode(asked["options"]["challenge"], ""), challenge_id=asked["challenge_id"], count=0)
        assert (await w.http.post(f"/v1/passkeys/{other.id}/remove", json={"proof": back})).status_code == 403
        w.app.db.write_now(lambda tx: None)
        seen = {each["passkey_id"]: each for each in (await w.http.get("/v1/passkeys")).json()["items"]}
        assert (seen[copied.id]["usable"], seen[copied.id]["suspended_at"] is not None) == (False, True)
        assert (seen[other.id]["usable"], seen[other.id]["suspended_at"]) == (True, None)
        asked = await w.ask("passkey.clear", copied.id)
        assert [each["id"] for each in asked["options"]["allowCredentials"]] == [other.id]
        own = copied.sign(decode(asked["options"]["challenge"], ""), challenge_id=asked["challenge_id"], count=99)
        assert (await w.http.post(f"{path}/clear", json={"proof": own})).status_code == 403
        assert (await w.http.post(f"{path}/clear")).status_code == 403
        cleared = await w.http.post(f"{path}/clear", json={"proof": await w.sign(other, "passkey.clear", copied.id)})
        assert (cleared.status_code, cleared.json()["suspended_at"]) == (200, None)
        assert len(w.events("passkey_suspended")) == len(w.events("passkey_cleared")) == 1


async def test_removing_a_passkey_signs_out_the_other_devices_that_used_it_if_asked(world):
    async with world() as w:
        first, second = w.passkey(), w.passkey()
        await w.register(first)
        await w.register(second, proof=await w.sign(first, "passkey.add", second.id))
        w.app.db.write_now(
            lambda tx: (
                tx.execute(
                    "INSERT INTO devices (device_id, user_id, name, created_at, paired_by)"
                    " VALUES ('dev_lost', 'owner', 'lost phone', 'x', 'terminal')"
                ).rowcount
            )
        )
        w.app.db.write_now(
            lambda tx: (
                tx.execute("UPDATE passkeys SET device_id = 'dev_lost' WHERE credential_id = ?", (first.id,)).rowcount
            )
        )
        (seen, _) = (await w.http.get("/v1/passkeys")).json()["items"]
        assert "lost phone" in seen["used_on"]
        proof = await w.sign(second, "passkey.remove", first.id)
        removed = await w.http.post(f"/v1/passkeys/{first.id}/remove", json={"proof": proof, "sign_out": True})
        assert removed.status_code == 200, removed.text
        gone = w.app.db.reader.execute("SELECT device_id FROM devices WHERE revoked_at IS NOT NULL").fetchall()
        assert gone == [("dev_lost",)]  # whoever asks stays
        assert (await w.http.get("/v1/sign-in")).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"challenge_id": "", "credential": {}, "name": "x"},
        {"challenge_id": "x", "credential": {"id": "x", "response": {}}, "name": "x"},
        {
            "challenge_id": "\x00",
            "credential": {"id": "\x00", "response": {"clientDataJSON": "é", "attestationObject": ""}},
            "name": "\x00",
        },
        {
            "challenge_id": "x" * 5000,
            "credential": {"id": "", "response": {"clientDataJSON": "", "attestationObject": ""}},
            "name": "x",
        },
    ],
)
async def test_nonsense_is_never_our_fault(world, body):
    async with world() as w:
        for path in ("/v1/passkeys", "/v1/passkeys/challenge", "/v1/passkeys/x/remove"):
            assert (await w.http.post(path, json=body)).status_code in (400, 403, 404, 422)
        raw = b'{"purpose":"approve","subject":"\\ud800"}'
        answer = await w.http.post("/v1/passkeys/challenge", content=raw, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 404)
