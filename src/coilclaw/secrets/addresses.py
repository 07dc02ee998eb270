"""Secrets in URLs: the password between `//` and `@`, and query parameters whose name says that they are keys."""

import re

from coilclaw.secrets.labels import mark, parted, word_set
from coilclaw.secrets.quoting import LONGEST, NAME_RUN
from coilclaw.secrets.stream_engine import RUN_END, Hit, Window
from coilclaw.secrets.values import placeholder, random_word, unclosed

_SLASHES = re.compile(r"[/\\]{0,40}")
_TWO = re.compile(r"(?:\\*/){2}")
_AUTHORITY = re.compile(r"[^\s\"'`/?#\\]{0,2048}")
_ADDRESS = re.compile(r"[^\s\"'`<>\\]{0,512}")
_HOST_PORT = re.compile(r"[^:@]*:\d{0,5}")
_VALUE = re.compile(r"[^\s\"'`<>&#;\\]{0,4096}")
_LONG_USER = 16
_SIGNATURES = word_set(
    "sig signature x-amz-signature x-amz-credential x-goog-signature x-goog-credential hmac assertion"
)
_MAYBE = word_set("key code jwt sid session sessionid auth ticket otp st sas k apikey hash-key")


def userinfo(window: Window, at: int) -> Hit | None:
    """The password of `scheme://user:password@host`; a user name alone only when it is a token."""
    text = window.text
    if not at or not text[at - 1].isalnum():
        return None
    slashes = window.run(_SLASHES, at + 1)
    if not _TWO.fullmatch(text, at + 1, slashes):
        return None
    end = window.run(_AUTHORITY, slashes)
    authority = text[slashes:end]
    if "@" not in authority:
        if ":" not in authority or _HOST_PORT.fullmatch(authority) or window.char(end) not in ("/", "?", "#"):
            return None
        end = window.run(_ADDRESS, end)  # a password with a slash in it: look for the host further on
        authority = text[slashes:end]
        if "@" not in authority:
            return None
    user, colon, secret = parted(authority.rpartition("@")[0])
    start = slashes + len(user) + len(colon)
    if colon:
        told = secret and secret[0] != "/" and not placeholder(secret)
        return Hit(start, start + len(secret), mark("password")) if told else None
    if len(user) >= _LONG_USER and random_word(user) and not placeholder(user):
        return Hit(slashes, slashes + len(user), mark("token"))
    return None


def query_value(window: Window, at: int) -> Hit | None:
    """The value of a query parameter whose name is significant only there, such as `sig` or `key`."""
    end = window.run(NAME_RUN, at)
    name = window.text[at:end].lower()
    if (name not in _SIGNATURES and name not in _MAYBE) or window.char(end) != "=":
        return None
    stop = window.run(_VALUE, end + 1)
    value = unclosed(window.text[end + 1 : stop])
    if len(value) < 8 or placeholder(value) or (name in _MAYBE and not (random_word(value) and len(value) >= 12)):
        return None
    return Hit(end + 1, end + 1 + len(value), mark("token"), RUN_END if len(value) >= LONGEST else None)
