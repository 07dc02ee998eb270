"""One fast look at a long piece of terminal output: can anything in it be the beginning of a secret?

Redaction takes output apart, and that costs many times what sending it does. Most output has nothing that any layer
would look at twice. `PlainOutput` says so for a whole piece at once, by a single pattern that an automaton follows
in linear time, through colours. The pattern finds more than the layers do, and never less: where it finds nothing,
every layer would pass the text on as it came. tests/secrets/test_plain_output.py holds it against them.

The automaton is Rust's `regex`, by way of the `pattern` of a JSON schema: `re` takes ten times as long, and
jsonschema-rs is installed anyway. See docs/decisions/0049.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, cast

from coilclaw.secrets.shapes import BEFORE_COM, BEFORE_DASH, BEFORE_DOT, BEFORE_UNDERSCORE

_COLOUR = r"(?:\x1b\[[0-9;:]*[mK])*"
"""What may stand between any two characters without being seen. All other sequences are taken apart."""
_OTHER = (
    r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\u0080-\u009f\u2028\u2029\u017f\u212a]",  # the last two are letters to (?i) alone
    r"\x1b(?:[^\[]|$)",
    r"\x1b\[[0-9;:]*(?:[^0-9;:mK]|$)",
)
_BROKEN = r"[\r\n\x0b\x0c=\\]|$"
_SIZE = 64 << 20
_GRAM = 5
"""So many characters of a fixed part of a registered value are looked for."""


class PlainOutput:
    """Whether text is plain, for the registered values that it was made for."""

    def __init__(self, grams: Iterable[str]) -> None:
        self._grams = sorted({gram[:_GRAM] for gram in grams})
        self._found: Callable[[str], bool] | None = None

    def __call__(self, text: str) -> bool:
        """Whether no layer finds anything to look at in this text. It must not begin inside a sequence."""
        if self._found is None:
            self._found = _finder(_pattern(self._grams))
        try:
            return not self._found(text)
        except UnicodeEncodeError:  # bytes that are not UTF-8
            return False


def _finder(pattern: str) -> Callable[[str], bool]:
    import jsonschema_rs

    make = cast("Callable[..., Any]", jsonschema_rs.validator_for)
    options = jsonschema_rs.RegexOptions(size_limit=_SIZE, dfa_size_limit=_SIZE)
    try:
        return make({"pattern": pattern}, offline=True, validate_formats=False, pattern_options=options).is_valid
    except ValueError:  # too many values for one automaton
        return lambda _: True


def _pattern(grams: list[str]) -> str:
    escapes = (_row("%", "h", "h"), _text("\\u00"), _row("\\", "x", "h"), _text("&#"))
    values = (*map(_text, grams), *escapes) if grams else ()
    return "|".join((*_OTHER, *_shapes(), f"(?i:{'|'.join(_contexts())})", *values))


_CLASSES = {
    "h": "[0-9A-Fa-f]", "d": "[0-9]", "w": "[A-Za-z0-9_-]", "a": "[A-Za-z0-9]", "r": "[A-Za-z0-9_+/-]",
    "l": "[a-z]", "C": "[A-Z0-9]", "s": r"[ \t\n\x0b\x0c\r]",
}  # fmt: skip


def _row(*parts: str) -> str:
    """Parts in a row, colours between them: a name of a class, or a single character."""
    return _COLOUR.join(_CLASSES.get(part) or re.escape(part) for part in parts)


def _text(text: str) -> str:
    """This text, colours between its characters."""
    return _COLOUR.join(map(re.escape, text))


def _any(texts: Iterable[str]) -> str:
    return f"(?:{'|'.join(map(_text, texts))})"


def _many(kind: str, count: str) -> str:
    """So many characters of a class."""
    return f"(?:{_COLOUR}{_CLASSES[kind]}){{{count}}}"


def _shapes() -> Iterable[str]:
    """What the anchors of `shapes` need."""
    long = f"(?:{_many('r', '16')}|{_many('r', '0,15')}{_COLOUR}(?:{_BROKEN}))"
    dash = f"(?:{_text('sk')}|{_row('x', 'o', 'x', 'l')}|{_row('q', '0', 'l', 'l', 'l')}|{_any(BEFORE_DASH.split())})"
    yield f"{_any(BEFORE_UNDERSCORE.split())}{_COLOUR}_{long}"
    yield f"{dash}{_COLOUR}-{long}"
    yield f"{_text('----')}{_COLOUR}-?{_COLOUR} ?{_COLOUR}(?:B|$)"
    yield f"(?:{_any(BEFORE_DOT.split())}|[sb]){_COLOUR}\\.{long}"
    yield f"[A-Za-z0-9]{_COLOUR}\\.{_many('h', '64')}"
    yield f"\\.{_many('w', '5,8')}{_COLOUR}\\.{_many('w', '26')}"
    yield f"(?i:{_any(BEFORE_COM.split())}{_COLOUR}{_text('.com')}{_COLOUR}[:/\\\\%])"
    yield f"(?i:{_text('ntfy.sh')}{_COLOUR}[:/\\\\%])"
    yield f"{_text('A3T')}{_COLOUR}[A-Z0-9]"
    yield f"{_text('A3-')}{_many('C', '6')}{_COLOUR}-"
    yield f"{_text('SK')}{_many('h', '16')}"
    yield f"{_text('EAA')}{_many('w', '40')}"
    yield f"{_text('LTAI')}{_many('a', '16')}"
    yield f"{_many('d', '7')}{_COLOUR}:(?:{_many('w', '34')}|{_many('w', '0,33')}{_COLOUR}(?:{_BROKEN}))"
    yield f"{_text('dapi')}{_many('h', '8')}"
    yield f"{_text('oy2')}{_many('a', '8')}"
    yield _row("d", "Q", "~")
    yield f"{_text('webhooks/')}{_COLOUR}[0-9]"
    yield f"[/fF]{_COLOUR}{_text('hooks')}"
    yield f"{_text('$2')}{_COLOUR}[abxy]|\\${_COLOUR}[156y]{_COLOUR}\\$"
    yield _any(
        (
            "dp.st.", ".m.pipedream.net", "eyJ", "AKIA", "ASIA", "ABIA", "ACCA", "AIza", "ATATT3", "ATCTT3", "ATBB",
            "AKCp", "EZAK", "EZTK", "LS0tLS1CRUdJTi", "GR1348941", ":APA91b", "1//0", "$argon2", "Private-Lines:",
        )
    )  # fmt: skip


def _contexts() -> Iterable[str]:
    """What the anchors of `context` need, in whatever case."""
    yield _unless("key", "b", "w")
    yield _unless("token", "s", "i")
    yield _unless("cookie", "s")
    yield _unless("pass", "ed", "ing", "en", "iv", "ion", "ag", "port")
    yield from (_unless(word, *"abcdefghijklmnopqrstuvwxyz") for word in ("pw", "pat", "pin"))
    yield _unless("cred", "it")
    yield _unless("auth", "or")
    yield f"{_text('author')}{_COLOUR}(?:i|$)"
    yield f"[gypanse]{_COLOUR}[ _-]?{_COLOUR}{_text('code')}"
    yield _any(("pwd", "otp", "secret", "u0026", "bearer", "basic"))
    yield f"{_text('ied')}{_COLOUR}{_row('s', 'b', 'y')}"
    yield f":(?:{_COLOUR}[/\\\\]){{2,}}[^ \\t\\n\\x0b\\x0c\\r\"'`/?#\\\\:@]*(?:[@\\[:]|$)"
    names = "sig key= code= x-amz- x-goog- jwt= sid= session auth= ticket= otp= st= sas= k= hmac= assertion="
    yield f"[?&#]{_COLOUR}{_any(names.split())}"
    yield f"{_row('s', '-')}(?:{_COLOUR}-)?{_COLOUR}u"


def _unless(word: str, *endings: str) -> str:
    """The word, unless it goes on in one of these ways. At the end of the text it may not."""
    firsts = dict.fromkeys(ending[0] for ending in endings)
    ways = [f"{_COLOUR}(?:[^{''.join(firsts)}\\x1b]|$)"]
    for first in firsts:
        rests = [ending[1:] for ending in endings if ending[0] == first]
        if all(rests):
            ways.append(_COLOUR + _unless(first, *rests))
    return f"{_text(word)}(?:{'|'.join(ways)})"
