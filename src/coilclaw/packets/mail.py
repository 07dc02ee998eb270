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


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown of an attachment; its bytes go nowhere."""

    name: str
    type: str
    size: int
    sha256: str


class MailRead(msgspec.Struct, frozen=True, kw_only=True):
    """A mail as a child process read it. Everything in it was written by its sender."""

    id: str
    thread_id: str
    sha256: str
    """Of the whole raw message."""
    size: int
    lines: dict[str, str]
    """Headers of one line, decoded, by lower-case name."""
    people: dict[str, list[tuple[str, str]]]
    """Names and addresses by header; the address is empty where there is no valid one."""
    forwarded: list[str] = []
    """Addresses of those who wrote the messages within it."""
    references: list[str]
    text: str
    whole: bool
    """Whether that is all of it."""
    source: list[tuple[str, str]] | None
    """Every text part as it is, by type; None if that is too much."""
    certain: bool
    """Whether no other reader could find other recipients in it."""
    attachments: list[Attachment]
    dropped: dict[str, int]
    """How much of it was left out, by kind."""


class TextRead(msgspec.Struct, frozen=True, kw_only=True):
    """A text that may have been HTML, as a child process read it."""

    text: str
    dropped: dict[str, int]
    """How much of it was left out, by kind."""
