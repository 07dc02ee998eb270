"""Texts made to hurt: long runs, deep quotes, anchors without end. They come through, and the work stays linear."""

import re

import pytest

from coilclaw.secrets.context import Context
from coilclaw.secrets.redactor import Redactor
from coilclaw.secrets.shapes import Shapes
from coilclaw.secrets.stream_engine import Hit, StreamEngine, Window

UNITS = [
    "a",
    "A",
    "\"'",
    "\\",
    "QUJD",
    "eyJ",
    "key",
    "pwd=",
    "pwd=f(",
    'password="',
    "cookie:",
    "Authorization: Bearer ",
    "://",
    "http://a:b/",
    "-----BEGIN",
    "-",
    "sk-a1",
    "_",
    "%",
    "ghp_",
    "token is ",
    "password: a ",
    "password:",
    '{\\"password\\":',
    "=",
    "api key: a ",
    "AKIA ",
    "a.b1c2d3.",
    "ghp_abcd\n",
    "\\u0026sig=",
    "&key=aaaaaaaaaa",
    "68756e",
    "Private-Lines:",
    "<password>",
    " -u a:b1",
    "$2b$",
    "hunter2-",
    "hu",
    "hunter2\n",
    "x x",
    "password: x-x.x ",
    "token=xX.xX",
    "a/b/",
    "secret=//",
]


class Counted(Window):
    """A window that counts the characters that decisions look at."""

    looked = 0

    def run(self, members: re.Pattern[str], at: int) -> int:
        end = super().run(members, at)
        Counted.looked += end - at
        return end


@pytest.mark.parametrize("unit", UNITS)
def test_a_hostile_text_comes_through(unit: str) -> None:
    text = unit * (60_000 // len(unit))
    redactor = Redactor([("k", "hunter2-Secret-Value9")])
    once = redactor.text(text)
    assert redactor.text("ok " + once).startswith("ok ")


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["a", "A", "\"'", "\\", "QUJD", "a.b", "x "])
def test_a_megabyte_of_one_thing_passes_unchanged(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    assert Redactor([("k", "hunter2-Secret-Value9")]).text(text) == text


@pytest.mark.parametrize("layer", [Shapes(), Context()], ids=["shapes", "context"])
@pytest.mark.parametrize("unit", UNITS)
def test_four_times_the_text_is_looked_at_about_four_times_as_often(layer: Shapes | Context, unit: str) -> None:
    def looked(size: int) -> int:
        text = unit * (size // len(unit))
        Counted.looked = 0
        done = 0
        window = Counted(text, final=True)
        for at in layer.anchors(text, 0):
            hit: Hit | None = layer.decide(window, at) if at >= done else None
            done = hit.end if hit else done
        return Counted.looked + size

    assert looked(32_000) <= 6 * looked(8_000)


def test_a_stream_of_single_characters_of_a_hostile_text_ends() -> None:
    sieve = StreamEngine(Context())
    shown = "".join(sieve.feed(char) for char in 'password="' * 300) + sieve.close()
    assert "[redacted:password]" in shown


@pytest.mark.parametrize("depth", range(6))
def test_a_field_is_found_under_any_depth_of_json_in_json(depth: int) -> None:
    import json

    text = json.dumps({"password": 'Tr0ub"4dor&3', "next": 1})
    for _ in range(depth):
        text = json.dumps({"log": text})
    shown = Redactor().text(text)
    assert "Tr0ub" not in shown
    assert "4dor" not in shown
    for _ in range(depth):
        shown = json.loads(shown)["log"]
    assert json.loads(shown) == {"password": "[redacted:password]", "next": 1}
