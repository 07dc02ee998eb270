"""Fingerprints find every place that the plain way finds, in long texts too."""

import random

import pytest

from coilclaw.secrets.context import _anchors as context_anchors
from coilclaw.secrets.fingerprints import Fingerprints
from coilclaw.secrets.redactor import Redactor
from coilclaw.secrets.registered import Registered
from coilclaw.secrets.shapes import _anchors as shape_anchors
from coilclaw.secrets.stream_engine import Anchors
from tests.secrets.test_redactor_work import LETTERS, PIECES

WORDS = r"""
key Key tokEn cookie pass PWD pw pat pin otp secret Cred code app-code u0026 auth Authoriz bearer Basic identified
by ://u:p@ :\/\/ ?sig= &Key= #jwt= -u --user xoxb- sq0abc- ---- BEGIN 1//0 dapi Private-Lines: .com/ slack.COM/
webhooks/ oy2 $2b$ $6$ é ☃ AKIA ASIA ABIA ACCA A3T0 AIza ATATT3 ATCTT3 ATBB AKCp A3-ABCDEF- SK EAA EZAK LTAI
GR1348941 Q~ % &#
"""
ALL = [*PIECES, *WORDS.split(), *" \n\t-_.:/=?&#%"]


def long_text(rng: random.Random) -> str:
    def tail() -> str:
        return "".join(rng.choices(LETTERS, k=rng.choice([1, 8, 20, 44, 64]))) if rng.random() < 0.4 else ""

    return "".join(rng.choice(ALL) + tail() for _ in range(300))


@pytest.mark.parametrize("made", [context_anchors, shape_anchors])
def test_every_anchor_of_a_long_text_is_found(made):
    rng, anchors = random.Random(11), made()
    together = Anchors(anchors)
    for _ in range(40):
        text = long_text(rng)
        at = rng.choice([0, 0, 5, 300])
        plainly = {found.start() for each in anchors for found in each.compiled().finditer(text, at)}
        assert together.places(text, at) == sorted(plainly)
        assert together.places(text, len(text) - 64) == sorted(place for place in plainly if place >= len(text) - 64)


def test_pattern_at_the_very_end_is_found():
    assert Fingerprints([(0, ("p", "w"))]).find("a pw") == [(2, 1)]
    assert Fingerprints([(0, ("p", "w", "!")), (3, ("a",))]).find("a pw") == [(0, 8)]


@pytest.mark.parametrize("count", [1, 8, 60])
def test_values_are_found_anywhere_in_a_long_text_in_every_spelling(count):
    from urllib.parse import quote

    rng = random.Random(5)
    values = ["".join(rng.choices(LETTERS + "/+é", k=rng.randint(8, 40))) for _ in range(count)]
    redactor = Redactor([(f"v{number}", value) for number, value in enumerate(values)])
    filler = "an ordinary line, 100 % \\x harmless &# and so on\n" * 200
    for value in values[:8]:
        for spelled in (value, value.encode().hex(), quote(value, safe=""), "".join(f"\\u{ord(c):04x}" for c in value)):
            at = rng.randrange(len(filler))
            text = redactor.registered(filler[:at] + spelled + filler[at:])
            assert spelled not in text
            assert "[redacted:" in text


def test_a_long_text_without_a_value_has_anchors_only_near_its_end_and_at_escapes():
    known = Registered()
    known.add("db", "hunTer2/xy+Zq9k")
    assert all(at > 100_000 for at in known.anchors("how high the hill " * 6_000, 0))
