"""Fallback and routing: who answers, who is told, and what is shown."""

import msgspec
import pytest

from coilclaw.packets.errors import ConfigError, ContextTooLong, ModelOutputError, ProviderUnavailable
from coilclaw.providers.mock import MockProvider
from coilclaw.providers.reliable import ReliableProvider
from coilclaw.providers.router import RouterProvider
from coilclaw.providers.script import Script


@pytest.fixture
def scripted_mock(sleep):
    def made(name, *replies):
        return MockProvider(name, f"{name}-model", Script.parse(msgspec.json.encode(replies), name), sleep=sleep)

    return made


@pytest.mark.parametrize("error", ["timeout", "unavailable", "rate_limit", "auth", "invalid_json"])
async def test_the_next_provider_answers_when_one_fails_in_any_way(scripted_mock, ask, error):
    log: list[str] = []
    chain = ReliableProvider(
        "chain", [scripted_mock("first", {"error": error}), scripted_mock("second", {"text": "Here."})], log.append
    )
    answer = await chain.chat(ask("hi"))
    assert (answer.final_text, answer.provider, answer.model) == ("Here.", "second", "second-model")
    assert len(log) == 2
    assert log[0].startswith("first could not answer: ")
    assert log[1] == "second answered instead of first."


async def test_the_first_provider_answers_alone_when_it_can(scripted_mock, ask):
    log: list[str] = []
    chain = ReliableProvider(
        "chain", [scripted_mock("first", {"text": "Me."}), scripted_mock("second", {"text": "No."})], log.append
    )
    assert (await chain.chat(ask("hi"))).final_text == "Me."
    assert log == []


async def test_what_a_failed_provider_streamed_is_never_shown(scripted_mock, ask):
    shown: list[str] = []
    chain = ReliableProvider(
        "chain",
        [
            scripted_mock("first", {"stream": ["Half ", "an ans"], "error": "unavailable"}),
            scripted_mock("second", {"stream": ["A whole ", "answer."]}),
            scripted_mock("third", {"text": "No."}),
        ],
        lambda _: None,
    )
    answer = await chain.chat(ask("hi"), shown.append)
    assert shown == ["A whole ", "answer."]
    assert answer.final_text == "A whole answer."


async def test_when_all_fail_each_is_named_with_its_reason(scripted_mock, ask):
    chain = ReliableProvider(
        "chain",
        [scripted_mock("first", {"error": "auth"}), scripted_mock("second", {"error": "rate_limit"})],
        lambda _: None,
    )
    with pytest.raises(ProviderUnavailable) as caught:
        await chain.chat(ask("hi"))
    assert "first: first refused the key" in str(caught.value)
    assert "second: second is rate limited" in str(caught.value)
    assert caught.value.retry_after == 1.0


async def test_a_chain_whose_members_all_speak_nonsense_says_that(scripted_mock, ask):
    broken = [scripted_mock(name, {"error": "invalid_json"}) for name in ("first", "second")]
    with pytest.raises(ModelOutputError, match="second"):
        await ReliableProvider("chain", broken, lambda _: None).chat(ask("hi"))


async def test_a_chain_that_could_answer_something_shorter_says_that(scripted_mock, fake, connect, ask):
    chain = ReliableProvider(
        "chain", [connect(fake.base_url), scripted_mock("second", {"error": "unavailable"})], lambda _: None
    )
    with pytest.raises(ContextTooLong, match="too long for fake-model"):
        await chain.chat(ask("[[too_long]]"))


async def test_a_fault_of_our_own_is_not_taken_for_a_failing_provider(scripted_mock, ask):
    def broken_screen(_):
        raise RuntimeError("no screen")

    with pytest.raises(RuntimeError):
        await ReliableProvider("chain", [scripted_mock("only", {"text": "Hi."})], lambda _: None).chat(
            ask("hi"), broken_screen
        )


def test_a_chain_needs_a_member():
    with pytest.raises(ConfigError, match="at least one"):
        ReliableProvider("chain", [], lambda _: None)


@pytest.mark.parametrize(
    ("metadata", "who"), [({"hint": "plan"}, "planner"), ({"hint": "other"}, "daily"), ({}, "daily")]
)
async def test_the_hint_chooses_and_an_unknown_one_means_the_default(scripted_mock, ask, metadata, who):
    router = RouterProvider(
        "router", {"plan": scripted_mock("planner", {"text": "Plan."})}, scripted_mock("daily", {"text": "Day."})
    )
    answer = await router.chat(ask("hi", metadata=metadata, model="some-model"))
    assert (answer.provider, answer.model) == (who, f"{who}-model")


def test_wrappers_promise_only_what_every_member_can(scripted_mock, connect):
    here, there = scripted_mock("here", {"text": "a"}), connect("https://models.example/v1", stream=False)
    for wrapper in (ReliableProvider("chain", [here, there], print), RouterProvider("router", {"x": there}, here)):
        assert wrapper.capabilities.tool_calls
        assert not wrapper.capabilities.streaming
        assert not wrapper.capabilities.local
        assert "here" in repr(wrapper)
    assert ReliableProvider("chain", [here], print).capabilities.local


async def test_a_router_takes_a_model_that_names_one_of_its_providers(scripted_mock, ask):
    strong, light = scripted_mock("strong", {"text": "Strong."}), scripted_mock("light", {"text": "Light."})
    router = RouterProvider("router", {"chat": light}, strong)
    answer = await router.chat(ask("hi", metadata={"hint": "chat"}, model="strong"))
    assert (answer.provider, answer.model) == ("strong", "strong-model")


def test_a_chain_sees_when_one_of_it_does_and_has_the_smallest_window(connect):
    wide = connect("https://models.example/v1", model="anthropic/claude-x", sees=True)
    narrow = connect("https://models.example/v1", model="unknown", context_window=8_000)
    assert (wide.capabilities.sees, wide.capabilities.context_window) == (True, 200_000)
    shared = ReliableProvider("chain", [wide, narrow], print).capabilities
    assert (shared.sees, shared.context_window) == (True, 8_000)
    assert connect("https://models.example/v1", model="unknown").capabilities.context_window == 32_768
