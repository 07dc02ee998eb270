"""Ceremonies: what browsers are handed to make a passkey or to have one sign, in the spelling they ask for."""

from typing import Literal

import msgspec


class Descriptor(msgspec.Struct, frozen=True, kw_only=True):
    """A passkey that is known here, as browsers are told of it."""

    id: str
    type: Literal["public-key"] = "public-key"
    transports: tuple[str, ...] = ()


class RequestOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """For `PublicKeyCredential.parseRequestOptionsFromJSON`, as it stands."""

    challenge: str
    timeout: int
    rp_id: str
    allow_credentials: list[Descriptor]
    user_verification: Literal["required"] = "required"


class Party(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a passkey is made for."""

    id: str
    name: str


class User(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Whose passkey it is."""

    id: str
    name: str
    display_name: str


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of signature that is believed."""

    alg: int
    type: Literal["public-key"] = "public-key"


class Selection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an authenticator must be able to do."""

    resident_key: Literal["preferred"] = "preferred"
    require_resident_key: bool = False
    user_verification: Literal["required"] = "required"


class CreationOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """For `PublicKeyCredential.parseCreationOptionsFromJSON`, as it stands."""

    challenge: str
    timeout: int
    rp: Party
    user: User
    pub_key_cred_params: list[Parameters]
    exclude_credentials: list[Descriptor]
    authenticator_selection: Selection = Selection()
    attestation: Literal["none"] = "none"
