"""Strict JSON in, RFC 8785 out."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.packets.canonical import NotCanonical, canonical_bytes, digest_of, parse_json, parse_object

safe_integers = st.integers(min_value=-(2**53), max_value=2**53)
texts = st.text(st.characters(exclude_categories=["Cs"]))
floats = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: not (number.is_integer() and 2**53 < abs(number) < 1e21)
)
values = st.recursive(
    st.none() | st.booleans() | safe_integers | floats | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=20,
)


@given(values)
def test_encoding_is_stable_under_a_round_trip(value):
    once = canonical_bytes(value)
    assert canonical_bytes(parse_json(once)) == once


@given(values)
def test_a_standard_parser_reads_the_same_value(value):
    assert json.loads(canonical_bytes(value)) == value


@given(st.dictionaries(texts, safe_integers, max_size=8))
def test_key_order_in_the_input_does_not_matter(value):
    assert canonical_bytes(dict(reversed(value.items()))) == canonical_bytes(value)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"), (-0.0, "0"), (1.0, "1"), (-1.5, "-1.5"), (1e21, "1e+21"), (1e-7, "1e-7"), (1e-6, "0.000001"),
        (5e-324, "5e-324"), (9007199254740992.0, "9007199254740992"),
        (1.7976931348623157e308, "1.7976931348623157e+308"), (0.000123, "0.000123"),
        (333333333.3333333, "333333333.3333333"), (1e300, "1e+300"), (12345.678e-10, "0.0000012345678"),
    ],
)  # fmt: skip
def test_numbers_are_written_as_rfc_8785_says(number, text):
    assert canonical_bytes(number).decode() == text


@given(floats)
def test_every_number_survives(number):
    assert float(canonical_bytes(number)) == number


def test_keys_are_sorted_by_utf16_units():
    assert canonical_bytes({"\ufb33": 1, "\U0001f600": 2, "a": 3}).decode() == '{"a":3,"\U0001f600":2,"\ufb33":1}'


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}', '{"x": {"b": 1, "b": 1}}', "NaN", "[Infinity]", "-Infinity", "1e999", "9007199254740993",
        "-99999999999999999999",
        "44101303753816170.0", "4e16", '"\\ud800"', "{", "", "tru", "[1,]", "{'a': 1}", "[" * 100 + "]" * 100,
        "[" * 100_000 + "]" * 100_000,
    ],
)  # fmt: skip
def test_what_has_no_single_meaning_is_refused(text):
    with pytest.raises(NotCanonical):
        parse_json(text)


def test_bytes_that_are_not_utf8_are_refused():
    with pytest.raises(NotCanonical):
        parse_json(b'"\xff"')


@pytest.mark.parametrize("text", ["[]", "1", '"x"', "null"])
def test_arguments_must_be_an_object(text):
    with pytest.raises(NotCanonical, match="object"):
        parse_object(text)


def test_a_non_finite_value_has_no_encoding():
    with pytest.raises(NotCanonical):
        canonical_bytes(math.inf)


@given(st.lists(st.binary(max_size=8), max_size=4), st.lists(st.binary(max_size=8), max_size=4))
def test_parts_of_a_digest_cannot_run_into_each_other(one, other):
    assert (digest_of(*one) == digest_of(*other)) == (one == other)
