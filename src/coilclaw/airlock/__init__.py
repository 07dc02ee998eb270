"""The airlock: the only way out of the process for network traffic.

Owns the judge (pure: URL, allowlist, addresses), the one resolution, dialling exactly the checked address, and the log.
Ignores proxies, credentials and certificate stores from the environment; never sends what was not decided.
"""

from coilclaw.airlock.judge import EgressVerdict, judge_addresses, judge_chain, judge_url
from coilclaw.airlock.listing import DomainSet, Endpoint, Listing
from coilclaw.airlock.log import EgressLine
from coilclaw.airlock.row import check_row
from coilclaw.airlock.transport import Airlock, Limits
from coilclaw.airlock.url import Refusal, Target, parse_url

__all__ = [
    "Airlock",
    "DomainSet",
    "EgressLine",
    "EgressVerdict",
    "Endpoint",
    "Limits",
    "Listing",
    "Refusal",
    "Target",
    "check_row",
    "judge_addresses",
    "judge_chain",
    "judge_url",
    "parse_url",
]
