"""A cookie goes to every port of a name: it opens nothing without the key of a page that proved its device."""

import pytest

from coilclaw.server.door.page_keys import (
    KEY_SECONDS,
    MOST_KEYS,
    MOST_NONCES,
    MOST_TICKETS,
    MOST_TOKENS,
    NONCE_SECONDS,
    TICKET_SECONDS,
    PageKeys,
    page_text,
)
from tests.server.phone import Phone
from tests.server.site import COOKIE, enrol, served, served_whole


class Hours:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def hours():
    return Hours()


@pytest.fixture
def keys(hours):
    numbers = iter(range(10_000_000))
    return PageKeys(now=hours, random=lambda size: next(numbers).to_bytes(size, "big"))


class Page:
    """A browser's page over a raw client: its cookie, its origin, its device's key."""

    def __init__(self, site, phone):
        self.phone = phone
        token = enrol(site.sample, "dev_page", "tok_cookie", key=phone.public_key, way="cookie")
        self.origin = site.origin
        self.token = token
        self.http = site.client(headers={"Cookie": f"{COOKIE}={token}", "Origin": site.origin})

    async def nonce(self):
        return (await self.http.post("/v1/sign-in/nonce")).json()["nonce"]

    async def prove(self, nonce, signature=None):
        signed = signature or self.phone.sign(page_text(nonce, self.origin))
        return await self.http.post("/v1/sign-in/page", json={"nonce": nonce, "signature": signed})


async def test_a_cookie_alone_opens_nothing(sample):
    async with served_whole(sample()) as site:
        page = Page(site, Phone())
        document = (await site.http.get("/v1/openapi.json")).json()
        proving = {("POST", "/v1/sign-in/nonce"), ("POST", "/v1/sign-in/page"), ("POST", "/v1/pairing/bind")}
        proving |= {("GET", "/v1/pairing/github"), ("POST", "/v1/pairing/github")}
        for path, item in document["paths"].items():
            for method in item:
                if (method.upper(), path) in proving or path in (
                    "/health",
                    "/runner/v1/webhooks/{repo_id}",
                    "/v1/forge/webhook",
                ):
                    continue  # the last two need a signature, whoever asks
                answer = await page.http.request(method, path.replace("{", "").replace("}", ""))
                assert (answer.status_code, answer.json()["code"]) == (401, "PAGE_UNPROVED"), (method, path)


async def test_a_page_that_signs_with_its_devices_key_comes_in(sample):
    async with served(sample()) as site:
        page = Page(site, Phone())
        answer = await page.prove(await page.nonce())
        assert answer.status_code == 201
        shown = {"X-CoilClaw-Page": answer.json()["page_key"]}
        assert (await page.http.get("/v1/sign-in", headers=shown)).json()["way"] == "cookie"
        assert (await page.http.get("/v1/sign-in")).status_code == 401


async def test_what_is_not_signed_by_the_device_for_this_origin_is_refused(sample):
    async with served(sample()) as site:
        page, stranger = Page(site, Phone()), Phone()
        for make in (
            lambda nonce: stranger.sign(page_text(nonce, site.origin)),
            lambda nonce: page.phone.sign(page_text(nonce, "http://localhost:1")),
            lambda nonce: page.phone.sign(page_text(nonce + "x", site.origin)),
            lambda nonce: "AAAA",
        ):
            nonce = await page.nonce()
            answer = await page.prove(nonce, make(nonce))
            assert (answer.status_code, answer.json()["code"]) == (403, "PAGE_REFUSED")


async def test_a_nonce_is_good_once_and_for_its_own_token(sample):
    async with served(sample()) as site:
        page = Page(site, Phone())
        nonce = await page.nonce()
        assert (await page.prove(nonce)).status_code == 201
        assert (await page.prove(nonce)).status_code == 403
        assert (await page.prove("never-asked")).status_code == 403
        assert not site.serving.page_keys.take("tok_test", await page.nonce())


async def test_a_cookies_token_is_not_a_bearer_and_a_bearers_no_cookie(sample):
    async with served(sample()) as site:
        page = Page(site, Phone())
        answer = await site.bare.get("/v1/sign-in", headers={"Authorization": f"Bearer {page.token}"})
        assert answer.status_code == 401
        shown = {"Cookie": f"{COOKIE}={site.token}", "Origin": site.origin}
        assert (await site.bare.post("/v1/sign-in/nonce", headers=shown)).json()["code"] == "UNPAIRED"


def test_keys_and_nonces_end(keys, hours):
    nonce, key = keys.nonce("tok"), keys.grant("tok")
    hours.now += NONCE_SECONDS
    assert not keys.take("tok", nonce)
    assert keys.holds("tok", key)
    hours.now += KEY_SECONDS
    assert not keys.holds("tok", key)


def test_a_ticket_is_good_once_soon_and_for_its_own_token(keys, hours):
    ticket, late = keys.ticket("tok"), keys.ticket("tok")
    assert not keys.spend("other", ticket)
    assert not keys.holds("tok", ticket)
    assert keys.spend("tok", ticket)
    assert not keys.spend("tok", ticket)
    assert not keys.spend("tok", keys.grant("tok"))
    hours.now += TICKET_SECONDS
    assert not keys.spend("tok", late)
    first = keys.ticket("tok")
    for _ in range(MOST_TICKETS):
        last = keys.ticket("tok")
    assert not keys.spend("tok", first)
    assert keys.spend("tok", last)


async def test_a_ticket_needs_the_pages_key_and_is_not_kept_for_a_repeated_request(sample):
    async with served(sample()) as site:
        page = Page(site, Phone())
        assert (await page.http.post("/v1/sign-in/ticket")).json()["code"] == "PAGE_UNPROVED"
        key = (await page.prove(await page.nonce())).json()["page_key"]
        shown = {"X-CoilClaw-Page": key, "Idempotency-Key": "the same"}
        answers = [await page.http.post("/v1/sign-in/ticket", headers=shown) for _ in range(2)]
        first, second = (answer.json()["ticket"] for answer in answers)
        assert first != second
        assert all(site.serving.page_keys.spend("tok_cookie", each) for each in (first, second))


def test_only_so_many_are_kept(keys):
    first, nonce = keys.grant("tok"), keys.nonce("tok")
    for _ in range(MOST_KEYS):
        last = keys.grant("tok")
    for _ in range(MOST_NONCES):
        keys.nonce("tok")
    assert not keys.holds("tok", first)
    assert not keys.take("tok", nonce)
    assert keys.holds("tok", last)
    for number in range(MOST_TOKENS):
        keys.grant(f"tok_{number}")
    assert not keys.holds("tok", last)


def test_nothing_shown_is_nothing_held(keys):
    keys.grant("tok")
    assert not keys.holds("tok", "")
    assert not keys.holds("other", "")
