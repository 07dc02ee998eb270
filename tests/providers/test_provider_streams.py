"""Whole answers of the two newer wires as their services send them, with all that is said beside the answer itself."""

import asyncio
import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coilclaw.packets.chat import ChatRequest, ChatResponse
from coilclaw.packets.errors import ModelOutputError, ProviderRefused, ProviderUnavailable
from coilclaw.providers.remote import RemoteProvider
from tests.providers.conftest import WIRES
from tests.providers.test_provider_openai import Recording


def events(*bodies: dict[str, Any]) -> bytes:
    """Events with their type before them."""
    return b"".join(b"event: %s\ndata: %s\n\n" % (body["type"].encode(), msgspec.json.encode(body)) for body in bodies)


def block(index: int, opened: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    """A block of an answer of the Messages API."""
    return [
        {"type": "content_block_start", "index": index, "content_block": opened},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def pieces_of_json(*pieces: str) -> list[dict[str, Any]]:
    return [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


READ = {"input_tokens": 12, "cache_creation_input_tokens": 200, "cache_read_input_tokens": 3000}
MESSAGE = {"id": "msg_01", "type": "message", "role": "assistant", "model": "claude-x", "content": []}
MESSAGES = events(
    {
        "type": "message_start",
        "message": {
            **MESSAGE,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {**READ, "cache_creation": {"ephemeral_5m_input_tokens": 200}, "output_tokens": 1},
        },
    },
    {"type": "ping"},
    *block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "The owner wants"},
        {"type": "signature_delta", "signature": "EqQBCg=="},
    ),
    *block(
        1,
        {"type": "text", "text": ""},
        {"type": "text_delta", "text": "Grüße "},
        {"type": "text_delta", "text": "🦀."},
    ),
    {"type": "ping"},
    *block(
        2,
        {"type": "tool_use", "id": "toolu_a", "name": "file_read", "input": {}},
        *pieces_of_json("", '{"pa', 'th": "ü"}'),
    ),
    *block(3, {"type": "tool_use", "id": "toolu_b", "name": "time", "input": {}}, *pieces_of_json("")),
    {"type": "something_new", "of": "a later version"},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {**READ, "output_tokens": 40},
    },
    {"type": "message_stop"},
)


def output(index: int, item: dict[str, Any], *between: dict[str, Any], done: dict[str, Any]) -> list[dict[str, Any]]:
    """An item of an answer of the Responses API."""
    about = {"item_id": item["id"], "output_index": index}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": {**item, "status": "in_progress"}},
        *({**each, **about} for each in between),
        {"type": "response.output_item.done", "output_index": index, "item": {**item, **done, "status": "completed"}},
    ]


def call(index: int, item_id: str, call_id: str, name: str, *pieces: str) -> list[dict[str, Any]]:
    whole = "".join(pieces)
    return output(
        index,
        {"id": item_id, "type": "function_call", "call_id": call_id, "name": name, "arguments": ""},
        *({"type": "response.function_call_arguments.delta", "delta": piece} for piece in pieces),
        {"type": "response.function_call_arguments.done", "arguments": whole},
        done={"arguments": whole},
    )


SAID = {"type": "output_text", "text": "Grüße 🦀.", "annotations": [], "logprobs": []}
ITEMS = [
    *output(
        0,
        {"id": "rs_1", "type": "reasoning", "summary": []},
        {"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": "The owner wants"},
        done={},
    ),
    *output(
        1,
        {"id": "msg_1", "type": "message", "role": "assistant", "content": []},
        {"type": "response.content_part.added", "content_index": 0, "part": {**SAID, "text": ""}},
        {"type": "response.output_text.delta", "content_index": 0, "delta": "Grüße ", "obfuscation": "x7"},
        {"type": "response.output_text.delta", "content_index": 0, "delta": "🦀.", "obfuscation": ""},
        {"type": "response.output_text.done", "content_index": 0, "text": "Grüße 🦀."},
        {"type": "response.content_part.done", "content_index": 0, "part": SAID},
        done={"content": [SAID]},
    ),
    *call(2, "fc_1", "toolu_a", "file_read", '{"pa', 'th": "ü"}'),
    *call(3, "fc_2", "toolu_b", "time", "{}"),
]
RESPONSE = {"id": "resp_1", "object": "response", "model": "gpt-x", "error": None, "incomplete_details": None}
ANSWERED = {
    **RESPONSE,
    "status": "completed",
    "output": [each["item"] for each in ITEMS if each["type"] == "response.output_item.done"],
    "usage": {
        "input_tokens": 3212,
        "input_tokens_details": {"cached_tokens": 3000},
        "output_tokens": 40,
        "output_tokens_details": {"reasoning_tokens": 10},
        "total_tokens": 3252,
    },
}
ALL = [
    {"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": [], "usage": None}},
    {"type": "response.in_progress", "response": {**RESPONSE, "status": "in_progress", "output": [], "usage": None}},
    *ITEMS,
    {"type": "response.something.new", "of": "a later version"},
    {"type": "response.completed", "response": ANSWERED},
]
RESPONSES = events(*({**each, "sequence_number": number} for number, each in enumerate(ALL)))
STREAMS = {"messages": MESSAGES, "responses": RESPONSES}


def read(wire: str, pieces: list[bytes]) -> tuple[ChatResponse, str]:
    """The answer that a stream in these pieces makes, and what of it was shown."""

    async def no_sleep(_: float) -> None: ...

    provider = RemoteProvider(
        "r", "http://r/v1", "m", None, Recording(pieces), wire=WIRES[wire](), sleep=no_sleep, random=lambda: 0.0
    )
    shown: list[str] = []
    request = ChatRequest(system_prompt="", messages=(), tools=(), model="")
    return asyncio.run(provider.chat(request, shown.append)), "".join(shown)


@pytest.mark.parametrize("wire", STREAMS)
@settings(max_examples=40)
@given(cuts=st.lists(st.integers(0, 10_000), max_size=30))
def test_an_answer_is_read_whole_wherever_its_stream_was_cut(wire, cuts):
    stream = STREAMS[wire]
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    answer, shown = read(wire, [stream[start:stop] for start, stop in itertools.pairwise(places)])
    assert answer.final_text == "Grüße 🦀." == shown
    assert [(each.call_id, each.tool, msgspec.json.decode(each.arguments)) for each in answer.tool_calls] == [
        ("toolu_a", "file_read", {"path": "ü"}),
        ("toolu_b", "time", {}),
    ]
    assert answer.usage is not None
    assert (answer.usage.input_tokens, answer.usage.cached_tokens, answer.usage.output_tokens) == (3212, 3000, 40)


@pytest.mark.parametrize("wire", STREAMS)
@settings(max_examples=40)
@given(share=st.floats(0, 1, exclude_max=True))
def test_an_answer_that_breaks_off_anywhere_is_none(wire, share):
    stream = STREAMS[wire]
    last = stream.rindex(b"event: ")
    with pytest.raises((ModelOutputError, ProviderUnavailable, ProviderRefused)):
        read(wire, [stream[: int(share * last)]])


@pytest.mark.parametrize("wire", STREAMS)
@settings(max_examples=40)
@given(noise=st.binary(max_size=300) | st.builds(lambda data: b"data: " + data + b"\n\n", st.binary(max_size=300)))
def test_no_bytes_raise_anything_but_a_provider_error(wire, noise):
    with pytest.raises((ModelOutputError, ProviderUnavailable, ProviderRefused)):
        read(wire, [noise])
