"""Pairing as a browser does it: its own key, a cookie no script reads, and pages of others that get nowhere."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from tests.features.devices.test_passkeys_browser import CREATE, GET, try_part
from tests.server.browser import Authenticator, chromium
from tests.server.echo import echo_part
from tests.server.phone import Phone, events, issue
from tests.server.site import COOKIE, enrol, served

pytestmark = pytest.mark.slow

PAIR = """async code => {
    const url64 = bytes => btoa(String.fromCharCode(...new Uint8Array(bytes)))
        .replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
    const keys = await crypto.subtle.generateKey({name: 'ECDSA', namedCurve: 'P-256'}, false, ['sign', 'verify']);
    const publicKey = url64(await crypto.subtle.exportKey('spki', keys.publicKey));
    const text = 'coilclaw pairing 1\\n' + code.replaceAll('-', '').toUpperCase() + '\\n' + publicKey;
    const signature = await crypto.subtle.sign(
        {name: 'ECDSA', hash: 'SHA-256'}, keys.privateKey, new TextEncoder().encode(text));
    const answer = await fetch('/v1/pairing/bind', {
        method: 'POST',
        headers: {'Content-Type': 'application/json'},
        body: JSON.stringify(
            {code, name: 'browser', public_key: publicKey, proof_of_key: url64(signature), wants: 'cookie'}),
    });
    const told = {status: answer.status, body: await answer.json(), cookie: document.cookie};
    await new Promise((done, failed) => {
        const opening = indexedDB.open('try', 1);
        opening.onupgradeneeded = () => opening.result.createObjectStore('keys');
        opening.onsuccess = () => {
            const kept = opening.result.transaction('keys', 'readwrite');
            kept.objectStore('keys').put(keys, 'own');
            kept.oncomplete = done; kept.onerror = failed;
        };
    });
    window.pageKey = null;
    return told;
}"""
ASK = """async ([method, path, body]) => {
    const url64 = bytes => btoa(String.fromCharCode(...new Uint8Array(bytes)))
        .replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
    const json = {'Content-Type': 'application/json'};
    const prove = async () => {
        const keys = await new Promise(done => {
            const opening = indexedDB.open('try', 1);
            opening.onupgradeneeded = () => opening.result.createObjectStore('keys');
            opening.onsuccess = () => {
                const found = opening.result.transaction('keys').objectStore('keys').get('own');
                found.onsuccess = () => done(found.result);
            };
        });
        if (!keys) return null;
        const asked = await fetch('/v1/sign-in/nonce', {method: 'POST'});
        if (!asked.ok) return null;
        const {nonce} = await asked.json();
        const text = new TextEncoder().encode('coilclaw page 1\\n' + nonce + '\\n' + location.origin);
        const signed = await crypto.subtle.sign({name: 'ECDSA', hash: 'SHA-256'}, keys.privateKey, text);
        const proved = await fetch('/v1/sign-in/page', {
            method: 'POST', headers: json, body: JSON.stringify({nonce, signature: url64(signed)})});
        return proved.ok ? (await proved.json()).page_key : null;
    };
    window.pageKey ??= await prove();
    const answer = await fetch(path, {
        method,
        headers: {...(body === null ? {} : json), ...(window.pageKey ? {'X-CoilClaw-Page': window.pageKey} : {})},
        body: body === null ? undefined : JSON.stringify(body)});
    const text = await answer.text();
    return {status: answer.status, body: text ? JSON.parse(text) : null};
}"""
ATTACK = """async origin => {
    const tried = [], json = {'Content-Type': 'application/json'};
    for (const [path, options] of [
        ['/v1/echo', {method: 'POST', mode: 'no-cors', headers: {'Content-Type': 'text/plain'}, body: '{"text":"x"}'}],
        ['/v1/echo', {method: 'POST', mode: 'cors', headers: json, body: '{"text":"x"}'}],
        ['/v1/echo', {mode: 'cors'}],
        ['/v1/sign-in/end', {method: 'POST', mode: 'no-cors'}],
    ]) {
        try {
            const answer = await fetch(origin + path, {credentials: 'include', ...options});
            tried.push(answer.type === 'opaque' ? 'opaque' : answer.status);
        } catch (error) { tried.push('refused'); }
    }
    await new Promise(done => {
        const frame = document.createElement('iframe');
        frame.name = 'sink'; document.body.append(frame);
        const form = document.createElement('form');
        form.method = 'post'; form.action = origin + '/v1/sign-in/end'; form.target = 'sink';
        document.body.append(form); form.submit();
        setTimeout(done, 500);
    });
    return tried;
}"""


@asynccontextmanager
async def elsewhere():
    """Another program on this machine that serves a page: the same site for a browser, another origin."""

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        page = b"<!doctype html><body>elsewhere</body>"
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(page)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + page)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://localhost:{server.sockets[0].getsockname()[1]}"


@asynccontextmanager
async def opened(sample):
    home = sample()
    async with (
        served(home, echo_part, try_part, is_asset=lambda path: path == "/try") as site,
        chromium() as browser,
    ):
        page = await (await browser.new_context()).new_page()
        await page.goto(f"{site.origin}/try")
        yield site, page


async def ask(page, method, path, body=None):
    return await page.evaluate(ASK, [method, path, body])


async def test_a_browser_pairs_itself_and_its_cookie_stays_where_no_script_reads(sample):
    async with opened(sample) as (site, page):
        assert (await ask(page, "GET", "/v1/sign-in"))["status"] == 401
        paired = await page.evaluate(PAIR, issue(site.sample).code)
        assert (paired["status"], paired["body"]["token"], paired["cookie"]) == (201, None, "")
        session = await ask(page, "GET", "/v1/sign-in")
        assert (session["status"], session["body"]["way"]) == (200, "cookie")
        (cookie,) = await page.context.cookies()
        assert cookie["name"] == COOKIE
        assert (cookie["httpOnly"], cookie["secure"], cookie["sameSite"], cookie["path"]) == (True, True, "Strict", "/")
        await page.reload()
        assert (await ask(page, "POST", "/v1/echo", {"text": "a"}))["status"] == 201
        assert (await ask(page, "POST", "/v1/sign-in/end"))["status"] == 204
        assert await page.context.cookies() == []
        assert (await ask(page, "GET", "/v1/sign-in"))["status"] == 401


async def test_a_page_of_another_program_gets_nowhere_with_our_cookie(sample):
    async with opened(sample) as (site, page), elsewhere() as origin:
        await page.evaluate(PAIR, issue(site.sample).code)
        other = await page.context.new_page()
        await other.goto(origin)
        assert await other.evaluate(ATTACK, site.origin) == ["refused"] * 4
        assert site.serving.doings.done == []
        assert (await ask(page, "GET", "/v1/sign-in"))["status"] == 200  # still signed in


async def test_our_pages_are_framed_by_nobody(sample):
    async with opened(sample) as (site, page), elsewhere() as origin:
        other = await page.context.new_page()
        await other.goto(origin)
        seen = await other.evaluate(
            """async address => {
                const frame = document.createElement('iframe');
                frame.src = address; document.body.append(frame);
                await new Promise(done => { frame.onload = done; setTimeout(done, 2000); });
                try { return frame.contentDocument === null ? 'closed' : frame.contentDocument.title; }
                catch (error) { return 'closed'; }
            }""",
            f"{site.origin}/try",
        )
        assert seen == "closed"
        assert not [frame for frame in other.frames if frame.url == f"{site.origin}/try"]


# With a passkey


async def register(page):
    began = (await ask(page, "POST", "/v1/passkeys/registration"))["body"]
    credential = await page.evaluate(CREATE, began["options"])
    body = {"challenge_id": began["challenge_id"], "credential": credential, "name": "laptop"}
    made = await ask(page, "POST", "/v1/passkeys", body)
    assert made["status"] == 201, made


async def sign(page, purpose, subject):
    asked = (await ask(page, "POST", "/v1/passkeys/challenge", {"purpose": purpose, "subject": subject}))["body"]
    signed = await page.evaluate(GET, asked["options"])
    return {"challenge_id": asked["challenge_id"], **signed}


async def test_a_passkey_lets_another_device_in_confirmed(sample):
    async with opened(sample) as (site, page):
        await Authenticator.on(page)
        paired = await page.evaluate(PAIR, issue(site.sample).code)
        own = paired["body"]["device"]["device_id"]
        await register(page)
        assert (await ask(page, "POST", "/v1/pairing/code", {}))["status"] == 403
        wrong = await sign(page, "device.revoke", "dev_test")
        assert (await ask(page, "POST", "/v1/pairing/code", {"proof": wrong}))["status"] == 403
        proof = await sign(page, "device.add", own)
        issued = await ask(page, "POST", "/v1/pairing/code", {"proof": proof})
        assert issued["status"] == 201, issued
        assert (await ask(page, "POST", "/v1/pairing/code", {"proof": proof}))["status"] == 403  # once
        bound = await site.bare.post("/v1/pairing/bind", json=Phone().body(issued["body"]["code"]))
        assert bound.json()["device"]["confirmed"] is True
        assert events(site.sample, "pairing_code_issued")[-1][2]["vouched"] is True


async def test_a_new_device_is_confirmed_by_the_passkey_itself(sample):
    async with opened(sample) as (site, page):
        await Authenticator.on(page)
        await page.evaluate(PAIR, issue(site.sample).code)
        await register(page)
        paired = await page.evaluate(PAIR, issue(site.sample).code)  # the same browser, a new key: another device
        device_id = paired["body"]["device"]["device_id"]
        assert paired["body"]["device"]["confirmed"] is False
        assert (await ask(page, "GET", "/v1/devices"))["status"] == 403
        proof = await sign(page, "device.confirm", device_id)
        confirmed = await ask(page, "POST", f"/v1/devices/{device_id}/confirm", {"proof": proof})
        assert (confirmed["status"], confirmed["body"]["confirmed"]) == (200, True)
        assert (await ask(page, "GET", "/v1/devices"))["status"] == 200


async def test_a_passkey_ends_another_device(sample):
    async with opened(sample) as (site, page):
        await Authenticator.on(page)
        await page.evaluate(PAIR, issue(site.sample).code)
        await register(page)
        enrol(site.sample, "dev_lost", "tok_lost")
        assert (await ask(page, "POST", "/v1/devices/dev_lost/revoke", {}))["status"] == 403
        proof = await sign(page, "device.revoke", "dev_lost")
        assert (await ask(page, "POST", "/v1/devices/dev_test/revoke", {"proof": proof}))["status"] == 403
        proof = await sign(page, "device.revoke", "dev_lost")
        assert (await ask(page, "POST", "/v1/devices/dev_lost/revoke", {"proof": proof}))["status"] == 200
        assert (await site.http.get("/v1/sign-in")).status_code == 200
