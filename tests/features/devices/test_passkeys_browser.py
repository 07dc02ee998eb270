"""Passkeys end to end: a real browser with a virtual authenticator against the real server."""

from contextlib import asynccontextmanager

import pytest
from litestar import Controller, MediaType, get

from coilclaw.ledger.story import story_of
from coilclaw.packets.card import Answer
from coilclaw.server.part import Part
from coilclaw.store.actions import load_action
from coilclaw.store.passkeys import load_passkey, remove_passkey
from tests.server.browser import Authenticator, chromium
from tests.server.parts import queue_part
from tests.server.site import served

pytestmark = pytest.mark.slow

CREATE = """async options => {
    const made = await navigator.credentials.create(
        {publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options)});
    return made.toJSON();
}"""
GET = """async options => {
    const signed = await navigator.credentials.get(
        {publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options)});
    return signed.toJSON();
}"""


class TryController(Controller):
    """An empty page of our origin, for this test alone."""

    path = "/try"

    @get("/", media_type=MediaType.HTML, include_in_schema=False)
    async def page(self) -> str:
        return "<!doctype html><title>try</title>"


def try_part(serving):
    return Part(controllers=(TryController,))


class Panel:
    """What the panel does: asks the server, has the authenticator sign, sends it back."""

    def __init__(self, site, page, authenticator):
        self.site = site
        self.app = site.sample.app
        self.page = page
        self.authenticator = authenticator

    async def post(self, path, body=None, status=(200, 201)):
        answer = await self.site.http.post(path, json=body) if body is not None else await self.site.http.post(path)
        assert answer.status_code in ((status,) if isinstance(status, int) else status), answer.text
        return answer.json()

    async def register(self, name="laptop", page=None, status=201, proof=None):
        began = await self.post("/v1/passkeys/registration")
        credential = await (page or self.page).evaluate(CREATE, began["options"])
        body = {"challenge_id": began["challenge_id"], "credential": credential, "name": name}
        return await self.post("/v1/passkeys", {**body, **({"proof": proof} if proof else {})}, status)

    async def sign(self, purpose, subject, page=None, **options):
        asked = await self.post("/v1/passkeys/challenge", {"purpose": purpose, "subject": subject})
        signed = await (page or self.page).evaluate(GET, {**asked["options"], **options})
        return {"challenge_id": asked["challenge_id"], **signed}

    async def waiting(self, key="k1"):
        """An action of lane C that waits."""
        self.site.sample.owner.answer = Answer(approved=None)
        outcome = await self.site.sample.call("file_write", key=key, path=f".github/{key}.yml", content=key)
        return load_action(self.app.db.reader, outcome.action.action_id)

    async def approve(self, action, proof, status):
        body = {
            "digest": action.digest,
            "seen": self.site.serving.core.conveyor.intake.card(action).seen,
            "proof": proof,
        }
        return await self.post(f"/v1/approvals/{action.action_id}/approve", body, status)

    def status(self, action):
        return load_action(self.app.db.reader, action.action_id).status


@pytest.fixture
def panel(sample):
    @asynccontextmanager
    async def make():
        home = sample()
        async with (
            served(home, queue_part, try_part, is_asset=lambda path: path == "/try") as site,
            chromium() as browser,
        ):
            page = await browser.new_page()
            await page.goto(f"{site.origin}/try")
            yield Panel(site, page, await Authenticator.on(page))

    return make


async def test_a_passkey_is_registered_and_approves_what_is_the_owners_own(panel):
    async with panel() as p:
        passkey = await p.register("my laptop")
        assert (passkey["name"], passkey["usable"], passkey["removed_at"]) == ("my laptop", True, None)
        action = await p.waiting()
        refused = await p.approve(action, None, 403)
        assert refused["code"] == "PROOF_NEEDED"
        proof = await p.sign("approve", action.action_id)
        await p.approve(action, proof, 200)
        assert load_action(p.app.db.reader, action.action_id).approved_by == "device:dev_test"
        story = story_of(p.app.db.reader, action.action_id)
        assert story.agrees, story.disagreements
        assert (story.approval.shown, story.approval.proof.passkey_name) == ("passkey", "my laptop")
        assert story.approval.proof.origin == p.site.origin
        (held,) = await p.authenticator.credentials()
        assert load_passkey(p.app.db.reader, passkey["passkey_id"]).sign_count == held["signCount"]


async def test_the_same_assertion_is_good_once(panel):
    async with panel() as p:
        await p.register()
        first, second = await p.waiting("k1"), await p.waiting("k2")
        proof = await p.sign("approve", first.action_id)
        await p.approve(first, proof, 200)
        refused = await p.approve(second, proof, 403)
        assert "already answered" in refused["detail"]
        assert p.status(second) == "PENDING"


async def test_a_signature_for_another_action_does_not_serve(panel):
    async with panel() as p:
        await p.register()
        first, second = await p.waiting("k1"), await p.waiting("k2")
        refused = await p.approve(second, await p.sign("approve", first.action_id), 403)
        assert "something else" in refused["detail"]
        assert (p.status(first), p.status(second)) == ("PENDING", "PENDING")


async def test_an_action_that_changed_after_it_was_signed_is_not_approved(panel):
    async with panel() as p:
        await p.register()
        action = await p.waiting()
        proof = await p.sign("approve", action.action_id)
        await p.app.db.write(
            lambda tx: tx.execute("UPDATE proposed_actions SET expires_at = '2999-01-01T00:00:00.000Z'").rowcount
        )
        refused = await p.approve(action, proof, 403)
        assert "has changed" in refused["detail"]
        assert p.status(action) == "PENDING"


async def test_a_page_of_another_origin_cannot_sign_for_us(panel, sample):
    async with panel() as p:
        await p.register()
        action = await p.waiting()
        await p.page.goto(f"http://127.0.0.1:{p.site.port}/try")
        with pytest.raises(Exception, match=r"SecurityError|relying party|RP ID"):
            await p.sign("approve", action.action_id)
        async with served(sample(), try_part, is_asset=lambda path: path == "/try") as other:  # another port, same name
            await p.page.goto(f"{other.origin}/try")
            refused = await p.approve(action, await p.sign("approve", action.action_id), 403)
        assert "different origin" in refused["detail"]
        assert p.status(action) == "PENDING"


async def test_a_passkey_made_on_another_origin_is_not_registered(panel, sample):
    async with panel() as p, served(sample(), try_part, is_asset=lambda path: path == "/try") as other:
        await p.page.goto(f"{other.origin}/try")
        refused = await p.register(status=403)
        assert "different origin" in refused["detail"]
        assert (await p.site.http.get("/v1/passkeys")).json()["items"] == []


async def test_without_user_verification_nothing_is_approved(panel):
    async with panel() as p:
        await p.register()
        action = await p.waiting()
        await p.authenticator.verifies(False)
        with pytest.raises(Exception, match="NotAllowedError"):
            await p.sign("approve", action.action_id, timeout=1500)
        # A page that asks for less than we do gets a signature, and we do not take it.
        refused = await p.approve(
            action, await p.sign("approve", action.action_id, userVerification="discouraged"), 403
        )
        assert "did not verify you" in refused["detail"]
        assert p.status(action) == "PENDING"


async def test_a_counter_that_goes_back_is_refused_and_told(panel):
    async with panel() as p:
        passkey = await p.register()
        first, second = await p.waiting("k1"), await p.waiting("k2")
        await p.authenticator.set_count(50)
        await p.approve(first, await p.sign("approve", first.action_id), 200)
        await p.authenticator.set_count(3)
        refused = await p.approve(second, await p.sign("approve", second.action_id), 403)
        assert "counter went back" in refused["detail"]
        await p.app.db.write(lambda tx: None)
        rows = p.app.db.reader.execute("SELECT payload_json FROM audit_log WHERE event_type = 'passkey_counter_back'")
        assert [passkey["passkey_id"] in row[0] for row in rows] == [True]
        assert p.status(second) == "PENDING"


async def test_a_removed_passkey_approves_nothing(panel):
    async with panel() as p:
        passkey = await p.register()
        action = await p.waiting()
        proof = await p.sign("approve", action.action_id)
        await p.app.db.write(lambda tx: remove_passkey(tx, p.app.clock, passkey["passkey_id"]))
        refused = await p.approve(action, proof, 403)
        assert "no such passkey" in refused["detail"]
        assert p.status(action) == "PENDING"


async def test_a_challenge_that_expired_approves_nothing(panel):
    async with panel() as p:
        await p.register()
        action = await p.waiting()
        proof = await p.sign("approve", action.action_id)
        await p.app.db.write(
            lambda tx: tx.execute("UPDATE challenges SET expires_at = '2001-01-01T00:00:00.000Z'").rowcount
        )
        refused = await p.approve(action, proof, 403)
        assert "expired" in refused["detail"]
        assert p.status(action) == "PENDING"


async def test_the_last_passkey_removes_itself_with_its_own_signature(panel):
    async with panel() as p:
        passkey = await p.register()
        path = f"/v1/passkeys/{passkey['passkey_id']}/remove"
        assert (await p.post(path, {}, 403))["code"] == "PROOF_NEEDED"
        removed = await p.post(path, {"proof": await p.sign("passkey.remove", passkey["passkey_id"])}, 200)
        assert removed["removed_at"] is not None
        assert not p.app.owner_proof.registered(p.app.db.reader)
