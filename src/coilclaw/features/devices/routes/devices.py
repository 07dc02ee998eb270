"""Routes of devices: which are paired, their names, vouching for one, and ending one."""

from typing import Annotated, Literal

import msgspec
from litestar import Controller, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from msgspec import Meta

from coilclaw.features.devices.pairing import Reception
from coilclaw.packets.proof import Assertion
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.pages import Cursor, Limit, Page, page_of, read_cursor
from coilclaw.server.problems import NotThere, Trouble, problems
from coilclaw.store.devices import DeviceRow

DeviceName = Annotated[
    str,
    Meta(min_length=1, max_length=80, pattern=r"^[^\x00-\x1f\x7f]+$", description="The device's name."),
]


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A paired device."""

    device_id: str
    name: str
    current: bool
    """Whether it is the one that asks."""
    active: bool
    """Whether it can still come in: neither revoked nor signed in too long ago."""
    confirmed: bool
    """Whether it may do anything but ask to be vouched for."""
    created_at: str
    confirmed_at: str | None
    last_seen_at: str | None
    """To the hour."""
    revoked_at: str | None
    scope: Literal["", "mcp"]
    """What its token opens: everything, or `/mcp` alone."""


class NewName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a device is to be called."""

    name: DeviceName


class WithProof(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A passkey's answer, where one is needed."""

    proof: Assertion | None = None
    """The assertion over a challenge of `POST /v1/passkeys/challenge`."""


NO_PROOF = WithProof()


def device_of(row: DeviceRow, caller_id: str, *, core: Core, active: bool) -> Device:
    """A device as it is shown."""
    return Device(
        device_id=row.device_id,
        name=core.named(row.name),
        current=row.device_id == caller_id,
        active=active,
        confirmed=row.confirmed_at is not None,
        created_at=row.created_at,
        confirmed_at=row.confirmed_at,
        last_seen_at=row.last_seen_at,
        revoked_at=row.revoked_at,
        scope=row.scope,
    )


class DevicesController(Controller):
    """Devices."""

    path = "/v1/devices"
    tags = ("devices",)

    @get("/", operation_id="listDevices")
    async def list_devices(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        reception: NamedDependency[Reception],
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Page[Device]:
        """Devices that are or were paired, the newest first."""
        rows = reception.devices(limit=limit + 1, before=read_cursor(cursor, tuple[str, str]))
        active = reception.active()
        shown = [device_of(row, caller.device_id, core=core, active=row.device_id in active) for row in rows]
        return page_of(shown, limit, [(row.created_at, row.device_id) for row in rows])

    @patch("/{device_id:str}", operation_id="renameDevice", responses=problems(404))
    async def rename_device(
        self,
        device_id: FromPath[str],
        data: JSONBody[NewName],
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        reception: NamedDependency[Reception],
    ) -> Device:
        """Give a device another name."""
        _known(reception, device_id)
        await reception.rename(caller, device_id, data.name)
        return _shown(reception, core, caller, device_id)

    @post("/{device_id:str}/revoke", operation_id="revokeDevice", status_code=200, responses=problems(404))
    async def revoke_device(
        self,
        device_id: FromPath[str],
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        reception: NamedDependency[Reception],
        data: JSONBody[WithProof] = NO_PROOF,
    ) -> Device:
        """End a device at once: its token is worth nothing any more, its event streams end.

        One's own needs nothing else. Another one's needs a passkey (purpose `device.revoke`), if there is any.
        """
        _known(reception, device_id)
        await reception.revoke(caller, device_id, data.proof)
        return _shown(reception, core, caller, device_id)

    @post("/{device_id:str}/confirm", operation_id="confirmDevice", status_code=200, responses=problems(404, 409))
    async def confirm_device(
        self,
        device_id: FromPath[str],
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        reception: NamedDependency[Reception],
        data: JSONBody[WithProof] = NO_PROOF,
    ) -> Device:
        """Vouch for a device with a passkey (purpose `device.confirm`): by itself, or by another confirmed one."""
        row = _known(reception, device_id)
        if row.revoked_at is not None:
            raise Trouble(409, "DEVICE_REVOKED", "the device was revoked.", remedy="Pair it again.")
        if row.confirmed_at is None:
            await reception.confirm(caller, device_id, data.proof)
        return _shown(reception, core, caller, device_id)


def _known(reception: Reception, device_id: str) -> DeviceRow:
    row = reception.device(device_id)
    if row is None:
        raise NotThere("such device", remedy="GET /v1/devices lists them.")
    return row


def _shown(reception: Reception, core: Core, caller: Caller, device_id: str) -> Device:
    row = _known(reception, device_id)
    return device_of(row, caller.device_id, core=core, active=device_id in reception.active())
