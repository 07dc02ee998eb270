"""A mail is read and answered: the answer is held back, shown in place, and sent with one more press and a passkey."""

import pytest

from tests.features.jobs.test_adversary import a_site
from tests.panel.acts import approve, begin_talk, say, settle_in
from tests.panel.house import House
from tests.panel.window import Look, Window

pytestmark = pytest.mark.slow

ANSWER = {"to": "ann", "text": "Thursday is fine"}
TWO = [{"tool": "file_write", "args": {"path": f"{name}.md", "content": f"# {name}\n"}} for name in ("one", "two")]


def script(url):
    return [
        {"match": "mail", "text": "I read it first.", "tool_calls": [{"tool": "http", "args": {"url": f"{url}/mail"}}]},
        {
            "match": "mail",
            "text": "Ann asks for a day.",
            "tool_calls": [{"tool": "webhook_send", "args": {"target": "accounting", "payload": ANSWER}}],
        },
        {"match": "mail", "text": "The answer could not be sent: this conversation has read somebody else's words."},
        {"match": "two files", "text": "Both.", "tool_calls": TWO},
        {"match": "two files", "text": "Both are written."},
    ]


@pytest.fixture(scope="module")
def post_office(tmp_path_factory):
    with a_site() as url:
        environ = {"COILCLAW_SECURITY_ALLOWED_DOMAINS": url, "COILCLAW_AGENT_CONTEXT_TOKENS": "4096"}
        made = House(tmp_path_factory.mktemp("mail"), script=script(url), environ=environ)
        yield made
        made.close()


@pytest.fixture(scope="module")
def w(browser, post_office):
    made = Window(browser, post_office, Look("desktop", "light"))
    settle_in(made)
    yield made
    made.close()


def test_a_mail_is_read_and_answered_with_show_and_yes(w, post_office):
    thread = begin_talk(w, "Read this mail and answer it")
    w.sees("Held back, because this conversation read untrusted content.")
    w.sees("The answer could not be sent")
    w.scene("held-back")
    w.click("Show me this to approve")
    w.page.locator(".call .detail").get_by_text("Thursday is fine").first.wait_for()
    heading = w.page.get_by_role("heading", name="Send 38 bytes of JSON")
    heading.wait_for()
    w.page.wait_for_function("() => document.querySelector('.call .detail h2')?.getBoundingClientRect().top > 0")
    w.scene("held-back-shown")
    approve(w, passkey=True)
    w.sees("Done. A receipt was written.")
    assert post_office.received() == [ANSWER]
    assert w.place == f"/chat/{thread}", "nobody had to go anywhere"
    assert w.page.get_by_role("button", name="Show me this to approve").count() == 0
    w.scene("held-back-sent")


def test_calls_that_wait_together_are_answered_on_one_list(w, post_office):
    begin_talk(w, "Write the two files")
    w.click("Answer them here")
    w.page.locator(".call .detail article").nth(1).wait_for()
    w.scene("answered-together")
    for left in (1, 0):
        approve(w, passkey=False)
        w.page.wait_for_function("left => document.querySelectorAll('.call .detail').length === left", arg=left)
    w.sees("Both are written.")
    assert [(post_office.workspace / f"{name}.md").exists() for name in ("one", "two")] == [True, True]


def test_a_summary_is_folded_below_what_it_sums_up(w):
    begin_talk(w, "What is on today? " + "Tell me all of it. " * 90)
    answers = w.page.locator("article li").get_by_text("Nothing else is due before Friday.")
    for number in range(5):
        answers.nth(number).wait_for()
        say(w, f"And today {number}? " + "Tell me all of it. " * 90)
    folded = w.page.get_by_text("earlier messages summed up").last
    folded.wait_for()
    w.scene("summary-folded")
    folded.click()
    w.sees("This is what the model reads in their place.")
    w.scene("summary-open")
    assert w.page.get_by_text("What is on today? Tell me all of it.").count() >= 1
