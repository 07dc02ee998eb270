"""http: GET and nothing else, through the airlock, from domains the owner listed."""

from typing import Annotated

import msgspec

from coilclaw.packets.action import untrusted
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, ToolOutput, Touches
from coilclaw.tools.declare import tool

SHOWN = 64 * 1024


class HttpArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of http."""

    url: Annotated[str, msgspec.Meta(description="An https URL on an allowed domain.", min_length=1, max_length=4096)]


@tool(
    HttpArgs,
    effect="READ",
    destination="external",
    idempotent=True,
    always_ask=False,
    touches=lambda args: Touches(url=args.url, principal="http"),
    summary=lambda args: f"Fetch {args.url}.",
)
async def http(args: HttpArgs, context: Context) -> ToolOutput:
    """Fetch a URL on an allowed domain with GET and return its text."""
    if context.http_get is None:
        raise ToolError("no request was granted to this call.", code="NOT_GRANTED", begun=False)
    response = await context.http_get(args.url)
    host = response.url.partition("://")[2].partition("/")[0].partition("?")[0]
    kind = response.header("content-type") or "unknown type"
    textual = kind.startswith(("text/", "application/json", "application/xml", "application/javascript")) or "+" in kind
    body = response.body[:SHOWN].decode("utf-8", "replace") if textual else f"({len(response.body)} bytes, not text)"
    rest = f"\n… {len(response.body) - SHOWN} more bytes" if textual and len(response.body) > SHOWN else ""
    success = response.status < 400
    return ToolOutput(
        text=f"HTTP {response.status}, {kind}\n\n{body}{rest}",
        label=untrusted(host),
        success=success,
        code="" if success else f"HTTP_{response.status}",
        metadata={"status": response.status, "bytes": len(response.body)},
    )
