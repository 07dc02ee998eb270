"""http, web_open and web_search: GET and nothing else, through the airlock, labelled as untrusted."""

from typing import Annotated
from urllib.parse import quote, urljoin

import msgspec

from coilclaw.packets.action import untrusted
from coilclaw.packets.errors import ToolError
from coilclaw.packets.http import FetchRequest, HttpResponse
from coilclaw.packets.ports import Context, Tool, ToolOutput, Touches
from coilclaw.tools.declare import tool

MOST_HITS = 10


class OpenArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of web_open."""

    url: Annotated[str, msgspec.Meta(description="A public https page.", min_length=1, max_length=4096)]


class SearchArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of web_search."""

    query: Annotated[str, msgspec.Meta(description="What to search for.", min_length=1, max_length=400)]


def host_of(url: str) -> str:
    """The host of an address that the airlock has accepted."""
    return url.partition("://")[2].partition("/")[0].partition("?")[0].partition("#")[0]


def fetched(response: HttpResponse, text: str) -> ToolOutput:
    """What a GET returned, as this text."""
    success = response.status < 400
    return ToolOutput(
        text=text + _not_followed(response),
        label=untrusted(host_of(response.url)),
        success=success,
        code="" if success else f"HTTP_{response.status}",
        metadata={"status": response.status, "bytes": len(response.body), "url": response.url},
    )


def _not_followed(response: HttpResponse) -> str:
    """Where an unfollowed redirect leads; empty for any other response."""
    location = response.header("location") if 300 <= response.status < 400 else ""
    if not location:
        return ""
    return f"\n\nIt redirects to another host, which was not followed: {urljoin(response.url, location)}"


def _page(args: OpenArgs) -> FetchRequest:
    return FetchRequest(purpose="read", principal="web_open", method="GET", url=args.url)


@tool(
    OpenArgs,
    effect="READ",
    destination="external",
    idempotent=True,
    always_ask=False,
    touches=lambda args: Touches(requests=(_page(args),)),
    summary=lambda args: f"Open {args.url}.",
)
async def web_open(args: OpenArgs, context: Context) -> ToolOutput:
    """Open a public web page and return its readable text, at most 50 KB."""
    if context.read_page is None:
        raise ToolError("no page was granted to this call.", code="NOT_GRANTED", begun=False)
    response = await context.fetch(_page(args))
    text = await context.read_page(response)
    return fetched(response, f"HTTP {response.status} {response.url}\n\n{text}")


def make_web_search(search_url: str) -> Tool:
    """web_search against the configured server; without one it says how to configure it."""

    def request(args: SearchArgs) -> FetchRequest:
        url = f"{search_url}?q={quote(args.query)}&format=json"
        return FetchRequest(purpose="read", principal="web_search", method="GET", url=url)

    @tool(
        SearchArgs,
        effect="READ",
        destination="external",
        idempotent=True,
        always_ask=False,
        touches=lambda args: Touches(requests=(request(args),) if search_url else ()),
        summary=lambda args: f"Search the web for {args.query!r}.",
    )
    async def web_search(args: SearchArgs, context: Context) -> ToolOutput:
        """Search the web and return titles, addresses and excerpts."""
        if not search_url:
            raise ToolError(
                "web_search is off: no search server is configured.",
                remedy="Set [web_search] kind to brave (with api_key_env) or searxng (with base_url).",
                code="SEARCH_OFF",
                begun=False,
            )
        response = await context.fetch(request(args))
        if response.status != 200:
            raise ToolError(f"the search server answered with {response.status}.", code=f"HTTP_{response.status}")
        hits = _hits(response)
        lines = [f"{hit.title}\n{hit.url}\n{hit.content or hit.description}" for hit in hits]
        return ToolOutput(
            text="\n\n".join(lines) or "Nothing found.",
            label=untrusted(host_of(search_url)),
            metadata={"links": [hit.url for hit in hits]},
        )

    return web_search


class _Hit(msgspec.Struct, frozen=True):
    title: str = ""
    url: str = ""
    content: str = ""
    description: str = ""


class _Web(msgspec.Struct, frozen=True):
    results: tuple[_Hit, ...] = ()


class _Answer(msgspec.Struct, frozen=True):
    results: tuple[_Hit, ...] = ()
    web: _Web = _Web()


def _hits(response: HttpResponse) -> list[_Hit]:
    try:
        answer = msgspec.json.decode(response.body, type=_Answer)
    except msgspec.DecodeError as error:
        raise ToolError("the search server's response could not be read.", code="SEARCH_UNREADABLE") from error
    return [hit for hit in (*answer.results, *answer.web.results) if hit.url][:MOST_HITS]


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
    return fetched(response, f"HTTP {response.status}, {kind}\n\n{body}{rest}")
