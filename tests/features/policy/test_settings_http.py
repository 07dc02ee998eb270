"""Settings over HTTP: proposed by a paired device, approved with a passkey, in force at once."""

import asyncio

from coilclaw.store.actions import load_action
from tests.server.house import code_of, house, passkey_of, signed

WANTED = {"changes": [{"key": "security.allowed_domains", "op": "add", "value": "open.example"}]}


async def test_a_change_waits_for_the_passkey_and_is_then_in_force(sample):
    home = sample()
    async with house(home) as site:
        passkey = passkey_of(site)
        answer = await site.http.post("/v1/settings", json=WANTED, headers={"Idempotency-Key": "once"})
        assert answer.status_code == 202
        told = answer.json()
        assert (told["status"], told["decision"]["lane"], told["needs"]) == ("PENDING", "C", "passkey")
        again = await site.http.post("/v1/settings", json=WANTED, headers={"Idempotency-Key": "once"})
        assert again.json()["action_id"] == told["action_id"]

        card = (await site.http.get(f"/v1/approvals/{told['action_id']}")).json()
        assert '+allowed_domains = ["open.example"]' in card["preview_or_diff"]
        body = {"digest": card["digest"], "seen": card["seen"]}
        bare = await site.http.post(f"/v1/approvals/{told['action_id']}/approve", json=body)
        assert bare.status_code in (401, 403)
        assert home.app.config.security.allowed_domains == ()
        action = load_action(home.app.db.reader, told["action_id"])
        asked = {"subject": action.action_id, "digest": action.digest, "valid_until": action.expires_at}
        proof = signed(site, passkey, purpose="approve", **asked)
        done = await site.http.post(f"/v1/approvals/{told['action_id']}/approve", json={**body, "proof": proof})
        assert done.status_code == 200
        for _ in range(8000):
            if home.app.config.security.allowed_domains:
                break
            await asyncio.sleep(0.005)
        assert home.app.config.security.allowed_domains == ("open.example",)


async def test_what_would_be_invalid_is_refused_and_nothing_waits(sample):
    home = sample()
    async with house(home) as site:
        for key, value in (("security.autonomy", "bold"), ("no.such", 1), ("default_provider", "nobody")):
            body = {"changes": [{"key": key, "value": value}]}
            assert code_of(await site.http.post("/v1/settings", json=body), 422) == "SETTINGS_INVALID"
        same = {"changes": [{"key": "security.autonomy", "value": "supervised"}]}
        assert code_of(await site.http.post("/v1/settings", json=same), 409) == "NOTHING_CHANGES"
        assert (await site.http.get("/v1/approvals")).json()["items"] == []


async def test_a_broken_file_is_reported_by_health_and_status(sample):
    home = sample()
    async with house(home) as site:
        assert (await site.http.get("/health")).json()["config"] == "ok"
        home.home.config_file.write_text("autonomy = = ")
        home.app.live.refresh(at_once=True)
        assert (await site.http.get("/health")).json()["config"] == "rejected"
        assert "not valid TOML" in (await site.http.get("/status")).json()["config_fault"]
