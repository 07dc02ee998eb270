"""The judge as a pure function: every special address blocked, no host read two ways, listings only as written."""

import ipaddress
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coilclaw.airlock import (
    DomainSet,
    Listing,
    Refusal,
    Target,
    judge_addresses,
    judge_chain,
    judge_url,
    parse_url,
)
from coilclaw.airlock.judge import EgressVerdict
from coilclaw.airlock.ranges import IPV4, IPV6, Range, parse_address, special
from coilclaw.airlock.url import follow
from coilclaw.packets.errors import ConfigError
from coilclaw.packets.http import Principal

OPEN = Listing()
PAGE = Target(scheme="https", host="example.com", kind="name", port=443, path="/")


def inside(row: Range) -> st.SearchStrategy[str]:
    network = ipaddress.ip_network(row.cidr)
    first, last = int(network[0]), int(network[-1])
    kind = ipaddress.IPv4Address if network.version == 4 else ipaddress.IPv6Address
    return st.one_of(st.sampled_from([first, last]), st.integers(first, last)).map(lambda number: str(kind(number)))


SPECIAL_V4 = st.sampled_from(IPV4).flatmap(inside)
SPECIAL_V6 = st.sampled_from(IPV6).flatmap(inside)


@given(st.one_of(SPECIAL_V4, SPECIAL_V6))
def test_every_address_inside_every_special_range_is_blocked(address: str) -> None:
    assert special(address) is not None
    assert judge_addresses(PAGE, [address], OPEN).verdict == "block"
    assert judge_addresses(PAGE, ["93.184.215.14", address], OPEN).verdict == "block"
    assert judge_addresses(PAGE, [address, "93.184.215.14"], OPEN).verdict == "block"


@given(SPECIAL_V4, st.integers(0, 2**64 - 1))
def test_a_blocked_ipv4_address_is_blocked_in_every_ipv6_disguise(address: str, noise: int) -> None:
    number = int(ipaddress.IPv4Address(address))
    disguises = [
        number,
        0xFFFF << 32 | number,
        0xFFFF << 48 | number,
        0x64FF9B << 96 | number,
        0x64FF9B0001 << 80 | number,
        0x2002 << 112 | number << 80 | noise,
        0x20010000 << 96 | noise >> 32 << 64 | (number ^ 0xFFFFFFFF),
        0x2A001450 << 96 | 0x5EFE << 32 | number,
        0x2A001450 << 96 | 0x2005EFE << 32 | number,
    ]
    for disguise in disguises:
        assert judge_addresses(PAGE, [str(ipaddress.IPv6Address(disguise))], OPEN).verdict == "block"


@given(st.integers(0, 2**128 - 1))
def test_ipv6_outside_global_unicast_never_passes(number: int) -> None:
    verdict = judge_addresses(PAGE, [str(ipaddress.IPv6Address(number))], OPEN)
    assert verdict.verdict == "block" or number >> 125 == 1


@given(st.integers(0, 2**32 - 1))
def test_nothing_passes_that_the_standard_library_calls_private(number: int) -> None:
    address = ipaddress.IPv4Address(number)
    passes = judge_addresses(PAGE, [str(address)], OPEN).verdict == "pass"
    assert not (passes and (not address.is_global or address.is_multicast or address.is_reserved))


def test_the_table_holds_what_the_standard_library_misses() -> None:
    missed = (
        "64:ff9b::1 64:ff9b:1::1 2002::1 ::127.0.0.1 ::ffff:0:127.0.0.1 fec0::1 3fff::1 5f00::1 224.0.0.1 ff02::1 "
        "192.88.99.1 192.0.0.8 168.63.129.16 100.64.0.1"
    )
    assert all(special(address) for address in missed.split())


@pytest.mark.parametrize("row", [*IPV4, *IPV6], ids=lambda row: row.cidr)
def test_every_row_of_the_table_is_well_formed_and_names_its_source(row: Range) -> None:
    ipaddress.ip_network(row.cidr)  # strict: no host bits
    assert row.name
    assert row.source


@given(st.text())
def test_an_answer_is_an_address_in_one_spelling_only(text: str) -> None:
    read = parse_address(text)
    if read is not None:
        assert int(ipaddress.ip_address(text)) == read[1]


ODD = "ab1.-_:@/\\?#[]%&;,*|{}<>\"' \t\r\n\0\x7f\u3002\uff0e\uff0f\uff20\u2460\u00e9\u200b"
HOSTS = st.one_of(
    st.text(ODD, max_size=30),
    st.sampled_from(["127.0.0.1", "localhost", "example.com", "[::1]", "0x7f.1", "2130706433", "user@example.com"]),
    st.text(max_size=20),
)


@given(st.sampled_from(["https://", "HTTPS://", "http://", "https:", "//", ""]), HOSTS, st.text(ODD, max_size=20))
@example("https://", "example.com", "\\@127.0.0.1")
@example("https://", "127.0.0.1", "#@example.com")
@example("https://", "example.com", ":443:80")
def test_a_mutated_host_never_crashes_and_never_differs_from_what_would_be_dialled(
    start: str, host: str, rest: str
) -> None:
    target = parse_url(start + host + rest)
    if isinstance(target, Refusal):
        return
    assert parse_url(target.url) == target  # one spelling, read the same way again
    assert target.host.isascii()
    assert target.host == target.host.lower()
    assert not set(target.host) & set("@/\\?#%[] \t\r\n\0")
    assert f"{start}{host}{rest}".lower().partition("://")[2].startswith((target.host, "["))
    assert all("!" <= char <= "~" for char in target.path)


@given(st.text())
def test_any_text_is_judged_without_an_error(text: str) -> None:
    for principal in ("web_open", "provider", "http"):
        assert isinstance(judge_url(text, principal, OPEN), Target | EgressVerdict)


@given(st.text(max_size=40))
def test_any_location_is_followed_strictly_or_refused(location: str) -> None:
    target = follow(PAGE, location)
    if isinstance(target, Target):
        assert parse_url(target.url) == target
        assert target.host == "example.com" or target.host in location.lower()


@pytest.mark.parametrize(
    ("location", "leads_to"),
    [
        ("/x", "https://example.com/x"),
        ("x", "https://example.com/a/x"),
        ("../x", "https://example.com/x"),
        ("../../../x", "https://example.com/x"),
        ("./", "https://example.com/a/"),
        ("..", "https://example.com/"),
        ("?y=2", "https://example.com/a/b?y=2"),
        ("#f", "https://example.com/a/b?q=1"),
        ("//other.example/x", "https://other.example/x"),
        ("https://other.example:443", "https://other.example/"),
    ],
)
def test_relative_redirects_resolve_as_the_standard_says(location: str, leads_to: str) -> None:
    base = parse_url("https://example.com/a/b?q=1")
    assert isinstance(base, Target)
    target = follow(base, location)
    assert isinstance(target, Target)
    assert target.url == leads_to


def test_the_fragment_is_dropped_and_the_rest_of_the_path_is_sent_as_written() -> None:
    target = parse_url("https://Example.com/A%2f?x=\u00fc|#secret")
    assert isinstance(target, Target)
    assert target.path == "/A%2f?x=%C3%BC%7C"


# --- listings


def judged(url: str, principal: Principal, listing: Listing) -> str:
    result = judge_url(url, principal, listing)
    return "pass" if isinstance(result, Target) else result.code


MISLEADING = """
* *.com *.local localhost 127.0.0.1 nas.lan example.com:8443 example.com/x http://*.a.com https://example.com/x ftp://a.com
http://169.254.169.254 http://0.0.0.0:80 user@a.com ex*mple.com **.example.com *.*.example.com http://[fe80::1]:80
b\u00fccher.de example.com. https://a.com?x https://a.com#x .example.com http://2130706433 http://a.com:0 http:// *.
"""


@pytest.mark.parametrize("entry", ["", "a b", " example.com", *MISLEADING.split()])
def test_an_entry_that_could_mean_more_than_it_says_is_a_config_error(entry: str) -> None:
    with pytest.raises(ConfigError):
        DomainSet.of([entry])


def test_every_bad_entry_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Listing.build(allowed_domains=["*", "example.com", "localhost"])
    assert len(caught.value.problems) == 2


def test_a_wildcard_ends_at_a_label_and_leaves_the_apex_out() -> None:
    listing = Listing.build(allowed_domains=["*.Example.org"])
    assert judged("https://a.example.org/", "http", listing) == "pass"
    assert judged("https://a.b.example.org/", "http", listing) == "pass"
    assert judged("https://example.org/", "http", listing) == "NOT_LISTED"
    assert judged("https://evilexample.org/", "http", listing) == "NOT_LISTED"


def test_a_skill_or_job_only_narrows() -> None:
    listing = Listing.build(allowed_domains=["example.com", "*.example.org", "http://localhost:8080"])
    narrow = listing.narrowed(["example.com", "other.com"])
    assert judged("https://example.com/", "http", narrow) == "pass"
    assert judged("https://a.example.org/", "http", narrow) == "NARROWED"
    assert judged("http://localhost:8080/", "box", narrow) == "NARROWED"
    assert judged("https://other.com/", "http", narrow) == "NOT_LISTED"
    assert judged("https://other.com/", "web_open", narrow) == "pass"
    assert judged("https://third.com/", "web_open", narrow) == "NARROWED"
    assert judged("https://example.com/", "http", narrow.narrowed(["*.example.org"])) == "NARROWED"
    assert judged("https://example.com/", "http", narrow.narrowed([])) == "NARROWED"
    assert narrow.narrowed(None) is narrow


def test_each_bound_principal_has_its_own_places() -> None:
    listing = Listing.build(forges=["https://api.forge.example/"], searches=["https://s.example/q"])
    assert judged("https://api.forge.example/repos", "forge", listing) == "pass"
    assert judged("https://api.forge.example/repos", "web_search", listing) == "NOT_LISTED"
    assert judged("https://s.example/q?x", "web_search", listing) == "pass"
    assert judged("https://s.example/q?x", "http", listing) == "NOT_LISTED"


def test_metadata_addresses_can_not_be_configured_as_a_provider() -> None:
    for url in ("http://169.254.169.254/v1", "http://168.63.129.16/", "http://[fd00:ec2::254]/", "http://224.0.0.1/"):
        with pytest.raises(ConfigError):
            Listing.build(providers=[url])


def test_our_own_port_is_refused_even_where_it_was_configured() -> None:
    listing = Listing.build(
        providers=["http://127.0.0.1:8765", "http://[::1]:8765", "http://localhost:8765", "http://127.9.9.9:8765"],
        own_ports=[8765],
    )
    for url in ("http://127.0.0.1:8765/", "http://[::1]:8765/", "http://127.9.9.9:8765/"):
        assert judged(url, "provider", listing) == "OWN_PORT"
    named = judge_url("http://localhost:8765/", "provider", listing)
    assert isinstance(named, Target)
    assert judge_addresses(named, ["127.0.0.1"], listing).code == "OWN_PORT"


def test_an_empty_chain_is_a_block() -> None:
    assert judge_chain([], "web_open", OPEN, {}).verdict == "block"


def test_the_address_shown_is_the_one_to_dial_in_its_canonical_spelling() -> None:
    verdict = judge_addresses(PAGE, ["2606:4700:0:0::1111", "1.1.1.1"], OPEN)
    assert (verdict.verdict, verdict.address) == ("pass", "2606:4700::1111")


def test_importing_the_airlock_loads_no_network_code() -> None:
    program = (
        "import sys; before = set(sys.modules); import coilclaw.airlock; "
        "print([m for m in ('ssl', 'asyncio', 'h11', 'httpcore', 'certifi', 'selectolax', 'cryptography') "
        "if m in set(sys.modules) - before])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


EXACT = Listing.build(mcp=["https://tools.example.com/a/mcp?v=1", "http://127.0.0.1:4901/mcp"], own_ports=[4902])


@pytest.mark.parametrize("url", ["https://tools.example.com/a/mcp?v=1", "https://TOOLS.example.com:443/a/mcp?v=1#x"])
def test_an_mcp_server_is_reached_at_its_exact_address(url: str) -> None:
    assert isinstance(judge_url(url, "mcp", EXACT), Target)
    assert isinstance(judge_url("http://127.0.0.1:4901/mcp", "mcp", EXACT), Target)
    for other in ("http", "provider", "webhook", "box"):
        assert isinstance(judge_url(url, other, EXACT), EgressVerdict)


@pytest.mark.parametrize("url", [
    "https://tools.example.com/", "https://tools.example.com/a/mcp", "https://tools.example.com/a/mcp?v=2",
    "https://tools.example.com/b/mcp?v=1", "https://tools.example.com/a/../a/mcp?v=1", "https://tools.example.com/A/mcp?v=1",
    "http://tools.example.com/a/mcp?v=1", "https://tools.example.com:8443/a/mcp?v=1", "https://example.com/a/mcp?v=1",
    "http://127.0.0.1:4901/", "http://127.0.0.1:4903/mcp", "http://localhost:4901/mcp", "http://[::1]:4901/mcp",
])  # fmt: skip
def test_no_other_address_is_reached_as_an_mcp_server(url: str) -> None:
    judged = judge_url(url, "mcp", EXACT)
    assert isinstance(judged, EgressVerdict)
    assert judged.code == "NOT_LISTED"


def test_an_mcp_server_cannot_be_our_own_or_lead_to_this_machine_unseen() -> None:
    own = Listing.build(mcp=["http://127.0.0.1:4902/mcp"], own_ports=[4902])
    judged = judge_url("http://127.0.0.1:4902/mcp", "mcp", own)
    assert isinstance(judged, EgressVerdict)
    assert judged.code == "OWN_PORT"
    target = judge_url("https://tools.example.com/a/mcp?v=1", "mcp", EXACT)
    assert isinstance(target, Target)
    assert judge_addresses(target, ["127.0.0.1"], EXACT).code == "SPECIAL_ADDRESS"
    with pytest.raises(ConfigError):
        Listing.build(mcp=["http://169.254.169.254/latest"])


def test_narrowing_holds_for_mcp_servers_too() -> None:
    judged = judge_url("https://tools.example.com/a/mcp?v=1", "mcp", EXACT.narrowed(["example.org"]))
    assert isinstance(judged, EgressVerdict)
    assert judged.code == "NARROWED"
