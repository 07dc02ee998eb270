"""Marked values: what untrusted content named and the owner did not, through any trivial disguise."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coilclaw.gate.tainted_values import MOST_VALUES, SHOWN, STRETCH, marked_values, plain


@pytest.mark.parametrize(
    ("value", "untrusted"),
    [
        ("bob@evil.example", "write to bob@evil.example now"),
        ("Bob@Evil.Example", "write to bob@evil.example now"),
        ("bob@evil.example", "write to BOB\u200b@evil\u00ad.example."),
        ("ｂｏｂ@evil.example", "write to bob@evil.example"),
        ("two  words", "say two\n\twords."),
        ("ﬁnance", "the finance desk"),
        ("main", "merge into main please"),
        ("12345678", "account 12345678"),
        ("STRASSE", "in der straße 5"),
    ],
)
def test_a_value_from_untrusted_text_is_marked_as_it_was_written(value, untrusted):
    (marked,) = marked_values({"to": value}, [untrusted], [])
    assert plain(marked) == plain(value)


@pytest.mark.parametrize(
    ("value", "untrusted", "owner"),
    [
        ("bob@evil.example", "bob@evil.example", "send it to Bob@Evil.example"),
        ("main", "maintenance", ""),
        ("cat", "concatenate", ""),
        ("two words", "two other words", ""),
        ("my own sentence, all of it", "my own sentence, all of it", "My own  sentence, all of it!"),
        ("", "anything", ""),
        ("***", "***", ""),
    ],
)
def test_what_the_owner_said_or_nobody_named_is_not_marked(value, untrusted, owner):
    assert marked_values({"to": value}, [untrusted], [owner]) == ()


def test_without_untrusted_content_nothing_is_marked():
    assert marked_values({"a": "b"}, [], ["b"]) == ()
    assert marked_values({"a": "b"}, ["\u200b "], []) == ()


def test_parts_of_a_long_value_are_marked_by_themselves():
    body = (
        "Hello, as agreed please pay to account GB29-NWBK and 6016 1331 9268, mail Eve@bad.example,"
        ' see https://www.bad.example/pay?x=1 and mention "blue heron" with code AB12CD34. Thanks from us all.'
    )
    untrusted = "6016-1331-9268 eve@bad.example https://www.bad.example/pay?x=1 say blue heron ab12cd34"
    assert set(marked_values({"body": body}, [untrusted], ["pay"])) >= {
        "6016 1331 9268",
        "Eve@bad.example",
        "https://www.bad.example/pay?x=1",
        "www.bad.example",
        "blue heron",
        "AB12CD34",
    }


def test_a_host_is_marked_in_an_address_nobody_wrote():
    marked = marked_values({"url": "https://bad.example/collect?data=secret"}, ["visit www.bad.example today"], [])
    assert marked == ("bad.example",)


def test_text_hidden_in_an_addresss_spelling_is_seen():
    url = "https://ok.example/?q=the+quick%20brown+fox+jumps+over+it"
    marked = marked_values({"url": url}, ["the quick brown fox jumps over it"], ["ok.example"])
    assert any("quick brown fox jumps" in each for each in marked)


def test_a_long_stretch_taken_over_word_for_word_is_marked():
    text = "our quarterly numbers are attached below for review"
    marked = marked_values({"body": f"Dear Ann, {text}. Bye."}, [f"…{text}…"], ["Dear Ann"])
    assert marked == (text,) or any(text in each for each in marked)


def test_numbers_and_inner_keys_count_and_the_tools_own_names_do_not():
    args = {"amount": 1500, "rate": 2.5, "yes": True, "nothing": None, "headers": {"x-route": "plain"}}
    untrusted = "amount rate headers true null 1,500 at 2.5 x-route"
    assert marked_values(args, [untrusted], []) == ("1500", "x-route", "2.5")


def test_values_are_shown_visibly_once_and_bounded():
    secret = "a\u202eb" + "word " * 100
    marked = marked_values({"a": secret, "b": [secret, secret]}, [secret], [])
    assert len(marked) == 1
    assert len(marked[0]) == SHOWN
    assert "⟨U+202E⟩" in marked[0]
    many = [f"value{number}x" for number in range(MOST_VALUES + 5)]
    marked = marked_values({"a": many}, [" ".join(many)], [])
    assert len(marked) == MOST_VALUES + 1
    assert marked[-1] == "… and 5 more"


WORD = st.text(string.ascii_letters + string.digits, min_size=1, max_size=12)
TEXT = st.lists(WORD, max_size=12).map(" ".join)
DISGUISES = st.sampled_from(["\u200b", "\u00ad", "\ufeff", "\u2060", "\ufe0f"])


@given(WORD, TEXT, TEXT, DISGUISES, st.integers(0, 11), st.booleans())
def test_no_disguise_hides_a_value(word, before, after, hidden, place, upper):
    disguised = word[:place] + hidden + word[place:]
    disguised = disguised.upper() if upper else disguised
    assert marked_values({"v": disguised}, [f"{before} {word} {after}"], []) != ()
    assert marked_values({"v": word}, [f"{before}\n {disguised}\t{after}"], []) != ()


@given(WORD, TEXT, TEXT)
def test_the_owners_own_words_are_never_marked(word, untrusted, owner):
    assert marked_values({"v": word}, [f"{untrusted} {word}"], [f"{owner} {word.swapcase()}"]) == ()


@given(st.text(min_size=STRETCH, max_size=60), st.text(max_size=20), st.text(max_size=20))
def test_any_stretch_that_stands_word_for_word_is_found(stretch, left, right):
    folded = plain(stretch)
    if len(folded) < STRETCH or not any(c.isalnum() for c in folded):
        return
    marked = marked_values({"v": f"{left} {folded} {right}"}, [f"… {folded} …"], [])
    if plain(f"{left} {folded} {right}").find(folded) >= 0 and plain(f"… {folded} …").find(folded) >= 0:
        assert marked != ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200)
@given(st.dictionaries(st.text(max_size=8), JSON, max_size=5), st.lists(st.text(), max_size=3), st.lists(st.text()))
def test_any_arguments_are_marked_the_same_way_twice_and_within_bounds(args, untrusted, owner):
    marked = marked_values(args, untrusted, owner)
    assert marked == marked_values(dict(reversed(list(args.items()))), untrusted, owner)
    assert len(marked) <= MOST_VALUES + 1
    for each in marked:
        assert len(each) <= SHOWN
        assert each.isprintable()


@pytest.mark.parametrize("piece", ["a ", "a", "1 ", "a.", "a@", '"', "-a", "1.a", "https://", "\u0301", "'a' "])
def test_texts_made_to_be_slow_are_not(piece):
    """Done at all: what grew faster than the text would never end at this size."""
    text = piece * (400_000 // len(piece))
    marked_values({"a": piece * 5000, "b": "a a", "c": "x@y.example"}, [text], [text[:1000]])


def test_text_of_several_lines_is_shown_as_one():
    text = "Hello Dana,\r\n\r\nyes, the numbers of Thursday are right."
    assert marked_values({"body": text}, [text], []) == ("Hello Dana, yes, the numbers of Thursday are right.",)
