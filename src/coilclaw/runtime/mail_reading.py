"""Mail made readable: whole messages in a child of the airlock, single headers here."""

from coilclaw.packets.mail import MailRead, TextRead

HEADER_BYTES = 64 << 10
"""The longest header, all its values together; the rest is cut, so ten thousand recipients cost little."""
SENDER_BYTES = 1000
"""The longest From header that is read; a longer one names nobody."""
MOST_SENDERS = 200
"""Of different ones, over all the messages that one call shows."""


async def read_mail(message: bytes, *, max_bytes: int) -> MailRead:
    """A message as Google gave it (its JSON, format raw), read by a child process with hard limits."""
    import asyncio

    from coilclaw.airlock.readable import read_mail as read

    return await asyncio.to_thread(read, message, max_bytes=max_bytes)


async def read_texts(texts: list[str], *, max_bytes: int) -> list[TextRead]:
    """Texts that may be HTML, read by one child process; at most so much of each."""
    import asyncio

    from coilclaw.airlock.readable import read_texts as read

    return await asyncio.to_thread(read, texts, max_bytes=max_bytes) if texts else []


def header_line(value: str) -> str:
    """A header as one visible line: decoded, without control, bidi and zero-width characters."""
    from coilclaw.airlock import extract
    from coilclaw.airlock.extract_mail import line_of

    return line_of(extract, value[:HEADER_BYTES])


def header_people(values: list[str]) -> list[tuple[str, str]]:
    """Names and addresses of a header; an address is empty where there is no valid one.

    The standard library takes most of a second for a long header: call it in a thread.
    """
    from coilclaw.airlock import extract
    from coilclaw.airlock.extract_mail import people_of

    return people_of(extract, [", ".join(values)[:HEADER_BYTES].replace("\r", " ").replace("\n", " ")])


def sender_addresses(values: list[str]) -> list[str]:
    """The addresses in these From headers, each read once; an empty one for every header that is not read."""
    different = list(dict.fromkeys(values))
    read = [value for value in different[:MOST_SENDERS] if len(value) <= SENDER_BYTES]
    found = [address for value in read for _, address in header_people([value]) or [("", "")]]
    return found if read == different else [*found, ""]
