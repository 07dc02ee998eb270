"""One set of assertions over every wire and server: the fakes that ship, a real engine, and somebody else's script."""

import msgspec
import pytest

from coilclaw.packets.chat import ChatMessage, Image, ProposedCall
from coilclaw.packets.errors import ContextTooLong, ModelOutputError, ProviderRefused, ProviderUnavailable
from tests.providers.conftest import WIRES

ENGINE_KEY = "engine-key-0123456789"
FAKES = ("fake", "fake-messages", "fake-responses")
SCRIPTED = ("scripted", "scripted-messages", "scripted-responses")


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server is, how it is spoken to, and which words make it do what."""

    wire: str
    base_url: str
    model: str
    key: str
    words: dict[str, str]
    counts: bool = True
    """Whether it counts tokens; somebody else's script says 0 on the newer wires."""


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    kind, _, named = request.param.partition("-")
    wire = named or "completions"
    if kind == "fake":
        fake = request.getfixturevalue("fakes")(wire)
        fake.api_key = "fake-key"
        words = {
            "text": "say hello",
            "call": '[[tool:file_list {"path":"."}]]',
            "calls": '[[tool:time {}]] [[tool:file_list {"path":"notes"}]]',
            "limit": "[[status:429 1]]",
            "long": "[[too_long]]",
        }
        return Server(wire=wire, base_url=fake.base_url, model="fake-model", key="fake-key", words=words)
    if kind == "engine":
        words = {"text": "say hello", "long": "long " * 5000}
        base_url = request.getfixturevalue("engine")
        return Server(wire=wire, base_url=base_url, model="tiny-random", key=ENGINE_KEY, words=words)
    words = {"text": "say hello", "call": "list the files", "calls": "two calls", "limit": "slow down"}
    base_url = request.getfixturevalue("scripted")
    return Server(wire=wire, base_url=base_url, model="gpt-4", key="", words=words, counts=not named)


def over(*kinds: str) -> pytest.MarkDecorator:
    marked = [pytest.param(kind, marks=() if kind.startswith("fake") else pytest.mark.slow) for kind in kinds]
    return pytest.mark.parametrize("server", marked, indirect=True)


def provider_for(server, connect, **changes):
    wire = WIRES[server.wire]()
    return connect(server.base_url, **{"model": server.model, "api_key": server.key, "wire": wire, **changes})


@over(*FAKES, "engine", *SCRIPTED)
async def test_the_check_finds_the_model_among_those_listed(server, connect):
    assert f"{server.model} is one of them" in await provider_for(server, connect).check()


@over(*FAKES, "engine", *SCRIPTED)
@pytest.mark.parametrize("streamed", [False, True])
async def test_text_arrives_with_usage_and_the_name_of_who_answered(server, connect, ask, streamed):
    pieces: list[str] = []
    provider = provider_for(server, connect, max_output_tokens=12)
    request = ask(server.words["text"], tools=(), temperature=0.0)
    answer = await provider.chat(request, pieces.append if streamed else None)
    assert answer.final_text.strip()
    assert not answer.tool_calls
    assert answer.usage is not None
    assert not server.counts or min(answer.usage.input_tokens, answer.usage.output_tokens) > 0
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


@over(*FAKES, *SCRIPTED)
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


@over(*FAKES, "engine", *SCRIPTED)
@pytest.mark.parametrize("streamed", [False, True])
async def test_the_last_word_after_calls_is_asked_for_with_the_tools_and_without_calls(server, connect, ask, streamed):
    provider = provider_for(server, connect, max_output_tokens=12)
    call = ProposedCall(call_id="call_1", tool="file_list", arguments='{"path":"."}')
    past = (
        ChatMessage(role="user", content=server.words.get("call", "list the files")),
        ChatMessage(role="assistant", content="", tool_calls=(call,)),
        ChatMessage(role="tool", content="a\nb\nc", tool_call_id="call_1"),
    )
    answer = await provider.chat(ask(*past, may_call=False, temperature=0.0), (lambda _: None) if streamed else None)
    assert answer.final_text
    assert not answer.tool_calls


@over(*FAKES)
async def test_words_alone_are_asked_for_as_each_api_wants_it(server, connect, ask, request):
    fake = request.getfixturevalue("fakes")(server.wire)
    provider = connect(fake.base_url, wire=WIRES[server.wire]())
    await provider.chat(ask("hello", may_call=False))
    assert fake.requests[-1].body["tools"]
    assert fake.requests[-1].body["tool_choice"] == ({"type": "none"} if server.wire == "messages" else "none")
    await provider.chat(ask("hello", may_call=False, tools=()))
    assert "tool_choice" not in fake.requests[-1].body, "all of them refuse it without tools"


async def test_a_server_that_does_not_know_tool_choice_is_asked_without_tools(fake, connect, ask):
    provider = connect(fake.base_url)
    assert (await provider.chat(ask("[[no_tool_choice]]", may_call=False))).final_text == "Now it fits."
    assert "tools" not in fake.requests[-1].body


@over(*FAKES)
async def test_an_answer_that_keeps_arriving_may_take_longer_than_a_pause_may(server, connect, ask, waits):
    provider = provider_for(server, connect, timeout_seconds=0.5)
    answer = await provider.chat(ask("[[drip:0.1]]"), lambda _: None)
    assert answer.final_text == "A long answer that arrives word by word."
    assert waits == []


@over("engine")
async def test_a_real_engine_takes_a_conversation_with_a_broken_call_in_its_past(server, connect, ask):
    provider = provider_for(server, connect, max_output_tokens=8, temperature=0.0)
    first = await connect_past(provider, ask)
    assert first.final_text


async def connect_past(provider, ask):
    broken = ProposedCall(call_id="call_1", tool="time", arguments='{"never": ')
    return await provider.chat(
        ask(
            "what time is it",
            ChatMessage(role="assistant", content="", tool_calls=(broken,)),
            ChatMessage(role="tool", content="Error: the arguments are not JSON", tool_call_id="call_1"),
        )
    )


@over(*FAKES, *SCRIPTED)
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


@over(*FAKES, *SCRIPTED)
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_rate_limit_is_waited_for_as_asked_and_then_given_up(server, connect, ask, waits, streamed):
    provider = provider_for(server, connect, max_retries=2)
    with pytest.raises(ProviderUnavailable) as caught:
        await provider.chat(ask(server.words["limit"]), (lambda _: None) if streamed else None)
    assert waits == [1.0, 1.0]
    assert caught.value.retry_after == 1.0
    assert "429" in str(caught.value)


@over(*FAKES, "engine")
async def test_a_wrong_key_is_refused_and_not_repeated_to_anyone(server, connect, ask, waits):
    provider = provider_for(server, connect, api_key="wrong-key-4711", api_key_env="MODEL_KEY")
    for attempt in (provider.chat(ask("hello")), provider.chat(ask("hello"), print), provider.check()):
        with pytest.raises(ProviderRefused) as caught:
            await attempt
        assert "MODEL_KEY" in str(caught.value)
        assert "wrong-key-4711" not in str(caught.value)
    assert waits == []


@over(*FAKES, "engine")
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_conversation_that_is_too_long_is_refused_as_such(server, connect, ask, streamed):
    with pytest.raises(ContextTooLong, match="too long for"):
        await provider_for(server, connect).chat(ask(server.words["long"]), (lambda _: None) if streamed else None)


@over(*FAKES, "engine", *SCRIPTED)
async def test_an_address_that_leads_nowhere_is_refused_with_the_remedy(server, connect):
    nowhere = msgspec.structs.replace(server, base_url=server.base_url.removesuffix("/v1") + "/nowhere")
    lost = provider_for(nowhere, connect)
    with pytest.raises(ProviderRefused, match="base_url"):
        await lost.check()


# What every wire must do; the fakes that ship show it


def listener(streamed):
    return (lambda _: None) if streamed else None


both_ways = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@over(*FAKES)
@both_ways
async def test_the_cached_part_of_the_input_is_reported_and_counts_as_input(server, connect, ask, streamed):
    provider = provider_for(server, connect)
    await provider.chat(ask("hi"), listener(streamed))
    usage = (await provider.chat(ask("hi"), listener(streamed))).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens) == (10, 5, 4)


@over(*FAKES)
@both_ways
async def test_the_request_names_the_model_the_limit_and_the_temperature(server, connect, ask, streamed):
    provider = provider_for(server, connect, temperature=1.0, max_output_tokens=10)
    told = await provider.chat(ask("hi"), listener(streamed))
    other = await provider.chat(ask("hi", model="other-model", temperature=0.0, max_output_tokens=20))
    assert (told.model, other.model) == ("fake-model", "other-model")


@over(*FAKES)
@both_ways
async def test_a_refusal_is_an_answer_without_calls(server, connect, ask, streamed):
    answer = await provider_for(server, connect).chat(ask("[[refusal]]"), listener(streamed))
    assert answer.final_text == "I will not."
    assert answer.tool_calls == ()


@over(*FAKES)
@both_ways
async def test_an_answer_cut_by_the_token_limit_says_length(server, connect, ask, streamed):
    answer = await provider_for(server, connect).chat(ask("[[length]]"), listener(streamed))
    assert (answer.final_text, answer.finish_reason) == ("Cut short by the", "length")


@over(*FAKES)
@both_ways
async def test_a_call_that_the_token_limit_cut_never_becomes_a_call(server, connect, ask, streamed):
    with pytest.raises(ModelOutputError, match="in the middle of a call"):
        await provider_for(server, connect).chat(ask("[[cut_call]]"), listener(streamed))


@over(*FAKES)
@both_ways
async def test_why_an_answer_ended_is_reported_in_the_same_words(server, connect, ask, streamed):
    provider = provider_for(server, connect)
    assert (await provider.chat(ask("hi"), listener(streamed))).finish_reason == "stop"
    assert (await provider.chat(ask("[[tool:time {}]]"), listener(streamed))).finish_reason == "tool_calls"


@over(*FAKES)
@both_ways
@pytest.mark.parametrize("status", [408, 429, 502, 503, 504, 529])
async def test_a_passing_failure_is_tried_again(server, connect, ask, waits, streamed, status):
    answer = await provider_for(server, connect).chat(ask(f"[[once:{status}]]"), listener(streamed))
    assert answer.final_text == "The second try worked."
    assert len(waits) == 1


@over(*FAKES)
async def test_a_stream_that_breaks_off_before_any_text_is_tried_again(server, connect, ask):
    answer = await provider_for(server, connect).chat(ask("[[cut_once]]"), listener(True))
    assert answer.final_text == "The second try worked."


@over("fake-messages", "fake-responses")
async def test_a_stream_that_breaks_off_inside_a_call_is_tried_again_and_then_reported(server, connect, ask, waits):
    with pytest.raises(ProviderUnavailable):
        await provider_for(server, connect, max_retries=2).chat(ask("[[cut_in_call]]"), listener(True))
    assert len(waits) == 2


@over(*FAKES)
@pytest.mark.parametrize("scene", ["[[cut:Half a]]", "[[stream_error:Half a]]"])
async def test_nothing_is_tried_again_once_text_was_shown(server, connect, ask, waits, scene):
    shown: list[str] = []
    with pytest.raises(ProviderUnavailable):
        await provider_for(server, connect).chat(ask(scene), shown.append)
    assert shown == ["Half a"]
    assert waits == []


@over(*FAKES)
async def test_an_error_in_the_middle_of_a_stream_is_reported_in_the_servers_words(server, connect, ask, waits):
    with pytest.raises(ProviderUnavailable, match="upstream fell over"):
        await provider_for(server, connect, max_retries=1).chat(ask("[[stream_error]]"), listener(True))
    assert len(waits) == 1


@over("fake-messages", "fake-responses")
@both_ways
async def test_thinking_is_neither_shown_nor_kept(server, connect, ask, streamed):
    shown: list[str] = []
    answer = await provider_for(server, connect).chat(ask("[[thinking]]"), shown.append if streamed else None)
    assert answer.final_text == "Thought through."
    assert not streamed or "".join(shown) == answer.final_text


@over("fake-messages", "fake-responses")
async def test_two_answers_in_one_stream_are_none(server, connect, ask):
    with pytest.raises(ModelOutputError, match="two "):
        await provider_for(server, connect).chat(ask("[[two_starts]]"), listener(True))


@over("fake-messages", "fake-responses")
@both_ways
async def test_repeated_ids_are_told_apart(server, connect, ask, streamed):
    said = '[[same_ids:time {}]] [[same_ids:file_read {"path":"a"}]]'
    answer = await provider_for(server, connect).chat(ask(said), listener(streamed))
    assert [call.tool for call in answer.tool_calls] == ["time", "file_read"]
    assert len({call.call_id for call in answer.tool_calls}) == 2


@over(*FAKES)
@both_ways
@pytest.mark.parametrize(
    ("scene", "error", "told"),
    [
        ("[[status:401]]", ProviderRefused, "MODEL_KEY was refused"),
        ("[[status:404]]", ProviderRefused, "model = 'fake-model'"),
        ("[[quota]]", ProviderRefused, "credit"),
        ("[[status:500]]", ProviderUnavailable, "scripted 500"),
        ("[[broken]]", ModelOutputError, "cannot be read"),
        ("[[wrong_shape]]", ModelOutputError, "cannot be read"),
        ("[[html]]", ModelOutputError, "Please log in"),
        ("[[empty]]", ModelOutputError, "neither text nor a call"),
        ("[[oversized]]", ModelOutputError, "more than 1048576 bytes"),
        ("[[oversized_stream]]", ModelOutputError, "more than 1048576 bytes"),
        ("[[tool:]]", ModelOutputError, "without naming a tool"),
    ],
)
async def test_a_failure_that_stays_is_reported_once_with_the_remedy(
    server, connect, ask, waits, streamed, scene, error, told
):
    provider = provider_for(server, connect, api_key_env="MODEL_KEY")
    with pytest.raises(error) as caught:
        await provider.chat(ask(scene), listener(streamed))
    assert told in str(caught.value)
    assert server.key not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert waits == []


@over(*FAKES)
async def test_arguments_over_the_cap_are_refused(server, connect, ask):
    provider = provider_for(server, connect, max_response_bytes=4000)
    said = '[[tool:file_write {"content":"' + "x" * 4000 + '"}]]'
    for on_text in (None, lambda _: None):
        with pytest.raises(ModelOutputError, match="more than 4000 bytes"):
            await provider.chat(ask(said), on_text)


@over(*FAKES)
async def test_a_past_of_odd_ids_names_and_arguments_is_sent_in_a_form_that_is_taken(server, connect, ask):
    odd = tuple(
        ProposedCall(call_id=call_id, tool=tool, arguments=arguments)
        for call_id, tool, arguments in (("a b[redacted]", "no such!", '{"cut'), ("x" * 99, "", "[1]"))
    )
    results = [ChatMessage(role="tool", content="no", tool_call_id=call.call_id) for call in odd]
    past = ChatMessage(role="assistant", content="", tool_calls=odd)
    assert (await provider_for(server, connect).chat(ask("hi", past, *results, "and now"))).final_text


@over(*FAKES)
async def test_pictures_go_to_a_model_that_sees_and_become_a_line_for_one_that_does_not(server, connect, ask, request):
    picture = Image(data=b"\x89PNG-bytes", media_type="image/png")
    seen = ChatMessage(role="user", content="what is this", images=(picture,))
    for sees in (True, False):
        provider = provider_for(server, connect, sees=sees)
        assert provider.capabilities.sees is sees
        told = (await provider.chat(ask(seen))).final_text
        assert ("1 picture is attached (image/png) that you cannot see" in told) is not sees
