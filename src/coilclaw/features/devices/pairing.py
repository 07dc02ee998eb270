"""The reception: what paired devices and those that want to be may ask for, each in one transaction."""

import asyncio
from collections.abc import Callable, Sequence

from coilclaw.features.devices.code_exchange import Attempt, Bound, Issued, Pairing, key_proves, key_signed
from coilclaw.features.devices.device_changes import end_device, name_device, vouch_for_device
from coilclaw.features.devices.store import Mode
from coilclaw.gate.proof import OwnerProof
from coilclaw.packets.errors import ProofNeeded
from coilclaw.packets.ids import Clock, stamp
from coilclaw.packets.proof import Assertion
from coilclaw.server.door.caller import Caller
from coilclaw.server.door.hosts import Hosts
from coilclaw.server.door.page_keys import PageKeys, page_text
from coilclaw.store.database import Database
from coilclaw.store.devices import DeviceRow, Way, active_devices, count_passkeys, list_devices, load_device
from coilclaw.store.tx import Tx


class Reception:
    """Pairing and devices, for the routes."""

    def __init__(
        self,
        *,
        db: Database,
        clock: Clock,
        pairing: Pairing,
        proofs: OwnerProof,
        hosts: Hosts,
        page_keys: PageKeys,
        window: Callable[[str], str | None],
        token_days: int,
        revoked: Callable[[str], None],
    ) -> None:
        self._db = db
        self._clock = clock
        self._pairing = pairing
        self._proofs = proofs
        self._one_at_a_time = asyncio.Lock()
        self._revoked = revoked
        self._window = window
        self.hosts = hosts
        self.page_keys = page_keys
        self.token_days = token_days

    def _tell(self, *device_ids: str) -> None:
        for device_id in device_ids:
            self._revoked(device_id)

    # Looking

    def passkeys(self) -> int:
        """How many passkeys there are."""
        return count_passkeys(self._db.reader)

    def passkey_window(self, caller: Caller) -> str | None:
        """Until when the caller may register the first passkey; None when it may not."""
        return self._window(caller.device_id)

    def device(self, device_id: str) -> DeviceRow | None:
        """A device by its id."""
        return load_device(self._db.reader, device_id)

    def devices(self, *, limit: int, before: tuple[str, str] | None) -> list[DeviceRow]:
        """Devices, the newest first."""
        return list_devices(self._db.reader, limit=limit, before=before)

    def active(self) -> frozenset[str]:
        """The ids of the devices that can still come in."""
        return frozenset(device.device_id for device in active_devices(self._db.reader, stamp(self._clock())))

    # Pairing

    async def issue(self, caller: Caller, mode: Mode, proof: Assertion | None) -> Issued:
        """A code for a further device; with passkeys, one of them must stand behind it."""

        def work(tx: Tx) -> Issued:
            vouched = count_passkeys(tx) > 0
            if vouched:
                self._proofs.demand(
                    tx,
                    purpose="device.add",
                    subject=caller.device_id,
                    by=caller.by,
                    assertion=proof,
                    digest=mode,
                )
            return self._pairing.issue(tx, mode=mode, by=caller.by, vouched=vouched)

        return await self._db.write(work)

    async def bind(self, *, code: str, name: str, public_key: str, proof: str, wants: Way) -> Bound | None:
        """Let a device in; None when it may not.

        Guesses are looked at one after the other, so that of many at once only as many cost a transaction as the code
        stands; the rest find it closed.
        """
        async with self._one_at_a_time:
            if not self._pairing.any_good(self._db.reader):
                return None
            proven = key_proves(code, public_key, proof)
            attempt = Attempt(code=code, name=name, public_key=public_key, wants=wants, proven=proven)
            bound = await self._db.write(lambda tx: self._pairing.bind(tx, attempt))
        if bound is not None:
            self._tell(*bound.revoked)
        return bound

    # Pages

    def ask_page(self, caller: Caller) -> str:
        """A nonce for a page of the caller's to sign."""
        return self.page_keys.nonce(caller.token_id)

    def admit_page(self, caller: Caller, nonce: str, proof: str, origin: str) -> str | None:
        """A key for the page that signed the nonce with its device's key; None when it did not."""
        device = self.device(caller.device_id)
        if device is None or not self.page_keys.take(caller.token_id, nonce):
            return None
        signed = key_signed(device.public_key, page_text(nonce, origin), proof)
        return self.page_keys.grant(caller.token_id) if signed else None

    # Devices

    async def sign_out(self, caller: Caller) -> None:
        """End the caller's own device."""
        await self._db.write(lambda tx: end_device(tx, self._clock, caller.device_id, by=caller.by, why="signed_out"))
        self._tell(caller.device_id)

    async def revoke(self, caller: Caller, device_id: str, proof: Assertion | None) -> None:
        """End a device: one's own freely, another with a passkey where there is one."""
        if device_id == caller.device_id:
            await self.sign_out(caller)
            return

        def work(tx: Tx) -> None:
            if count_passkeys(tx):
                self._proofs.demand(tx, purpose="device.revoke", subject=device_id, by=caller.by, assertion=proof)
            end_device(tx, self._clock, device_id, by=caller.by, why="revoked")

        await self._db.write(work)
        self._tell(device_id)

    async def revoke_with_passkey(self, caller: Caller, device_ids: Sequence[str]) -> None:
        """End devices together with a passkey that was removed; whoever asks stays."""
        others = [each for each in device_ids if each != caller.device_id]

        def work(tx: Tx) -> None:
            for device_id in others:
                end_device(tx, self._clock, device_id, by=caller.by, why="passkey_removed")

        await self._db.write(work)
        self._tell(*others)

    async def confirm(self, caller: Caller, device_id: str, proof: Assertion | None) -> None:
        """Vouch for a device with a passkey. Where there is none left, only another confirmed device may."""

        def work(tx: Tx) -> None:
            if count_passkeys(tx):
                self._proofs.demand(tx, purpose="device.confirm", subject=device_id, by=caller.by, assertion=proof)
            elif not caller.confirmed:
                raise ProofNeeded(
                    "there is no passkey to confirm this device with.",
                    remedy="Pair it again: `coilclaw pair --add` at the terminal shows a code.",
                )
            vouch_for_device(tx, self._clock, device_id, by=caller.by)

        await self._db.write(work)

    async def rename(self, caller: Caller, device_id: str, name: str) -> None:
        """Give a device another name."""
        await self._db.write(lambda tx: name_device(tx, self._clock, device_id, name, by=caller.by))
