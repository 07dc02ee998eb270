"""A message for a mail server."""

import msgspec


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    """One message and the server to send it through. The password is never logged."""

    host: str
    port: int
    """465 uses TLS from the first byte; any other port starts in plain text and must offer STARTTLS."""
    user: str
    password: str
    """Empty for no authentication."""
    sender: str
    recipient: str
    message: bytes
    """Headers and text, in lines that end with CRLF."""
    timeout_seconds: float = 20.0

    def __repr__(self) -> str:
        return f"Mail({self.host}:{self.port})"
