"""The owner's terminal: programs look right, and nothing else gets through, however it is spelled or cut."""

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coilclaw.features.runner.attach import LEAVE
from coilclaw.features.runner.terminal_filter import MODES, TerminalFilter
from coilclaw.lib.terminal_sequences import LONGEST_CSI, LONGEST_STRING, Splitter

CAPTURES = {path.stem: path.read_bytes() for path in Path(__file__).parents[2].glob("corpora/terminals/*.out")}
"""Real programs on a real terminal of 80×24: scrolling, searching, typing, splitting, leaving."""

ASKS = {"\x1b[6n", "\x1b[>c", "\x1b[>q", "\x1b]10;?\x1b\\", "\x1b]11;?\x1b\\", "\x1b[?4m"}
TITLES = {f"\x1b[{number}t" for number in ("22;0;0", "22;1", "22;2", "23;0;0", "23;1", "23;2")}
KEYS = {"\x1b[>4;m", "\x1b[>4;2m", "\x1b[?7727h", "\x1b[?7727l"}
PROBES = {"\x1bPzz\x1b\\", "\x1b[0%m"}  # vim measures how these move the cursor


def split(data):
    """The text, and the sequences."""
    pieces = Splitter(lambda _: True).feed(data.decode("utf-8", "replace"))
    return "".join(piece for piece in pieces if isinstance(piece, str)), Counter(
        piece.text for piece in pieces if not isinstance(piece, str)
    )


_MODES = re.compile(rb"\x1b\[\?([0-9;]+)([hl])")


def _apart(found):
    """Modes one by one, as the filter passes them."""
    return b"".join(b"\x1b[?%s%s" % (mode, found[2]) for mode in found[1].split(b";"))


def passed(*chunks):
    terminal = TerminalFilter()
    return b"".join(terminal.feed(chunk) for chunk in chunks)


@pytest.mark.parametrize("name", sorted(CAPTURES))
def test_programs_look_the_same(name):
    data = CAPTURES[name]
    text, sequences = split(_MODES.sub(_apart, data))
    shown, kept = split(passed(data))
    assert shown == text
    assert not kept - sequences
    assert set(sequences - kept) <= ASKS | TITLES | KEYS | PROBES


@pytest.mark.parametrize("name", sorted(CAPTURES))
def test_cuts_make_no_difference(name):
    data = CAPTURES[name]
    for size in (1, 7, 100):
        assert passed(*(data[at : at + size] for at in range(0, len(data), size))) == passed(data)


@pytest.mark.parametrize(
    "sequence",
    [
        "\x1b]52;c;aGk=\x07",
        "\x1b]52;c;?\x1b\\",
        "\x1b]0;title\x07",
        "\x1b]2;title\x9c",
        "\x1b]4;1;?\x07",
        "\x1b]7;file:///etc\x07",
        "\x1b]9;notice\x07",
        "\x1b]777;notify;a;b\x07",
        "\x1b]1337;File=inline=1:aGk=\x07",
        "\x1bP$qm\x1b\\",
        "\x1bP+q544e\x1b\\",
        "\x1bPq#0;2;0;0;0~~\x1b\\",
        "\x1b_Gf=100;aGk=\x1b\\",
        "\x1b^private\x1b\\",
        "\x1bXstring\x1b\\",
        "\x9d52;c;aGk=\x9c",
        "\x90$qm\x9c",
        "\x1b[c",
        "\x1b[>c",
        "\x1b[=c",
        "\x1b[6n",
        "\x1b[?6n",
        "\x1b[5n",
        "\x1b[?u",
        "\x1b[>1u",
        "\x1b[=1;1u",
        "\x1b[>4;2m",
        "\x1b[?4m",
        "\x1b[14t",
        "\x1b[21t",
        "\x1b[8;100;100t",
        "\x1b[3;0;0t",
        "\x1b[9;1t",
        "\x1b[i",
        "\x1b[5i",
        "\x1b[?5i",
        "\x1b[>q",
        "\x1b[?2026$p",
        "\x1b[20$p",
        "\x1b[1;1;1;1;1;1*y",
        "\x1b[x",
        "\x1b[1'z",
        "\x1b[1;2;3;4;5T",
        "\x1b[?3h",
        "\x1b[?1001h",
        "\x1b[?9999h",
        "\x1b[20h",
        "\x1b[2h",
        "\x1b[?1s",
        "\x1b[?1r",
        "\x1bZ",
        "\x1b%G",
        "\x1b#8",
        "\x1bn",
        "\x1b|",
        "\x05",
        "\x00",
        "\x9b6n",
        "\x1b[6\x00n",
        "\x1b[99999999b",
        "\x1b[" + "1;" * 60 + "m",
    ],
)
def test_everything_else_is_dropped_and_the_text_stays(sequence):
    data = f"a{sequence}b".encode()
    whole = passed(data)
    assert whole == b"ab"
    assert passed(*(data[at : at + 1] for at in range(len(data)))) == whole


def test_links_become_their_text():
    assert passed(b"see \x1b]8;;https://evil.example\x1b\\the docs\x1b]8;;\x1b\\ now") == b"see the docs now"


def test_modes_are_kept_one_by_one():
    assert passed(b"\x1b[?1049;3;25;1001h") == b"\x1b[?1049h\x1b[?25h"


def test_full_reset_does_not_clear_what_was_there_before():
    assert b"\x1bc" not in passed(b"\x1bc")
    assert passed(b"\x1b[!p") == b"\x1b[!p"


def test_sequence_inside_another_does_not_hide():
    assert passed(b"\x1b]0;a\x1b[31mred\x07") == b"\x1b[31mred\x07"
    assert passed(b"\x1b[3\x1b]52;c;aGk=\x07b") == b"b"
    assert passed(b"\x1b\x1b]52;c;aGk=\x07b") == b"b"
    assert passed(b"\x1b]52;c;\x18aGk=") == b"aGk="


def test_endless_sequences_need_no_memory():
    terminal = TerminalFilter()
    for beginning in (b"\x1b]52;c;", b"\x1bP", b"\x1b_", b"\x1b["):
        terminal.feed(beginning)
        for _ in range(32):
            terminal.feed(b"0" * 65536)
        splitter = terminal._splitter
        assert len(splitter._held) <= LONGEST_CSI
        assert sum(map(len, splitter._body)) <= LONGEST_STRING
        terminal.feed(b"\x1b\\")


def test_bad_utf8_becomes_a_sign_that_says_so():
    assert passed(b"a\xff\xc3(b\xe2\x82") == "a\ufffd\ufffd(b".encode()
    assert passed("é".encode()[:1], "é".encode()[1:]) == "é".encode()


def test_attaching_takes_back_every_mode_that_may_pass():
    left = LEAVE.decode()
    for mode in MODES - {1047, 1048, 47}:  # our own alternate screen is left instead of these
        assert f"\x1b[?{mode}{'h' if mode in {7, 25} else 'l'}" in left, mode


def test_tab_stops_stay_as_they_were():
    """No other screen would bring them back: the owner's own columns would be gone after detaching."""
    assert passed(b"\x1b[3ga\x1bHb\x1b[gc") == b"abc"


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.integers(1, 50))
def test_only_allowed_sequences_come_out_whatever_goes_in(noise, size):
    data = noise.replace(b"0", b"\x1b").replace(b"1", b"\x1b[").replace(b"2", b"\x1b]").replace(b"3", b"\x07")
    out = passed(*(data[at : at + size] for at in range(0, len(data), size)))
    assert passed(out) == out
    assert out == passed(data)
    out.decode()
