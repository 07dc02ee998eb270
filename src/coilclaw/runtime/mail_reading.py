"""Mail made readable: whole messages in a child of the airlock, single headers here."""

from coilclaw.packets.mail import MailRead

HEADER_BYTES = 64 << 10
"""Longer header values are cut: ten thousand recipients are not read one by one."""


async def read_mail(message: bytes, *, max_bytes: int) -> MailRead:
    """A message as Google gave it (its JSON, format raw), read by a child process with hard limits."""
    import asyncio

    from coilclaw.airlock.readable import read_mail as read

    return await asyncio.to_thread(read, message, max_bytes=max_bytes)


def header_line(value: str) -> str:
    """A header as one visible line: decoded, without control, bidi and zero-width characters."""
    from coilclaw.airlock import extract
    from coilclaw.airlock.extract_mail import line_of

    return line_of(extract, value[:HEADER_BYTES])


def header_people(values: list[str]) -> list[tuple[str, str]]:
    """Names and addresses of a header; an address is empty where there is no valid one."""
    from coilclaw.airlock import extract
    from coilclaw.airlock.extract_mail import people_of

    return people_of(extract, [value[:HEADER_BYTES].replace("\r", " ").replace("\n", " ") for value in values])
