"""The caller: which paired device a request comes from, and by which way it showed its token."""

from typing import Literal

import msgspec


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Whoever passed the door."""

    device_id: str
    token_id: str
    way: Literal["cookie", "bearer"]
    confirmed: bool
    """False until a passkey has vouched for the device; it can do nothing but ask for that."""

    @property
    def by(self) -> str:
        """How answers of this device are written down."""
        return f"device:{self.device_id}"
