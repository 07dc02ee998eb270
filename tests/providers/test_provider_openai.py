"""The OpenAI-compatible provider against the fake that ships: every way an answer can come, and go wrong."""

import asyncio
import itertools
import logging
import traceback
from contextlib import asynccontextmanager

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coilclaw.packets.chat import ChatMessage, ChatRequest, ProposedCall
from coilclaw.packets.errors import (
    ConfigError,
    EgressRefused,
    ModelOutputError,
    ProviderRefused,
    ProviderUnavailable,
)
from coilclaw.providers.completions import CompletionsWire
from coilclaw.providers.remote import RemoteProvider
from coilclaw.sandbox.fake_openai import FakeOpenAI

KEY = "sk-very-secret-0815"
both_ways = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


class Closed:
    """A transport that lets nothing out."""

    async def send(self, request):
        raise EgressRefused("10.0.0.1 is not listed.", code="EGRESS_DENIED", remedy="List it.")

    @asynccontextmanager
    async def stream(self, request):
        yield await self.send(request)


def listener(streamed):
    return (lambda _: None) if streamed else None


async def test_the_request_says_what_was_meant(fake, connect, ask):
    call = ProposedCall(call_id="c1", tool="time", arguments='{"zone":"UTC"}')
    conversation = ask(
        ChatMessage(role="system", content="A summary."),
        "what time",
        ChatMessage(role="assistant", content="", tool_calls=(call,)),
        ChatMessage(role="tool", content="12:00", tool_call_id="c1"),
        "thanks",
        temperature=0.25,
        max_output_tokens=77,
    )
    await connect(fake.base_url, api_key=KEY).chat(conversation)
    (sent,) = fake.requests
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.body["model"] == "fake-model"
    assert sent.body["stream"] is False
    assert "stream_options" not in sent.body
    assert (sent.body["temperature"], sent.body["max_tokens"]) == (0.25, 77)
    assert sent.body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "system", "content": "A summary."},
        {"role": "user", "content": "what time"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "time", "arguments": '{"zone":"UTC"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "12:00"},
        {"role": "user", "content": "thanks"},
    ]
    assert sent.body["tools"][0] == {
        "type": "function",
        "function": {
            "name": "time",
            "description": "The time tool.",
            "parameters": {"type": "object", "properties": {}},
        },
    }


async def test_what_is_not_set_is_not_sent(fake, connect, ask):
    await connect(fake.base_url).chat(ask("hi", tools=(), system_prompt=""))
    (sent,) = fake.requests
    assert set(sent.body) == {"model", "messages", "stream"}
    assert "authorization" not in sent.headers


async def test_the_request_wins_over_the_configuration_of_the_provider(fake, connect, ask):
    provider = connect(fake.base_url, temperature=1.0, max_output_tokens=10)
    await provider.chat(ask("hi"))
    await provider.chat(ask("hi", temperature=0.0, max_output_tokens=20, model="other-model"))
    first, second = (request.body for request in fake.requests)
    assert (first["temperature"], first["max_tokens"], first["model"]) == (1.0, 10, "fake-model")
    assert (second["temperature"], second["max_tokens"], second["model"]) == (0, 20, "other-model")


async def test_broken_arguments_of_the_past_cannot_poison_the_conversation(fake, connect, ask):
    calls = tuple(
        ProposedCall(call_id=str(index), tool="time", arguments=text)
        for index, text in enumerate(['{"cut', "[1]", '{"ok":1}'])
    )
    await connect(fake.base_url).chat(ask("hi", ChatMessage(role="assistant", content="x", tool_calls=calls)))
    sent = [call["function"]["arguments"] for call in fake.requests[0].body["messages"][2]["tool_calls"]]
    assert sent == ['{"unreadable_arguments":"{\\"cut"}', '{"unreadable_arguments":"[1]"}', '{"ok":1}']


async def test_odd_tool_names_of_the_past_are_made_harmless(fake, connect, ask):
    names = ("time", "no such tool!", "", "x" * 99)
    calls = tuple(ProposedCall(call_id=str(n), tool=name, arguments="{}") for n, name in enumerate(names))
    await connect(fake.base_url).chat(ask("hi", ChatMessage(role="assistant", content="x", tool_calls=calls)))
    sent = [call["function"]["name"] for call in fake.requests[0].body["messages"][2]["tool_calls"]]
    assert sent == ["time", "no_such_tool_", "unnamed", "x" * 64]


@both_ways
@pytest.mark.parametrize(
    ("scene", "text"),
    [
        ("hello", "You said: hello"),
        ("[[text:  two  words ]]", "two  words"),
        ("[[parts:parts.]]", "In parts."),
        ("[[refusal]]", "I will not."),
        ("[[length]]", "Cut short by the"),
        ("[[text:größe 🦀]]", "größe 🦀"),
    ],
)
async def test_text_is_read_in_every_form_it_comes_in(fake, connect, ask, streamed, scene, text):
    shown: list[str] = []
    answer = await connect(fake.base_url).chat(ask(scene), shown.append if streamed else None)
    assert answer.final_text == text
    assert not streamed or "".join(shown) == text


@both_ways
async def test_an_answer_that_was_cut_short_says_so(fake, connect, ask, streamed):
    answer = await connect(fake.base_url).chat(ask("[[length]]"), listener(streamed))
    assert answer.raw_provider_payload is not None
    assert answer.raw_provider_payload["finish_reason"] == "length"


@both_ways
@pytest.mark.parametrize("scene", ["no_ids", "same_index", "tool"])
async def test_two_calls_are_told_apart_even_by_careless_servers(fake, connect, ask, streamed, scene):
    said = f'[[{scene}:time {{}}]] [[{scene}:file_read {{"path": "a b.txt"}}]]'
    answer = await connect(fake.base_url).chat(ask(said), listener(streamed))
    assert [(call.tool, call.arguments) for call in answer.tool_calls] == [
        ("time", "{}"),
        ("file_read", '{"path": "a b.txt"}'),
    ]
    assert len({call.call_id for call in answer.tool_calls}) == 2
    if scene == "no_ids":
        assert [call.call_id for call in answer.tool_calls] == ["call_1_0", "call_1_1"]


@both_ways
async def test_the_older_function_call_is_understood(fake, connect, ask, streamed):
    answer = await connect(fake.base_url).chat(ask('[[legacy:file_read {"path":"x"}]]'), listener(streamed))
    (call,) = answer.tool_calls
    assert (call.tool, call.arguments) == ("file_read", '{"path":"x"}')


@both_ways
async def test_arguments_are_handed_on_unread(fake, connect, ask, streamed):
    answer = await connect(fake.base_url).chat(ask('[[tool:shell {"a": 1, "a": NaN, oops]]'), listener(streamed))
    assert answer.tool_calls[0].arguments == '{"a": 1, "a": NaN, oops'


async def test_streaming_can_be_switched_off(fake, connect, ask):
    shown: list[str] = []
    provider = connect(fake.base_url, stream=False)
    await provider.chat(ask("two words"), shown.append)
    assert fake.requests[0].body["stream"] is False
    assert shown == ["You said: two words"]
    assert not provider.capabilities.streaming


async def test_a_server_without_stream_options_is_asked_without_them_from_then_on(fake, connect, ask, waits):
    provider = connect(fake.base_url)
    for _ in range(2):
        assert (await provider.chat(ask("[[no_stream_options]]"), listener(True))).final_text == "Now it fits."
    assert ["stream_options" in request.body for request in fake.requests] == [True, False, False]
    assert waits == []


async def test_a_model_that_wants_the_newer_limit_gets_it(fake, connect, ask):
    provider = connect(fake.base_url, max_output_tokens=9)
    assert (await provider.chat(ask("[[no_max_tokens]]"))).final_text == "Now it fits."
    assert fake.requests[1].body["max_completion_tokens"] == 9


async def test_a_stream_without_its_end_mark_is_whole_when_it_told_why_it_ended(fake, connect, ask):
    answer = await connect(fake.base_url).chat(ask("[[no_done]]"), listener(True))
    assert answer.final_text == "No mark at the end."


@both_ways
@pytest.mark.parametrize("status", [408, 429, 502, 503, 504, 529])
async def test_a_passing_failure_is_tried_again(fake, connect, ask, waits, streamed, status):
    answer = await connect(fake.base_url).chat(ask(f"[[once:{status}]]"), listener(streamed))
    assert answer.final_text == "The second try worked."
    assert waits == [0.375]


@both_ways
async def test_a_stream_that_breaks_off_before_any_text_is_tried_again(fake, connect, ask, streamed):
    answer = await connect(fake.base_url).chat(ask("[[cut_once]]"), listener(streamed))
    assert answer.final_text == "The second try worked."


@pytest.mark.parametrize("scene", ["[[cut:Half a]]", "[[stream_error:Half a]]"])
async def test_nothing_is_tried_again_once_text_was_shown(fake, connect, ask, waits, scene):
    shown: list[str] = []
    with pytest.raises(ProviderUnavailable):
        await connect(fake.base_url).chat(ask(scene), shown.append)
    assert shown == ["Half a"]
    assert len(fake.requests) == 1
    assert waits == []


async def test_an_error_in_the_middle_of_a_stream_is_reported_in_the_servers_words(fake, connect, ask, waits):
    with pytest.raises(ProviderUnavailable, match="upstream fell over"):
        await connect(fake.base_url, max_retries=1).chat(ask("[[stream_error]]"), listener(True))
    assert len(waits) == 1


@both_ways
async def test_a_server_that_asks_for_too_much_patience_is_given_up_at_once(fake, connect, ask, waits, streamed):
    with pytest.raises(ProviderUnavailable) as caught:
        await connect(fake.base_url).chat(ask("[[status:429 3600]]"), listener(streamed))
    assert caught.value.retry_after == 3600
    assert waits == []


@both_ways
async def test_a_slow_server_is_given_up_in_bounded_tries(fake, connect, ask, waits, streamed):
    provider = connect(fake.base_url, timeout_seconds=0.1, max_retries=1)
    with pytest.raises(ProviderUnavailable, match="timeout_seconds"):
        await provider.chat(ask("[[slow:30]]"), listener(streamed))
    assert len(waits) == 1


async def test_a_server_that_is_not_there_is_reported_with_its_address(connect, ask, waits):
    with FakeOpenAI() as gone:
        address = gone.base_url
    with pytest.raises(ProviderUnavailable, match=address):
        await connect(address, max_retries=2).chat(ask("hi"))
    assert len(waits) == 2


@both_ways
@pytest.mark.parametrize(
    ("scene", "error", "told"),
    [
        ("[[status:401]]", ProviderRefused, "MODEL_KEY was refused"),
        ("[[status:403]]", ProviderRefused, "MODEL_KEY was refused"),
        ("[[error200]]", ProviderRefused, "MODEL_KEY was refused"),
        ("[[status:402]]", ProviderRefused, "credit"),
        ("[[quota]]", ProviderRefused, "credit"),
        ("[[status:404]]", ProviderRefused, "model = 'fake-model'"),
        ("[[too_long]]", ProviderRefused, "new conversation"),
        ("[[status:400]]", ProviderRefused, "does not accept"),
        ("[[status:301]]", ProviderRefused, "redirects"),
        ("[[status:500]]", ProviderUnavailable, "scripted 500"),
        ("[[broken]]", ModelOutputError, "choices"),
        ("[[no_choices]]", ModelOutputError, "no choices"),
        ("[[wrong_shape]]", ModelOutputError, "message.content"),
        ("[[html]]", ModelOutputError, "Please log in"),
        ("[[empty]]", ModelOutputError, "neither text nor a call"),
        ("[[oversized]]", ModelOutputError, "more than 1048576 bytes"),
        ("[[oversized_stream]]", ModelOutputError, "more than 1048576 bytes"),
        ("[[tool:]]", ModelOutputError, "without naming a tool"),
    ],
)
async def test_a_failure_that_stays_is_reported_once_with_the_remedy(
    fake, connect, ask, waits, streamed, scene, error, told
):
    provider = connect(fake.base_url, api_key=KEY, api_key_env="MODEL_KEY")
    with pytest.raises(error) as caught:
        await provider.chat(ask(scene), listener(streamed))
    assert told in str(caught.value)
    assert KEY not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 700
    assert waits == []
    assert len(fake.requests) == 1


async def test_an_answer_over_the_cap_is_refused_also_when_its_length_is_not_announced(fake, connect, ask):
    provider = connect(fake.base_url, max_response_bytes=2000)
    with pytest.raises(ModelOutputError, match="more than 2000 bytes"):
        await provider.chat(ask("[[text:" + "word " * 400 + "]]"), listener(True))


async def test_a_missing_key_is_told_by_the_name_of_its_variable(fake, connect, ask):
    fake.api_key = KEY
    with pytest.raises(ProviderRefused, match="MODEL_KEY is not set"):
        await connect(fake.base_url, api_key_env="MODEL_KEY").chat(ask("hi"))
    with pytest.raises(ProviderRefused, match="Set api_key_env of remote"):
        await connect(fake.base_url).chat(ask("hi"))


async def test_the_key_is_nowhere_but_in_its_header(fake, connect, ask, caplog):
    caplog.set_level(logging.DEBUG)
    provider = connect(fake.base_url, api_key=f"  {KEY}\n")
    with pytest.raises(ProviderRefused) as caught:
        await provider.chat(ask("[[status:401]]"))
    told = "".join(traceback.format_exception(caught.value))
    seen = (repr(provider), str(vars(provider)), told, caplog.text, msgspec.json.encode(fake.requests[0].body).decode())
    assert not any(KEY in text for text in seen)
    assert fake.requests[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("key", ["a\r\nX-Evil: 1", "two words", "schlüssel"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(connect, key):
    with pytest.raises(ConfigError) as caught:
        connect("http://127.0.0.1:1/v1", api_key=key)
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "localhost:1234/v1",
        "ftp://host/v1",
        "http://",
        "http://user:password@host/v1",
        "http://host/v1?key=1",
        "http://host/v1#x",
        "http://host:port/v1",
        "http://ho st/v1",
        "http://host/v1\r\nX: 1",
    ],
)
def test_a_base_url_that_cannot_be_right_is_refused_before_anything_is_sent(sleep, base_url):
    with pytest.raises(ConfigError, match="base_url") as caught:
        RemoteProvider("far", base_url, "m", None, Closed(), wire=CompletionsWire(), sleep=sleep, random=lambda: 0.0)
    assert "password@" not in str(caught.value)


@pytest.mark.parametrize(
    ("base_url", "local"),
    [
        ("http://localhost:1234/v1", True),
        ("http://127.0.0.1:1/v1/", True),
        ("http://[::1]:1/v1", True),
        ("https://models.example/v1", False),
        ("http://127.0.0.1.example/v1", False),
        ("http://10.0.0.2/v1", False),
    ],
)
def test_only_loopback_counts_as_local(connect, base_url, local):
    assert connect(base_url).capabilities.local is local


async def test_a_check_tells_when_the_model_is_not_there(fake, connect):
    told = await connect(fake.base_url, model="missing-model").check()
    assert "missing-model is not listed (fake-model)" in told


async def test_an_address_that_the_airlock_refuses_is_a_refused_provider(sleep, ask):
    provider = RemoteProvider(
        "far", "http://10.0.0.1/v1", "m", None, Closed(), wire=CompletionsWire(), sleep=sleep, random=lambda: 0.0
    )
    with pytest.raises(ProviderRefused, match=r"not listed\. List it\."):
        await provider.chat(ask("hi"))


async def test_cancelling_an_answer_ends_it_at_once(fake, connect, ask):
    task = asyncio.ensure_future(connect(fake.base_url).chat(ask("[[slow:30]]"), listener(True)))
    while not fake.requests:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_many_questions_at_once_get_their_own_answers(fake, connect, ask):
    provider = connect(fake.base_url)
    answers = await asyncio.gather(*(provider.chat(ask(f"number {n}"), listener(n % 2)) for n in range(16)))
    assert [answer.final_text for answer in answers] == [f"You said: number {n}" for n in range(16)]


class Recording:
    """A transport that hands a recorded stream over in given pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self.pieces = pieces

    async def send(self, request):
        raise NotImplementedError

    @asynccontextmanager
    async def stream(self, request):
        yield self

    status = 200
    headers = (("Content-Type", "text/event-stream; charset=utf-8"),)

    async def chunks(self):
        for piece in self.pieces:
            yield piece


def event(delta: dict[str, object], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + msgspec.json.encode({"id": "1", "model": "m", "choices": [choice]}) + b"\r\n\r\n"


STREAM = (
    b": welcome\r\n\r\n"
    + event({"role": "assistant", "content": "Grüße "})
    + event({"content": "🦀."})
    + event({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "file_read", "arguments": '{"pa'}}]})
    + event({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "time", "arguments": ""}}]})
    + event({"tool_calls": [{"index": 0, "function": {"arguments": 'th":"ü"}'}}]})
    + event({}, "tool_calls")
    + b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}\r\n\r\n'
    + b"data: [DONE]\r\n\r\n"
)


@settings(max_examples=60)
@given(st.lists(st.integers(0, len(STREAM)), max_size=30))
def test_an_answer_is_the_same_wherever_its_stream_was_cut(cuts):
    places = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[start:stop] for start, stop in itertools.pairwise(places)]

    async def no_sleep(_: float) -> None: ...

    provider = RemoteProvider(
        "r", "http://r/v1", "m", None, Recording(pieces), wire=CompletionsWire(), sleep=no_sleep, random=lambda: 0.0
    )
    shown: list[str] = []
    request = ChatRequest(system_prompt="", messages=(), tools=(), model="")
    answer = asyncio.run(provider.chat(request, shown.append))
    assert answer.final_text == "Grüße 🦀." == "".join(shown)
    assert [(call.call_id, call.tool, call.arguments) for call in answer.tool_calls] == [
        ("a", "file_read", '{"path":"ü"}'),
        ("b", "time", "{}"),
    ]
    assert answer.usage is not None
    assert answer.usage.total == 7


@settings(max_examples=60)
@given(st.binary(max_size=300) | st.builds(lambda data: b"data: " + data + b"\n\n", st.binary(max_size=300)))
def test_no_bytes_from_a_server_raise_anything_but_a_provider_error(noise):
    async def no_sleep(_: float) -> None: ...

    provider = RemoteProvider(
        "r", "http://r/v1", "m", None, Recording([noise]), wire=CompletionsWire(), sleep=no_sleep, random=lambda: 0.0
    )
    request = ChatRequest(system_prompt="", messages=(), tools=(), model="")
    with pytest.raises((ModelOutputError, ProviderUnavailable, ProviderRefused)):
        asyncio.run(provider.chat(request, lambda _: None))
