"""The structured form is read whole and strictly, or not at all."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.packets.errors import ModelOutputError
from coilclaw.providers.structured import read_structured

ACTION = {"tool": "file_list", "identity": None, "args": {"path": "."}, "justification": "to see"}


def message(**changes: object) -> str:
    return json.dumps({"assistant_message": "Looking.", "proposed_actions": [ACTION], **changes})


def test_a_structured_message_becomes_text_and_calls():
    answer = read_structured(message())
    assert answer is not None
    assert answer.final_text == "Looking."
    (call,) = answer.tool_calls
    assert (call.tool, call.arguments, call.justification) == ("file_list", '{"path":"."}', "to see")


def test_the_identity_of_an_action_is_not_lost():
    answer = read_structured(message(proposed_actions=[ACTION, {**ACTION, "identity": "bot"}]))
    assert answer is not None
    assert [call.identity for call in answer.tool_calls] == [None, "bot"]


def test_a_message_without_actions_is_a_plain_answer():
    answer = read_structured(message(proposed_actions=[]))
    assert answer is not None
    assert answer.tool_calls == ()


@pytest.mark.parametrize("fence", ["```json\n%s\n```", "```\n%s\n```", "\n ```JSON\n%s\n```  \n", "  %s\n"])
def test_one_fence_or_white_space_around_it_is_allowed(fence):
    assert read_structured(fence % message()) == read_structured(message())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Hello.",
        "[1, 2]",
        '"assistant_message"',
        "{}",
        '{"answer": 42}',
        "{not json at all}",
        '{"a": 1, "a": 2}',
        f"Here is what I propose: {message()}",
        f"See:\n```json\n{message()}\n```",
    ],
)
def test_ordinary_text_is_left_alone(text):
    assert read_structured(text) is None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (message()[:-1], "JSON"),
        (message() + " and more", "JSON"),
        (message() + message(), "JSON"),
        ('{"assistant_message": "a", "assistant_message": "b", "proposed_actions": []}', "twice"),
        ('{"assistant_message": "a", "proposed_actions": [{"tool": "x", "args": {"n": NaN}}]}', "NaN"),
        ('{"assistant_message": "a", "proposed_actions": [{"tool": "x", "args": {"n": 99999999999999999}}]}', "2\\^53"),
        ('{"assistant_message": "a"}', "proposed_actions"),
        ('{"proposed_actions": []}', "assistant_message"),
        (message(assistant_message=7), "assistant_message"),
        (message(assistant_message=" ", proposed_actions=[]), "neither"),
        (message(proposed_actions={}), "list"),
        (message(proposed_actions="x"), "list"),
        (message(proposed_actions=[1]), r"proposed_actions\[0\]"),
        (message(extra=1), "extra"),
        (message(proposed_actions=[{**ACTION, "sudo": True}]), "sudo"),
        (message(proposed_actions=[ACTION, {**ACTION, "tool": ""}]), r"proposed_actions\[1\]\.tool"),
        (message(proposed_actions=[{**ACTION, "identity": "root"}]), "identity"),
        (message(proposed_actions=[{**ACTION, "identity": ["user"]}]), "identity"),
        (message(proposed_actions=[{**ACTION, "args": "."}]), "args"),
        (message(proposed_actions=[{"tool": "time", "args": {}}]), "justification"),
        (message(proposed_actions=[ACTION] * 65), "65"),
    ],
)
def test_a_broken_proposal_is_an_error_that_names_the_place(text, named):
    with pytest.raises(ModelOutputError, match=named):
        read_structured(text)


def test_ids_are_stable_for_a_message_and_differ_between_rounds():
    first, again, other = (read_structured(message(), salt=salt) for salt in ("turn:1", "turn:1", "turn:2"))
    assert first == again
    assert first is not None
    assert other is not None
    assert first.tool_calls[0].call_id != other.tool_calls[0].call_id


@given(st.text(max_size=200))
def test_no_text_raises_anything_but_the_named_error(text):
    for candidate in (text, "{" + text, '{"assistant_message"' + text):
        try:
            read_structured(candidate)
        except ModelOutputError:
            continue


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=3))
def test_arguments_mean_the_same_after_reading(args):
    answer = read_structured(message(proposed_actions=[{**ACTION, "args": args}]))
    assert answer is not None
    assert json.loads(answer.tool_calls[0].arguments) == args
