"""Edits are exact, all or none, and say what to do about one that does not fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.lib.edit import MOST_BYTES, apply_edits
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Edit


def edited(text, *edits):
    return apply_edits(text.encode(), [Edit(*each) for each in edits], "a.txt").decode()


def fault(text, *edits):
    with pytest.raises(ToolError) as error:
        edited(text, *edits)
    assert not error.value.begun
    return error.value


def test_edits_are_applied_in_order_to_what_the_ones_before_left():
    assert edited("one two", ("one", "three"), ("three two", "four")) == "four"


def test_every_occurrence_is_replaced_where_that_is_asked():
    assert edited("a b a b a", ("a", "x", True)) == "x b x b x"


def test_a_text_that_occurs_twice_is_refused_with_its_places():
    error = fault("same\nother\nsame\n", ("same", "x"))
    assert error.code == "EDIT_AMBIGUOUS"
    assert "occurs 2 times in a.txt, starting in lines 1, 3" in str(error)


def test_two_places_that_overlap_are_two():
    assert fault("aaa", ("aa", "b")).code == "EDIT_AMBIGUOUS"


def test_of_many_places_the_first_are_named():
    error = fault("x\n" * 500, ("x", "y"))
    assert "occurs 500 times" in str(error)
    assert "9, 10, …" in str(error)


def test_a_miss_shows_the_nearest_lines_with_their_numbers():
    text = "".join(f"line {number}\n" for number in range(100)) + "def total(items):\n    return sum(items)\n"
    error = fault(text, ("def total(items):\n  return sum(items)\n", "x"))
    assert error.code == "EDIT_NO_MATCH"
    assert "   101\tdef total(items):\n   102\t    return sum(items)" in str(error)
    assert "line 3\n" not in str(error)


def test_of_lines_that_share_as_many_words_the_most_alike_is_shown_and_white_space_is_named():
    text = "class Cart:\n    def __init__(self):\n        pass\n\n    def total(self):\n        return 1\n"
    assert "     5\t    def total(self):" in str(fault(text, ("def totl(self):", "x")))
    spaced = str(fault(text, ("def total(self):\n    return 1", "x")))
    assert "Only white space differs from:\n     4\t\n     5\t    def total(self):\n     6\t        return 1" in spaced


def test_what_is_like_nothing_is_reported():
    assert "Nothing in the file is similar" in str(fault("alpha beta", ("gamma", "x")))


def test_what_a_miss_shows_is_bounded():
    error = fault("\n".join(["word " * 10_000] * 50), ("word nowhere\n" * 1000, "x"))
    assert len(str(error)) < 5000


def test_edits_that_change_nothing_are_reported():
    assert fault("abc", ("b", "b")).code == "EDIT_NO_CHANGE"


def test_one_that_does_not_fit_spoils_all():
    assert "`old` of edit 2" in str(fault("abc", ("a", "x"), ("nowhere", "y")))


def test_windows_line_ends_and_the_byte_order_mark_stay():
    before = b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n"
    after = apply_edits(before, [Edit("one\ntwo", "1\n2\nand more")], "a.txt")
    assert after == b"\xef\xbb\xbf1\r\n2\r\nand more\r\nthree\r\n"


def test_mixed_line_ends_are_taken_as_they_are():
    assert apply_edits(b"a\r\nb\nc\r\n", [Edit("b\nc", "x")], "a.txt") == b"a\r\nx\r\n"
    assert fault("a\r\nb\nc\n", ("a\nb", "x")).code == "EDIT_NO_MATCH"


def test_a_small_text_does_not_grow_without_bound():
    assert fault("a" * 100_000, ("a", "b" * 100_000, True)).code == "FILE_TOO_LARGE"
    assert fault("é", ("é", "é" * (MOST_BYTES // 2 + 1))).code == "FILE_TOO_LARGE"


def test_what_is_not_text_is_not_edited():
    with pytest.raises(ToolError, match="not UTF-8"):
        apply_edits(b"\xff\x00", [Edit("a", "b")], "a.bin")


@given(st.text(max_size=60), st.text(min_size=1, max_size=4), st.text(max_size=6), st.booleans())
def test_an_edit_is_exactly_the_replacement_or_none(text, old, new, every):
    text = text.replace("\r", "")
    old, new = old.replace("\r", "x"), new.replace("\r", "x")
    fits = old in text and old != new and (every or text.find(old) == text.rfind(old))
    if fits:
        assert edited(text, (old, new, every)) == text.replace(old, new)
    else:
        assert fault(text, (old, new, every)).code in ("EDIT_NO_MATCH", "EDIT_AMBIGUOUS", "EDIT_NO_CHANGE")
