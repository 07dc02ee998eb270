"""Authorization and Cookie headers, and credentials outside a header: `Bearer …`, `Basic …`, `curl -u`."""

import base64
import binascii
import re

from coilclaw.secrets.fields import field_of
from coilclaw.secrets.labels import mark, word_set
from coilclaw.secrets.quoting import BLANKS, LONGEST, QUOTES, SOLID, TO_LINE_END, Operator, closing, past_mark, value_at
from coilclaw.secrets.stream_engine import RUN_END, Hit, Window
from coilclaw.secrets.values import bare_name, code, one_word, placeholder, random_word, reference, unclosed

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9_-]{1,24})[ \t]+")
_WHOLE = frozenset({"digest", "oauth", "hawk", "signature", "aws4-hmac-sha256", "mac", "goog4-rsa-sha256", "sharedkey"})
_ENDS_CREDENTIAL = re.compile(r"(?<!\\)\\*+[\"'`]|</|(?<!\\)\\++[nr]")
_LETTERS = re.compile(r"[A-Za-z-]{0,24}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_=-]*")
_ATTRIBUTES = word_set("path domain expires max-age samesite version priority comment")
_COOKIE = re.compile(r"[\w.!#$%&*+^|~-]{0,80}")
_COOKIE_LINE = re.compile(r"[^\r\n]{0,16000}")
_LINE_END = re.compile(r"(?=[\r\n])")
_PIECE = re.compile(r"(\s*)([^=;\s]*+)=([^;]*)")
_USER = re.compile(r"[^\s\"'`]{0,512}")
_USER_NAME = re.compile(r"[\w.@+-]{1,64}")
_CLIENTS = re.compile(r"\b(?:curl|wget|https?|xh)\b")


def credentials(window: Window, joined: Operator, outer: str, *, strict: bool) -> Hit | None:
    """The credentials of an Authorization header, whatever its scheme; the scheme stays."""
    text = window.text
    if window.char(joined.start) == "[" and past_mark(window, joined.start) == joined.start:
        joined = joined._replace(start=joined.start + 1)  # a list with one item, as some loggers print headers
    value = value_at(window, joined, outer)
    if value is None:
        return None
    start, end = value.start, value.end
    if value.quoted:
        body = text[start:end]
    elif outer:
        end = closing(window, start, outer[-1], len(outer) - 1)
        body = text[start:end]
    else:
        body = _bare(window, start, end)
    scheme = _SCHEME.match(body)
    name = scheme[1].lower() if scheme else ""
    secret = body[scheme.end() :] if scheme else body
    start += len(body) - len(secret)
    if name not in _WHOLE:
        secret = secret.split()[0] if secret.split() else ""
        secret = _ended(secret)
    elif not value.quoted and not outer:
        secret = text[start : window.run(TO_LINE_END, start)]
    rest = RUN_END if len(secret) >= LONGEST and not value.quoted and not outer else None
    if (strict and not name and len(secret) < 12) or not _credential(name, secret):
        return None
    return Hit(start, start + len(secret), mark("authorization"), rest)


def _bare(window: Window, start: int, end: int) -> str:
    """An unquoted header: the word, and the next one if the first is a scheme."""
    word = window.text[start:end]
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{1,24}", word) or (random_word(word) and word.lower() not in _WHOLE):
        return word
    after = window.run(BLANKS, end)
    return window.text[start : window.run(SOLID, after)]


def _ended(word: str) -> str:
    found = _ENDS_CREDENTIAL.search(word)
    return unclosed(word[: found.start()] if found else word)


def _credential(scheme: str, secret: str) -> bool:
    if len(secret) < 6 or placeholder(secret) or (not scheme and code(secret)):
        return False
    if scheme in _WHOLE:
        return "=" in secret
    if scheme == "basic":
        return bool(_BASE64.fullmatch(secret)) and not one_word(secret)
    if random_word(secret):
        return True
    if len(secret) < 8 or not scheme or reference(secret) or field_of(secret):
        return False
    return any(sign in secret for sign in "-_.") or not (one_word(secret) or bare_name(secret))


def cookies(window: Window, joined: Operator, outer: str, *, attributes: bool) -> Hit | None:
    """Every value of a Cookie header; the attributes of Set-Cookie stay."""
    if joined.style not in ("colon", "tight", "spaced", "pair"):
        return None
    quote = window.char(joined.start)
    quoted = value_at(window, joined, outer) if quote in QUOTES or quote == "\\" else None
    start = quoted.start if quoted else joined.start
    name_end = window.run(_COOKIE, start)
    if name_end == start or window.char(name_end) != "=":
        return None
    rest = None
    if quoted:
        end = quoted.end
    elif outer:
        end = closing(window, start, outer[-1], len(outer) - 1)
    else:
        end = window.run(_COOKIE_LINE, start)
        rest = _LINE_END if window.char(end) not in ("", "\r", "\n") else None
    body = window.text[start:end]

    def hide(piece: re.Match[str]) -> str:
        kept = (attributes and piece[2].strip().lower() in _ATTRIBUTES) or not piece[3].strip()
        return piece[0] if kept or placeholder(piece[3].strip()) else f"{piece[1]}{piece[2]}={mark('cookie')}"

    return Hit(start, end, _PIECE.sub(hide, body), rest)


def spoken(window: Window, at: int) -> Hit | None:
    """`Bearer …`, `Basic …`, `identified by '…'` and `-u name:password`."""
    text = window.text
    if at and (text[at - 1].isalnum() or text[at - 1] in "_-"):
        return None
    end = window.run(_LETTERS, at)
    word = text[at:end].lower()
    start = window.run(BLANKS, end)
    if start == end:
        return None
    if word in ("-u", "--user"):
        return _user_flag(window, at, start)
    if word == "by":
        return _identified(window, start) if text[max(0, at - 11) : at - 1].lower() == "identified" else None
    stop = window.run(SOLID, start)
    secret = _ended(text[start:stop])
    if word == "bearer" and len(secret) >= 12 and random_word(secret) and not placeholder(secret):
        return Hit(start, start + len(secret), mark("authorization"), RUN_END if len(secret) >= LONGEST else None)
    if word == "basic" and len(secret) >= 8 and _is_basic(secret):
        return Hit(start, start + len(secret), mark("authorization"))
    return None


def _is_basic(text: str) -> bool:
    try:
        plain = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in plain and all(32 <= byte < 127 or byte >= 0xA0 for byte in plain)


def _user_flag(window: Window, at: int, start: int) -> Hit | None:
    if window.char(start) in QUOTES:
        start += 1
    end = window.run(_USER, start)
    user, colon, secret = window.text[start:end].partition(":")
    if not colon or len(secret) < 4 or secret.isdecimal() or placeholder(secret) or not _USER_NAME.fullmatch(user):
        return None
    if not random_word(secret) and not _CLIENTS.search(window.text, max(0, at - 64), at):
        return None
    return Hit(end - len(secret), end, mark("password"))


def _identified(window: Window, start: int) -> Hit | None:
    quote = window.char(start)
    if quote not in ("'", '"'):
        return None
    end = closing(window, start + 1, quote, 0)
    secret = window.text[start + 1 : end]
    return None if not secret or placeholder(secret) else Hit(start + 1, end, mark("password"))
