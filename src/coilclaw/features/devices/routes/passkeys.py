"""Passkeys over HTTP: making them, listing them, and asking them to sign one thing."""

import asyncio
import os
from collections.abc import Callable
from typing import Annotated, TypeAlias

import msgspec
from litestar import Controller, get, patch, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter
from msgspec import Meta

from coilclaw.features.devices.ceremony import CreationOptions, Descriptor, Parameters, Party, RequestOptions, User
from coilclaw.features.devices.pairing import Reception
from coilclaw.features.devices.store import Mode
from coilclaw.gate.enrolment import Enrolment
from coilclaw.gate.proof import CHALLENGE_LIFE, resolve_digest
from coilclaw.gate.records import Verdict
from coilclaw.packets.errors import ProofNeeded
from coilclaw.packets.ids import from_stamp
from coilclaw.packets.proof import Assertion, Purpose, Question
from coilclaw.packets.text import one_line
from coilclaw.secrets.passkey import ALGORITHMS, Registration, encode
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.pages import Page
from coilclaw.server.problems import NotThere, Trouble, problems
from coilclaw.store.actions import load_action
from coilclaw.store.devices import load_device
from coilclaw.store.passkeys import Passkey, devices_that_used, list_passkeys, load_passkey

TIMEOUT = int(CHALLENGE_LIFE.total_seconds() * 1000)
PasskeyId: TypeAlias = Annotated[str, PathParameter(max_length=1400, description="The credential id, in base64url.")]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]
Word: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1400)]


class ChallengeAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the owner wants to prove themselves for."""

    purpose: Purpose
    subject: Word
    """The id of what it is about: an action (approve, resolve), a device (device.*; for device.add the one that asks),
    a passkey (passkey.*; for passkey.add the id of the new one), or `estop`."""
    verdict: Verdict = "retry"
    """For `resolve`: what will be said of the action. It is signed too."""
    mode: Mode = "replace"
    """For `device.add`: what the new device shall be. It is signed too."""


class ChallengeMade(msgspec.Struct, frozen=True, kw_only=True):
    """A question for a passkey: five minutes, one answer, by this device."""

    challenge_id: str
    expires_at: str
    options: RequestOptions
    question: Question
    """What is signed; the challenge in `options` is its hash."""


class RegistrationMade(msgspec.Struct, frozen=True, kw_only=True):
    """What a browser needs to make a passkey."""

    challenge_id: str
    expires_at: str
    options: CreationOptions
    proof_needed: bool
    """Whether a passkey that is registered must vouch for the new one (purpose `passkey.add`)."""


class PasskeyMade(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new passkey, and who vouches for it."""

    challenge_id: Word
    credential: Registration
    name: Name
    proof: Assertion | None = None
    """Needed unless it is the first."""


class PasskeySeen(msgspec.Struct, frozen=True, kw_only=True):
    """A passkey as it is shown; its key stays here."""

    passkey_id: str
    """The credential id, in base64url."""
    name: str
    device_id: str | None
    """From which device it was registered."""
    usable: bool
    """Whether it belongs to the address the panel has now."""
    backed_up: bool
    """Whether it is synchronised to other devices of its owner."""
    aaguid: str
    transports: tuple[str, ...]
    created_at: str
    last_used_at: str | None
    removed_at: str | None
    suspended_at: str | None
    """When its counter went back: it may have been copied, and proves nothing until the owner clears it."""
    used_on: list[str]
    """Names of the paired devices that registered it or proved something with it."""


class PasskeyName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another name."""

    name: Name


class PasskeyRemoval(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The assertion that stands behind it."""

    proof: Assertion | None = None
    sign_out: bool = False
    """Also sign out the other devices that used it."""


class PasskeyClearing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The assertion of another passkey that stands behind it."""

    proof: Assertion | None = None


NO_PROOF = PasskeyRemoval()
NOT_CLEARED = PasskeyClearing()


class PasskeysController(Controller):
    """Passkeys."""

    path = "/v1/passkeys"
    tags = ("passkeys",)

    @get("/", operation_id="listPasskeys", summary="Passkeys")
    async def list_all(self, core: NamedDependency[Core], enrolment: NamedDependency[Enrolment]) -> Page[PasskeySeen]:
        """List the passkeys that are registered, the oldest first; there are never more than twenty."""
        seen = [_seen(core, enrolment, each) for each in list_passkeys(core.db.reader)]
        return Page(items=seen, next_cursor=None)

    @post("/challenge", operation_id="askPasskey", summary="Request a challenge to sign", responses=problems(404, 409))
    async def challenge(
        self,
        data: JSONBody[ChallengeAsked],
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        enrolment: NamedDependency[Enrolment],
    ) -> ChallengeMade:
        """Request a challenge to sign. The answer's `options` go to `navigator.credentials.get` as they are."""
        _may_ask(data, caller)
        digest, valid_until = _CHECKS[data.purpose](core, caller, data)
        owner = enrolment.owner
        usable = owner.usable(core.db.reader)
        if not usable:
            raise ProofNeeded(
                "no passkey is registered for this address.",
                remedy="Register one, or answer at the terminal; `coilclaw passkeys` lists and removes them.",
            )
        await asyncio.to_thread(_warm_up)
        made, question = await core.db.write(
            lambda tx: owner.ask(
                tx,
                purpose=data.purpose,
                subject=data.subject,
                device_id=caller.device_id,
                digest=digest,
                valid_until=valid_until,
            )
        )
        return ChallengeMade(
            challenge_id=made.challenge_id,
            expires_at=made.expires_at,
            question=question,
            options=RequestOptions(
                challenge=encode(question.challenge),
                timeout=TIMEOUT,
                rp_id=owner.place().rp_id,
                allow_credentials=_descriptors(usable),
            ),
        )

    @post("/registration", operation_id="beginPasskey", summary="Start a passkey registration", responses=problems(409))
    async def registration(
        self, core: NamedDependency[Core], caller: NamedDependency[Caller], enrolment: NamedDependency[Enrolment]
    ) -> RegistrationMade:
        """Begin to make a passkey. The answer's `options` go to `navigator.credentials.create` as they are.

        The first can be made within ten minutes after this device was paired; a further one needs the proof of one
        that is registered.
        """
        await asyncio.to_thread(_warm_up)
        made, nonce = await core.db.write(lambda tx: enrolment.begin(tx, caller.device_id))
        known = list_passkeys(core.db.reader)
        place = enrolment.owner.place()
        return RegistrationMade(
            challenge_id=made.challenge_id,
            expires_at=made.expires_at,
            proof_needed=bool(known),
            options=CreationOptions(
                challenge=encode(nonce),
                timeout=TIMEOUT,
                rp=Party(id=place.rp_id, name="CoilClaw"),
                # A handle of its own for each: another home on this machine shares the name `localhost`.
                user=User(id=encode(os.urandom(16)), name="owner", display_name="CoilClaw's owner"),
                pub_key_cred_params=[Parameters(alg=number) for number in ALGORITHMS],
                exclude_credentials=_descriptors([each for each in known if each.rp_id == place.rp_id]),
            ),
        )

    @post("/", operation_id="registerPasskey", summary="Register a passkey", responses=problems(409))
    async def register(
        self,
        data: JSONBody[PasskeyMade],
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        enrolment: NamedDependency[Enrolment],
    ) -> PasskeySeen:
        """Register the passkey that the browser made; sending the same again changes nothing."""
        passkey = await core.db.write(
            lambda tx: enrolment.finish(
                tx,
                challenge_id=data.challenge_id,
                registration=data.credential,
                name=one_line(data.name),
                device_id=caller.device_id,
                proof=data.proof,
            )
        )
        return _seen(core, enrolment, passkey)

    @patch("/{passkey_id:str}", operation_id="renamePasskey", summary="Rename a passkey", responses=problems(404))
    async def rename(
        self,
        passkey_id: PasskeyId,
        data: JSONBody[PasskeyName],
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        enrolment: NamedDependency[Enrolment],
    ) -> PasskeySeen:
        """Give a passkey another name."""
        name = one_line(data.name)
        await core.db.write(lambda tx: enrolment.rename(tx, passkey_id, name, caller.by))
        return _seen(core, enrolment, _registered(core, passkey_id))

    @post(
        "/{passkey_id:str}/remove",
        operation_id="removePasskey",
        summary="Remove a passkey",
        status_code=200,
        responses=problems(404),
    )
    async def remove(
        self,
        passkey_id: PasskeyId,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        enrolment: NamedDependency[Enrolment],
        reception: NamedDependency[Reception],
        data: JSONBody[PasskeyRemoval] = NO_PROOF,
    ) -> PasskeySeen:
        """Remove a passkey, with the proof of a registered one (purpose `passkey.remove`); the last only with its own.
        `sign_out` also ends the other devices that used it. One that was removed before stays removed.
        """
        passkey = load_passkey(core.db.reader, passkey_id)
        if passkey is None:
            raise NotThere("such passkey")
        if passkey.removed_at is None:
            used = [device_id for device_id, _ in devices_that_used(core.db.reader, passkey_id)]
            await core.db.write(lambda tx: enrolment.remove(tx, passkey_id, by=caller.by, proof=data.proof))
            if data.sign_out:
                await reception.revoke_with_passkey(caller, used)
            passkey = load_passkey(core.db.reader, passkey_id) or passkey
        return _seen(core, enrolment, passkey)

    @post(
        "/{passkey_id:str}/clear",
        operation_id="clearPasskey",
        summary="Trust a suspended passkey again",
        status_code=200,
        responses=problems(404),
    )
    async def clear(
        self,
        passkey_id: PasskeyId,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        enrolment: NamedDependency[Enrolment],
        data: JSONBody[PasskeyClearing] = NOT_CLEARED,
    ) -> PasskeySeen:
        """Believe a passkey again that was suspended because its counter went back, with the proof of another one
        (purpose `passkey.clear`). Where there is no other, `coilclaw passkeys clear` at the terminal does it."""
        if _registered(core, passkey_id).suspended_at is not None:
            await core.db.write(lambda tx: enrolment.clear(tx, passkey_id, by=caller.by, proof=data.proof))
        return _seen(core, enrolment, _registered(core, passkey_id))


def _warm_up() -> None:
    """Load the verifier before it is needed: later it would be loaded while everybody waits to write."""
    import webauthn  # noqa: F401  # pyright: ignore[reportUnusedImport]


def _seen(core: Core, enrolment: Enrolment, passkey: Passkey) -> PasskeySeen:
    return PasskeySeen(
        passkey_id=passkey.credential_id,
        name=core.said(passkey.name),
        device_id=passkey.device_id,
        usable=passkey.removed_at is None
        and passkey.suspended_at is None
        and passkey.rp_id == enrolment.owner.place().rp_id,
        backed_up=passkey.backed_up,
        aaguid=passkey.aaguid,
        transports=passkey.transports,
        created_at=passkey.created_at,
        last_used_at=passkey.last_used_at,
        removed_at=passkey.removed_at,
        suspended_at=passkey.suspended_at,
        used_on=[core.named(name) for _, name in devices_that_used(core.db.reader, passkey.credential_id)],
    )


def _descriptors(passkeys: list[Passkey]) -> list[Descriptor]:
    return [Descriptor(id=each.credential_id, transports=each.transports) for each in passkeys]


def _registered(core: Core, passkey_id: str) -> Passkey:
    passkey = load_passkey(core.db.reader, passkey_id)
    if passkey is None or passkey.removed_at is not None:
        raise NotThere("such passkey")
    return passkey


# What may be asked about, and what is signed of it

About: TypeAlias = tuple[str, str | None]
"""Digest, and until when what is asked for may happen; None: as long as the challenge lasts."""


def _may_ask(data: ChallengeAsked, caller: Caller) -> None:
    """A device that nobody vouched for yet may ask for that alone."""
    if not caller.confirmed and (data.purpose, data.subject) != ("device.confirm", caller.device_id):
        raise Trouble(403, "UNCONFIRMED", "this device is not confirmed.", remedy="Confirm it with your passkey first.")


def _action_waits(core: Core, _caller: Caller, data: ChallengeAsked) -> About:
    action = load_action(core.db.reader, data.subject)
    if action is None:
        raise NotThere("such action")
    if action.status != "PENDING" or from_stamp(action.expires_at) <= core.clock():
        raise Trouble(409, "NOT_WAITING", f"{action.action_id} is not waiting for an answer.")
    _, looked = core.conveyor.intake.look_again(action, core.conveyor.intake.turn_of(action))
    if looked.digest != action.digest:
        raise Trouble(
            409,
            "CHANGED",
            f"what {action.action_id} would do has changed since it was proposed.",
            remedy="Reject it, and have it proposed again.",
        )
    return action.digest, action.expires_at


def _action_is_unknown(core: Core, _: Caller, data: ChallengeAsked) -> About:
    action = load_action(core.db.reader, data.subject)
    if action is None:
        raise NotThere("such action")
    if action.status != "UNKNOWN":
        raise Trouble(409, "NOT_UNKNOWN", f"the outcome of {action.action_id} is not unknown.")
    return resolve_digest(action.digest, data.verdict), action.expires_at


def _is_estop(core: Core, _: Caller, data: ChallengeAsked) -> About:
    if data.subject != "estop":
        raise Trouble(422, "UNFIT", "the subject of estop.clear is `estop`.")
    mark = core.estop.mark()
    if not mark:
        raise Trouble(409, "NOT_ENGAGED", "ESTOP is not engaged.", remedy="There is nothing to clear.")
    return mark, None


def _is_new(core: Core, _: Caller, data: ChallengeAsked) -> About:
    if load_passkey(core.db.reader, data.subject) is not None:
        raise Trouble(409, "CONFLICT", "this passkey was already registered here.", remedy="Create a new one.")
    return "", None


def _is_registered(core: Core, _: Caller, data: ChallengeAsked) -> About:
    _registered(core, data.subject)
    return "", None


def _is_caller(_core: Core, caller: Caller, data: ChallengeAsked) -> About:
    if data.subject != caller.device_id:
        raise Trouble(422, "UNFIT", "the subject of device.add is the device that asks.")
    return data.mode, None


def _is_device(core: Core, _: Caller, data: ChallengeAsked) -> About:
    device = load_device(core.db.reader, data.subject)
    if device is None or device.revoked_at is not None:
        raise NotThere("such device")
    return "", None


_CHECKS: dict[Purpose, Callable[[Core, Caller, ChallengeAsked], About]] = {
    "approve": _action_waits,
    "resolve": _action_is_unknown,
    "estop.clear": _is_estop,
    "passkey.add": _is_new,
    "passkey.remove": _is_registered,
    "passkey.clear": _is_registered,
    "device.add": _is_caller,
    "device.confirm": _is_device,
    "device.revoke": _is_device,
}
