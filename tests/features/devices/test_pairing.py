"""Pairing over real HTTP: one code lets one device in, and guessing does not pay."""

import asyncio
import json

import pytest

from coilclaw.features.devices.code_exchange import ALPHABET, Attempt, normal_code
from coilclaw.server.door.slow_clients import Limits, patient
from tests.server.phone import Phone, events, issue, register_passkey
from tests.server.site import COOKIE, served, served_whole, unlimited


def codes(sample):
    return sample.app.db.reader.execute("SELECT tries, closed_why FROM pairing_codes ORDER BY rowid").fetchall()


async def bind(site, body):
    return await site.bare.post("/v1/pairing/bind", json=body)


def refused(answer):
    return answer.status_code == 403 and answer.json()["code"] == "PAIRING_REFUSED"


# Coming in


@pytest.mark.parametrize("kind", ["p256", "p256-der", "ed25519"])
async def test_a_code_lets_a_device_in_with_its_own_key(sample, kind):
    made = sample()
    async with served(made) as site:
        code = issue(made)
        answer = await bind(site, Phone(kind, name="my phone").body(code.code))
        assert answer.status_code == 201, answer.text
        told = answer.json()
        assert told["device"]["name"] == "my phone"
        assert told["device"]["confirmed"] is True
        assert told["token"].startswith("cc_")
        assert "set-cookie" not in answer.headers
        phone = site.client(headers={"Authorization": f"Bearer {told['token']}"})
        session = (await phone.get("/v1/sign-in")).json()
        assert session["device"]["device_id"] == told["device"]["device_id"]
        assert session["way"] == "bearer"
        assert codes(made) == [(1, "used")]
        ((_, entity, payload),) = events(made, "device_paired")
        assert entity == told["device"]["device_id"]
        assert payload["issued_by"] == "terminal"


async def test_neither_code_nor_token_is_kept_in_the_clear(sample):
    made = sample()
    async with served(made) as site:
        code = issue(made)
        token = (await bind(site, Phone().body(code.code))).json()["token"]
        dump = "\n".join(made.app.db.reader.iterdump())
        assert token not in dump
        assert normal_code(code.code) not in dump
        assert code.code not in dump


async def test_a_browser_gets_a_cookie_that_no_script_reads(sample):
    made = sample()
    async with served(made) as site:
        answer = await bind(site, Phone().body(issue(made).code, wants="cookie"))
        assert answer.json()["token"] is None
        cookie = answer.headers["set-cookie"]
        parts = {part.strip().lower() for part in cookie.split(";")[1:]}
        assert cookie.startswith(f"{COOKIE}=cc_")
        assert {"path=/", "secure", "httponly", "samesite=strict", "max-age=2592000"} == parts
        token = cookie.partition("=")[2].partition(";")[0]
        browser = site.browser(token)
        session = await browser.get("/v1/sign-in")
        assert session.json()["way"] == "cookie"
        assert session.headers["set-cookie"] == cookie  # it lasts anew
        ended = await browser.post("/v1/sign-in/end")
        assert ended.status_code == 204
        assert "max-age=0" in ended.headers["set-cookie"].lower()
        assert (await browser.get("/v1/sign-in")).status_code == 401


@pytest.mark.parametrize("spell", [str.lower, str.upper, lambda code: code.replace("-", " "), lambda code: f" {code} "])
async def test_a_code_is_read_as_people_type_it(sample, spell):
    made = sample()
    async with served(made) as site:
        code = issue(made).code
        assert len(normal_code(code)) == 8
        assert set(normal_code(code)) <= set(ALPHABET)
        body = Phone().body(spell(code).strip())
        assert (await bind(site, {**body, "code": spell(code)})).status_code == 201


def test_the_alphabet_has_forty_bits_in_eight_signs():
    assert len(set(ALPHABET)) == 32
    assert not set(ALPHABET) & set("01IO")


# Not coming in


async def test_a_code_is_used_once(sample):
    made = sample()
    async with served(made) as site:
        code = issue(made).code
        assert (await bind(site, Phone().body(code))).status_code == 201
        assert refused(await bind(site, Phone().body(code)))


async def test_a_code_ends_after_its_minutes(sample, clock):
    made = sample()
    made.app.clock = clock
    async with served(made) as site:
        code = issue(made).code
        clock.advance(minutes=5, seconds=1)
        assert refused(await bind(site, Phone().body(code)))
        assert codes(made) == [(0, None)]


async def test_a_code_made_by_a_clock_that_ran_ahead_is_void(sample, clock):
    made = sample()
    made.app.clock = clock
    async with served(made) as site:
        clock.advance(days=400)
        code = issue(made).code
        clock.advance(days=-400)
        assert refused(await bind(site, Phone().body(code)))


async def test_a_new_code_ends_the_one_before(sample):
    made = sample()
    async with served(made) as site:
        old, new = issue(made).code, issue(made).code
        assert refused(await bind(site, Phone().body(old)))
        assert codes(made) == [(0, "superseded"), (1, None)]
        assert (await bind(site, Phone().body(new))).status_code == 201


async def test_five_guesses_burn_a_code_whoever_makes_them(sample):
    made = sample()
    async with served(made) as site:
        code = issue(made).code
        for _ in range(5):
            assert refused(await bind(site, Phone().body("AAAA-AAAA")))
        assert refused(await bind(site, Phone().body(code)))
        assert codes(made) == [(5, "burned")]
        told = events(made, "pairing_failed", "pairing_burned")
        assert [each[0] for each in told] == ["pairing_failed"] * 5 + ["pairing_burned"]
        assert all(set(each[2]) == {"tries"} for each in told)


async def test_the_fifth_guess_may_be_the_right_one(sample):
    made = sample()
    async with served(made) as site:
        code = issue(made).code
        for _ in range(4):
            assert refused(await bind(site, Phone().body("AAAA-AAAA")))
        assert (await bind(site, Phone().body(code))).status_code == 201


async def test_a_key_that_did_not_sign_is_not_bound_and_counts_like_a_wrong_code(sample):
    made = sample()
    async with served(made) as site:
        code = issue(made).code
        other = Phone()
        wrong = [
            Phone().body(code, public_key=other.public_key),
            Phone().body(code, proof_of_key="AAAA"),
            Phone().body(code, proof_of_key="not base64!"),
            {**Phone().body("AAAA-AAAA"), "code": code},
        ]
        answers = [await bind(site, body) for body in wrong]
        assert all(refused(answer) for answer in answers)
        plain = await bind(site, Phone().body("AAAA-AAAA"))
        assert {answer.text for answer in answers} == {plain.text}
        assert codes(made) == [(5, "burned")]


@pytest.mark.parametrize("key", ["", "AAAA", "x" * 900, "MIIB", "é", "\u0000"])
async def test_what_is_not_a_key_is_refused_and_nothing_is_learned(sample, key):
    made = sample()
    async with served(made) as site:
        code = issue(made).code
        for guess in (code, "AAAA-AAAA"):
            answer = await bind(site, Phone().body(guess, public_key=key))
            assert answer.status_code == 400
        assert codes(made) == [(0, None)]


async def test_a_point_that_lies_on_no_curve_is_not_a_key_and_counts_like_a_wrong_code(sample):
    made = sample()
    async with served(made) as site:
        code = issue(made).code
        phone = Phone()
        for key in (phone.public_key[:-8] + "AAAAAAAA", phone.public_key[:36] + "A" * 86):
            assert refused(await bind(site, phone.body(code, public_key=key)))
        assert codes(made) == [(2, None)]


async def test_other_curves_and_kinds_are_not_taken(sample):
    from cryptography.hazmat.primitives.asymmetric import ec, rsa, x25519
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    from tests.server.phone import b64

    made = sample()
    async with served(made) as site:
        code = issue(made).code
        for key in (
            ec.generate_private_key(ec.SECP384R1()),
            rsa.generate_private_key(65537, 2048),
            x25519.X25519PrivateKey.generate(),
        ):
            text = b64(key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
            answer = await bind(site, Phone().body(code, public_key=text))
            assert answer.status_code == 400


async def test_a_code_from_a_device_that_was_revoked_meanwhile_is_void(sample):
    made = sample()
    async with served(made) as site:
        other = site.device()
        code = (await other.post("/v1/pairing/code", json={})).json()["code"]
        await other.post("/v1/sign-in/end")
        assert refused(await bind(site, Phone().body(code)))


# Guessing at once


async def guesses(port, bodies):
    """One connection that guesses again and again; gives back the statuses."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    statuses = []
    for body in bodies:
        data = json.dumps(body).encode()
        head = f"POST /v1/pairing/bind HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\n"
        writer.write(head.encode() + f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        await reader.readexactly(int(answer.partition("content-length: ")[2].partition("\r\n")[0]))
        statuses.append(int(answer.split()[1]))
    writer.close()
    return statuses


@pytest.mark.slow
async def test_of_two_thousand_guesses_at_once_five_are_looked_at(sample):
    """Over HTTP, with the limits on how often and how slowly lifted: what holds is the count in the database."""
    made = sample()
    slowly = patient(Limits(head_seconds=240, keep_alive_seconds=240, write_seconds=240))
    async with served(made, rates=unlimited(), protocol=slowly) as site:
        code = issue(made)
        phone = Phone()
        bodies = [phone.body(f"AAAA-{ALPHABET[number // 10]}{ALPHABET[number % 10]}AA") for number in range(20)]
        answers = await asyncio.gather(*(guesses(site.port, bodies) for _ in range(100)))
        assert {status for statuses in answers for status in statuses} == {403}
        assert sum(map(len, answers)) == 2_000
        assert codes(made) == [(5, "burned")]
        assert len(events(made, "pairing_failed")) == 5
        assert refused(await bind(site, phone.body(code.code)))


@pytest.mark.slow
async def test_of_ten_thousand_guesses_straight_at_the_database_five_are_looked_at(sample):
    from coilclaw.features.devices.feature import pairing_of

    made = sample()
    issue(made)
    pairing = pairing_of(made.app)
    attempt = Attempt(code="AAAA-AAAA", name="x", public_key="k", wants="bearer", proven=True)
    await asyncio.gather(*(made.app.db.write(lambda tx: pairing.bind(tx, attempt)) for _ in range(10_000)))
    assert codes(made) == [(5, "burned")]
    assert len(events(made, "pairing_failed")) == 5


async def test_of_guesses_within_the_limit_five_are_looked_at(sample):
    made = sample()
    async with served(made) as site:
        issue(made)
        body = Phone().body("AAAA-AAAA")
        answers = await asyncio.gather(*(bind(site, body) for _ in range(100)))
        statuses = [answer.status_code for answer in answers]
        assert statuses.count(403) == 100  # five were looked at, the rest found the code closed
        assert codes(made) == [(5, "burned")]


# Who else is in


async def test_the_first_device_needs_a_code_for_the_first(sample):
    from coilclaw.features.devices.code_exchange import DeviceActive

    made = sample()
    async with served(made) as site:
        with pytest.raises(DeviceActive, match="--add"):
            issue(made, "first")
        answer = await site.http.post("/v1/pairing/code", json={"mode": "first"})
        assert (answer.status_code, answer.json()["code"]) == (409, "DEVICE_ACTIVE")
        await site.http.post("/v1/sign-in/end")
        code = issue(made, "first").code
        assert (await bind(site, Phone().body(code))).status_code == 201


async def test_a_code_for_the_first_is_void_when_another_was_first(sample):
    made = sample()
    async with served(made) as site:
        await site.http.post("/v1/sign-in/end")
        code = issue(made, "first").code
        assert site.device() is not None
        assert refused(await bind(site, Phone().body(code)))


async def test_a_device_whose_token_expired_is_not_in_the_way(sample, clock):
    made = sample()
    made.app.clock = clock
    async with served(made):
        clock.advance(days=31)
        assert issue(made, "first").mode == "first"


async def test_replacing_ends_all_others_at_once(sample):
    made = sample()
    async with served(made) as site:
        told = []
        site.serving.on_revoked(told.append)
        other = site.device()
        code = (await site.http.post("/v1/pairing/code", json={"mode": "replace"})).json()["code"]
        assert (await site.http.get("/v1/sign-in")).status_code == 200
        answer = await bind(site, Phone().body(code))
        new = site.client(headers={"Authorization": f"Bearer {answer.json()['token']}"})
        assert (await site.http.get("/v1/sign-in")).status_code == 401
        assert (await other.get("/v1/sign-in")).status_code == 401
        assert (await new.get("/v1/sign-in")).status_code == 200
        assert "dev_test" in told
        assert len(told) == 2
        assert {each[2]["why"] for each in events(made, "device_revoked")} == {"replaced"}


async def test_adding_leaves_the_others(sample):
    made = sample()
    async with served(made) as site:
        answer = await site.http.post("/v1/pairing/code", json={"mode": "add"})
        told = answer.json()
        assert answer.status_code == 201
        assert told["url"] == f"{site.origin}/#pair={told['code']}"
        assert (await bind(site, Phone().body(told["code"]))).status_code == 201
        assert (await site.http.get("/v1/sign-in")).status_code == 200
        assert events(made, "pairing_code_issued")[0][2] == {"by": "device:dev_test", "mode": "add", "vouched": False}


async def test_the_same_device_again_stands_there_once(sample):
    made = sample()
    phone = Phone()
    async with served(made) as site:
        first = (await bind(site, phone.body(issue(made).code))).json()
        second = (await bind(site, phone.body(issue(made).code))).json()
        old = site.client(headers={"Authorization": f"Bearer {first['token']}"})
        new = site.client(headers={"Authorization": f"Bearer {second['token']}"})
        assert (await old.get("/v1/sign-in")).status_code == 401
        assert (await new.get("/v1/sign-in")).status_code == 200
        assert (await site.http.get("/v1/sign-in")).status_code == 200


# With passkeys


async def test_with_passkeys_a_device_of_the_terminals_code_is_unconfirmed(sample):
    made = sample()
    async with served(made) as site:
        register_passkey(made)
        answer = (await bind(site, Phone().body(issue(made).code))).json()
        assert answer["device"]["confirmed"] is False
        new = site.client(headers={"Authorization": f"Bearer {answer['token']}"})
        assert (await new.get("/v1/devices")).status_code == 403
        vouched = (await bind(site, Phone().body(issue(made, vouched=True).code))).json()
        assert vouched["device"]["confirmed"] is True


async def test_a_code_given_out_before_there_was_a_passkey_confirms_nobody(sample):
    made = sample()
    async with served(made) as site:
        code = (await site.http.post("/v1/pairing/code", json={})).json()["code"]
        register_passkey(made)
        answer = (await bind(site, Phone().body(code))).json()
        assert answer["device"]["confirmed"] is False


async def test_with_passkeys_a_device_gives_out_no_code_without_one(sample):
    made = sample()
    async with served(made) as site:
        register_passkey(made)
        answer = await site.http.post("/v1/pairing/code", json={})
        assert (answer.status_code, answer.json()["code"]) == (403, "PROOF_NEEDED")
        broken = {
            "challenge_id": "x",
            "id": "cred_1",
            "response": dict.fromkeys(("authenticatorData", "clientDataJSON", "signature"), "AA"),
        }
        answer = await site.http.post("/v1/pairing/code", json={"proof": broken})
        assert (answer.status_code, answer.json()["code"]) == (403, "PROOF_NEEDED")
        assert codes(made) == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"code": 1},
        {"code": "", "name": "x", "public_key": "x", "proof_of_key": "x", "wants": "cookie"},
        {"code": "x" * 41, "name": "x", "public_key": "x", "proof_of_key": "x", "wants": "cookie"},
        {"code": "x", "name": "\n", "public_key": "x", "proof_of_key": "x", "wants": "cookie"},
        {"code": "x", "name": "x", "public_key": "x", "proof_of_key": "x", "wants": "gold"},
        {"code": "x", "name": "x", "public_key": "x", "proof_of_key": "x", "wants": "cookie", "more": 1},
    ],
)
async def test_a_binding_that_is_none_is_a_problem_and_counts_nothing(sample, body):
    made = sample()
    async with served(made) as site:
        issue(made)
        assert (await bind(site, body)).status_code == 400
        assert codes(made) == [(0, None)]


async def test_a_device_let_in_by_another_device_cannot_register_the_first_passkey(sample):
    """Or else a stolen token would make itself the owner: let a device of its own in, and register a passkey there."""
    made = sample()
    async with served_whole(made) as site:
        code = (await site.http.post("/v1/pairing/code", json={"mode": "add"})).json()["code"]
        token = (await bind(site, Phone().body(code))).json()["token"]
        thief = site.client(headers={"Authorization": f"Bearer {token}"})
        assert (await thief.get("/v1/sign-in")).json()["passkey_window_ends_at"] is None
        answer = await thief.post("/v1/passkeys/registration", json={})
        assert (answer.status_code, answer.json()["code"]) == (403, "PROOF_NEEDED")
        code = issue(made).code
        token = (await bind(site, Phone().body(code))).json()["token"]
        own = site.client(headers={"Authorization": f"Bearer {token}"})
        assert (await own.get("/v1/sign-in")).json()["passkey_window_ends_at"] is not None
