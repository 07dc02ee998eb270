"""Prepares the conversation for sending: one bad id, name or argument would make servers refuse it for ever."""

import re
from collections.abc import Set

from coilclaw.packets.canonical import JsonObject, NotCanonical, parse_object, sha256_hex
from coilclaw.packets.chat import ChatMessage, Image, ProposedCall

SEEN = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Media types that every model with vision accepts."""


def past_tool(call: ProposedCall, known: Set[str]) -> str:
    """The name of a called tool, as every server accepts it."""
    return call.tool if call.tool in known else re.sub(r"[^A-Za-z0-9_-]", "_", call.tool)[:64] or "unnamed"


def past_arguments(call: ProposedCall) -> JsonObject:
    """The arguments of a past call; unreadable ones are quoted."""
    try:
        return parse_object(call.arguments)
    except NotCanonical:
        return {"unreadable_arguments": call.arguments[:2000]}


class PastIds:
    """Short, plain, unique ids of past calls: other providers, or several turns, may have used the same ones."""

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._current: dict[str, str] = {}

    def called(self, call_id: str) -> str:
        """The id to send for a call."""
        made = call_id
        if call_id in self._given or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call_id):
            seed = f"{len(self._given)} {call_id}"
            made = f"call_{sha256_hex(seed.encode('utf-8', 'replace'))[:24]}"
        self._given.add(made)
        self._current[call_id] = made
        return made

    def answered(self, call_id: str) -> str:
        """The id to send with the result of the last call with this id."""
        return self._current.get(call_id) or self.called(call_id)


def shown(message: ChatMessage, *, sees: bool) -> tuple[str, tuple[Image, ...]]:
    """A message's text and the pictures to send; pictures that are not sent are mentioned in one line."""
    sent = tuple(image for image in message.images if sees and image.media_type in SEEN)
    left = [image.media_type for image in message.images if image not in sent]
    if not left:
        return message.content, sent
    kinds = ", ".join(dict.fromkeys(re.sub(r"[^a-z0-9/+.-]", "?", kind.lower())[:40] for kind in left))
    pictures = "1 picture is" if len(left) == 1 else f"{len(left)} pictures are"
    note = f"[{pictures} attached ({kinds}) that you cannot see.]"
    return f"{message.content}\n{note}" if message.content else note, sent


def base64_text(image: Image) -> str:
    """A picture's bytes in base64."""
    import base64

    return base64.b64encode(image.data).decode("ascii")


def data_url(image: Image) -> str:
    """A picture as a data URL."""
    return f"data:{image.media_type};base64,{base64_text(image)}"
