"""Passkey verification over bytes alone: what holds, what does not, and that nothing but our own error leaves."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.packets.errors import ProofNeeded
from coilclaw.packets.proof import Assertion, AssertionResponse, Question
from coilclaw.secrets.passkey import (
    AttestationResponse,
    CounterBack,
    Place,
    Registration,
    decode,
    encode,
    verify_again,
    verify_assertion,
    verify_registration,
)
from tests.soft_passkey import BACKED_UP, BACKUP, PRESENT, VERIFIED, SoftPasskey

ORIGIN = "http://localhost:8377"
PLACE = Place(rp_id="localhost", origins=(ORIGIN,))
QUESTION = Question(purpose="approve", subject="act_1", digest="d" * 64, valid_until="2026-01-01", nonce="n")
NONCE = bytes(range(32))


def check(passkey, assertion, question=QUESTION, sign_count=0, place=PLACE):
    return verify_assertion(
        question,
        assertion,
        credential_id=passkey.id,
        public_key=passkey.public_key,
        sign_count=sign_count,
        place=place,
    )


@pytest.mark.parametrize("kind", ["ES256", "EdDSA", "RS256"])
def test_a_good_answer_holds(kind):
    passkey = SoftPasskey(kind)
    verified = check(passkey, passkey.assertion(QUESTION.challenge, flags=PRESENT | VERIFIED | BACKUP | BACKED_UP))
    assert (verified.new_count, verified.backed_up, verified.origin) == (1, True, ORIGIN)
    verify_again(
        QUESTION,
        credential_id=passkey.id,
        public_key=passkey.public_key,
        place=PLACE,
        authenticator_data=verified.authenticator_data,
        client_data=verified.client_data,
        signature=verified.signature,
    )


def test_a_kind_of_signature_that_was_not_offered_is_not_believed():
    passkey = SoftPasskey("ES384")
    with pytest.raises(ProofNeeded, match="signature algorithm"):
        check(passkey, passkey.assertion(QUESTION.challenge))
    with pytest.raises(ProofNeeded, match="signature algorithm"):
        verify_registration(passkey.registration(NONCE), challenge=NONCE, place=PLACE)


@pytest.mark.parametrize("field", ["purpose", "subject", "digest", "valid_until", "nonce"])
def test_every_part_of_the_question_is_signed(field):
    passkey = SoftPasskey()
    assertion = passkey.assertion(QUESTION.challenge)
    other = msgspec.structs.replace(QUESTION, **{field: "resolve" if field == "purpose" else "other"})
    with pytest.raises(ProofNeeded, match="different challenge"):
        check(passkey, assertion, other)


WRONG = {
    "origin": ({"origin": "http://127.0.0.1:8377"}, "different origin"),
    "origin with a slash": ({"origin": f"{ORIGIN}/"}, "different origin"),
    "origin by prefix": ({"origin": f"{ORIGIN}.evil.example"}, "different origin"),
    "site": ({"rp_id": "example.com"}, "different site"),
    "type": ({"kind": "webauthn.create"}, "type"),
    "no verification": ({"flags": PRESENT}, "did not verify you"),
    "no presence": ({"flags": VERIFIED}, "touched"),
    "frame": ({"crossOrigin": True}, "frame of another site"),
    "frame's top": ({"topOrigin": "https://evil.example"}, "frame of another site"),
}


@pytest.mark.parametrize("wrong", sorted(WRONG))
def test_what_does_not_fit_is_refused_with_its_reason(wrong):
    changed, reason = WRONG[wrong]
    passkey = SoftPasskey()
    with pytest.raises(ProofNeeded, match=reason):
        check(passkey, passkey.assertion(QUESTION.challenge, **changed))


REGISTERING = {**WRONG, "type": ({"kind": "webauthn.get"}, "type")}


@pytest.mark.parametrize("wrong", sorted(REGISTERING))
def test_a_registration_that_does_not_fit_is_refused(wrong):
    changed, reason = REGISTERING[wrong]
    with pytest.raises(ProofNeeded, match=reason):
        verify_registration(SoftPasskey().registration(NONCE, **changed), challenge=NONCE, place=PLACE)


@pytest.mark.parametrize("kind", ["ES256", "EdDSA", "RS256"])
def test_a_good_registration_holds(kind):
    passkey = SoftPasskey(kind)
    made = verify_registration(passkey.registration(NONCE), challenge=NONCE, place=PLACE)
    assert (made.credential_id, made.public_key, made.sign_count) == (passkey.id, passkey.public_key, 0)


def test_a_registration_for_another_challenge_or_another_id_is_refused():
    passkey = SoftPasskey()
    with pytest.raises(ProofNeeded, match="different challenge"):
        verify_registration(passkey.registration(bytes(32)), challenge=NONCE, place=PLACE)
    renamed = msgspec.structs.replace(passkey.registration(NONCE), id=encode(b"other"))
    with pytest.raises(ProofNeeded, match="id does not"):
        verify_registration(renamed, challenge=NONCE, place=PLACE)


@pytest.mark.parametrize(("before", "now"), [(5, 5), (5, 4), (5, 0), (1, 0)])
def test_a_counter_that_does_not_grow_is_told_apart(before, now):
    passkey = SoftPasskey()
    with pytest.raises(CounterBack):
        check(passkey, passkey.assertion(QUESTION.challenge, count=now), sign_count=before)


@pytest.mark.parametrize(("before", "now"), [(0, 0), (0, 1), (5, 6), (5, 2**32 - 1)])
def test_a_counter_that_grows_or_is_not_kept_holds(before, now):
    passkey = SoftPasskey()
    assert check(passkey, passkey.assertion(QUESTION.challenge, count=now), sign_count=before).new_count == now


def test_a_counter_is_judged_only_when_the_signature_is_good():
    """Otherwise anybody could make a passkey look copied."""
    passkey, other = SoftPasskey(), SoftPasskey()
    other.raw_id, other.id = passkey.raw_id, passkey.id
    with pytest.raises(ProofNeeded, match="signature") as caught:
        check(passkey, other.assertion(QUESTION.challenge, count=1), sign_count=9)
    assert not isinstance(caught.value, CounterBack)


@pytest.mark.parametrize("text", ["a", "a=", "YQ==", "YQ=", "YR", "Y Q", "YQ\n", "é", "\ud800", "+/+/", "A" * 70_000])
def test_base64url_has_one_spelling(text):
    with pytest.raises(ProofNeeded):
        decode(text, "it")


TEXT = st.text(max_size=80) | st.binary(max_size=80).map(encode)


@given(TEXT, TEXT, TEXT, TEXT)
def test_garbage_is_refused_by_our_own_error(an_id, data, client, signature):
    assertion = Assertion(
        challenge_id="",
        id=an_id,
        response=AssertionResponse(authenticator_data=data, client_data_json=client, signature=signature),
    )
    with pytest.raises(ProofNeeded):
        verify_assertion(QUESTION, assertion, credential_id=an_id, public_key=b"\xa0", sign_count=0, place=PLACE)


@given(st.binary(max_size=200), st.binary(max_size=80), st.binary(max_size=80))
def test_garbage_behind_a_good_page_is_refused_by_our_own_error(data, signature, key):
    passkey = SoftPasskey.__new__(SoftPasskey)
    passkey.origin = ORIGIN
    client = passkey._client_data("webauthn.get", QUESTION.challenge, None)
    created = passkey._client_data("webauthn.create", NONCE, None)
    response = AssertionResponse(
        authenticator_data=encode(data), client_data_json=encode(client), signature=encode(signature)
    )
    with pytest.raises(ProofNeeded):
        verify_assertion(
            QUESTION,
            Assertion(challenge_id="", id="YQ", response=response),
            credential_id="YQ",
            public_key=key,
            sign_count=0,
            place=PLACE,
        )
    attested = AttestationResponse(client_data_json=encode(created), attestation_object=encode(data))
    with pytest.raises(ProofNeeded):
        verify_registration(Registration(id="YQ", response=attested), challenge=NONCE, place=PLACE)
