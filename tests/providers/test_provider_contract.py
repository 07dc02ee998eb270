"""One set of assertions over every server: the fake that ships, a real engine, and somebody else's script."""

import msgspec
import pytest

from coilclaw.packets.chat import ChatMessage
from coilclaw.packets.errors import ProviderRefused, ProviderUnavailable
from coilclaw.sandbox.fake_openai import FakeOpenAI

ENGINE_KEY = "engine-key-0123456789"


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server is, and which words make it do what."""

    base_url: str
    model: str
    key: str
    words: dict[str, str]


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    kind = request.param
    if kind == "fake":
        fake: FakeOpenAI = request.getfixturevalue("fake")
        fake.api_key = "fake-key"
        words = {
            "text": "say hello",
            "call": '[[tool:file_list {"path":"."}]]',
            "calls": '[[tool:time {}]] [[tool:file_list {"path":"notes"}]]',
            "limit": "[[status:429 1]]",
            "long": "[[too_long]]",
        }
        return Server(base_url=fake.base_url, model="fake-model", key="fake-key", words=words)
    if kind == "engine":
        words = {"text": "say hello", "long": "long " * 5000}
        return Server(base_url=request.getfixturevalue("engine"), model="tiny-random", key=ENGINE_KEY, words=words)
    words = {"text": "say hello", "call": "list the files", "calls": "two calls", "limit": "slow down"}
    return Server(base_url=request.getfixturevalue("scripted"), model="gpt-4", key="", words=words)


def over(*kinds: str) -> pytest.MarkDecorator:
    slow = {"engine", "scripted"}
    marked = [pytest.param(kind, marks=pytest.mark.slow if kind in slow else ()) for kind in kinds]
    return pytest.mark.parametrize("server", marked, indirect=True)


def provider_for(server, connect, **changes):
    return connect(server.base_url, model=server.model, api_key=server.key, **changes)


@over("fake", "engine", "scripted")
async def test_the_check_finds_the_model_among_those_listed(server, connect):
    assert f"{server.model} is one of them" in await provider_for(server, connect).check()


@over("fake", "engine", "scripted")
@pytest.mark.parametrize("streamed", [False, True])
async def test_text_arrives_with_usage_and_the_name_of_who_answered(server, connect, ask, streamed):
    pieces: list[str] = []
    provider = provider_for(server, connect, max_output_tokens=12)
    request = ask(server.words["text"], tools=(), temperature=0.0)
    answer = await provider.chat(request, pieces.append if streamed else None)
    assert answer.final_text.strip()
    assert not answer.tool_calls
    assert answer.usage is not None
    assert answer.usage.input_tokens > 0
    assert answer.usage.output_tokens > 0
    assert answer.provider == "remote"
    assert answer.model == server.model
    assert not streamed or "".join(pieces) == answer.final_text


@over("engine")
async def test_a_stream_and_a_whole_answer_of_a_real_engine_say_the_same(server, connect, ask):
    provider = provider_for(server, connect, max_output_tokens=24, temperature=0.0)
    pieces: list[str] = []
    whole = await provider.chat(ask("say hello"))
    streamed = await provider.chat(ask("say hello"), pieces.append)
    assert len(pieces) > 3
    assert streamed.final_text == whole.final_text
    assert streamed.usage is not None
    assert whole.usage is not None
    assert streamed.usage.output_tokens == whole.usage.output_tokens
    assert whole.raw_provider_payload is not None
    assert whole.raw_provider_payload["finish_reason"] == "length"


@over("fake", "scripted")
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_call_arrives_and_its_result_goes_back(server, connect, ask, streamed):
    provider = provider_for(server, connect)
    on_text = (lambda _: None) if streamed else None
    said = server.words["call"]
    first = await provider.chat(ask(said), on_text)
    assert [(call.tool, call.arguments) for call in first.tool_calls] == [("file_list", '{"path":"."}')]
    assert first.tool_calls[0].call_id
    proposed = ChatMessage(role="assistant", content=first.final_text, tool_calls=first.tool_calls)
    result = ChatMessage(role="tool", content="a\nb\nc", tool_call_id=first.tool_calls[0].call_id)
    second = await provider.chat(ask(said, proposed, result), on_text)
    assert second.final_text
    assert not second.tool_calls


@over("engine")
async def test_a_real_engine_takes_a_conversation_with_a_broken_call_in_its_past(server, connect, ask):
    provider = provider_for(server, connect, max_output_tokens=8, temperature=0.0)
    first = await connect_past(provider, ask)
    assert first.final_text


async def connect_past(provider, ask):
    from coilclaw.packets.chat import ProposedCall

    broken = ProposedCall(call_id="call_1", tool="time", arguments='{"never": ')
    return await provider.chat(
        ask(
            "what time is it",
            ChatMessage(role="assistant", content="", tool_calls=(broken,)),
            ChatMessage(role="tool", content="Error: the arguments are not JSON", tool_call_id="call_1"),
        )
    )


@over("fake", "scripted")
@pytest.mark.parametrize("streamed", [False, True])
async def test_two_calls_in_one_answer_stay_two(server, connect, ask, streamed):
    answer = await provider_for(server, connect).chat(
        ask(server.words["calls"]), (lambda _: None) if streamed else None
    )
    assert [(call.tool, call.arguments) for call in answer.tool_calls] == [
        ("time", "{}"),
        ("file_list", '{"path":"notes"}'),
    ]
    assert len({call.call_id for call in answer.tool_calls}) == 2


@over("fake", "scripted")
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_rate_limit_is_waited_for_as_asked_and_then_given_up(server, connect, ask, waits, streamed):
    provider = provider_for(server, connect, max_retries=2)
    with pytest.raises(ProviderUnavailable) as caught:
        await provider.chat(ask(server.words["limit"]), (lambda _: None) if streamed else None)
    assert waits == [1.0, 1.0]
    assert caught.value.retry_after == 1.0
    assert "429" in str(caught.value)


@over("fake", "engine")
async def test_a_wrong_key_is_refused_and_not_repeated_to_anyone(server, connect, ask, waits):
    provider = connect(server.base_url, model=server.model, api_key="wrong-key-4711", api_key_env="MODEL_KEY")
    for attempt in (provider.chat(ask("hello")), provider.chat(ask("hello"), print), provider.check()):
        with pytest.raises(ProviderRefused) as caught:
            await attempt
        assert "MODEL_KEY" in str(caught.value)
        assert "wrong-key-4711" not in str(caught.value)
    assert waits == []


@over("fake", "engine")
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_conversation_that_is_too_long_is_refused_as_such(server, connect, ask, streamed):
    with pytest.raises(ProviderRefused, match="too long for"):
        await provider_for(server, connect).chat(ask(server.words["long"]), (lambda _: None) if streamed else None)


@over("fake", "engine", "scripted")
async def test_an_address_that_leads_nowhere_is_refused_with_the_remedy(server, connect):
    lost = connect(server.base_url.removesuffix("/v1") + "/nowhere", model=server.model, api_key=server.key)
    with pytest.raises(ProviderRefused, match="base_url"):
        await lost.check()
