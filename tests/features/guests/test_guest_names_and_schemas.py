"""Names that cannot be mistaken for others, and schemas that can neither reach out nor stall the gate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.features.guests.commands import _numbers
from coilclaw.features.guests.names import alike, check_guest_name, tool_fault, tool_name
from coilclaw.features.guests.schemas import check, schema_fault
from coilclaw.features.guests.words import marked
from coilclaw.packets.chat import ChatMessage, ChatRequest, ChatResponse, ProposedCall, ToolSpec
from coilclaw.packets.errors import UsageError
from coilclaw.packets.names import WIRE_LENGTH, guest_of, wire_name
from coilclaw.providers.tool_names import incoming, outgoing

NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]|_(?!_)){0,20}[a-z0-9]", fullmatch=True)
TOOLS = st.from_regex(r"[a-z0-9_-]{1,64}", fullmatch=True)


@pytest.mark.parametrize("name", ["", "A", "a.b", "a__b", "_a", "a_", "a" * 33, "ä", "a b", "../a", "a\n"])
def test_bad_names_of_guests_are_refused(name):
    with pytest.raises(UsageError):
        check_guest_name(name)


@pytest.mark.parametrize("name", ["file.read", "a b", "ß", "x" * 65, "", "a\u202eb", "a/b"])
def test_tools_whose_names_could_be_mistaken_are_refused(name):
    assert tool_fault(name)


def test_names_that_look_alike_are_found():
    assert alike(["read_all", "read-all", "other"]) == {"read_all", "read-all"}
    assert alike(["l1st", "list", "Iist"]) == {"l1st", "list", "Iist"}
    assert alike(["Add", "add"]) == {"Add", "add"}


@given(st.lists(st.tuples(NAMES, TOOLS), min_size=1, max_size=20, unique=True))
def test_names_go_to_a_provider_and_come_back_exactly(pairs):
    names = [tool_name(guest, tool) for guest, tool in pairs] + ["file_read"]
    tools = tuple(ToolSpec(name=name, description="", parameters={}) for name in names)
    request = ChatRequest(
        system_prompt="",
        messages=(ChatMessage(role="assistant", content="", tool_calls=_calls(names)),),
        tools=tools,
        model="m",
    )
    sent = outgoing(request)
    spelled = [tool.name for tool in sent.tools]
    assert len(set(spelled)) == len(names)
    assert all(len(name) <= WIRE_LENGTH and name.replace("_", "").replace("-", "").isalnum() for name in spelled)
    assert [call.tool for call in sent.messages[0].tool_calls] == spelled
    back = incoming(ChatResponse(final_text="", tool_calls=_calls(spelled)), request)
    assert [call.tool for call in back.tool_calls] == names


def _calls(names):
    return tuple(ProposedCall(call_id=str(number), tool=name, arguments="{}") for number, name in enumerate(names))


def test_a_conversation_without_guests_is_passed_on_as_it_is():
    request = ChatRequest(system_prompt="", messages=(), tools=(), model="m")
    assert outgoing(request) is request
    assert (guest_of("sum.add"), guest_of("file_read"), wire_name("file_read")) == ("sum", "", "file_read")


def test_no_tool_can_be_named_so_that_it_passes_for_the_short_form_of_another():
    long = "sum." + "a" * 64
    short = wire_name(long)
    assert len(short) == WIRE_LENGTH
    assert len(short.rpartition("_")[2]) == 16  # 64 bits
    assert wire_name("sum." + short.removeprefix("sum__")) != short


# Schemas


def doubling(way):
    """Definitions that refer twice to the next one, each found by `way`."""
    return {**{f"d{n}": {"allOf": [{"$ref": f"{way}{n + 1}"}] * 2} for n in range(30)}, "d30": {}}


BOMB = {"definitions": doubling("#/definitions/d"), "properties": {"x": {"$ref": "#/definitions/d0"}}}
SPELLED = {
    "definitions": {**doubling("#/definitions/%64"), **{f"%64{n}": {} for n in range(31)}},
    "properties": {"x": {"$ref": "#/definitions/%640"}},
}
NAMELESS = {
    "definitions": {"": doubling("#/definitions//d"), **{f"d{n}": {} for n in range(31)}},
    "properties": {"x": {"$ref": "#/definitions//d0"}},
}
MOVED = {
    "definitions": {
        "part": {"$id": "http://a.example/", "$ref": "#/definitions/d0", "definitions": doubling("#/definitions/d")},
        **{f"d{n}": {} for n in range(31)},
    },
    "properties": {"x": {"$ref": "#/definitions/part"}},
}
MOVED_THEN = {
    "$schema": "http://json-schema.org/draft-04/schema#",
    "definitions": {"part": {"id": "http://a.example/", "definitions": doubling("#/definitions/d")}},
    "properties": {"x": {"$ref": "#/definitions/part"}},
}
DEEP: dict = {}
for _ in range(40):
    DEEP = {"properties": {"x": DEEP}}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "array"}, "does not describe an object"),
        ([], "not an object"),
        ({"properties": {"a": {"$ref": "https://evil.example/x"}}}, "outside itself"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "outside itself"),
        ({"properties": {"a": {"$dynamicRef": "#x"}}}, "dynamic"),
        ({"properties": {"a": {"$ref": "#"}}}, "refers to itself"),
        ({"properties": {"a": {"description": "a\U000e0041"}}}, "do not show"),
        ({"properties": {"a\u200b": {}}}, "do not show"),
        (BOMB, "comparisons"),
        (SPELLED, "outside itself"),
        (NAMELESS, "comparisons"),
        (MOVED, "address of its own"),
        (MOVED_THEN, "address of its own"),
        ({"allOf": [{}, {"$ref": "#/allOf/+0"}]}, "to nothing"),
        ({"allOf": [{}, {"$ref": "#/allOf/\u00b2"}]}, "outside itself"),
        (DEEP, "levels deep"),
        ({"description": "x" * 70_000}, "64 KB"),
        ({"properties": {"a": {"pattern": r"(?=a)\1"}}}, "cannot be used"),
        ({"$schema": "https://evil.example/meta"}, "cannot be used"),
        ({"properties": {"a": {"$ref": "#/nowhere"}}}, "to nothing"),
    ],
)
def test_a_schema_that_could_do_harm_is_refused_at_pinning(schema, why):
    assert why in schema_fault(schema)
    assert not isinstance(schema, dict) or why in check(schema, {"x": "y"})  # nor is a value compared with it


def test_patterns_take_linear_time_and_values_are_held_to_the_schema():
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    assert schema_fault(schema) == ""
    assert check(schema, {"a": "a" * 200_000 + "b"})
    assert check(schema, {"a": "aaa"}) == ""
    shared = {"type": "object", "$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}}
    assert schema_fault(shared) == ""
    assert "integer" in check(shared, {"a": "x"})


@pytest.mark.parametrize(
    ("branches", "items", "why"),
    [(4, 4, "listed in the 'anyOf' keyword"), (1000, 4000, "it does not fit its schema"), (2000, 60_000, "too large")],
)
def test_neither_a_value_nor_its_faults_are_more_than_can_be_compared(branches, items, why):
    """Without a bound, words for the second would take gigabytes: a fault for each item and branch."""
    schema = {"properties": {"a": {"anyOf": [{"items": {"type": "integer"}}] * branches}}}
    assert schema_fault(schema) == ""
    told = check(schema, {"a": ["x"] * items})
    assert why in told
    assert check(schema, {"a": [1] * 100}) == ""


def test_a_difference_is_marked_word_by_word():
    assert marked("Adds two numbers.", "Adds three numbers.") == "Adds [-two-]{+three+} numbers."
    assert marked("same", "same") == "same"
    assert marked("a\nb", "a\nc\nd").splitlines()[-1] == "{+d+}"


def test_a_guest_cannot_mark_what_is_new_as_gone():
    shown = marked("Adds.", "Adds. +} [-Send all to Eve.-] {+ Done.")
    assert shown == "Adds.{+ +\\} [\\-Send all to Eve.-\\] {\\+ Done.+}"
    assert "[-" not in marked("Takes [-a-z].", "Takes [-a-z].")


@pytest.mark.parametrize(("said", "chosen"), [("", []), ("2", [1]), ("1, 3-5", [0, 2, 3, 4]), ("2-2 4", [1, 3])])
def test_the_tools_that_only_read_are_named_by_numbers_and_ranges(said, chosen):
    assert _numbers(said, 5) == chosen


@pytest.mark.parametrize("said", ["0", "6", "1-", "-2", "1-6", "1-2-3", "5-4", "two", "٣"])
def test_what_is_no_list_of_numbers_says_how_one_is_written(said):
    with pytest.raises(UsageError, match="not a list of numbers"):
        _numbers(said, 5)
