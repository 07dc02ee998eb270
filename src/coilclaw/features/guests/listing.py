"""What a started server offers, and which of its tools cannot be let in."""

from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.guests.mcp_client import McpClient
from coilclaw.features.guests.mcp_messages import ListedTool
from coilclaw.features.guests.names import alike, tool_fault
from coilclaw.features.guests.offer import CLAIMS, DESCRIPTION, GuestGrant, GuestOffer, OfferedTool
from coilclaw.features.guests.schemas import schema_fault

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime


async def offer_of(app: "Runtime", client: McpClient, name: str, version: str, grant: GuestGrant) -> GuestOffer:
    """What a started server offers, in the order of names; what cannot be let in is told."""
    tools: list[OfferedTool] = []
    faults: list[str] = []
    listed = await client.list_tools()
    twins = alike(tool.name for tool in listed)
    for tool in sorted(listed, key=lambda each: each.name):
        fault = tool_fault(tool.name) or schema_fault(tool.input_schema)
        if not fault and tool.output_schema is not None:
            fault = schema_fault(tool.output_schema)
        if tool.name in twins:
            fault = "its name looks like that of another tool"
        if _tells_a_secret(app, tool):
            fault = "it repeats one of your secrets"
        if fault:
            faults.append(f"{app.redact(tool.name)[:80]}: {fault}")
            continue
        offered = OfferedTool(
            original=tool.name,
            description=tool.description[:DESCRIPTION],
            parameters=tool.input_schema,
            output=tool.output_schema,
            claims={key: tool.annotations[key] for key in CLAIMS if isinstance(tool.annotations.get(key), bool)},
        )
        tools.append(offered)
    version = app.redact(version)[:100]
    return GuestOffer(name=name, version=version, grant=grant, tools=tuple(tools), faults=tuple(faults))


def _tells_a_secret(app: "Runtime", tool: ListedTool) -> bool:
    """Whether a registered secret stands in what would be stored, and sent to models with every request."""
    words = f"{tool.name}\n{tool.description}\n{msgspec.json.encode((tool.input_schema, tool.output_schema)).decode()}"
    return app.redactor.registered(words) != words
