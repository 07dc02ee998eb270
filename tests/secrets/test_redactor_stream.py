"""Streams: any cut gives the same, little is held back, nothing over the cap leaks, bytes pass unharmed."""

import io
import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coilclaw.secrets.redactor import Redactor
from coilclaw.secrets.stream_engine import CAP

VALUE = 'hunTer2/"x\\y+Zq9%&k'
CORPUS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "corpora" / "secrets.jsonl").read_text(encoding="utf-8").splitlines()
]
ROWS = [row["benign"] if "benign" in row else row["context"].replace("@@", "".join(row["parts"]), 1) for row in CORPUS]
PIECES = st.sampled_from(
    [
        "password",
        "token",
        "api_key",
        "Authorization",
        "Cookie",
        "Bearer ",
        "Basic ",
        "://u:",
        "@h",
        "/",
        "?sig=",
        "&key=",
        "=",
        ": ",
        " ",
        "\n",
        "\r\n",
        '"',
        "'",
        '\\"',
        '\\\\\\"',
        "\\",
        "\\n",
        "`",
        ",",
        ";",
        ")",
        "(",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
        " is ",
        "X9y8Z7w6v5",
        "hunter2",
        "[redacted:db]",
        "[redacted:foo]",
        "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----",
        "--",
        "-",
        "_",
        "sk-",
        "eyJ",
        ".",
        "A1b2C3d4E5f6G7h8I9j0",
        "value",
        "name: ",
        " -u ",
        "é",
        "💥",
        "%",
        "&",
        "***",
        "${X}",
        "a" * 70,
        "A1" * 60,
        "Private-Lines:",
        VALUE,
        VALUE[:9],
        json.dumps(json.dumps(VALUE)),
        VALUE.encode().hex(),
    ]
)
TEXTS = st.lists(PIECES | st.sampled_from(ROWS) | st.text(max_size=12), max_size=12).map("".join)


def chunks_of(text: str, borders: list[int]) -> list[str]:
    cuts = sorted({0, len(text), *(border % (len(text) + 1) for border in borders)})
    return [text[start:end] for start, end in itertools.pairwise(cuts)]


@given(text=TEXTS, borders=st.lists(st.integers(0, 10_000), max_size=12))
@settings(max_examples=250, deadline=None)
def test_any_way_of_cutting_gives_the_redacted_whole(text: str, borders: list[int]) -> None:
    redactor = Redactor([("db", VALUE)])
    stream = redactor.stream()
    assert "".join(map(stream.feed, chunks_of(text, borders))) + stream.close() == redactor.text(text)


@given(text=TEXTS)
@settings(max_examples=150, deadline=None)
def test_one_character_at_a_time_gives_the_redacted_whole(text: str) -> None:
    redactor = Redactor([("db", VALUE)])
    stream = redactor.stream()
    assert "".join(map(stream.feed, text)) + stream.close() == redactor.text(text)


@given(pieces=st.lists(PIECES | st.sampled_from(ROWS), max_size=6))
@settings(max_examples=200, deadline=None)
def test_redacting_twice_is_redacting_once(pieces: list[str]) -> None:
    redactor = Redactor([("db", VALUE)])
    once = redactor.text("\n".join(pieces))
    assert redactor.text(once) == once


@given(data=st.binary(max_size=300), borders=st.lists(st.integers(0, 400), max_size=8))
@settings(max_examples=200, deadline=None)
def test_bytes_that_are_no_text_pass_unharmed(data: bytes, borders: list[int]) -> None:
    stream = Redactor().byte_stream()
    cuts = sorted({0, len(data), *(border % (len(data) + 1) for border in borders)})
    shown = b"".join(stream.feed(data[start:end]) for start, end in itertools.pairwise(cuts)) + stream.close()
    expected = Redactor().text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    assert shown == expected


def test_prose_is_held_back_by_no_more_than_a_word() -> None:
    text = (
        "The token expired, so the agent asks for a new password and explains the key idea of authorization plainly. "
    )
    stream, shown = Redactor([("db", VALUE)]).stream(), ""
    for at, char in enumerate(text):
        shown += stream.feed(char)
        assert at + 1 - len(shown) <= len("authorization plainly.")
    assert shown == text


def test_a_value_is_shown_as_hidden_as_soon_as_it_has_ended() -> None:
    stream = Redactor().stream()
    assert stream.feed("password: hunter2abc and ") == "password: [redacted:password] and "


@pytest.mark.parametrize(
    "start",
    ["password='", "Authorization: Bearer ", "token=", "sk-proj-", "Cookie: sid=", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx"],
)
def test_a_secret_longer_than_the_cap_is_hidden_to_its_end(start: str) -> None:
    long = "Ab3xY9-" * (CAP // 2)
    for size in (1_000, 50_000):
        stream = Redactor().stream()
        text = f"{start}{long}\nafter "
        shown = "".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size)) + stream.close()
        assert "Ab3xY9-Ab3x" not in shown
        assert shown.endswith("\nafter ")


def test_what_is_held_back_stays_bounded() -> None:
    stream = Redactor([("db", VALUE)]).stream()
    for chunk in ['password = "', *["no end in sight " * 64] * 64, "x" * 100_000, "QUJD" * 50_000, "a.b-c_d" * 20_000]:
        stream.feed(chunk)
        assert all(len(sieve._text) <= CAP + 512 for sieve in stream._sieves)


def test_an_unterminated_private_key_is_swallowed_until_the_end() -> None:
    stream = Redactor().stream()
    shown = stream.feed("key:\n-----BEGIN RSA PRIVATE KEY-----\n")
    for number in range(3_000):
        shown += stream.feed(f"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC{number}\n")
    assert shown + stream.close() == "key:\n[redacted:private_key]"


def test_a_long_run_without_blanks_flows_through() -> None:
    text = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo" * 20_000
    stream = Redactor().stream()
    shown = "".join(stream.feed(text[at : at + 4_096]) for at in range(0, len(text), 4_096))
    assert len(text) - len(shown) <= 1_024
    assert shown + stream.close() == text


def test_the_filter_copies_bytes_and_hides_secrets() -> None:
    source = (
        b"\xff\xfe raw \x80 bytes\npassword=hunter2abc\n" + "é".encode() * 70_000 + b" " + VALUE.encode() + b"\n\xc3"
    )
    sink = io.BytesIO()
    Redactor([("db", VALUE)]).filter(io.BytesIO(source), sink)
    assert sink.getvalue() == source.replace(b"hunter2abc", b"[redacted:password]").replace(
        VALUE.encode(), b"[redacted:db]"
    )
