"""Registered values: exact, in every usual encoding, at every alignment, in pieces and lines."""

import base64
import html
import json
import textwrap
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from coilclaw.secrets.redactor import Redactor

VALUE = 'p"q/w\\e+r=t&y%u 9é~Zk'
PLAIN = "Zk9-plain_secret.Value42"
values = st.text(st.characters(min_codepoint=33, max_codepoint=382), min_size=12, max_size=60).filter(
    lambda text: not Redactor.refusal(text) and len(set(text)) > 6
)


def spellings(value: str) -> list[str]:
    data = value.encode()
    return [
        value,
        json.dumps(value),
        json.dumps(value, ensure_ascii=False),
        json.dumps(json.dumps(value)),
        json.dumps(json.dumps(json.dumps({"deep": value}))),
        "".join(f"\\u{ord(char):04x}" for char in value),
        quote(value),
        quote(value, safe=""),
        quote_plus(value),
        quote(quote(value)),
        "".join(f"%{byte:02x}" for byte in data),
        html.escape(value),
        data.hex(),
        data.hex().upper(),
    ]


@pytest.mark.parametrize("value", [VALUE, PLAIN])
def test_every_spelling_of_a_value_is_hidden_in_a_text_and_in_a_stream(value: str) -> None:
    redactor = Redactor([("db", value)])
    for spelling in spellings(value):
        text = f"before {spelling} after"
        assert "[redacted:db]" in redactor.text(text)
        assert redactor.text(text).startswith("before ")
        assert redactor.text(text).endswith(" after")
        stream = redactor.stream()
        assert "".join(stream.feed(char) for char in text) + stream.close() == redactor.text(text)


@given(value=values, left=st.binary(max_size=9), right=st.binary(max_size=9), safe=st.booleans(), padded=st.booleans())
@settings(max_examples=120, deadline=None)
def test_base64_is_known_at_every_alignment(value: str, left: bytes, right: bytes, *, safe: bool, padded: bool) -> None:
    encode = base64.urlsafe_b64encode if safe else base64.b64encode
    alone, text = encode(value.encode()).decode(), encode(left + value.encode() + right).decode()
    shown = Redactor([("k", value)]).text(text if padded else text.rstrip("="))
    assert "[redacted:k]" in shown
    assert alone.rstrip("=")[:-1] not in shown
    start, size = -(-len(left) * 8 // 6), len(value.encode()) * 8 // 6 - 2
    assert text[start : start + size] not in shown


@given(value=values, before=st.text(max_size=20), after=st.text(max_size=20), which=st.integers(0, 13))
@settings(max_examples=150, deadline=None)
def test_a_registered_value_never_survives(value: str, before: str, after: str, which: int) -> None:
    spelling = spellings(value)[which]
    shown = Redactor([("k", value)]).text(before + spelling + after)
    assert value not in shown
    assert spelling not in shown


@pytest.mark.parametrize("width", [60, 64, 76])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\\n", "\n    "])
def test_wrapped_base64_is_hidden_wherever_the_line_breaks_fall(width: int, end: str) -> None:
    redactor = Redactor([("k", PLAIN)])
    for before in range(40, 80):
        text = end.join(textwrap.wrap(base64.b64encode(b"x" * before + PLAIN.encode() + b"y" * 60).decode(), width))
        shown = redactor.text(text)
        assert "[redacted:k]" in shown
        stream = redactor.stream()
        assert "".join(stream.feed(char) for char in text) + stream.close() == shown


def test_basic_credentials_hold_no_registered_password() -> None:
    header = base64.b64encode(f"owner:{PLAIN}".encode()).decode()
    shown = Redactor([("k", PLAIN)]).text(f"sent {header}.")
    assert "[redacted:k]" in shown
    assert header[8:24] not in shown


def test_a_key_of_many_lines_is_hidden_whole_and_line_by_line() -> None:
    lines = [base64.b64encode(bytes([seed * 7 % 251, seed]) * 24).decode() for seed in range(1, 30)]
    key = "-----BEGIN PRIVATE KEY-----\n" + "\n".join(lines) + "\n-----END PRIVATE KEY-----\n"
    redactor = Redactor([("signing", key)])
    assert redactor.text(lines[3]) == "[redacted:signing]"
    for text in (key, json.dumps(key), "    " + key.replace("\n", "\n    "), "\n".join(lines)):
        assert not any(line in redactor.text(text) for line in lines)


def test_a_value_longer_than_what_is_held_back_is_hidden_to_its_end() -> None:
    value = "".join(f"{number:x}Zq-" for number in range(3_600))
    redactor = Redactor([("long", value)])
    stream = redactor.stream()
    text = f"a {value} b {quote(value, safe='')} c"
    shown = "".join(stream.feed(text[at : at + 997]) for at in range(0, len(text), 997)) + stream.close()
    assert set(shown.replace("[redacted:long]", "")) <= set("a b c")


@pytest.mark.parametrize(
    "value", ["", "abc", "12345", "  a b ", "password", "ChangeMe", "aaaaaaaa", "1234567", "redacted"]
)
def test_a_value_that_would_destroy_ordinary_text_is_refused_with_a_reason(value: str) -> None:
    assert Redactor.refusal(value)
    assert Redactor([("x", value)]).text(f"the {value} stays") == f"the {value} stays"


def test_a_name_that_tells_the_value_is_not_shown() -> None:
    assert Redactor([("hunter2hunter", "hunter2hunter")]).text("is hunter2hunter") == "is [redacted:secret]"
    assert Redactor([("my key: [x]", PLAIN)]).text(PLAIN) == "[redacted:my_key_x]"


def test_a_foreign_mark_hides_nothing() -> None:
    assert PLAIN not in Redactor([("k", PLAIN)]).text(f"[redacted:{PLAIN}]")


def test_a_value_that_is_part_of_a_mark_leaves_marks_alone() -> None:
    redactor = Redactor([("authorization", "authorization"), ("k", PLAIN)])
    once = redactor.text(f"Authorization: Bearer abc123def456 and {PLAIN}")
    assert redactor.text(once) == once


def test_a_secret_cut_off_by_the_end_of_the_text_does_not_show_its_first_half() -> None:
    redactor = Redactor([("k", PLAIN)])
    for kept in range(12, len(PLAIN)):
        assert PLAIN[:12] not in redactor.text(f"truncated {PLAIN[:kept]}")


def test_registering_reaches_streams_that_already_run() -> None:
    redactor = Redactor()
    stream = redactor.stream()
    shown = stream.feed("start ")
    redactor.register("late", PLAIN)
    assert PLAIN not in shown + stream.feed(f"{PLAIN} end") + stream.close()


@given(text=st.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_text_without_the_value_is_untouched_by_the_registered_layer(text: str) -> None:
    assume(PLAIN not in text)
    assert Redactor([("k", PLAIN)]).text(text) == Redactor().text(text)


def test_what_only_its_context_suggests_is_not_a_certain_secret() -> None:
    redactor = Redactor([("k", PLAIN)])
    context = "password = hunter2-and-more-99\n"
    assert redactor.text(context) != context
    assert redactor.certain(context) == context
    assert redactor.certain(f"{PLAIN} ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4") == "[redacted:k] [redacted:github]"
