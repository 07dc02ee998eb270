"""The tools that the conformance suite calls, as ordinary tools of ours: they pass the gate like any other."""

import msgspec

from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import ToolOutput
from coilclaw.tools.declare import Declared, nothing, tool


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No arguments."""


def _declare(run):
    return tool(
        Nothing,
        effect="READ",
        destination="internal",
        idempotent=True,
        always_ask=False,
        touches=nothing,
        summary=lambda _: run.__name__,
    )(run)


@_declare
async def test_simple_text(args, context):
    """Give a text."""
    return ToolOutput(text="This is a simple text response for testing.")


@_declare
async def test_error_handling(args, context):
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing", code="ON_PURPOSE", begun=False)


SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}


class _WithSchema(Declared):
    """A tool whose schema is somebody else's: it is shown as it is."""

    @property
    def parameters(self):
        return SCHEMA


async def json_schema_2020_12_tool(args, context):
    """Show a schema."""
    return ToolOutput(text="")


TOOLS = (
    test_simple_text,
    test_error_handling,
    _WithSchema(
        json_schema_2020_12_tool,
        Nothing,
        effect="READ",
        destination="internal",
        idempotent=True,
        always_ask=False,
        touches=nothing,
        summary=lambda _: "show a schema",
    ),
)
