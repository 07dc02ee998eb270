"""Why a call needs the owner's word: every rule that asks, in the order their reasons are given."""

from collections.abc import Iterator

from coilclaw.gate.case import BACKGROUND, MATRIX, Case, Rule, describe
from coilclaw.gate.policy_match import matching_rules
from coilclaw.packets.decision import Reason


def _ask_lane(case: Case) -> Iterator[Reason]:
    if case.lane == "B":
        yield Reason(rule="lane.external", code="LANE_B", text="It would have an effect outside this machine.")
    if case.lane == "C" and not case.facts.unsafe:
        yield Reason(
            rule="lane.owner",
            code="LANE_C",
            text="It changes what governs the agent itself; only the owner decides that.",
        )


def _ask_unsafe(case: Case) -> Iterator[Reason]:
    if case.facts.command is not None and case.facts.unsafe:
        yield Reason(
            rule="box.unsafe",
            code="UNSAFE",
            text="It would run WITHOUT A BOX: files, network and processes of this machine are within its reach.",
        )


def _ask_steering(case: Case) -> Iterator[Reason]:
    """What steers later work is not rewritten while nobody watches, in no autonomy."""
    if case.setting.source not in BACKGROUND:
        return
    for path in case.facts.paths:
        if path.write and not path.boxed and path.relative is not None and path.path_class == "guarded":
            yield Reason(
                rule="path.steering",
                code="STEERS_LATER_WORK",
                text=f"{path.asked} steers later work, and this comes from work in the background.",
            )


def _ask_always(case: Case) -> Iterator[Reason]:
    if case.facts.tool is not None and case.facts.tool.always_ask:
        yield Reason(rule="tool.always_ask", code="TOOL_ASKS", text=f"{case.facts.tool.name} always asks.")


def _ask_taint(case: Case) -> Iterator[Reason]:
    if case.lane == "B" and case.facts.inherited:
        yield Reason(
            rule="taint.inherited",
            code="TAINT_INHERITED",
            text=f"Earlier content of this conversation is untrusted ({', '.join(case.facts.inherited)}).",
        )


def _ask_constructed_get(case: Case) -> Iterator[Reason]:
    """A GET sends too: in a tainted turn a made-up address could carry anything out."""
    url = case.facts.url
    if url is not None and (case.facts.fresh or case.facts.inherited) and not (url.listed or url.quoted):
        yield Reason(
            rule="taint.constructed_get",
            code="CONSTRUCTED_GET",
            text=f"It asks {url.host} for an address that nobody wrote, in a conversation with untrusted content.",
        )


def _ask_opaque(case: Case) -> Iterator[Reason]:
    if case.facts.command is not None:
        yield from case.facts.command.opaque


def _ask_rules(case: Case) -> Iterator[Reason]:
    yield from matching_rules(case, "ask")


def _ask_autonomy(case: Case) -> Iterator[Reason]:
    if case.lane == "A" and MATRIX[case.policy.autonomy][case.risk] == "ask":
        yield Reason(
            rule=f"autonomy.{case.policy.autonomy}",
            code="AUTONOMY_ASKS",
            text=f"{describe(case, begin=True)} needs approval when autonomy is {case.policy.autonomy}.",
        )


ASKS: tuple[Rule, ...] = (
    _ask_unsafe,
    _ask_lane,
    _ask_steering,
    _ask_always,
    _ask_taint,
    _ask_constructed_get,
    _ask_opaque,
    _ask_rules,
    _ask_autonomy,
)
