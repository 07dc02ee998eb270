"""Guests over HTTP: what a paired device may do, and what it is asked for."""

from coilclaw.features.approvals.feature import approvals_part
from coilclaw.features.guests.feature import guests_part
from coilclaw.features.guests.plugin_files import copy_of
from coilclaw.store.actions import list_actions
from tests.features.guests.test_plugins import let_in, plugin
from tests.features.guests.world import Guest
from tests.server.house import code_of
from tests.server.parts import joined
from tests.server.site import served


def parts(serving):
    return joined(serving, approvals_part, guests_part)


async def test_what_is_let_in_already_is_not_asked_about_again(sample):
    guest = Guest(sample)
    await guest.approve()
    made = len(list_actions(guest.app.db.reader, None, 100))
    async with served(guest.home, parts) as site:
        shown = (await site.http.get("/v1/guests/sum")).json()
        same = {"offer": shown["offer"], "classes": {"add": "reads", "Keep": "writes"}}
        answer = (await site.http.post("/v1/guests/sum/approve", json=same)).json()
        assert (answer["status"], answer["action_id"]) == ("EXECUTED", "")
        assert len(list_actions(guest.app.db.reader, None, 100)) == made

        for other in ({**same, "classes": {"add": "reads"}}, {**same, "classes": {"add": "sends", "Keep": "writes"}}):
            assert (await site.http.post("/v1/guests/sum/approve", json=other)).json()["status"] == "PENDING"
        stale = (await site.http.post("/v1/guests/sum/approve", json={**same, "offer": "0" * 64})).json()
        assert stale["action_id"]
        assert stale["status"] != "EXECUTED"
    await guest.close()


async def test_one_that_was_switched_off_is_asked_about_though_nothing_else_changed(sample):
    guest = Guest(sample)
    await guest.approve()
    async with served(guest.home, parts) as site:
        assert (await site.http.post("/v1/guests/sum/disable")).json()["state"] == "off"
        shown = (await site.http.get("/v1/guests/sum")).json()
        same = {"offer": shown["offer"], "classes": {"add": "reads", "Keep": "writes"}}
        answer = (await site.http.post("/v1/guests/sum/approve", json=same)).json()
        assert (answer["status"], answer["guest"]["state"]) == ("PENDING", "off")
    await guest.close()


async def test_a_plugin_whose_copy_was_damaged_and_files_changed_is_refused_in_words(sample, tmp_path):
    home = sample()
    offer = await let_in(home, plugin(tmp_path / "p"))
    for folder in (copy_of(home.app, offer), home.app.home.plugins_dir / "echo-plugin"):
        (folder / "echo-plugin").write_text("damaged")
    async with served(home, parts) as site:
        body = {"offer": offer.digest, "classes": {"echo": "reads"}}
        assert code_of(await site.http.post("/v1/guests/echo-plugin/approve", json=body), 422) == "GUEST_INVALID"


async def test_guests_are_nobodys_business_without_a_token_and_unknown_ones_are_not_found(sample):
    guest = Guest(sample)
    async with served(guest.home, parts) as site:
        assert (await site.bare.get("/v1/guests")).status_code == 401
        assert (await site.bare.post("/v1/guests/sum/disable")).status_code == 401
        for path in ("look", "disable"):
            assert code_of(await site.http.post(f"/v1/guests/other/{path}"), 404) == "NOT_FOUND"
        body = {"offer": "0" * 64, "classes": {"add": "reads"}}
        assert code_of(await site.http.post("/v1/guests/other/approve", json=body), 404) == "NOT_FOUND"
        assert [each["name"] for each in (await site.http.get("/v1/guests")).json()["items"]] == ["sum"]
