"""Whether a name and the value next to it are a secret, judged by name, operator, quotes and value."""

import re

from coilclaw.secrets.addresses import query_value, userinfo
from coilclaw.secrets.fields import Field, field_of, words_of
from coilclaw.secrets.headers import cookies, credentials, spoken
from coilclaw.secrets.labels import mark
from coilclaw.secrets.quoting import (
    BLANKS,
    GAP,
    NAME,
    NAME_RUN,
    TO_LINE_END,
    Operator,
    Value,
    alone,
    operator,
    outer_quote,
    value_at,
)
from coilclaw.secrets.stream_engine import Hit, Window
from coilclaw.secrets.values import (
    bare_name,
    code,
    host,
    one_word,
    placeholder,
    prose,
    random_word,
    reference,
    unclosed,
)

_LONGEST_NAME = 80
_WORD_BEFORE = re.compile(r"([A-Za-z0-9]{2,20})[ -]$")
_BEFORE_REACH = 24
_GOES_ON = re.compile(r"\s*(?:[+,%]\s|\))")  # the quote closed a string, and code follows
_DIGIT = re.compile(r"\d")
_CODE = re.compile(r"[A-Za-z0-9]{2,}+(?:[- ][A-Za-z0-9]{2,}+){0,8}")


def judge(window: Window, at: int) -> Hit | None:
    """What the anchor at this position announces."""
    first = window.text[at]
    if first == ":":
        return userinfo(window, at)
    if first in "?&#":
        return query_value(window, at + 1)
    if first in "-bB":
        return spoken(window, at)
    if first in "uU" and window.text.startswith("0026", at + 1):
        return query_value(window, at + 5)
    return _field(window, at)


def _field(window: Window, at: int) -> Hit | None:
    text = window.text
    start, end = window.back(NAME, at), window.run(NAME_RUN, at)
    name = text[start:end]
    if len(name) > _LONGEST_NAME or name[-1] in ".-" or text.endswith("[redacted:", 0, start):
        return None
    if not _may_join(window, start, end):
        return None
    field = field_of(name) or _two_words(text, start, name)
    if field is None:
        return None
    joined = operator(window, start, end)
    if joined is None:
        return None
    outer = outer_quote(text, start)
    if text.startswith(outer or "\n", end):
        outer = ""  # the quotes enclose only the name
    if field.kind == "cookie":
        return cookies(window, joined, outer, attributes=name[:1] in "sS")
    if field.kind == "authorization":
        return credentials(window, joined, outer, strict=field.strict)
    place = _place(text, start, name, joined, outer)
    value = value_at(window, joined, outer, place)
    return _judged(window, field, joined, value, place) if value else None


def _may_join(window: Window, start: int, end: int) -> bool:
    """A quick check whether an operator can follow. It rules out most names in prose."""
    after = window.run(GAP, end)
    follows = window.char(after)
    if not follows.isalnum() or follows in "iwvIWV" or window.text[start] == "-":
        return True
    return window.text[end:after].strip() != "" or alone(window.text, start)


def _two_words(text: str, start: int, name: str) -> Field | None:
    """`api key`, `pairing code`: the word before decides."""
    if words_of(name)[-1:] not in (["key"], ["code"]):
        return None
    before = _WORD_BEFORE.search(text, max(0, start - _BEFORE_REACH), start)
    return field_of(name, before[1]) if before else None


def _place(text: str, start: int, name: str, joined: Operator, outer: str) -> str:
    """The field's place: in a `query`, in an `env` line, `inside` quotes, or nowhere special."""
    before = text[start - 1] if start else "\n"
    if joined.style == "tight" and (before in "?&;" or text.startswith("u0026", start)):
        return "query"
    if outer:
        return "inside"
    if joined.style == "tight" and name.isupper() and before in "\n\r \t":
        return "env"
    return ""


def _judged(window: Window, field: Field, joined: Operator, value: Value, place: str) -> Hit | None:
    start, end = value.start, value.end
    text = window.text[start:end]
    if (field.strict and joined.style == "quoted") or (joined.style == "pair" and not value.quoted):
        return None
    if value.quoted:
        secret = _quoted_secret(field, joined, text)
    else:
        whole, text = text, text.rstrip(";") if place == "env" else unclosed(text)
        if joined.style == "tight" and bare_name(text) and whole[len(text) : len(text) + 1] == ")":
            return None  # the last argument of a call
        end = start + len(text)
        secret = _bare_secret(field, joined, text, place)
        if secret is None:
            end = _word_of_password(window, start, end)
            secret = end > start
    return Hit(start, end, mark(field.kind), value.rest) if secret else None


def _general(field: Field, joined: Operator, text: str) -> bool | None:
    """What applies to quoted and bare values alike; None if it depends."""
    if not text.strip() or placeholder(text.strip()):
        return False
    if field.kind == "code":
        return 4 <= len(text) <= 40 and bool(_CODE.fullmatch(text)) and not any(map(str.islower, text))
    if reference(text):
        return False
    if field.strict or joined.style in ("pair", "said", "quoted"):
        digits = _DIGIT.search(text)
        return bool(digits) and len(text) >= 8 and random_word(text) and not code(text) and not host(text)
    if text.isdecimal():
        return len(text) >= (4 if field.kind == "password" else 10)
    return None


def _quoted_secret(field: Field, joined: Operator, text: str) -> bool:
    known = _general(field, joined, text)
    if known is not None:
        return known
    if _GOES_ON.match(text):
        return False
    if " " in text.strip():
        if field.kind == "password":
            return not prose(text)
        return any(len(part) >= 12 and random_word(part) for part in text.split())
    if field.kind == "password":
        return True
    if field.kind == "token":
        return len(text) >= 6 and (random_word(text) or len(text) >= 16 or not one_word(text))
    return len(text) >= 6


def _bare_secret(field: Field, joined: Operator, text: str, place: str) -> bool | None:
    """Like `_quoted_secret` for a value without quotes; None if the rest of the line decides."""
    known = _general(field, joined, text)
    if known is not None:
        return known
    if place in ("env", "query") or joined.style == "flag":
        return len(text) >= (1 if field.kind == "password" else 6) and not (place != "query" and code(text))
    if code(text) or (bare_name(text) and field_of(text)):
        return False
    if joined.style == "spaced":
        return len(text) >= 6 and not bare_name(text)
    if field.kind != "password":
        return len(text) >= 6 and (random_word(text) or len(text) >= 20 or not (bare_name(text) or one_word(text)))
    if joined.style == "tight":
        return len(text) >= 4 and not text.endswith(")")
    if one_word(text):
        return None if len(text) >= 4 and not prose(text) else False
    return len(text) >= 4 and not (bare_name(text) and "_" in text)


def _word_of_password(window: Window, start: int, end: int) -> int:
    """`password: swordfish`: a value if the line ends there or continues like a passphrase, otherwise prose."""
    after = window.run(BLANKS, end)
    if window.char(after) in ("", "\r", "\n", "#", ",", "}"):
        return end
    if after == end:
        return start
    line_end = window.run(TO_LINE_END, after)
    words = window.text[start:line_end].split()
    if len(words) >= 3 and all(word.isalpha() and word.islower() for word in words) and not prose(" ".join(words)):
        return line_end
    return start
