"""JSON values: keys tell what the values are."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coilclaw.secrets.redactor import Redactor

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["password", "a", "token", "Authorization", "name", "value", "Cookie"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"password": "x"}, {"password": "[redacted:password]"}),
        ({"password": 123456}, {"password": "[redacted:password]"}),
        ({"a": [{"clientSecret": "q8w7e6r5"}]}, {"a": [{"clientSecret": "[redacted:secret]"}]}),
        ({"Authorization": ["Bearer abc123def456"]}, {"Authorization": ["Bearer [redacted:authorization]"]}),
        ([["X-Api-Key", "abc123def456"]], [["X-Api-Key", "[redacted:api_key]"]]),
        ({"name": "DB_PASSWORD", "value": "swordfish"}, {"name": "DB_PASSWORD", "value": "[redacted:password]"}),
        ({"body": '{"api_key": "abc123def456"}'}, {"body": '{"api_key": "[redacted:api_key]"}'}),
        ({"password": 'w1th"quotes\\\nlines'}, {"password": "[redacted:password]"}),
        ({"pairing_code": "K7QM-X2RD"}, {"pairing_code": "[redacted:code]"}),
        ({"Cookie": "sid=abc; theme=dark"}, {"Cookie": "sid=[redacted:cookie]; theme=[redacted:cookie]"}),
    ],
)
def test_a_value_under_a_telling_key_is_hidden(value: object, shown: object) -> None:
    assert Redactor().value(value) == shown


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1.5,
        {"tokens": 15, "max_tokens": 8000, "token_count": 512},
        {"password": None, "token": "", "secret": False},
        {"password": "${DB_PASSWORD}", "token": "<token>", "api_key_env": "OPENAI_API_KEY"},
        {"receipt_hash": "ab" * 32, "digest": "cd" * 32, "id": "act_01kx3v9t2c8m4q7r5n", "idempotency_key": "ef" * 32},
        {"size": 3, "hash": "ab" * 32, "key": "0123456789abcdef", "signature": "9f" * 64},
        ["a", ["b", {"author": "Jane", "key": "value"}]],
    ],
)
def test_a_harmless_value_comes_back_equal(value: object) -> None:
    assert Redactor().value(value) == value


def test_registered_values_are_found_in_keys_and_leaves() -> None:
    shown = Redactor([("k", "Zk9-plain_secret")]).value({"Zk9-plain_secret": ["x Zk9-plain_secret"]})
    assert shown == {"[redacted:k]": ["x [redacted:k]"]}


@given(value=JSON)
@settings(max_examples=200, deadline=None)
def test_a_redacted_value_is_json_and_stays_as_it_is(value: object) -> None:
    once = Redactor().value(value)
    json.dumps(once)
    assert Redactor().value(once) == once
