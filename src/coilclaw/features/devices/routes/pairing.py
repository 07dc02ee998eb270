"""Routes of pairing: a code from a device that is in, and the open one that lets a new device in."""

from typing import Annotated, Literal

import msgspec
from litestar import Controller, Response, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec import Meta

from coilclaw.features.devices.code_exchange import KEY_PATTERN, DeviceActive
from coilclaw.features.devices.github_sign_in import GitHubSignIn, NotTheOwner
from coilclaw.features.devices.pairing import Reception
from coilclaw.features.devices.routes.devices import Device, DeviceName, device_of
from coilclaw.features.devices.routes.signed_in import token_cookie
from coilclaw.packets.proof import Assertion
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.problems import Trouble, problems


class CodeWanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the new device shall be."""

    mode: Literal["first", "add", "replace"] = "replace"
    """`replace` ends all other devices once the new one is in, `add` lets it in beside them, `first` is refused while
    there is one."""
    proof: Assertion | None = None
    """A passkey's assertion (purpose `device.add`, subject the id of the asking device); needed if there is any."""


ONE_DEVICE = CodeWanted()
"""One device at a time, unless more are asked for."""


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """A code that lets one device in, once."""

    code: str
    """To be typed in on the new device; case, spaces and dashes do not matter."""
    expires_at: str
    mode: Literal["first", "add", "replace"]
    """What becomes of the other devices when it is used."""
    url: str
    """Opened on the new device it carries the code, in the part that browsers keep to themselves."""


class Binding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new device that wants to come in."""

    code: Annotated[str, Meta(min_length=1, max_length=40)]
    name: DeviceName
    public_key: Annotated[str, Meta(max_length=200, pattern=KEY_PATTERN)]
    """The device's own key, P-256 or Ed25519: SubjectPublicKeyInfo (DER) in base64url, without padding."""
    proof_of_key: Annotated[str, Meta(min_length=1, max_length=400)]
    """Its signature, in base64url, over `coilclaw pairing 1`, a newline, the code in capitals without dashes, a newline
    and `public_key`. For P-256 with SHA-256, as r||s or DER."""
    wants: Literal["cookie", "bearer"]
    """Browsers want a cookie that no script can read; other programs a bearer token."""


class Paired(msgspec.Struct, frozen=True, kw_only=True):
    """The device that was let in."""

    device: Device
    expires_at: str
    """When it is signed out, unless it is used before; every use puts it off."""
    token: str | None
    """For `Authorization: Bearer`, shown this once; null when it was set as a cookie."""


class GitHubWay(msgspec.Struct, frozen=True, kw_only=True):
    """How to sign in with GitHub."""

    address: str
    """The address to open. The page adds `state`, `code_challenge` (S256 of its verifier) and
    `code_challenge_method=S256`. Empty where it is not set up, or there is no passkey."""


class GitHubReturn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What GitHub sent the page back with."""

    code: Annotated[str, Meta(min_length=1, max_length=400, pattern=r"^[!-~]+$")]
    verifier: Annotated[str, Meta(min_length=43, max_length=128, pattern=r"^[A-Za-z0-9._~-]+$")]
    """The verifier (PKCE) whose hash the page sent along."""


class GitHubCode(msgspec.Struct, frozen=True, kw_only=True):
    """A pairing code for `POST /v1/pairing/bind`. What it lets in has to be confirmed with a passkey."""

    code: str
    expires_at: str


class PairingController(Controller):
    """Pairing."""

    path = "/v1/pairing"
    tags = ("pairing",)

    @post("/code", operation_id="createPairingCode", responses=problems(409))
    async def create_code(
        self,
        caller: NamedDependency[Caller],
        reception: NamedDependency[Reception],
        data: JSONBody[CodeWanted] = ONE_DEVICE,
    ) -> Code:
        """A one-time code for another device; the code before it is void. Five tries, a few minutes. The new device
        takes the place of all others unless `mode` is `add`."""
        try:
            issued = await reception.issue(caller, data.mode, data.proof)
        except DeviceActive as error:
            raise Trouble(409, "DEVICE_ACTIVE", error.message, remedy="Send the mode `add` or `replace`.") from error
        return Code(
            code=issued.code,
            expires_at=issued.expires_at,
            mode=issued.mode,
            url=f"{reception.hosts.address}/#pair={issued.code}",
        )

    @get("/github", operation_id="showGitHubSignIn", security=[{}])
    async def show_github(
        self, reception: NamedDependency[Reception], github_sign_in: NamedDependency[GitHubSignIn]
    ) -> GitHubWay:
        """Where to sign in with GitHub, if that is set up and there is a passkey. Needs no token."""
        offered = github_sign_in.offered
        return GitHubWay(address=github_sign_in.address(reception.hosts.address) if offered else "")

    @post("/github", operation_id="createGitHubPairingCode", security=[{}])
    async def create_github_code(
        self,
        data: JSONBody[GitHubReturn],
        reception: NamedDependency[Reception],
        github_sign_in: NamedDependency[GitHubSignIn],
    ) -> GitHubCode:
        """A pairing code for whoever signed in with the owner's account. Needs no token."""
        try:
            issued = await github_sign_in.code(data.code, data.verifier, reception.hosts.address)
        except NotTheOwner as error:
            raise Trouble(
                403,
                "SIGN_IN_REFUSED",
                "this sign-in with GitHub lets nobody in.",
                remedy="Sign in with the owner's account, or get a code: `coilclaw pair` at the terminal.",
            ) from error
        return GitHubCode(code=issued.code, expires_at=issued.expires_at)

    @post("/bind", operation_id="bindDevice", security=[{}])
    async def bind(
        self, data: JSONBody[Binding], core: NamedDependency[Core], reception: NamedDependency[Reception]
    ) -> Response[Paired]:
        """Let this device in, with a code that the terminal or a paired device shows. Needs no token."""
        bound = await reception.bind(
            code=data.code, name=data.name, public_key=data.public_key, proof=data.proof_of_key, wants=data.wants
        )
        row = None if bound is None else reception.device(bound.device_id)
        if bound is None or row is None:
            raise Trouble(
                403,
                "PAIRING_REFUSED",
                "the code is wrong, used or expired, or the key's proof is invalid.",
                remedy="Get a new code: `coilclaw pair` at the terminal, or on a paired device.",
            )
        cookie = data.wants == "cookie"
        told = Paired(
            device=device_of(row, row.device_id, core=core, active=True),
            expires_at=bound.expires_at,
            token=None if cookie else bound.token,
        )
        cookies = [token_cookie(bound.token, reception.token_days)] if cookie else []
        return Response(told, cookies=cookies)
