"""Settings: rules are tried before they are saved and saved like any other action; who is let in, and who no longer."""

import json
import re

import pytest

from tests.features.skills.shelf import put as put_skill
from tests.panel.acts import (
    approve,
    begin_talk,
    clear_stop,
    is_done,
    menu,
    new_job,
    pair,
    settle_in,
    stop_everything,
)
from tests.panel.window import AUTHENTICATOR, Look

pytestmark = pytest.mark.slow

RULE = {
    "version": 1,
    "rules": [
        {
            "id": "notes-are-mine",
            "when": {"tool": "file_write", "path": ["notes/**"]},
            "verdict": "deny",
            "reason": "Notes are written by hand.",
        }
    ],
}


def review(w, button):
    """Open the card of the change that was proposed, and wait until it may be answered."""
    w.click("Review and approve", role="link")
    action = w.arrives(r"/approvals/([\w-]+)")[1]
    w.page.locator("button:not([disabled], [aria-disabled=true])").get_by_text(button, exact=True).wait_for()
    return action


def test_a_rule_is_tried_before_it_is_saved_and_saving_it_is_an_action_like_any_other(house, window):
    w = window(Look("phone", "dark"))
    settle_in(w)
    menu(w, "Settings")
    a_broken_rule_is_refused(w, house)
    its_decision_is_seen_first(w)
    saved_as_an_action(w, house)
    it_is_in_force(w)


def a_broken_rule_is_refused(w, house):
    w.go("#/settings/policies")
    w.click("New policy file", role="link")
    w.page.get_by_label("Name", exact=True).fill("my rules")
    w.click("New policy file")
    w.sees("Invalid name")
    w.page.get_by_label("Name", exact=True).fill("notes")
    w.click("New policy file")
    area = w.page.get_by_label("Content of policies/notes.json")
    area.fill(json.dumps({"version": 1, "rules": [{"id": "x", "verdict": "allow", "when": {}}]}, indent=2))
    w.page.get_by_text(re.compile("^Line \\d+")).first.wait_for()
    assert w.page.get_by_role("button", name="Propose this change").is_disabled()
    w.scene("policy-faulty")
    area.fill("{ not json")
    w.page.get_by_text(re.compile("^Line 1")).first.wait_for()
    assert w.page.get_by_role("button", name="Propose this change").is_disabled()
    assert list((house.workspace / "policies").glob("notes*")) == []


def its_decision_is_seen_first(w):
    w.page.get_by_label("Content of policies/notes.json").fill(json.dumps(RULE, indent=2))
    w.sees("Your change decides this call differently.")
    w.sees("Notes are written by hand.")
    w.click("Run ls")
    w.sees("Your change makes no difference to this call.")
    w.click("Write a note")
    w.sees("Your change decides this call differently.")
    w.scene("policy-tried")


def saved_as_an_action(w, house):
    w.click("Propose this change")
    w.sees("Your change waits for your passkey")
    w.scene("policy-waits")
    assert not (house.workspace / "policies" / "notes.json").exists()
    action = review(w, "Approve with passkey")
    w.sees("Changes the rules")
    approve(w, passkey=True)
    is_done(w, "notes.json")
    assert json.loads((house.workspace / "policies" / "notes.json").read_text()) == RULE
    w.go(f"#/work/actions/{action}")
    w.page.get_by_role("heading", name="Receipts").wait_for()
    w.sees("Signed with your passkey.")


def it_is_in_force(w):
    w.go("#/settings/policies")
    w.click("notes.json", role="link")
    w.sees("No changes")
    w.sees("Valid")
    w.scene("policy-saved")
    w.go("#/settings/policy")
    w.sees("notes-are-mine")
    w.scene("policy-in-force")
    job = new_job(w, "Write the weekly report to notes/week.md")
    w.go(f"#/work/actions?job_id={job}")
    w.click("file_write", role="link")
    w.sees("The rules do not allow it. Nothing was done.")
    w.sees("Notes are written by hand.")


def test_a_skill_tells_what_it_narrows_where_it_was_used_and_what_is_wrong_with_it(house, window):
    w = window(Look("desktop", "light"))
    settle_in(w)
    tools = "allowed-tools: file_list teleport"
    put_skill(house.workspace, "look", tools, triggers="look around", domains="bank.example")
    put_skill(house.workspace, "wrong", "license: [MIT]")
    begin_talk(w, "look around")
    w.settled()
    w.go("#/settings/skills/look")
    for words in ("look around", "file_list, teleport", "there is no tool 'teleport'", "trigger: look around"):
        w.sees(words)
    w.scene("skill-used")
    w.go("#/settings/skills/wrong")
    w.sees("line 4: it begins with flow style")
    w.scene("skill-wrong")


def test_a_skill_is_written_and_changed(house, window):
    w = window(Look("phone", "light"))
    settle_in(w)
    w.go("#/settings/skills/new")
    w.page.get_by_label("Name", exact=True).fill("tidy-notes")
    w.click("New skill")
    w.sees("There is already one with that name.")
    w.page.get_by_label("Name", exact=True).fill("pay-bills")
    w.click("New skill")
    area = w.page.get_by_label("Content of skills/pay-bills/SKILL.md")
    assert "name: pay-bills" in area.input_value()
    w.sees("pressing the button is your yes to exactly this text")
    w.scene("skill-new")
    w.click("Save this change")
    w.sees("Saved: skills/pay-bills/SKILL.md")
    w.arrives(r"/settings/skills/pay-bills")
    w.sees("No changes")
    text = area.input_value() + "2. Then …\n"
    area.fill(text)
    w.sees("Not saved")
    w.go("#/settings/usage")
    w.go("#/settings/skills/pay-bills")
    w.sees("Not saved")
    assert area.input_value() == text
    w.scene("skill-changed")
    w.click("Save this change")
    w.sees("Saved: skills/pay-bills/SKILL.md")
    w.sees("No changes")
    assert (house.workspace / "skills" / "pay-bills" / "SKILL.md").read_text() == text
    the_prompt_takes_a_passkey(w, house)


def the_prompt_takes_a_passkey(w, house):
    w.go("#/settings/prompt")
    area = w.page.get_by_label("Content of SYSTEM.md")
    before = area.input_value()
    area.fill(f"{before}\nBe brief.\n")
    w.click("Propose this change")
    w.sees("Your change waits for your passkey")
    assert (house.workspace / "SYSTEM.md").read_text() == before
    (house.workspace / "SYSTEM.md").write_text(f"{before}\nBe kind.\n")
    review(w, "Approve with passkey")
    w.sees("Be brief.")
    w.click("Reject", exact=True)
    w.click("Reject it")
    w.sees("Rejected.")
    w.go("#/settings/prompt")
    w.sees("The file changed meanwhile")
    assert area.input_value() == f"{before}\nBe brief.\n"
    w.scene("prompt-changed-meanwhile")
    w.click("Load new content")
    w.sees("No changes")
    assert area.input_value() == f"{before}\nBe kind.\n"


def test_the_house_is_looked_after(house, window):
    w = window(Look("desktop", "dark"))
    settle_in(w)
    begin_talk(w, "Tell accounting the total of November")
    w.page.get_by_role("link", name="Review and answer").wait_for()
    a_provider_answers(w)
    what_was_used(w)
    notices_are_seen(w)
    the_doctor(w)


def a_provider_answers(w):
    w.go("#/settings/providers")
    w.click("Test", exact=True)
    w.sees(re.compile("mock answered in"))
    w.scene("provider-tested")


def what_was_used(w):
    w.go("#/settings/usage")
    w.sees("How many tokens each day?")
    w.page.get_by_text("30 days", exact=True).click()
    w.page.get_by_text("By provider", exact=True).click()
    w.page.get_by_role("rowheader", name="local").wait_for()
    w.scene("usage-by-provider")


def notices_are_seen(w):
    w.go("#/settings/notices")
    w.sees("Something waits for your approval")
    w.sees("New")
    w.scene("notices-new")
    w.click("Mark all as seen")
    w.page.get_by_text("New", exact=True).filter(visible=True).wait_for(state="detached")
    w.click("Something waits for your approval", role="link")
    w.arrives(r"/approvals/([\w-]+)")


def the_doctor(w):
    w.go("#/settings/doctor")
    told = re.compile("All is well|It works, with limits|Something does not work")
    w.page.get_by_role("heading", name=told).wait_for()
    w.click("Check again")
    w.page.get_by_role("button", name="Check again").wait_for()
    w.scene("doctor")


def cards(w):
    return w.page.locator(".thing")


def test_devices_are_named_and_shown_the_door(house, window):
    w = window(Look("desktop", "light"))
    settle_in(w)
    other = window(Look("phone", "light"))
    pair(other, house.new_code(), typed=False)
    other.page.get_by_role("heading", name="Confirm this device").wait_for()
    w.go("#/settings/devices")
    guest = cards(w).filter(has_not_text="This one")
    guest.get_by_text("Waiting for confirmation").wait_for()
    w.scene("device-unconfirmed")
    guest.get_by_role("button", name="Confirm").click()
    w.sees("Confirmed: it may connect.")
    other.page.get_by_role("navigation", name="Main").filter(visible=True).wait_for()
    guest.get_by_role("button", name="Rename").click()
    w.page.get_by_label("Name", exact=True).fill("Old phone")
    w.scene("device-rename")
    w.click("Save")
    cards(w).get_by_role("heading", name="Old phone").wait_for()
    pair_from_here(w)
    other.go("#/chat")
    other.settled()
    cards(w).filter(has_text="Old phone").get_by_role("button", name="Revoke").click()
    w.scene("device-revoke")
    w.click("Revoke it")
    w.sees("Revoked.")
    cards(w).filter(has_text="Old phone").wait_for(state="detached")
    other.page.get_by_label("Pairing code").wait_for()
    w.scene("device-revoked")


def pair_from_here(w):
    """A code is made with the passkey and shown as a picture too."""
    w.click("Pair another device")
    w.click("Make a code")
    w.page.get_by_label("QR code of the address below").wait_for()
    w.page.get_by_role("dialog").get_by_text(re.compile(r"^[A-Z0-9]{4}-[A-Z0-9]{4}$")).wait_for()
    w.scene("device-code")
    w.page.keyboard.press("Escape")
    w.page.get_by_role("dialog").wait_for(state="hidden")


def test_a_second_passkey_is_added_named_and_removed(house, window):
    w = window(Look("phone", "dark"))
    settle_in(w)
    w.go("#/settings/passkeys")
    cards(w).first.wait_for()
    w.click("Add a passkey")
    w.scene("passkey-add")
    key = {"options": {**AUTHENTICATOR, "transport": "usb"}}
    w.tools.send("WebAuthn.addVirtualAuthenticator", key)
    w.page.get_by_role("dialog").get_by_label("Name").fill("Key on the ring")
    w.click("Create passkey")
    w.sees("Passkey added.")
    cards(w).nth(1).wait_for()
    cards(w).filter(has_text="Key on the ring").get_by_role("button", name="Rename").click()
    w.page.get_by_role("dialog").get_by_label("Name").fill("Key in the safe")
    w.click("Save")
    spare = cards(w).filter(has_text="Key in the safe")
    spare.wait_for()
    w.scene("passkeys-two")
    spare.get_by_role("button", name="Remove").click()
    w.click("Remove it")
    w.sees("Passkey removed.")
    spare.wait_for(state="detached")
    assert cards(w).count() == 1
    cards(w).get_by_role("button", name="Remove").click()
    w.sees("It is your only passkey.")
    w.scene("passkey-last")


def test_everything_is_stopped_and_let_go_from_wherever_one_is(house, window):
    w = window(Look("phone", "light"))
    settle_in(w)
    begin_talk(w, "What is on today?")
    for why in ("From the chat", "From the work", "From the audit"):
        if why != "From the chat":
            menu(w, why.rpartition(" ")[2].capitalize())
        stop_everything(w, why)
        house.run("estop", "--status", code=5)
        clear_stop(w)
        house.run("estop", "--status")
    w.go("#/settings/estop")
    for why in ("From the chat", "From the work", "From the audit"):
        w.sees(why)
    w.scene("estop-history")
    menu(w, "Overview")
    w.authenticator.verifies(False)
    stop_everything(w, "Once more")
    w.page.get_by_role("alert").get_by_role("button", name="Clear …").click()
    w.page.get_by_role("dialog").get_by_role("button", name="Clear with passkey").click()
    w.sees(re.compile("passkey (was not used|did not work)"))
    house.run("estop", "--status", code=5)


def test_a_setting_is_changed_with_the_passkey_and_holds_at_once(house, window):
    w = window(Look("phone", "light"))
    settle_in(w)
    w.go("#/settings/policy")
    w.page.locator("summary", has_text="Change").first.click()
    w.page.get_by_label("Autonomy", exact=True).first.select_option("full")
    w.click("Propose this change")
    w.arrives(r"/approvals/([\w-]+)")
    w.sees('autonomy = "full"')
    approve(w, passkey=True)
    w.arrives("/settings/policy")
    w.go("#/settings/policy")
    w.sees("It works in the workspace by itself")
    w.go("#/settings/notices")
    w.page.locator("summary", has_text="outside the panel").click()
    w.page.get_by_role("switch", name="A job is done").uncheck()
    w.page.get_by_label("From", exact=True).fill("22:00")
    w.sees("Say both when they begin and when they end")
    w.page.get_by_label("To", exact=True).fill("07:00")
    w.page.locator("summary", has_text="Mail").click()
    for name, value in {
        "Mail server": "mail.example.net",
        "Sent from": "coilclaw@example.net",
        "Sent to": "me@example.net",
    }.items():
        w.page.get_by_label(name, exact=True).fill(value)
    w.page.get_by_role("switch").first.scroll_into_view_if_needed()
    w.scene("settings-notify")
    w.page.get_by_label("Sent to", exact=True).scroll_into_view_if_needed()
    w.shoot("settings-notify-mail")
    w.click("Propose this change")
    w.arrives(r"/approvals/([\w-]+)")
    approve(w, passkey=True)
    is_done(w, "notify.types")
    shown = house.run("config", "show").partition("notify")[2]
    assert "job_completed" not in shown.partition("quiet")[0]
    assert "22:00-07:00" in shown
    assert "mail.example.net" in shown
    w.go("#/settings/policy?find=autonomy")
    found = w.page.locator(".setting", has_text="security.autonomy")
    found.locator("summary").first.click()
    w.scene("settings-found")
    found.get_by_role("button", name="Back to the default").click()
    w.arrives(r"/approvals/([\w-]+)")
    approve(w, passkey=True)
    is_done(w, "security.autonomy")
    assert "\nautonomy" not in (house.home / "config.toml").read_text()
    w.go("#/settings/answers")
    w.sees("No standing answers")


def test_another_model_answers_after_one_press_and_the_passkey(house, window):
    with (house.home / "config.toml").open("a", encoding="utf-8") as file:
        file.write('\n[providers.models.other]\nkind = "mock"\n')
    house.down()
    house.up()
    w = window(Look("phone", "light"))
    settle_in(w)
    w.go("#/settings/providers")
    w.sees("other")
    w.scene("providers-two")
    w.click("Let this one answer")
    approve(w, passkey=True)
    w.arrives("/settings/providers")
    w.page.get_by_role("heading", name=re.compile("^other.*Answers")).wait_for()
    assert 'default_provider = "other"' in (house.home / "config.toml").read_text()
