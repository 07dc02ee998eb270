"""Terminals: echo passes at once, secrets are seen through sequences and cuts, nothing grows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coilclaw.secrets.redactor import Redactor
from coilclaw.secrets.stream_engine import CAP
from tests.secrets.test_redactor_corpus import BENIGN, SECRETS, leaks, planted

VALUE = "hunTer2/xy+Zq9k"
TOKEN = "ghp_" + "tbESXTQ1MkwlSSXZCOm68Vg4cpHRljfI6Fk3"
OTHER = "sk-ant-" + "api03Zq8Wm2Lp7Rt4Xy9Kd"


def shown(terminal, *chunks, pause=False):
    """What a terminal shows of these chunks, with a pause after each if asked."""
    out = b""
    for chunk in chunks:
        out += terminal.feed(chunk if isinstance(chunk, bytes) else chunk.encode())
        out += terminal.flush() if pause else b""
    return (out + terminal.close()).decode("utf-8", "surrogateescape")


def cut(text, size):
    data = text.encode()
    return [data[at : at + size] for at in range(0, len(data), size)]


# Echo


def test_typed_words_pass_at_once():
    terminal = Redactor([("db", "Z" + VALUE)]).terminal()
    for char in "ls -la /etc; git commit -m 'fix the tokens' && make token\r\n":
        assert terminal.feed(char.encode()) == char.encode()


def test_prompt_for_a_password_is_shown_before_anything_is_typed():
    terminal = Redactor().terminal()
    assert terminal.feed(b"[sudo] password for bob: ") == b"[sudo] password for bob: "
    assert terminal.feed(b"Password:") == b"Password:"


def test_pause_releases_what_only_looks_like_a_beginning():
    terminal = Redactor([("db", VALUE)]).terminal()
    assert terminal.feed(b"see sk-a") == b"see "
    assert terminal.holds
    assert terminal.flush() == b"sk-a"
    assert not terminal.holds


def test_text_that_is_no_secret_after_all_is_complete():
    terminal = Redactor([("db", VALUE)]).terminal()
    assert shown(terminal, "hunT", "ing sk", "-ing", " key-s") == "hunTing sk-ing key-s"


# Registered values


@pytest.mark.parametrize("pause", [False, True])
@pytest.mark.parametrize("size", [1, 2, 5, 8, 100])
def test_registered_value_is_hidden_however_it_is_cut(size, pause):
    text = shown(Redactor([("db", VALUE)]).terminal(), *cut(f"> {VALUE} <\r\n", size), pause=pause)
    assert not leaks(VALUE, text, 4)
    assert text.endswith("[redacted:db] <\r\n")


def test_pause_never_releases_more_than_three_characters_of_a_value():
    terminal = Redactor([("db", VALUE)]).terminal()
    out = b""
    for char in VALUE[:-1]:
        out += terminal.feed(char.encode()) + terminal.flush() + terminal.flush()
    assert out == VALUE[:3].encode()
    assert terminal.holds
    assert terminal.feed(VALUE[-1].encode()) == b"[redacted:db]"


@pytest.mark.parametrize(
    "between",
    [
        "\x1b[31m",
        "\x1b[0m\x1b[1;38;5;12m",
        "\x1b[K",
        "\x1b[2;7H",
        "\x1b[1C\x1b[1D",
        "\x1b(B",
        "\x1b]0;a title\x07",
        "\x1b]8;;https://example.org\x1b\\",
        "\x00",
        "\x07",
        "\x0e\x0f",
        "\x9b31m",
        "\x1b[3\x071m",
        "\x1b[?25l",
        "\x1bP1$r0m\x1b\\",
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_registered_value_is_seen_through_sequences(between, size):
    text = shown(Redactor([("db", VALUE)]).terminal(), *cut(between.join(VALUE) + " end", size))
    assert "[redacted:db]" in text
    bare = text
    for piece in (between, "\x1b[31m", "\x1b[1C", "\x1b[1D", "\x07", "\x1b]0;a title\x1b\\"):
        bare = bare.replace(piece, "")
    assert not leaks(VALUE, bare, 4)
    assert text.endswith(" end")


@pytest.mark.parametrize("before", ["\x1b", "\x1b[", "\x1b[1;", "\x1b(", "\x9b"])
def test_value_whose_beginning_would_end_a_sequence_is_hidden(before):
    assert VALUE not in shown(Redactor([("db", VALUE)]).terminal(), before + VALUE)
    assert VALUE not in shown(Redactor([("db", VALUE)]).terminal(), *cut(before + VALUE, 1))


def test_value_in_another_encoding_is_seen_too():
    import base64

    hidden = base64.b64encode(b"user:" + VALUE.encode()).decode()
    assert leaks(hidden, hidden)
    assert not leaks(hidden[8:], shown(Redactor([("db", VALUE)]).terminal(), *cut(f"x {hidden} y", 3)))


def test_value_registered_while_the_terminal_runs_is_hidden():
    redactor = Redactor()
    terminal = redactor.terminal()
    terminal.feed(b"before ")
    redactor.register("late", VALUE)
    assert shown(terminal, VALUE[:5], VALUE[5:]) == "[redacted:late]"


def test_flood_of_sequences_inside_a_value_stays_bounded_and_releases_nothing():
    terminal = Redactor([("db", VALUE)]).terminal()
    out = terminal.feed(VALUE[:8].encode())
    for _ in range(40):
        out += terminal.feed(b"\x1b[31m" * 1000)
    assert len(out) > 40 * 5000 - 2 * CAP
    assert not leaks(VALUE, out.decode(), 4)


# Shapes and contexts


@pytest.mark.parametrize("row", SECRETS, ids=lambda row: f"{row['kind']}: {row['context'][:40]}")
def test_corpus_is_hidden_as_in_the_whole_text(row):
    secret, text = planted(row)
    redactor = Redactor()
    assert shown(redactor.terminal(), text) == redactor.text(text)
    for size in (1, 2, 3, 7, 16):
        out = shown(redactor.terminal(), *cut(text, size))
        assert "[redacted:" in out
        # The head of a token may pass: it says what it is, not what it opens.
        assert not leaks(secret[len(secret) // 2 :].replace("Private-", ""), out), (size, out)


@pytest.mark.parametrize("text", BENIGN)
def test_near_miss_passes_byte_for_byte(text):
    for size in (1, 3, 1000):
        assert shown(Redactor().terminal(), *cut(text, size)) == text


@pytest.mark.parametrize("secret", [TOKEN, OTHER])
@pytest.mark.parametrize("at", range(1, 30, 4))
def test_token_split_over_two_writes_shows_no_body(secret, at):
    text = shown(Redactor().terminal(), "use " + secret[:at], secret[at:] + " now\r\n")
    assert not leaks(secret[7:], text, 4)
    assert text.endswith("] now\r\n")


def test_token_written_with_pauses_shows_less_than_half_of_it():
    text = shown(Redactor().terminal(), *cut(f"use {TOKEN} now", 1), pause=True)
    assert not leaks(TOKEN[len(TOKEN) // 2 :], text)
    assert text.endswith("] now")


def test_token_interleaved_with_colours_is_hidden():
    text = shown(Redactor().terminal(), "\x1b[1mkey " + "\x1b[32m".join(TOKEN) + "\x1b[0m end")
    assert not leaks(TOKEN, text.replace("\x1b[32m", ""))
    assert text.startswith("\x1b[1mkey [redacted:github]\x1b[32m")
    assert text.endswith("\x1b[0m end")


def test_token_after_a_cursor_movement_starts_a_word_of_its_own():
    text = shown(Redactor().terminal(), f"left\x1b[2;40H{TOKEN}\x1b[3;1Hright")
    assert text == "left\x1b[2;40H[redacted:github]\x1b[3;1Hright"


@pytest.mark.parametrize("moved", ["\b", "\x1b[A", "\x1b[2;40H"])
@pytest.mark.parametrize(
    "text", [f"key {OTHER} end", "Authorization: Bearer Zq8Wm2Lp7Rt4Xy9Kd3Nb", "password: Zq8-Wm2-Lp7"]
)
def test_secret_of_several_words_is_hidden_beside_a_cursor_movement(moved, text):
    redactor = Redactor()
    hidden = redactor.text(text)
    assert hidden != text
    assert shown(redactor.terminal(), f"left{moved}{text}\r\nright{moved}") == f"left{moved}{hidden}\r\nright{moved}"


def test_sequences_keep_their_places():
    text = "a\x1b[1mb\x1b[0m \x1b[3;4Hc\bd\x1b[K\r\n\x1b[?1049h"
    for size in (1, 2, 3, 100):
        assert shown(Redactor([("db", VALUE)]).terminal(), *cut(text, size)) == text


def test_unfinished_private_key_does_not_hide_the_rest_of_the_session():
    body = "wt8YfizUC2TW4Y92wBFesTBRBr20yAOMPFraX1I68iKzpiuMvmK8J7pOS1tUz1V2\r\n"
    text = shown(Redactor().terminal(), f"-----BEGIN RSA PRIVATE KEY-----\r\n{body}{body}", "bob@box:~$ ls\r\nfile\r\n")
    assert not leaks(body, text)
    assert text.endswith("bob@box:~$ ls\r\nfile\r\n")


def test_control_string_with_a_secret_is_dropped():
    terminal = Redactor([("db", VALUE)]).terminal()
    assert shown(terminal, f"a\x1b]0;{VALUE}\x07b") == "a\x1b]0;[redacted:db]\x1b\\b"
    spread = "\x00".join(VALUE)
    assert shown(terminal, f"a\x1b]0;{spread}\x07b", f"\x1b]52;c;{TOKEN}\x1b\\c") == "abc"


def test_endless_control_string_is_dropped_in_bounded_memory():
    terminal = Redactor().terminal()
    assert terminal.feed(b"a\x1b]52;c;") == b"a"
    for _ in range(64):
        assert terminal.feed(b"A" * 65536) == b""
    assert terminal.feed(b"\x07b") == b"b"


def test_bytes_that_are_not_utf8_pass_unchanged():
    data = bytes(range(0xA0, 0x100)) + b" \xe2\x82"
    terminal = Redactor().terminal()
    assert b"".join(terminal.feed(bytes([byte])) for byte in data) == data[:-2]
    terminal = Redactor().terminal()
    assert terminal.feed("é€💥".encode()[:4]) + terminal.feed("é€💥".encode()[4:]) == "é€💥".encode()


PIECES = st.sampled_from(
    [
        *(
            "ls ",
            "\r\n",
            "\x1b[31m",
            "\x1b[2;3H",
            "\x1b",
            "[",
            "\x1b]0;t\x07",
            "\x1b]",
            "\b",
            "\x00",
            "\x9b",
            "m",
            " ",
            "é",
        ),
        *(VALUE[:5], VALUE[5:], VALUE, TOKEN[:9], TOKEN[9:], "sk-", "password: ", "token=", "swordfish9"),
        *("-----BEGIN PRIVATE KEY-----", "[redacted:db]"),
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=25), st.lists(st.integers(1, 9), min_size=1, max_size=5), st.booleans())
def test_no_cut_and_no_pause_shows_a_registered_value(pieces, sizes, pause):
    data = "".join(pieces).encode()
    chunks, at, turn = [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        chunks.append(data[at : at + size])
        at, turn = at + size, turn + 1
    text = shown(Redactor([("db", VALUE)]).terminal(), *chunks, pause=pause)
    assert VALUE not in text
