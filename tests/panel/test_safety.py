"""What the panel loads, what it keeps, and what is gone when one leaves."""

import json
import re

import pytest

from tests.panel.acts import begin_talk, clear_stop, first_passkey, menu, pair, settle_in
from tests.panel.house import MISSING, SECRET
from tests.panel.stored import stored, told
from tests.panel.window import Look

pytestmark = pytest.mark.slow

FIRST_LOAD = 120_000
SETTINGS = {"coilclaw.theme", "coilclaw.alerts"}
"""What may be in localStorage: how it looks, and whether it may notify."""


def test_the_first_load_is_small_and_squeezed(house, window):
    w = window(Look("phone", "light"))
    settle_in(w)
    w.tools.send("Network.enable")
    w.tools.send("Network.setCacheDisabled", {"cacheDisabled": True})
    w.tools.send("Network.setBypassServiceWorker", {"bypass": True})
    answers = []
    w.page.on("requestfinished", lambda request: answers.append(request) if "/v1/" not in request.url else None)
    w.open("#/")
    w.page.get_by_role("heading", name="Get to your first approved action").wait_for()
    sizes = {request.url: request.sizes()["responseBodySize"] for request in answers if request.url.startswith("http")}
    assert len(sizes) > 3
    assert sum(sizes.values()) <= FIRST_LOAD, sizes
    for request in answers:
        if request.url.endswith((".js", ".css")):
            assert request.response().headers["content-encoding"] == "gzip", request.url


def test_nothing_that_lets_anyone_in_is_where_a_script_could_read_it(house, window):
    w = window(Look("desktop", "light"))
    sent = told(w)
    code = house.server.code
    settle_in(w)
    for name in ("Approvals", "Chat", "Work", "Schedules", "Audit", "Settings", "Overview"):
        menu(w, name)
        w.settled()
    begin_talk(w, "What is on today?")
    w.sees("Nothing else is due before Friday.")
    w.page.evaluate("() => navigator.serviceWorker.ready.then(() => null)")
    w.page.reload()
    w.sees("Nothing else is due before Friday.")
    found = stored(w)
    assert found["cookie"] == ""
    assert set(found["local"]) <= SETTINGS
    assert found["session"] == {}
    ((store, pairs),) = found["databases"].items()
    assert store == "coilclaw/keys"
    assert [each["privateKey"] for each in pairs] == [{"key": "private", "extractable": False}]
    shells = [name for name in found["caches"] if name.startswith("coilclaw-shell-")]
    assert len(shells) == 1
    assert set(found["caches"]) == {*shells, "coilclaw-kept"}
    assert not [path for path in found["caches"][shells[0]] if path.startswith("/v1")]
    assert not set(found["caches"]["coilclaw-kept"]) & set(found["caches"][shells[0]])
    text = json.dumps(found)
    cookies = [each["value"] for each in w.context.cookies()]
    assert len(cookies) >= 1
    assert all(each["httpOnly"] and each["sameSite"] == "Strict" for each in w.context.cookies())
    for secret in (*cookies, *sent, code, code.replace("-", ""), SECRET):
        assert secret not in text


def test_signing_out_leaves_nothing_behind(house, window):
    w = window(Look("phone", "dark"))
    settle_in(w)
    menu(w, "Chat")
    w.settled()
    w.go("#/settings/appearance")
    w.click("Sign out of this device")
    w.page.get_by_label("Pairing code").wait_for()
    found = stored(w)
    assert "coilclaw-kept" not in found["caches"]
    assert not any(found["databases"].values())
    assert w.context.cookies() == []
    w.open("#/chat")
    w.page.get_by_label("Pairing code").wait_for()


def test_a_wrong_code_is_refused_in_words_and_the_right_one_still_works(house, window):
    w = window(Look("phone", "light"))
    w.open("")
    w.page.get_by_label("Pairing code").fill("AAAA-AAAA")
    w.click("Pair", exact=True)
    w.page.get_by_role("alert").wait_for()
    w.scene("pair-refused")
    pair(w, house.server.code, typed=True)
    first_passkey(w)


def test_a_second_device_is_let_in_by_the_passkey_of_the_first(house, window):
    first = window(Look("desktop", "light"))
    settle_in(first)
    second = window(Look("phone", "dark"))
    pair(second, house.new_code(), typed=False)
    second.page.get_by_role("heading", name="Confirm this device").wait_for()
    second.scene("confirm")
    first.sees("1 device is waiting for confirmation.")
    first.scene("home-device-waits")
    for place in ("#/chat", "#/work/actions"):
        first.go(place)
        first.settled()
        first.sees("1 device is waiting for confirmation.")
    first.page.get_by_role("link", name="Look at it").click()
    first.arrives("/settings/devices")
    first.page.get_by_text("1 device is waiting for confirmation.").wait_for(state="hidden")  # it is in sight
    first.go("#/")
    first.sees("1 device is waiting for confirmation.")
    second.authenticator.take(first.authenticator.credentials())
    second.click("Confirm with passkey")
    second.page.get_by_role("navigation", name="Main").filter(visible=True).wait_for()
    first.page.get_by_text("1 device is waiting for confirmation.").wait_for(state="hidden")
    first.go("#/settings/devices")
    first.settled()
    assert first.page.get_by_role("heading", name="Devices").first.is_visible()
    assert house.run("devices", "list").count("dev_") == 2


NARROW = ("phone", "narrow")
"""A phone, and the least width at which everything still has to be reached without moving sideways."""


@pytest.mark.parametrize("size", NARROW)
def test_a_stop_can_be_cleared_on_a_phone_however_long_its_reason_is(house, window, size):
    w = window(Look(size, "light"))
    settle_in(w)
    house.run("estop", "--reason", "x" * 400)
    w.open("#/")
    w.page.get_by_role("alert").get_by_text("Everything is stopped").wait_for()
    w.scene("stopped-long")
    within_reach(w, w.page.get_by_role("alert").get_by_role("button", name="Clear …"))
    w.page.get_by_role("alert").get_by_role("button", name="Clear …").click()
    button = w.page.get_by_role("dialog").get_by_role("button", name="Clear with passkey")
    button.wait_for()
    w.scene("stopped-long-clear")
    within_reach(w, button)
    w.page.keyboard.press("Escape")
    w.go("#/settings/estop")
    w.scene("stopped-long-settings")
    clear_stop(w)
    house.run("estop", "--status")


def within_reach(w, found):
    """All of it is in the window, with nothing moved."""
    box = found.bounding_box()
    width, height = w.page.evaluate("[innerWidth, innerHeight]")
    assert box["x"] >= 0, box
    assert box["y"] >= 0, box
    assert box["x"] + box["width"] <= width, (box, width)
    assert box["y"] + box["height"] <= height, (box, height)
    assert w.page.evaluate("[scrollX, scrollY, visualViewport.scale]") == [0, 0, 1]


@pytest.mark.parametrize("size", ["phone", "desktop"])
def test_every_screen_reports_a_broken_part_with_a_link_to_its_repair(house, window, size):
    w = window(Look(size, "dark"))
    settle_in(w)
    w.settled()
    told = w.page.get_by_role("status", name="Needs fixing")
    assert told.all_inner_texts() == []

    broken = house.workspace / "policies" / "mine.json"
    broken.write_text("{ broken")
    w.open("#/")
    told.get_by_text("A policy file is broken, so only reads run.").wait_for()
    w.scene("broken-policy")
    told.get_by_role("link", name="Fix it under Policy files").click()
    w.arrives("/settings/policies")
    w.sees("mine.json")
    broken.unlink()
    w.go("#/chat")
    told.wait_for(state="hidden")

    config = house.home / "config.toml"
    before = config.read_text()
    config.write_text(before.replace("[log]", '[log]\nlevel = "debug"', 1))  # kept until the next start
    w.open("#/work")
    told.get_by_text("1 setting in config.toml changed since CoilClaw was started.").wait_for()
    w.scene("newer-config")
    told.get_by_role("link", name="See what changes").click()
    w.arrives("/settings/policy")
    w.sees(re.compile("From the next start: .*debug"))
    config.write_text(f'{before}\n[webhooks.team]\nurl = "https://hooks.example/in/hidden-word"\n')
    w.open("#/settings/policy")  # in force at once
    w.sees("https://hooks.example/…")
    assert "hidden-word" not in w.page.content()
    config.write_text("[[ nothing")
    w.open("#/")
    told.get_by_text("config.toml is invalid as it is now").wait_for()
    config.write_text(before)

    workspace = house.workspace.resolve()
    away = workspace.rename(workspace.with_name("elsewhere"))
    w.open("#/")
    told.get_by_text("The workspace is missing or broken").wait_for()
    w.scene("no-workspace")
    away.rename(workspace)
    w.go("#/settings/doctor")
    told.wait_for(state="hidden")


def test_who_is_offline_need_not_wait_for_the_next_try_and_is_not_told_that_the_chain_holds(house, window):
    w = window(Look("phone", "light"))
    settle_in(w)
    house.put_sop("tidy", MISSING)
    house.run("sop", "run", "tidy", code=1)
    w.page.get_by_role("link", name="Receipts intact").filter(visible=True).wait_for()
    house.down()
    w.sees("CoilClaw cannot be reached.")
    assert w.page.get_by_role("link", name="Receipts intact").count() == 0
    w.page.get_by_role("link", name="Receipts were intact").filter(visible=True).wait_for()
    w.scene("offline-try")
    w.go("#/audit")
    w.page.get_by_role("heading", name="Receipts were intact").wait_for()
    w.sees("Whether it is still valid cannot be checked from here.")
    w.scene("offline-chain")
    w.click("Try now")
    w.sees("CoilClaw cannot be reached.")
    house.up()
    w.click("Try now")
    w.page.get_by_text("CoilClaw cannot be reached.").wait_for(state="hidden")
    w.page.get_by_role("heading", name="Receipts intact").wait_for()
