"""The judge: pure functions that decide on requests. First the URL, before any DNS, then the addresses."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from coilclaw.airlock.listing import Endpoint, Listing
from coilclaw.airlock.names import is_localhost, local_name
from coilclaw.airlock.ranges import address_text, hidden_address, parse_address, special
from coilclaw.airlock.url import Refusal, Target, follow, parse_url
from coilclaw.packets.http import Principal

MAX_REDIRECTS = 5
NOT_REDIRECTED: frozenset[Principal] = frozenset(
    {"provider", "webhook", "push", "notify", "mcp", "oauth", "forge", "google"}
)
"""Principals whose requests go to exactly the given address: a redirect is the response."""


class EgressVerdict(msgspec.Struct, frozen=True):
    """Whether a URL may be fetched, why, and which address would be dialled."""

    url: str
    verdict: Literal["pass", "block"]
    code: str
    reason: str
    address: str | None


def judge_url(url: str, principal: Principal, listing: Listing) -> Target | EgressVerdict:
    """The target, or a block: only by syntax and listing, before any name is looked up."""
    target = parse_url(url)
    judged = target if isinstance(target, Refusal) else judge_target(target, principal, listing)
    return _blocked(url, judged) if isinstance(judged, Refusal) else judged


def judge_target(target: Target, principal: Principal, listing: Listing) -> Target | Refusal:
    """The target with its grants from the listing, or why the principal may not go there."""
    judged = _listed(target, principal, listing)
    if isinstance(judged, Refusal):
        return judged
    if principal not in ("provider", "forge") and any(not limit.covers(target) for limit in listing.narrowing or ()):
        return Refusal("NARROWED", f"{target.host} is outside the domains this skill or job declares; add it there")
    if judged.kind != "name":
        return _address_fault(judged, judged.host, listing) or judged
    return judged


def judge_addresses(target: Target, answers: Sequence[str], listing: Listing) -> EgressVerdict:
    """Pass only if every resolved address is acceptable; the first one is dialled."""
    if target.kind != "name":
        answers = (target.host,)
    if not answers:
        return _blocked(target.url, Refusal("NO_ADDRESS", f"{target.host} has no address; check the name"))
    for answer in answers:
        fault = _address_fault(target, answer, listing)
        if fault:
            return _blocked(target.url, fault)
    read = parse_address(answers[0])
    return EgressVerdict(target.url, "pass", "OK", "listed and public", address_text(*read) if read else None)


def judge_hop(
    base: Target | None, location: str, principal: Principal, listing: Listing, hops: int
) -> Target | Refusal:
    """Decide one redirect: where it leads from `base`, and whether hop number `hops` may follow it."""
    if base is None:
        target = parse_url(location)
        return target if isinstance(target, Refusal) else judge_target(target, principal, listing)
    if principal in NOT_REDIRECTED:
        return Refusal("REDIRECT", f"a {principal}'s redirect is not followed; configure the address it really has")
    if hops > MAX_REDIRECTS:
        return Refusal("REDIRECTS", f"more than {MAX_REDIRECTS} redirects")
    target = follow(base, location)
    if isinstance(target, Refusal):
        return target
    if base.scheme == "https" and target.scheme == "http":
        return Refusal("DOWNGRADE", f"the redirect to {target.host} is not https")
    return judge_target(target, principal, listing)


def judge_chain(
    urls: Sequence[str], principal: Principal, listing: Listing, answers: Mapping[str, Sequence[str]]
) -> EgressVerdict:
    """Judge a redirect sequence: every hop must pass, at most five, never from https to http or in a circle."""
    if not urls:
        return _blocked("", Refusal("BAD_URL", "there is no URL to check"))
    base: Target | None = None
    seen: set[str] = set()
    verdict: EgressVerdict | None = None
    for hops, url in enumerate(urls):
        target = judge_hop(base, url, principal, listing, hops)
        if isinstance(target, Refusal):
            return _blocked(urls[0], _at_hop(target, hops))
        if target.url in seen:
            return _blocked(urls[0], Refusal("REDIRECT_LOOP", f"redirect {hops} leads back to where it came from"))
        seen.add(target.url)
        verdict = judge_addresses(target, answers.get(target.host, ()), listing)
        if verdict.verdict == "block":
            return _blocked(urls[0], _at_hop(Refusal(verdict.code, verdict.reason), hops))
        base = target
    assert verdict is not None  # noqa: S101 the loop ran at least once
    return msgspec.structs.replace(verdict, url=urls[0])


def _listed(target: Target, principal: Principal, listing: Listing) -> Target | Refusal:
    if principal == "web_open":
        return _public_page(target) or target
    if principal == "push":  # any browser's push service, as long as it is public
        fault = _public_page(target)
        if fault is None:
            return target
        return Refusal(fault.code, f"a push service has a public https address on port 443 ({fault.reason})")
    places = listing.endpoints_for(principal)
    if places is None:
        if listing.domains.has_endpoint(target):
            return msgspec.structs.replace(target, explicit=True)
        return target if listing.domains.admits(target) else _unlisted(target, listing)
    if principal == "mcp" and target not in listing.mcp:  # several servers may share a host
        return Refusal("NOT_LISTED", "mcp may reach only the exact addresses of configured servers")
    if Endpoint(target.scheme, target.host, target.port) in places:
        return msgspec.structs.replace(target, explicit=True)
    return Refusal("NOT_LISTED", f"{principal} may reach only its configured address, not {target.host}:{target.port}")


def _public_page(target: Target) -> Refusal | None:
    if target.scheme != "https":
        return Refusal("SCHEME", "only https pages are opened; write https://")
    if target.kind != "name":
        return Refusal("IP_LITERAL", "pages are opened by name, not by IP address")
    if target.port != 443:
        return Refusal("PORT", "pages are opened on port 443 only")
    why = local_name(target.host)
    return Refusal("LOCAL_NAME", f"{target.host} is not a public name ({why})") if why else None


def _unlisted(target: Target, listing: Listing) -> Refusal:
    """Say which part does not match, so that the owner can list it or the caller can fix the URL."""
    entry = f"{target.scheme}://{target.authority}"
    if target.kind == "name" and listing.domains.has_name(target.host):
        return Refusal("NOT_LISTED", f"{target.host} is listed for https on 443; for this, list {entry}")
    if target.kind != "name" or local_name(target.host):
        return Refusal("NOT_LISTED", f"{target.host} is local; only the owner can list it, as {entry}")
    return Refusal("NOT_LISTED", f"{target.host} is not in allowed_domains; the owner can add it")


def _address_fault(target: Target, address: str, listing: Listing) -> Refusal | None:
    block = special(address)
    if block is None:
        return _not_this_machine(target, address)
    if block.place == "loopback" and target.port in listing.own_ports:
        return Refusal(
            "OWN_PORT", f"port {target.port} belongs to CoilClaw's own server, which the agent may never reach"
        )
    if _owner_meant(target, block.place):
        return None
    hidden = hidden_address(address)
    inside = f", which carries {hidden}" if hidden else ""
    shown = address if parse_address(address) else repr(address[:60])
    return Refusal(
        "SPECIAL_ADDRESS", f"{target.host} leads to {shown}{inside}: {block.name} ({block.source}), not the public net"
    )


def _owner_meant(target: Target, place: Literal["loopback", "private", "never"]) -> bool:
    """Whether an explicit listing covers an address that is not public.

    A listed address is explicit, and a local name is the owner's. A public-looking name is
    resolved by somebody else's DNS: it may lead into a private network (split horizon) only if TLS proves the name,
    and never to this machine.
    """
    if not target.explicit or place == "never":
        return False
    if is_localhost(target.host):
        return place == "loopback"
    if target.kind != "name" or local_name(target.host):
        return True
    return place == "private" and target.scheme == "https"


def _not_this_machine(target: Target, address: str) -> Refusal | None:
    """RFC 6761: localhost means this machine, whatever a name server says."""
    if not is_localhost(target.host):
        return None
    return Refusal(
        "SPECIAL_ADDRESS", f"{target.host} leads to {address}, which is not this machine; check the resolver"
    )


def _at_hop(fault: Refusal, hops: int) -> Refusal:
    return Refusal(fault.code, f"redirect {hops}: {fault.reason}") if hops else fault


def _blocked(url: str, fault: Refusal) -> EgressVerdict:
    return EgressVerdict(url, "block", fault.code, fault.reason, None)
