"""Bulk output: what passes unseen holds nothing that a layer would look at, and the result is the same as without."""

import hashlib
import random

import pytest

from coilclaw.secrets import context, shapes
from coilclaw.secrets.context import Context
from coilclaw.secrets.plain_output import PlainOutput
from coilclaw.secrets.redactor import Redactor
from coilclaw.secrets.registered import Registered
from coilclaw.secrets.shapes import Shapes
from tests.secrets.test_fingerprints import ALL
from tests.secrets.test_redactor_corpus import BENIGN, SECRETS, planted
from tests.secrets.test_redactor_work import LETTERS
from tests.secrets.test_terminal import VALUE, cut, shown

LINE = "src/module_{0:04}.py:{0}: as compilers and tests print it, 12 PASSED \x1b[32mok\x1b[0m é\r\n"
BULK = "".join(LINE.format(number) for number in range(400))
TEXTS = [planted(row)[1] for row in SECRETS] + BENIGN


def coloured(text: str, rng: random.Random) -> str:
    return "".join(char + rng.choice(("", "", "\x1b[0m", "\x1b[38;5;1m\x1b[K")) for char in text)


def anchored(text: str) -> bool:
    return bool(Shapes().anchors(text, 0) or Context().anchors(text, 0))


def test_text_that_a_layer_would_look_at_is_never_plain():
    rng, plain, passed = random.Random(3), PlainOutput(()), 0
    for _ in range(30_000):
        body = "".join(rng.choices(LETTERS, k=rng.choice([0, 0, 1, 8, 16, 34, 64])))
        text = rng.choice(("", " ", "x")) + "".join(rng.choices(ALL, k=rng.randint(1, 3))) + body + rng.choice(" \n.")
        assert not (plain(text) and anchored(text)), text
        passed += plain(text)
    assert passed > 3_000


@pytest.mark.parametrize("text", TEXTS)
def test_corpus_is_looked_at_through_colours_too(text):
    plain = PlainOutput(())
    for each in (text, coloured(text, random.Random(1))):
        assert not (anchored(text) and plain(each + "\n"))


SEQUENCES = ["\x1b[2J", "\x1b(B", "a\bb", "\x9b1m", "\x1b]0;x\x07", "\x1b[3", "\x1b", "\udc80"]
MODES = ["\x1b[?25l", "\x1b[?1;2004h", "\x1bc", "\x1b=", "\x1b>", "\x1b[!p"]


@pytest.mark.parametrize("text", [*SEQUENCES, *MODES])
def test_whatever_moves_or_is_not_text_is_taken_apart(text):
    assert not PlainOutput(())(f"line\n{text}")


def test_no_part_of_a_registered_value_is_plain_in_any_spelling():
    import base64
    from urllib.parse import quote

    registered = Registered()
    registered.add("db", VALUE)
    spellings = [VALUE, VALUE.encode().hex(), quote(VALUE, safe=""), "".join(f"\\u{ord(c):04x}" for c in VALUE)]
    spellings += [base64.b64encode(b"x" * shift + VALUE.encode()).decode() for shift in range(3)]
    for each in spellings:
        assert not registered.plain(f"an ordinary line\n{each}\n")
        assert not registered.plain(f"an ordinary line\n{coloured(each, random.Random(2))}\n")
    assert registered.plain("an ordinary line\n")


def test_bulk_output_passes_as_it_came_and_only_its_last_line_is_put_off():
    terminal = Redactor([("db", VALUE)]).terminal()
    data = (BULK + "a prompt> ").encode()
    out = terminal.feed(data)
    assert data.startswith(out)
    assert terminal.holds
    assert 0 < terminal.put_off == len(data) - len(out) < 4096
    assert out + terminal.flush() == data
    assert not terminal.holds


@pytest.mark.parametrize("text", TEXTS)
def test_bulk_output_shows_what_small_pieces_show(text):
    for value, planted_at in (("", 9_000), (VALUE, 14_003), (VALUE, len(BULK) - 40)):
        whole = f"{BULK[:planted_at]} {text} {value}{BULK[planted_at:]}end"
        redactor = Redactor([("db", VALUE)])
        expected = shown(redactor.terminal(), *cut(whole, 2_048))
        for size in (5_000, 60_000):
            assert shown(redactor.terminal(), *cut(whole, size)) == expected


@pytest.mark.parametrize("seed", range(12))
def test_values_and_tokens_over_the_border_of_two_bulks_are_hidden(seed):
    rng = random.Random(seed)
    token = "ghp_" + "tbESXTQ1MkwlSSXZCOm68Vg4cpHRljfI6Fk3"
    secret = rng.choice((VALUE, token, f"password: {VALUE}x", VALUE.encode().hex(), coloured(VALUE, rng)))
    whole = f"{BULK[: rng.randint(5_000, 9_000)]} {secret} {BULK}".encode()
    at = whole.index(secret.encode()) + rng.randint(1, len(secret) - 1)
    for pause in (False, True):
        text = shown(Redactor([("db", VALUE)]).terminal(), whole[:at], whole[at:], pause=pause)
        assert secret not in text
        assert "[redacted:" in text


def test_an_anchor_never_changes_without_a_look_at_what_passes_unseen():
    anchors = (*shapes._anchors(), *context._anchors())
    found = hashlib.sha256("\n".join(anchor.source for anchor in anchors).encode()).hexdigest()
    assert found == "46a5de17d7e0a3876f81a61e32e36563429deae09c9d044814825c542441a15c", (
        "Bring secrets/plain_output.py up to date with the anchors, then put this hash here."
    )
