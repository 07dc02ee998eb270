"""Joining a session at a terminal: the detach key, and the screens of full-screen programs."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from coilclaw.features.runner.attach import Keys, TwoScreens


def typed(*pieces):
    keys, sent = Keys(), b""
    for piece in pieces:
        more, detach = keys.feed(piece)
        sent += more
        if detach:
            return sent, True
    return sent, False


@pytest.mark.parametrize(
    ("pieces", "sent", "detached"),
    [
        ((b"ls\r",), b"ls\r", False),
        ((b"ls\x02d",), b"ls", True),
        ((b"\x02", b"d", b"never"), b"", True),
        ((b"\x02D",), b"", True),
        ((b"\x02\x02",), b"\x02", False),
        ((b"\x02\x02d",), b"\x02d", False),
        ((b"a\x02x",), b"a\x02x", False),
    ],
)
def test_the_detach_key(pieces, sent, detached):
    assert typed(*pieces) == (sent, detached)


@given(st.lists(st.binary(max_size=20).filter(lambda data: b"\x02" not in data)))
def test_keys_without_the_prefix_arrive_as_they_are(pieces):
    assert typed(*pieces) == (b"".join(pieces), False)


def shown(*pieces):
    screen = TwoScreens()
    return b"".join(screen.feed(piece) for piece in pieces)


def test_the_normal_screen_is_drawn_again_when_a_full_screen_program_ends():
    out = shown(b"$ vim x\r\n", b"\x1b[?1049h", b"~ editor ~", b"\x1b[?1049l", b"$ ")
    before, editor, after = out.split(b"\x1b[2J\x1b[H")
    assert before.startswith(b"$ vim x\r\n")
    assert b"editor" in editor
    assert after == b"$ vim x\r\n$ "


def test_our_own_screen_is_never_left_by_what_runs_inside():
    out = shown(b"a\x1b[?1049l", b"\x1b[?1049h\x1b[?1049h", b"\x1b[?47l\x1b[?1047h\x1b[?1047l")
    assert b"\x1b[?1049" not in out
    assert b"\x1b[?47" not in out
    assert b"\x1b[?1047" not in out


@given(st.lists(st.integers(1, 5), max_size=30))
def test_a_change_of_screen_is_found_however_it_is_cut(cuts):
    whole = b"one\x1b[?1049htwo\x1b[31mred\x1b[?1049lthree"
    pieces, place = [], 0
    for cut in cuts:
        pieces.append(whole[place : place + cut])
        place += cut
    assert shown(*pieces, whole[place:]) == shown(whole)


def test_little_is_kept_of_a_flood():
    screen = TwoScreens()
    for _ in range(100):
        screen.feed(b"0123456789abcdef\r\n" * 4000)
    kept = screen.feed(b"\x1b[?1049h") + screen.feed(b"\x1b[?1049l")
    assert len(kept) < 200_000
