"""JSON-RPC as MCP uses it: what is no message is answered as such, and ids come back as they were."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.features.mcp_server.rpc import RpcError, error_of, key_of, read_message, result_of


@pytest.mark.parametrize(
    "own",
    ["1", "0", "-7", "1.50", "1e3", "12345678901234567890123", '"a"', '""', '"\\u00e9\\"x"', '"1"'],
)
def test_an_id_comes_back_byte_for_byte(own):
    message = read_message(f'{{"jsonrpc": "2.0", "id": {own} , "method": "ping"}}'.encode())
    assert result_of(message.id, {}) == b'{"jsonrpc":"2.0","id":' + own.encode() + b',"result":{}}'


@pytest.mark.parametrize("own", ["null", "true", "[1]", '{"a":1}', '"' + "x" * 300 + '"', "1" * 300])
def test_what_is_not_an_id_is_refused_with_none(own):
    with pytest.raises(RpcError) as refused:
        read_message(f'{{"jsonrpc":"2.0","id":{own},"method":"ping"}}'.encode())
    assert json.loads(error_of(refused.value)) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32600, "message": refused.value.message},
    }


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", -32700),
        (b"x", -32700),
        (b'{"jsonrpc":"2.0"', -32700),
        (b'"\xff"', -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700),
        (b"[" * 100_000, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 100_000, -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b"1", -32600),
        (b"null", -32600),
        (b"{}", -32600),
        (b'{"id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":7}', -32602),
    ],
)
def test_what_is_not_a_message_is_answered_with_an_error(text, code):
    with pytest.raises(RpcError) as refused:
        read_message(text)
    assert json.loads(error_of(refused.value))["error"]["code"] == code


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_an_error(data):
    with suppress(RpcError):
        assert read_message(data).method


def test_a_response_of_the_client_is_not_a_request():
    assert read_message(b'{"jsonrpc":"2.0","id":1,"result":{}}').method == ""


def test_ids_are_compared_by_value_and_kind():
    assert key_of(b"1") == key_of(b"1.0")
    assert key_of(b"1") != key_of(b'"1"')


def test_an_id_that_is_nested_too_deeply_is_refused_like_any_other():
    with pytest.raises(RpcError):
        key_of(b"[" * 100_000 + b"]" * 100_000)
