"""Which addresses are public, by our own table: `ipaddress.is_global` lets NAT64, 6to4 and multicast through.

An address is public only if no row below contains it. For IPv6 everything outside 2000::/3 is special.
Sources: the IANA special-purpose registries (RFC 6890 and the RFC named in each row) and the cloud vendors' documents.
"""

from bisect import bisect_right
from functools import cache
from socket import AF_INET, AF_INET6, inet_ntop, inet_pton
from typing import Final, Literal, NamedTuple, TypeAlias

Place: TypeAlias = Literal["loopback", "private", "never"]
"""`loopback` and `private` can be reached if the owner lists the host explicitly; `never` cannot be listed at all."""


class Range(NamedTuple):
    """One special-purpose block."""

    cidr: str
    name: str
    source: str
    place: Place


IPV4: Final = (
    Range("0.0.0.0/8", "this network", "RFC 791", "never"),
    Range("10.0.0.0/8", "private network", "RFC 1918", "private"),
    Range("100.64.0.0/10", "carrier-grade NAT", "RFC 6598", "private"),
    Range("100.100.100.200/32", "cloud metadata", "Alibaba Cloud", "never"),
    Range("127.0.0.0/8", "loopback", "RFC 1122", "loopback"),
    Range("168.63.129.16/32", "cloud wire server", "Azure", "never"),
    Range("169.254.0.0/16", "link-local and cloud metadata", "RFC 3927", "never"),
    Range("172.16.0.0/12", "private network", "RFC 1918", "private"),
    Range("192.0.0.0/24", "IETF protocol assignments and cloud metadata", "RFC 6890", "never"),
    Range("192.0.2.0/24", "documentation", "RFC 5737", "never"),
    Range("192.31.196.0/24", "AS112", "RFC 7535", "never"),
    Range("192.52.193.0/24", "multicast tunnelling", "RFC 7450", "never"),
    Range("192.88.99.0/24", "6to4 relay", "RFC 7526", "never"),
    Range("192.168.0.0/16", "private network", "RFC 1918", "private"),
    Range("192.175.48.0/24", "AS112", "RFC 7534", "never"),
    Range("198.18.0.0/15", "benchmarking", "RFC 2544", "never"),
    Range("198.51.100.0/24", "documentation", "RFC 5737", "never"),
    Range("203.0.113.0/24", "documentation", "RFC 5737", "never"),
    Range("224.0.0.0/4", "multicast", "RFC 5771", "never"),
    Range("240.0.0.0/4", "reserved and broadcast", "RFC 1112", "never"),
)

IPV6: Final = (
    Range("::/128", "unspecified", "RFC 4291", "never"),
    Range("::1/128", "loopback", "RFC 4291", "loopback"),
    Range("::/96", "IPv4-compatible", "RFC 4291", "never"),
    Range("::ffff:0:0/96", "IPv4-mapped", "RFC 4291", "never"),
    Range("::ffff:0:0:0/96", "IPv4-translated", "RFC 2765", "never"),
    Range("64:ff9b::/96", "NAT64", "RFC 6052", "never"),
    Range("64:ff9b:1::/48", "local NAT64", "RFC 8215", "never"),
    Range("100::/64", "discard-only", "RFC 6666", "never"),
    Range("100:0:0:1::/64", "dummy prefix", "RFC 9780", "never"),
    Range("2001::/23", "IETF protocol assignments", "RFC 2928", "never"),
    Range("2001::/32", "Teredo", "RFC 4380", "never"),
    Range("2001:2::/48", "benchmarking", "RFC 5180", "never"),
    Range("2001:10::/28", "ORCHID", "RFC 4843", "never"),
    Range("2001:20::/28", "ORCHIDv2", "RFC 7343", "never"),
    Range("2001:30::/28", "drone remote ID", "RFC 9374", "never"),
    Range("2001:db8::/32", "documentation", "RFC 3849", "never"),
    Range("2002::/16", "6to4", "RFC 3056", "never"),
    Range("2620:4f:8000::/48", "AS112", "RFC 7534", "never"),
    Range("3ffe::/16", "returned 6bone", "RFC 3701", "never"),
    Range("3fff::/20", "documentation", "RFC 9637", "never"),
    Range("5f00::/16", "segment routing", "RFC 9602", "never"),
    Range("fc00::/7", "unique local", "RFC 4193", "private"),
    Range("fd00:ec2::/32", "cloud metadata", "AWS", "never"),
    Range("fd00:42::42/128", "cloud metadata", "Scaleway", "never"),
    Range("fd00:c1::/32", "cloud metadata", "Oracle Cloud", "never"),
    Range("fd20:ce::/32", "cloud metadata", "Google Cloud", "never"),
    Range("fe80::/10", "link-local", "RFC 4291", "never"),
    Range("fec0::/10", "site-local", "RFC 3879", "never"),
    Range("ff00::/8", "multicast", "RFC 4291", "never"),
)

_OUTSIDE: Final = Range("::/0", "outside global unicast 2000::/3", "RFC 4291", "never")
_UNREADABLE: Final = Range("", "not an IP address", "RFC 4291", "never")
_ISATAP: Final = (0x00005EFE, 0x02005EFE)

Bits: TypeAlias = Literal[32, 128]


def parse_address(text: str) -> tuple[Bits, int] | None:
    """The width and number of an address in its plain spelling; no zone, no octal, no short form."""
    family, bits = (AF_INET6, 128) if ":" in text else (AF_INET, 32)
    try:
        packed = inet_pton(family, text)
    except (OSError, ValueError):
        return None
    if bits == 32 and ".".join(map(str, packed)) != text:
        return None  # some C libraries parse leading zeros as octal; we accept one spelling only
    return (128 if bits == 128 else 32), int.from_bytes(packed, "big")


def address_text(bits: Bits, number: int) -> str:
    """The canonical spelling."""
    return inet_ntop(AF_INET6 if bits == 128 else AF_INET, number.to_bytes(bits // 8, "big"))


def special(address: str) -> Range | None:
    """The narrowest special-purpose block that contains the address, or None if it is public."""
    read = parse_address(address)
    if read is None:
        return _UNREADABLE
    bits, number = read
    found = _look_up(bits, number)
    if found or bits == 32:
        return found
    if number >> 125 != 1:
        return _OUTSIDE
    hidden = embedded(number)
    return _look_up(32, hidden) if hidden is not None else None


def embedded(number: int) -> int | None:
    """The IPv4 address embedded in an IPv6 one: mapped, compatible, translated, NAT64, 6to4, Teredo or ISATAP."""
    low = number & 0xFFFFFFFF
    if number >> 32 in (0, 0xFFFF, 0xFFFF0000, 0x64FF9B << 64) or number >> 80 == 0x64FF9B0001:
        return low
    if number >> 112 == 0x2002:
        return number >> 80 & 0xFFFFFFFF
    if number >> 96 == 0x20010000:
        return low ^ 0xFFFFFFFF
    return low if number >> 32 & 0xFFFFFFFF in _ISATAP else None


def hidden_address(address: str) -> str | None:
    """The IPv4 address inside an IPv6 one, for saying why it was refused."""
    read = parse_address(address)
    if read is None or read[0] == 32:
        return None
    inner = embedded(read[1])
    return None if inner is None else address_text(32, inner)


@cache
def _pieces(bits: Bits) -> tuple[list[int], list[Range | None]]:
    """The table flattened to disjoint pieces, each owned by its narrowest block."""
    blocks: list[tuple[int, int, Range]] = []
    for row in IPV4 if bits == 32 else IPV6:
        base, _, prefix = row.cidr.partition("/")
        read = parse_address(base)
        assert read is not None, row.cidr  # noqa: S101 a typing mistake in the table above must not start
        blocks.append((read[1], read[1] + (1 << (bits - int(prefix))), row))
    edges = sorted({0, *(edge for start, end, _ in blocks for edge in (start, end))})
    owners: list[Range | None] = []
    for edge in edges:
        holding = [(end - start, row) for start, end, row in blocks if start <= edge < end]
        owners.append(min(holding, key=lambda item: item[0])[1] if holding else None)
    return edges, owners


def _look_up(bits: Bits, number: int) -> Range | None:
    edges, owners = _pieces(bits)
    return owners[bisect_right(edges, number) - 1]
