"""What may be asked of Google, by identity: a closed list of methods, paths and parameters.

Google's `gmail.compose` allows sending, so scopes alone do not keep the owner's own account from it: this list does,
whatever the rest of the program believes.
"""

import re
from typing import Final
from urllib.parse import parse_qsl

import msgspec

from coilclaw.airlock.url import Refusal, Target
from coilclaw.packets.action import Identity
from coilclaw.packets.http import HttpRequest

_MAIL = "/gmail/v1/users/me"
_ID = r"[A-Za-z0-9_-]{1,64}"
_CALENDAR = r"/calendar/v3/calendars/(?!\.)(?:[A-Za-z0-9_.@-]|%(?:40|23)){1,254}/events"
_READS: Final = (
    ("GET", rf"{_MAIL}/profile"),
    ("GET", rf"{_MAIL}/(?:threads|messages|drafts)"),
    ("GET", rf"{_MAIL}/(?:threads|messages|drafts)/{_ID}"),
)
_DRAFTS: Final = (("POST", rf"{_MAIL}/drafts"),)
_SENDS: Final = (("POST", rf"{_MAIL}/drafts/send"),)
SHAPES: Final[dict[Identity, tuple[tuple[str, str], ...]]] = {
    "user": (*_READS, ("GET", _CALENDAR), *_DRAFTS),
    "bot": (*_READS, *_DRAFTS, *_SENDS),
}
"""Every request there is. Nothing else is ever asked: not `messages/send`, not settings, filters or delegates."""
_PARAMETERS: Final = frozenset(
    {
        "q",
        "maxResults",
        "pageToken",
        "format",
        "fields",
        "metadataHeaders",
        "timeMin",
        "timeMax",
        "singleEvents",
        "orderBy",
    }
)
_HEADERS: Final = frozenset({"authorization", "content-type", "accept"})
"""Others can change what a request means, such as `X-HTTP-Method-Override`."""


class _OnlyId(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str


def google_fault(request: HttpRequest, target: Target) -> Refusal | None:
    """Why a request to Google is not one of those that its identity may make."""
    if request.identity is None:
        return Refusal("IDENTITY", "a request to Google is made as user or bot")
    path, _, query = target.path.partition("?")
    allowed = SHAPES[request.identity]
    if not any(request.method == method and re.fullmatch(shape, path) for method, shape in allowed):
        asked = f"{request.method} {path[:80]}"
        return Refusal("NOT_LISTED", f"{asked} is nothing that {request.identity} may ask of Google")
    strange = {name for name, _ in parse_qsl(query, keep_blank_values=True)} - _PARAMETERS
    strange |= {name for name, _ in request.headers if name.lower() not in _HEADERS}
    if strange or (query and request.method != "GET"):
        return Refusal("NOT_LISTED", "the request has parameters or headers that are not on the list for Google")
    if path.endswith("/drafts/send") and not _names_only_a_draft(request.body):
        return Refusal("NOT_LISTED", "a draft is sent by its id alone; content beside it would be sent instead")
    return None


def _names_only_a_draft(body: bytes) -> bool:
    try:
        return bool(re.fullmatch(_ID, msgspec.json.decode(body, type=_OnlyId).id))
    except msgspec.DecodeError:
        return False
