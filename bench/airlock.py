"""The airlock's judge: one URL and its addresses, beside parsing them with the standard library and judging nothing."""

from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

from bench.rounds import Timing, interleave, timed
from bench.row import Plan, Row, alone, beside
from coilclaw.airlock import Listing, Target, judge_addresses, judge_url
from coilclaw.packets.http import Principal

CHECKS: dict[str, tuple[str, Principal, tuple[str, ...]]] = {
    "a public page": ("https://www.example.com/a/b?c=d#e", "web_open", ("93.184.216.34",)),
    "a listed domain": ("https://api.site42.example.org/v1/items?limit=10", "http", ("198.41.0.4", "2606:4700::1111")),
    "the model server": ("http://127.0.0.1:8080/v1/chat/completions", "provider", ()),
    "an unlisted domain": ("https://evil.example.net/x", "http", ("93.184.216.34",)),
    "a name that leads inside": ("https://rebind.example.com/", "web_open", ("10.0.0.7",)),
    "an address in disguise": ("https://0x7f.1/", "web_open", ()),
    "an international name": ("https://bücher.example/straße", "web_open", ("2a00:1450:4001:82f::200e",)),
}


def _listing() -> Listing:
    """A hundred listed domains, as a busy owner would have."""
    return Listing.build(
        providers=["http://127.0.0.1:8080/v1"],
        allowed_domains=[name for number in range(50) for name in (f"site{number}.com", f"*.site{number}.example.org")],
        own_ports=[8787],
    )


def measure(plan: Plan) -> Iterator[Row]:
    """Each kind of check, and the least that reading a URL costs."""
    listing = _listing()

    def check(url: str, principal: Principal, answers: tuple[str, ...]) -> None:
        target = judge_url(url, principal, listing)
        if isinstance(target, Target):
            judge_addresses(target, answers, listing)

    def bare(url: str, answers: tuple[str, ...]) -> None:
        _ = urlsplit(url).hostname
        for answer in answers:
            ip_address(answer)

    times = plan.size(500, 100)
    ours = {name: timed(lambda one=one: check(*one), times) for name, one in CHECKS.items()}
    floor = {f"bare {name}": timed(lambda one=one: bare(one[0], one[2]), times) for name, one in CHECKS.items()}
    found = interleave({**ours, **floor}, plan.rounds)
    every = Timing.of([one for name in ours for one in found[name]]).scaled(1e6)
    least = Timing.of([one for name in floor for one in found[name]]).scaled(1e6)
    note = f"over {len(CHECKS)} kinds"
    yield beside("airlock", "airlock check", "us", every, "urlsplit + ip_address, no judgement", least, note=note)
    worst = max(ours, key=lambda name: Timing.of(found[name]).median)
    yield alone("airlock", f"its slowest kind ({worst})", "us", Timing.of(found[worst]).scaled(1e6))
