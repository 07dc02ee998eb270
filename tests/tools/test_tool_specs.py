"""Tools as a model is told of them: everything it needs, and no more than that in every request."""

import json

import msgspec

from coilclaw.agent.window import BYTES_PER_TOKEN
from coilclaw.runtime.tool_specs import in_short, offered_tools

SCHEMA = {
    "title": "x",
    "description": "Arguments of x.",
    "type": "object",
    "properties": {
        "title": {"description": "Its title.", "type": "string", "minLength": 1, "maxLength": 60},
        "path": {"description": "A path.", "type": "string", "maxLength": 4096, "minLength": 1, "default": "."},
        "at": {"description": "When.", "anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "count": {
            "anyOf": [{"description": "How many.", "type": "integer", "minimum": 1}, {"type": "null"}],
            "default": None,
        },
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "lines": {"type": "integer", "minimum": 0, "maximum": 10, "default": 0},
        "all": {"type": "boolean", "default": False},
        "items": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 8, "default": []},
    },
    "required": ["title"],
    "additionalProperties": False,
}


def test_a_schema_loses_what_repeats_itself_and_nothing_else():
    assert in_short(SCHEMA) == {
        "type": "object",
        "properties": {
            "title": {"description": "Its title.", "type": "string", "maxLength": 60},
            "path": {"description": "A path.", "type": "string", "default": "."},
            "at": {"description": "When.", "type": "string"},
            "count": {"description": "How many.", "type": "integer", "minimum": 1},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "lines": {"type": "integer", "minimum": 0, "maximum": 10, "default": 0},
            "all": {"type": "boolean"},
            "items": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
        },
        "required": ["title"],
        "additionalProperties": False,
    }


def test_every_tool_is_reported_with_all_its_arguments_and_what_each_is_for(sample):
    home = sample()
    tools = home.app.tools
    for told in offered_tools(home.app, home.app.allowed_tools):
        whole = tools[told.name].parameters
        assert list(told.parameters["properties"]) == list(whole["properties"]), told.name
        assert told.parameters.get("required", []) == whole["required"], told.name
        assert json.dumps(told.parameters).count('"description"') >= len(whole["properties"]) - 1, told.name
        assert in_short(told.parameters) == told.parameters, told.name


def test_all_tools_together_leave_room_in_a_small_window(sample):
    home = sample()
    told = offered_tools(home.app, home.app.allowed_tools)
    assert len(msgspec.json.encode(told)) // BYTES_PER_TOKEN < 4500, "they go with every request of every turn"
