"""Signing in with GitHub: the owner's account gets a pairing code, and what comes in by it approves nothing."""

import base64
import hashlib
from urllib.parse import parse_qs, urlsplit

import pytest

from coilclaw.config.forge import Forge, GitHubForge
from coilclaw.sandbox.fake_github import OWNER_ID, GitHubReply
from coilclaw.sandbox.fake_github_sign_in import CLIENT_ID, CLIENT_SECRET, FakeSignIn
from tests.server.phone import Phone, events, register_passkey
from tests.server.site import served, unlimited

VERIFIER = "mQ4xTz8LrW2nYc7Kd1HsVb5JpEa0GuXf3RiO9wZtNyB"
PATH = "/v1/pairing/github"


def challenge(verifier):
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture
def there(tmp_path):
    with FakeSignIn(tmp_path / "hosted.git") as fake:
        yield fake


@pytest.fixture
def made(sample, there):
    """A home whose owner may sign in with GitHub."""
    github = GitHubForge(
        repository=there.name, owner_id=OWNER_ID, token_env="BOT_TOKEN", api_url=there.base_url,
        sign_in_client_id=CLIENT_ID, sign_in_secret_env="SIGN_IN",
    )  # fmt: skip
    made = sample(forge=Forge(kind="github", github=github), environ={"SIGN_IN": CLIENT_SECRET, "BOT_TOKEN": "x" * 40})
    register_passkey(made)
    return made


async def begun(site, there):
    """The browser goes to GitHub and comes back; what its page then sends."""
    offered = await site.bare.get(PATH)
    assert offered.status_code == 200, offered.text
    more = f"&state=s1&code_challenge={challenge(VERIFIER)}&code_challenge_method=S256"
    back = urlsplit(there.sign_in(offered.json()["address"] + more))
    query = parse_qs(back.query)
    assert query["state"] == ["s1"]
    return {"code": query["code"][0], "verifier": VERIFIER}


async def test_the_owners_account_lets_a_device_in_which_a_passkey_has_to_confirm(made, there):
    async with served(made) as site:
        got = await site.bare.post(PATH, json=await begun(site, there))
        assert got.status_code == 201, got.text
        paired = await site.bare.post("/v1/pairing/bind", json=Phone().body(got.json()["code"]))
        assert paired.json()["device"]["confirmed"] is False
        phone = site.client(headers={"Authorization": f"Bearer {paired.json()['token']}"})
        assert (await phone.get("/v1/approvals")).json()["code"] == "UNCONFIRMED"
        assert (await phone.get("/v1/sign-in")).status_code == 200
    ((_, _, told),) = events(made, "device_paired")
    assert (told["issued_by"], told["mode"]) == (f"github:{OWNER_ID}", "add")


async def test_it_stays_unconfirmed_when_the_last_passkey_goes_in_between(made, there):
    async with served(made) as site:
        code = (await site.bare.post(PATH, json=await begun(site, there))).json()["code"]
        made.app.db.write_now(lambda tx: tx.execute("DELETE FROM passkeys"))
        paired = await site.bare.post("/v1/pairing/bind", json=Phone().body(code))
        assert paired.json()["device"]["confirmed"] is False


async def test_any_other_account_gets_nothing(made, there):
    there.signed_in = "stranger-token"
    async with served(made) as site:
        got = await site.bare.post(PATH, json=await begun(site, there))
        assert (got.status_code, got.json()["code"]) == (403, "SIGN_IN_REFUSED")
    assert events(made, "pairing_code_issued") == []
    ((_, _, told),) = events(made, "sign_in_refused")
    assert told["account"] == 6666


@pytest.mark.parametrize(
    "change", [{"code": "made-up"}, {"verifier": "w" * 43}], ids=["a code of nobody's", "the verifier of another page"]
)
async def test_a_code_is_good_for_the_page_that_began_and_once(made, there, change):
    async with served(made, rates=unlimited()) as site:
        whole = await begun(site, there)
        for sent in ({**whole, **change}, whole if "verifier" in change else {**whole, **change}):
            assert (await site.bare.post(PATH, json=sent)).status_code == 403
    assert events(made, "pairing_code_issued") == []


@pytest.mark.parametrize(
    "answer", [GitHubReply(status=500, body={}), GitHubReply(body={"id": "1001"}), GitHubReply(cut=True)]
)
async def test_an_account_that_github_does_not_name_is_nobody(made, there, answer):
    async with served(made) as site:
        sent = await begun(site, there)
        there.instead.append(("GET /user", answer))
        assert (await site.bare.post(PATH, json=sent)).status_code == 403
    assert events(made, "pairing_code_issued") == []


async def test_it_is_not_offered_without_a_passkey_or_its_secret_and_stops_with_everything_else(made, there, sample):
    async with served(made) as site:
        sent = await begun(site, there)
        made.app.estop.engage("test", "2026-01-01T00:00:00.000Z")
        asked = len(there.requests)
        assert (await site.bare.post(PATH, json=sent)).status_code == 403
        assert len(there.requests) == asked
        made.app.db.write_now(lambda tx: tx.execute("DELETE FROM passkeys"))
        assert (await site.bare.get(PATH)).json() == {"address": ""}
    bare = sample()
    register_passkey(bare)
    async with served(bare) as site:
        assert (await site.bare.get(PATH)).json() == {"address": ""}
        assert (await site.bare.post(PATH, json=sent)).status_code == 403


async def test_neither_secret_nor_token_is_kept_or_told(made, there):
    async with served(made) as site:
        offered = (await site.bare.get(PATH)).text
        await site.bare.post(PATH, json=await begun(site, there))
    dump = "\n".join(made.app.db.reader.iterdump())
    token = next(each for each in there.accounts if each.startswith("gho_"))
    for hidden in (CLIENT_SECRET, token, VERIFIER):
        assert hidden not in dump + offered
    for hidden in (CLIENT_SECRET, token):
        assert hidden not in made.app.redact(f"said {hidden}")


@pytest.mark.parametrize("signs_in", [False, True], ids=["who do not sign in", "with an account of theirs"])
async def test_strangers_cannot_choose_what_is_taken_for_a_secret(made, there, signs_in):
    words = "coilclaw-approvals-list-and-everything-else-in-it"
    there.signed_in = "stranger-token"
    async with served(made) as site:
        sent = {"code": "deleted", "verifier": words}
        if signs_in:
            more = f"&state=s&code_challenge={challenge(words)}&code_challenge_method=S256"
            back = urlsplit(there.sign_in((await site.bare.get(PATH)).json()["address"] + more))
            sent["code"] = parse_qs(back.query)["code"][0]
        assert (await site.bare.post(PATH, json=sent)).status_code == 403
    assert made.app.redact(f"{words} {sent['code']}") == f"{words} {sent['code']}"


async def test_tries_are_few_and_only_this_path_is_open(made):
    async with served(made) as site:
        sent = {"code": "x", "verifier": VERIFIER}
        codes = [(await site.bare.post(PATH, json=sent)).status_code for _ in range(8)]
        assert codes[-1] == 429
        assert (await site.bare.get(f"{PATH}/x")).status_code == 401
        assert (await site.bare.put(PATH, json=sent)).status_code == 401
