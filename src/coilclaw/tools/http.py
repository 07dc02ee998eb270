"""http: GET and nothing else, through the airlock, from domains the owner listed."""

from typing import Annotated

import msgspec

from coilclaw.packets.action import untrusted
from coilclaw.packets.http import FetchRequest
from coilclaw.packets.ports import Context, ToolOutput, Touches
from coilclaw.tools.declare import tool
from coilclaw.tools.web import host_of, not_followed

SHOWN = 64 * 1024


class HttpArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of http."""

    url: Annotated[str, msgspec.Meta(description="An https URL on an allowed domain.", min_length=1, max_length=4096)]


def _request(args: HttpArgs) -> FetchRequest:
    return FetchRequest(purpose="read", principal="http", method="GET", url=args.url)


@tool(
    HttpArgs,
    effect="READ",
    destination="external",
    idempotent=True,
    always_ask=False,
    touches=lambda args: Touches(requests=(_request(args),)),
    summary=lambda args: f"Fetch {args.url}.",
)
async def http(args: HttpArgs, context: Context) -> ToolOutput:
    """Fetch a URL on an allowed domain with GET and return its text."""
    response = await context.fetch(_request(args))
    kind = response.header("content-type") or "unknown type"
    textual = kind.startswith(("text/", "application/json", "application/xml", "application/javascript")) or "+" in kind
    body = response.body[:SHOWN].decode("utf-8", "replace") if textual else f"({len(response.body)} bytes, not text)"
    rest = f"\n… {len(response.body) - SHOWN} more bytes" if textual and len(response.body) > SHOWN else ""
    success = response.status < 400
    return ToolOutput(
        text=f"HTTP {response.status}, {kind}\n\n{body}{rest}{not_followed(response)}",
        label=untrusted(host_of(response.url)),
        success=success,
        code="" if success else f"HTTP_{response.status}",
        metadata={"status": response.status, "bytes": len(response.body), "url": response.url},
    )
