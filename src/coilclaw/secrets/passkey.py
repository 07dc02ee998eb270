"""Passkey verification: pure functions over what a browser sent. A failed check is one error with its reason."""

import binascii
from typing import Final

import msgspec

from coilclaw.packets.errors import ProofNeeded
from coilclaw.packets.proof import Assertion, AssertionResponse, Question

ES256: Final = -7
EDDSA: Final = -8
RS256: Final = -257
ALGORITHMS: Final = (ES256, EDDSA, RS256)
"""COSE numbers of the accepted signature algorithms, the preferred one first."""
LONGEST = 64 * 1024
"""Maximum characters of a field; real ones have a few hundred."""
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_", b"+/")


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The scope of passkeys: the name they are made for, and the exact origins of pages that may use them."""

    rp_id: str
    origins: tuple[str, ...]


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """A valid assertion."""

    new_count: int
    backed_up: bool
    origin: str
    authenticator_data: bytes
    client_data: bytes
    signature: bytes


class NewPasskey(msgspec.Struct, frozen=True, kw_only=True):
    """A passkey that was made for us."""

    credential_id: str
    public_key: bytes
    sign_count: int
    aaguid: str
    backed_up: bool


class AttestationResponse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The inner part of what `navigator.credentials.create` returns, base64url throughout."""

    client_data_json: str = msgspec.field(name="clientDataJSON")
    attestation_object: str
    transports: tuple[str, ...] = ()


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """A new passkey, as a browser sends it (`credential.toJSON()`)."""

    id: str
    response: AttestationResponse


class CounterBack(ProofNeeded):
    """A good signature whose counter did not grow: the passkey may have been copied."""


class _ClientData(msgspec.Struct, frozen=True, rename="camel"):
    """What the browser says about the page; unknown fields are ignored."""

    type: str
    challenge: str
    origin: str
    cross_origin: bool = False
    top_origin: str | None = None


def refused(reason: str, remedy: str = "Try again with the passkey that is registered here.") -> ProofNeeded:
    """The one error of this room."""
    return ProofNeeded(f"the passkey's response is invalid: {reason}.", remedy=remedy)


def encode(data: bytes) -> str:
    """Bytes in base64url without padding."""
    return binascii.b2a_base64(data, newline=False).translate(_TO_URL, b"=").decode()


def decode(text: str, what: str) -> bytes:
    """Base64url, decoded strictly: one spelling for the same bytes."""
    try:
        if len(text) > LONGEST:
            raise refused(f"{what} is too long")
        data = binascii.a2b_base64(text.encode("ascii").translate(_FROM_URL) + b"=" * (-len(text) % 4))
    except (binascii.Error, UnicodeError) as error:
        raise refused(f"{what} is not base64url") from error
    if encode(data) != text:
        raise refused(f"{what} is not canonical base64url")
    return data


def _page(client_data: bytes, kind: str, challenge: bytes, place: Place) -> str:
    """Check what the browser said about the page; returns its origin."""
    try:
        told = msgspec.json.decode(client_data, type=_ClientData)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise refused("clientDataJSON cannot be read") from error
    if told.type != kind:
        raise refused(f"it is not of type {kind}")
    if told.challenge != encode(challenge):
        raise refused("it answers a different challenge", "Request a new challenge and sign that.")
    if told.origin not in place.origins:
        raise refused(
            "it was made for a different origin", f"Open {place.origins[0] if place.origins else 'the panel'}."
        )
    if told.cross_origin or told.top_origin is not None:
        raise refused("it was made in a frame of another site")
    return told.origin


def verify_assertion(
    question: Question,
    assertion: Assertion,
    *,
    credential_id: str,
    public_key: bytes,
    sign_count: int,
    place: Place,
) -> Verified:
    """Verify that this passkey signed exactly this question, at our origin, with its user verified."""
    raw_id = decode(assertion.id, "the id")
    if assertion.id != credential_id:
        raise refused("it is from a different passkey")
    client_data = decode(assertion.response.client_data_json, "clientDataJSON")
    authenticator_data = decode(assertion.response.authenticator_data, "authenticatorData")
    signature = decode(assertion.response.signature, "the signature")
    origin = _page(client_data, "webauthn.get", question.challenge, place)
    count, backed_up = _signed(question, raw_id, client_data, authenticator_data, signature, origin, public_key, place)
    if (count or sign_count) and count <= sign_count:
        raise CounterBack(
            "the passkey's counter went backwards: somebody may have copied it.",
            remedy="If that was not you, remove this passkey and register another.",
        )
    return Verified(
        new_count=count,
        backed_up=backed_up,
        origin=origin,
        authenticator_data=authenticator_data,
        client_data=client_data,
        signature=signature,
    )


def _signed(
    question: Question,
    raw_id: bytes,
    client_data: bytes,
    authenticator_data: bytes,
    signature: bytes,
    origin: str,
    public_key: bytes,
    place: Place,
) -> tuple[int, bool]:
    """Verify the signature; returns the counter and whether the passkey is synchronised elsewhere."""
    from webauthn import verify_authentication_response
    from webauthn.helpers import decode_credential_public_key
    from webauthn.helpers.structs import AuthenticationCredential, AuthenticatorAssertionResponse

    try:
        algorithm = int(decode_credential_public_key(public_key).alg)
        done = verify_authentication_response(
            credential=AuthenticationCredential(
                id=encode(raw_id),
                raw_id=raw_id,
                response=AuthenticatorAssertionResponse(
                    client_data_json=client_data, authenticator_data=authenticator_data, signature=signature
                ),
            ),
            expected_challenge=question.challenge,
            expected_rp_id=place.rp_id,
            expected_origin=origin,
            credential_public_key=public_key,
            credential_current_sign_count=0,  # the caller compares it after the signature is verified
            require_user_verification=True,
        )
    except Exception as error:  # parsers of three formats and two libraries: none of their errors may escape
        raise refused(_reason(error)) from error
    if algorithm not in ALGORITHMS:
        raise refused("its signature algorithm is not accepted here")
    return done.new_sign_count, done.credential_backed_up


def verify_again(
    question: Question,
    *,
    credential_id: str,
    public_key: bytes,
    place: Place,
    authenticator_data: bytes,
    client_data: bytes,
    signature: bytes,
) -> None:
    """Verify a stored assertion again; raises if it fails. Counters only mattered at the time."""
    response = AssertionResponse(
        authenticator_data=encode(authenticator_data), client_data_json=encode(client_data), signature=encode(signature)
    )
    verify_assertion(
        question,
        Assertion(challenge_id="", id=credential_id, response=response),
        credential_id=credential_id,
        public_key=public_key,
        sign_count=0,
        place=place,
    )


def verify_registration(registration: Registration, *, challenge: bytes, place: Place) -> NewPasskey:
    """Verify a new passkey, made for this challenge at our origin, with its user verified. Attestation is ignored."""
    from webauthn import verify_registration_response
    from webauthn.helpers.cose import COSEAlgorithmIdentifier
    from webauthn.helpers.structs import AuthenticatorAttestationResponse, RegistrationCredential

    raw_id = decode(registration.id, "the id")
    client_data = decode(registration.response.client_data_json, "clientDataJSON")
    attestation = decode(registration.response.attestation_object, "attestationObject")
    origin = _page(client_data, "webauthn.create", challenge, place)
    try:
        done = verify_registration_response(
            credential=RegistrationCredential(
                id=registration.id,
                raw_id=raw_id,
                response=AuthenticatorAttestationResponse(client_data_json=client_data, attestation_object=attestation),
            ),
            expected_challenge=challenge,
            expected_rp_id=place.rp_id,
            expected_origin=origin,
            require_user_verification=True,
            supported_pub_key_algs=[COSEAlgorithmIdentifier(number) for number in ALGORITHMS],
        )
    except Exception as error:  # as above
        raise refused(_reason(error)) from error
    if encode(done.credential_id) != registration.id:
        raise refused("its id does not match the signed data")
    return NewPasskey(
        credential_id=registration.id,
        public_key=done.credential_public_key,
        sign_count=done.sign_count,
        aaguid=done.aaguid,
        backed_up=done.credential_backed_up,
    )


_REASONS = (
    ("user verification", "the authenticator did not verify you (fingerprint, face or PIN)"),
    ("user presence", "nobody touched the authenticator"),
    ("not present", "nobody touched the authenticator"),
    ("rp id", "it was made for a different site"),
    ("alg", "its signature algorithm is not accepted here"),
    ("signature", "the signature is not this passkey's"),
)


def _reason(error: Exception) -> str:
    """Our wording of the library's error; never its own, which may quote input."""
    text = str(error).lower()
    return next((words for sign, words in _REASONS if sign in text), "it cannot be read")
