"""What an owner does with the panel, told in the words that are on its buttons."""

import re

MAIN = {"Overview": "#/", "Approvals": "#/approvals", "Chat": "#/chat", "Work": "#/work"}


def pair(window, code, *, typed):
    """Pair this window, by typing the code or by following the address behind the QR code."""
    page = window.page
    window.open("" if typed else f"#pair={code}")
    field = page.get_by_label("Pairing code")
    field.wait_for()
    if typed:
        field.press_sequentially(code.lower())
    assert field.input_value() == code
    assert "pair=" not in page.url
    window.click("Pair", exact=True)


def first_passkey(window):
    """Make the first passkey."""
    window.page.get_by_role("heading", name="Add your passkey").wait_for()
    window.click("Create passkey")
    window.sees("Passkey added.")


def settle_in(window, *, typed=True):
    """Pair the first device and give it a passkey."""
    pair(window, window.house.server.code, typed=typed)
    first_passkey(window)


def menu(window, name):
    """Go to a screen as a person does: by the menu beside the page, or the one under the thumb."""
    if window.look.size != "desktop" and name not in MAIN:
        window.click("More", exact=True)
        window.page.get_by_role("dialog").get_by_role("link", name=name).click()
    else:
        window.page.get_by_role("navigation", name="Main").filter(visible=True).get_by_role("link", name=name).click()
    window.page.wait_for_function("name => document.title.includes(name)", arg=name)


def begin_talk(window, words):
    """Begin a conversation with these words; its id."""
    menu(window, "Chat")
    window.click("New conversation", role="link")
    window.sees("Say what you need")  # what is typed before belongs to the one that was open
    say(window, words)
    return window.arrives(r"/chat/(?!new)([\w-]+)")[1]


def say(window, words):
    """Say something where one is."""
    window.page.get_by_label("Message", exact=True).fill(words)
    window.click("Send")


def approve(window, *, passkey):
    """Say yes to the card in sight, once it may be answered."""
    window.click("Approve with passkey" if passkey else "Approve", exact=True)


def in_another_tab(w, place, press):
    """Answer in a second tab of the same browser."""
    tab = w.context.new_page()
    tab.goto(f"{w.house.origin}/{place}")
    tab.get_by_role("button", name=press, exact=True).click()
    tab.get_by_text(re.compile("^Done: ")).filter(visible=True).first.wait_for()
    tab.close()


def is_done(window, what):
    """Wait until the panel says that this is done; it says so when the server does."""
    window.sees(re.compile(rf"Done: .*{what}"))


def waiting_card(window, title):
    """Open the card that is called so, from the list."""
    menu(window, "Approvals")
    heading = window.page.get_by_role("heading", name=title)
    if window.look.size != "desktop":
        window.click(title, role="link")
    else:
        window.page.get_by_role("list", name="Waiting").get_by_role("link", name=title).click()
    heading.wait_for()
    return window.arrives(r"/approvals/([\w-]+)")[1]


def new_job(window, goal):
    """Hand in a job; its id."""
    menu(window, "Work")
    window.click("New job", role="link")
    window.page.get_by_label("Goal", exact=True).fill(goal)
    window.click("Start job")
    return window.arrives(r"/work/jobs/(?!new)([\w-]+)")[1]


def new_schedule(window, goal, cron, meaning):
    """Make a schedule, and read what its times mean while they are typed; its name."""
    menu(window, "Schedules")
    window.click("New schedule", role="link")
    page = window.page
    page.get_by_label("Goal of each run").fill(goal)
    page.get_by_text("Advanced", exact=True).click()
    page.get_by_label("Calendar (cron)").fill("")
    page.get_by_label("Calendar (cron)").press_sequentially(cron)
    window.sees(meaning)
    return page


def stop_everything(window, why):
    """Throw the big red switch."""
    window.page.get_by_role("button", name=re.compile("^Emergency stop: running")).filter(visible=True).click()
    window.page.get_by_label("Why (optional)").fill(why)
    window.click("Stop everything now")
    window.page.get_by_role("alert").get_by_text("Everything is stopped").wait_for()


def clear_stop(window):
    """Take it back, with the passkey."""
    window.page.get_by_role("alert").get_by_role("button", name="Clear …").click()
    window.page.get_by_role("dialog").get_by_role("button", name="Clear with passkey").click()
    window.sees("Cleared. Work continues.")
    window.page.get_by_role("alert").filter(has_text="Everything is stopped").wait_for(state="hidden")
