"""What a configuration lets this machine reach, and what the owner could list so that one more address passes."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw.config import Config, ServerModel
from coilclaw.packets.errors import ConfigError

if TYPE_CHECKING:
    from coilclaw.airlock import Airlock, Listing
    from coilclaw.config.mcp import McpServer
    from coilclaw.gate.decision_input import UrlFact
    from coilclaw.packets.action import Identity
    from coilclaw.packets.http import Principal, SendTarget
    from coilclaw.packets.ports import Transport
    from coilclaw.runtime.runtime import Log, Runtime

_PLAIN = r"(?s)https://([a-z0-9-]+(?:\.[a-z0-9-]+)+)(?:[/?#].*)?"


def listing_of(config: Config, *more: str) -> "Listing":
    """Who may reach what, with further domains if asked; a ConfigError names entries that cannot be listed."""
    from coilclaw.airlock import Listing

    models = config.providers.models.values()
    return Listing.build(
        providers=[model.base_url for model in models if isinstance(model, ServerModel)],
        searches=[url] if (url := config.web_search.address()) else [],
        forges=[config.forge.github.api_url] if config.forge.kind == "github" else [],
        webhooks=[url for hook in config.webhooks.values() for url in (hook.url, hook.lookup_url) if url],
        notify=_notify_places(config),
        mcp=[server.url for server in config.mcp.servers.values() if server.url],
        oauth=[
            *(host for server in config.mcp.servers.values() for host in sign_in_places(server)),
            *((config.google.token, config.google.revoke) if config.google.configured else ()),
            *((config.forge.github.site,) if _signs_in_by_github(config) else ()),
        ],
        google=(config.google.gmail, config.google.calendar) if config.google.configured else (),
        allowed_domains=(*config.security.allowed_domains, *more),
        own_ports=[int(config.server.http_addr.rpartition(":")[2])],
    )


def _signs_in_by_github(config: Config) -> bool:
    return config.forge.kind == "github" and bool(config.forge.github.sign_in_client_id)


def open_airlock(app: "Runtime", say: "Log") -> "Airlock":
    """The airlock of a home; it logs a line for every request."""
    import msgspec

    from coilclaw.airlock.log import EgressLine, line_json
    from coilclaw.airlock.transport import Airlock

    def note(line: EgressLine) -> None:
        say("debug", "egress", msgspec.to_builtins(line))
        try:
            keep_line(app.home.logs_dir / "airlock.jsonl", line_json(line))
        except OSError as error:
            app.warn(f"the airlock's log cannot be written ({error.strerror}).")

    return Airlock(app.listing, log=note, clock=app.clock)


def sign_in_places(server: "McpServer") -> tuple[str, ...]:
    """The hosts that signing in to a server may contact: its own origin, and those that the owner named."""
    if not server.oauth_hosts:
        return ()
    scheme, _, rest = server.url.partition("://")
    return (f"{scheme}://{rest.partition('/')[0].partition('?')[0]}", *server.oauth_hosts)


def google_refuses(config: Config, identity: "Identity", path: str) -> bool:
    """Whether the airlock refuses to post to this path of Gmail in that name; nothing is sent."""
    from coilclaw.airlock.google import google_fault
    from coilclaw.airlock.url import Refusal, parse_url
    from coilclaw.packets.http import HttpRequest

    url = f"{config.google.gmail}{path}"
    target = parse_url(url)
    request = HttpRequest(principal="google", identity=identity, method="POST", url=url, body=b'{"id": "r0"}')
    return isinstance(target, Refusal) or google_fault(request, target) is not None


def transport_under(app: "Runtime", config: Config) -> "Transport":
    """The airlock of a given configuration: for an address that is approved, but not in the file yet."""
    from coilclaw.airlock.transport import Airlock

    transport = app.transport
    return transport.with_listing(listing_of(config)) if isinstance(transport, Airlock) else transport


def unlistable(domains: Iterable[str]) -> tuple[str, ...]:
    """What is wrong with entries that are not valid in a list of domains."""
    from coilclaw.airlock.listing import DomainSet

    try:
        DomainSet.of(domains)
    except ConfigError as error:
        return tuple(error.problems)
    return ()


def _notify_places(config: Config) -> list[str]:
    notify = config.notify
    places = [notify.url] if notify.url else []
    if notify.smtp.host:
        from coilclaw.airlock.smtp import mail_url

        places.append(mail_url(notify.smtp.host, notify.smtp.port))
    return places


def url_fact(
    config: Config, listing: "Listing", url: str, principal: "Principal", narrowing: tuple[tuple[str, ...], ...]
) -> "UrlFact":
    """What the airlock thinks of a URL before any look-up, and what would let it pass."""
    from coilclaw.airlock import Target, judge_url
    from coilclaw.gate.decision_input import UrlFact

    for domains in narrowing:
        listing = listing.narrowed(domains)
    judged = judge_url(url, principal, listing)
    if isinstance(judged, Target):
        return UrlFact(host=judged.host, code="", reason="", origin="constructed", followed=0, stays=False)
    reason = judged.reason.rstrip(".") + "."
    entry = _listable(config, url, principal) if judged.code == "NOT_LISTED" and not narrowing else ""
    return UrlFact(
        host="", code=judged.code, reason=reason, origin="constructed", followed=0, stays=False, listable=entry
    )


def _listable(config: Config, url: str, principal: "Principal") -> str:
    """The domain that would let a refused URL pass if it were listed; empty when none would."""
    from coilclaw.airlock import Target, judge_url

    found = re.fullmatch(_PLAIN, url)
    if found is None or principal not in ("http", "box"):
        return ""
    try:
        judged = judge_url(url, principal, listing_of(config, found[1]))
    except ConfigError:  # a local name, or an address: those are listed by hand, with scheme and port
        return ""
    return found[1] if isinstance(judged, Target) else ""


def send_targets(config: Config) -> "dict[str, SendTarget]":
    """The places that messages may be posted to, by name."""
    from coilclaw.packets.http import SendTarget

    return {
        name: SendTarget(
            name=name,
            url=hook.url,
            key_header=hook.key_header,
            deduplicates=hook.deduplicates,
            lookup_url=hook.lookup_url,
            timeout_seconds=hook.timeout_seconds,
        )
        for name, hook in config.webhooks.items()
    }


def keep_line(file: Path, line: bytes) -> None:
    """Append one line to a log that only the owner reads."""
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, line.rstrip(b"\n") + b"\n")
    finally:
        os.close(fd)
