"""The caller: which paired device a request comes from, and how it sent its token."""

from typing import Literal

import msgspec


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """An admitted caller."""

    device_id: str
    token_id: str
    way: Literal["cookie", "bearer"]
    confirmed: bool
    """False until a passkey has vouched for the device; until then it can only request that."""

    @property
    def by(self) -> str:
        """How this device's answers are recorded."""
        return f"device:{self.device_id}"
