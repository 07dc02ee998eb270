"""The shipped Google: strict about tokens and scopes, and true to how sending really works."""

import base64
import shlex

import httpx
import msgspec
import pytest

from coilclaw.config.google import Google
from coilclaw.sandbox.fake_google import FakeGoogle, furnished, how_to_use
from coilclaw.sandbox.fake_google_mail import compose

READER = ("gmail.readonly",)
BOT = ("gmail.readonly", "gmail.send", "gmail.compose")


@pytest.fixture
def fake():
    with FakeGoogle("owner@example.com", "bot@example.com") as google:
        yield google


def ask(fake, token, method, path, **given):
    with httpx.Client(trust_env=False, timeout=280, base_url=fake.base_url) as client:
        return client.request(method, path, headers={"Authorization": f"Bearer {token}"}, **given)


def draft(fake, token, mail, **fields):
    raw = base64.urlsafe_b64encode(mail).decode()
    return ask(fake, token, "POST", "/gmail/v1/users/me/drafts", json={"message": {"raw": raw, **fields}})


def test_only_an_issued_token_opens_a_mailbox(fake):
    token, _ = fake.connected("owner@example.com", *READER)
    assert ask(fake, "garbage", "GET", "/gmail/v1/users/me/profile").status_code == 401
    assert ask(fake, token, "GET", "/gmail/v1/users/me/profile").json()["emailAddress"] == "owner@example.com"
    fake.end_all()
    assert ask(fake, token, "GET", "/gmail/v1/users/me/profile").status_code == 401


def test_scopes_and_quota_are_enforced(fake):
    token, _ = fake.connected("owner@example.com", *READER)
    refused = draft(fake, token, b"To: a@b.example\r\n\r\nhello")
    assert (refused.status_code, refused.json()["error"]["errors"][0]["reason"]) == (403, "insufficientPermissions")
    fake.quota = 10
    assert ask(fake, token, "GET", "/gmail/v1/users/me/threads").status_code == 200
    assert ask(fake, token, "GET", "/gmail/v1/users/me/threads").status_code == 429


def test_sending_deletes_the_draft_and_makes_a_new_message(fake):
    token, _ = fake.connected("bot@example.com", *BOT)
    mail = compose(sender="bot@example.com", to="owner@example.com", subject="Yes", text="yes")
    made = draft(fake, token, mail).json()
    sent = ask(fake, token, "POST", "/gmail/v1/users/me/drafts/send", json={"id": made["id"]})
    assert sent.status_code == 200
    assert sent.json()["id"] != made["message"]["id"]
    assert ask(fake, token, "GET", f"/gmail/v1/users/me/drafts/{made['id']}").status_code == 404
    assert ask(fake, token, "POST", "/gmail/v1/users/me/drafts/send", json={"id": made["id"]}).status_code == 404
    assert len(fake.sent) == 1
    assert fake.mailbox("owner@example.com").mails[0].header("Subject") == "Yes"


@pytest.mark.parametrize(
    ("mood", "kept"), [("keeps", (True, True)), ("renames", (False, True)), ("strips", (False, False))]
)
def test_moods_decide_which_headers_survive_sending(fake, mood, kept):
    box = fake.mailbox("bot@example.com")
    box.mood = mood
    own = {"Message-ID": "<key@coilclaw.invalid>", "X-Key": "k"}
    mail = compose(sender="bot@example.com", to="owner@example.com", subject="Yes", text="yes", headers=own)
    sent = box.send_draft(box.create_draft(mail, "").draft_id)
    assert (sent.header("Message-ID") == "<key@coilclaw.invalid>", sent.header("X-Key") == "k") == kept


def test_a_draft_in_a_thread_answers_one_of_its_messages(fake):
    token, _ = fake.connected("bot@example.com", *BOT)
    asked = fake.mailbox("bot@example.com").add(
        compose(sender="a@b.example", to="bot@example.com", subject="?", text="?")
    )
    mail = compose(sender="bot@example.com", to="a@b.example", subject="Re: ?", text="yes")
    assert draft(fake, token, mail, threadId=asked.thread_id).status_code == 400
    answer = {"In-Reply-To": asked.header("Message-ID")}
    mail = compose(sender="bot@example.com", to="a@b.example", subject="Re: ?", text="yes", headers=answer)
    assert draft(fake, token, mail, threadId=asked.thread_id).json()["message"]["threadId"] == asked.thread_id


def test_what_must_never_be_asked_for_is_counted(fake):
    token, _ = fake.connected("bot@example.com", *BOT)
    assert ask(fake, token, "POST", "/gmail/v1/users/me/messages/send", json={"raw": ""}).status_code == 404
    assert ask(fake, token, "GET", "/gmail/v1/users/me/settings/filters").status_code == 404
    assert len(fake.forbidden) == 2


def test_furnished_google_consents_as_the_owner_and_as_the_bot():
    """So that both accounts can be tried by hand, with nothing to choose."""
    with furnished() as google:
        for scope, address in (("gmail.compose", "owner@example.com"), ("gmail.send", "bot@example.com")):
            asked = {"client_id": google.client_id, "redirect_uri": "http://127.0.0.1:4711/", "state": "s" * 22}
            asked |= {"response_type": "code", "code_challenge": "c" * 43, "code_challenge_method": "S256"}
            asked |= {"scope": f"https://www.googleapis.com/auth/{scope}"}
            place = httpx.get(google.url("/o/oauth2/v2/auth"), params=asked, trust_env=False).headers["location"]
            code = httpx.URL(place).params["code"]
            assert google._codes[code].permission.subject == address


def test_what_it_says_of_its_use_is_a_configuration_that_leads_to_it(fake):
    command = shlex.split(how_to_use(fake).split("\n\n")[1].replace("\\\n", ""), comments=True)
    assert command[:3] == ["coilclaw", "config", "set"]
    assert command[-4:] == ["coilclaw", "secret", "set", "GOOGLE_CLIENT_SECRET"]
    pairs = zip(command[3:-4:2], command[4:-4:2], strict=True)
    made = msgspec.convert({name.removeprefix("google."): value for name, value in pairs}, Google)
    assert (made.gmail, made.client_id) == (fake.base_url, fake.client_id)
    assert made.client_secret_env == "GOOGLE_CLIENT_SECRET"
    assert httpx.get(made.token_url.replace("/token", "/nowhere"), trust_env=False).status_code == 404
