"""Why a call needs the owner's approval: every rule that asks, in the order their reasons are given."""

from collections.abc import Iterator

from coilclaw.gate.decision_input import (
    BACKGROUND,
    BY_HAND,
    FOLLOWED,
    MATRIX,
    OUTSIDE,
    Case,
    Facts,
    Rule,
    describe,
    mailed,
    runs_own,
    told_paths,
)
from coilclaw.gate.paths import starts_work
from coilclaw.gate.policy_match import matching_rules
from coilclaw.packets.decision import Reason
from coilclaw.sandbox.executed import executed_part

_PRIVATE = "your files, notes or memory"
_SESSION_MERGE = "It merges what a coding session committed into your repository."
_SESSION_PUSH = "It takes what a coding session committed out of its box, as a pull request."
IRREVERSIBLE = "CANNOT_BE_UNDONE"


def _ask_lane(case: Case) -> Iterator[Reason]:
    if case.lane == "B":
        merged, text = case.facts.merge, "It would have an effect outside this machine."
        if merged is not None:
            text = "It merges and deploys what a job prepared." if merged.of_job else _SESSION_MERGE
        elif case.facts.tool is not None and case.facts.tool.name == "session_push":
            text = _SESSION_PUSH
        yield Reason(rule="lane.external", code="LANE_B", text=text)
    if case.lane == "C" and not case.facts.unsafe:
        yield Reason(
            rule="lane.owner",
            code="LANE_C",
            text=f"It changes what governs the agent{_governed(case.facts)}, so a yes needs proof that it is yours:"
            " a passkey, or the terminal until you have one.",
        )


def _governed(facts: Facts) -> str:
    """Which files govern the agent, of those that would change."""
    written = [path.asked for path in facts.paths if path.write and path.path_class == "owner"]
    named = written if facts.merge is None else facts.merge.governs
    return f" ({', '.join(named[:3])}{' …' if len(named) > 3 else ''})" if named else ""


def _ask_unsafe(case: Case) -> Iterator[Reason]:
    if case.facts.command is not None and case.facts.unsafe:
        yield Reason(
            rule="box.unsafe",
            code="UNSAFE",
            text="It would run WITHOUT A BOX: it can reach this machine's files, network and processes.",
        )


def _ask_starting(case: Case) -> Iterator[Reason]:
    """A later turn reads schedules and procedures as the owner's words, so the owner sees them first."""
    tool = case.facts.tool
    if case.facts.tree or case.setting.source in (*BACKGROUND, *BY_HAND) or (tool is not None and tool.always_ask):
        return
    for path in told_paths(case.facts):
        if path.write and path.path_class == "guarded" and starts_work(path.relative):
            yield Reason(
                rule="path.starts_work",
                code="STARTS_LATER_WORK",
                text=f"{path.asked} starts later work in your name.",
            )


def _ask_steering(case: Case) -> Iterator[Reason]:
    """Unattended work may not rewrite what steers later work, in any autonomy."""
    if case.setting.source not in BACKGROUND or case.facts.tree:
        return
    for path in told_paths(case.facts):
        if path.write and not path.boxed and path.relative is not None and path.path_class == "guarded":
            yield Reason(
                rule="path.steering",
                code="STEERS_LATER_WORK",
                text=f"{path.asked} steers later work, and this call comes from background work.",
            )


NAMED = 20
"""The most names that one reason lists."""


def _ask_executed(case: Case) -> Iterator[Reason]:
    """Files that other programs execute on their own have an effect outside the box: one question names them all."""
    names = [path.asked for path in case.facts.paths if path.write and path.path_class == "executed"]
    if case.facts.merge is not None:
        names += filter(executed_part, case.facts.merge.paths)
    if names:
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        yield Reason(
            rule="path.executed",
            code="RUN_BY_OTHERS",
            text=f"Other programs run files with these names automatically: {', '.join(names[:NAMED])}{more}.",
        )


def _ask_always(case: Case) -> Iterator[Reason]:
    if case.facts.tool is not None and case.facts.tool.always_ask:
        yield Reason(rule="tool.always_ask", code="TOOL_ASKS", text=f"{case.facts.tool.name} always asks.")


def _ask_irreversible(case: Case) -> Iterator[Reason]:
    """A write that cannot be undone is the owner's decision, in every autonomy."""
    if case.facts.irreversible:
        yield Reason(
            rule="undo.impossible", code=IRREVERSIBLE, text=f"This cannot be undone: {case.facts.irreversible}"
        )


def _ask_taint(case: Case) -> Iterator[Reason]:
    if case.lane == "B" and case.facts.inherited:
        yield Reason(
            rule="taint.inherited",
            code="TAINT_INHERITED",
            text=f"Earlier content of this conversation is untrusted ({', '.join(case.facts.inherited)}).",
        )


def _ask_outlasting(case: Case) -> Iterator[Reason]:
    """What strangers wrote must not go on after the turn, or into what is kept as memory, by itself: see 0047."""
    facts = case.facts
    kept = any(path.write and path.path_class == "informal" for path in facts.paths)
    outlasts = facts.tool is not None and facts.tool.outlasts
    if (outlasts or kept) and (sources := mailed((*facts.fresh, *facts.inherited))):
        yield Reason(
            rule="taint.outlasts",
            code="TAINT_OUTLASTS",
            text=f"This would go on after the turn, and may come from mail ({', '.join(dict.fromkeys(sources))}).",
        )


def _ask_address(case: Case) -> Iterator[Reason]:
    """A GET sends too: an address that the model put together could carry out anything it has read."""
    url = case.facts.url
    if url is None:
        return
    outside = case.setting.source in OUTSIDE
    if url.origin == "query" and (case.facts.private or outside):
        where = (
            "and what that model has read is not known" if outside else f"in a conversation that has read {_PRIVATE}"
        )
        yield Reason(
            rule="address.query",
            code="CONSTRUCTED_GET",
            text=f"It sends text written by the model to {url.host}, {where}.",
        )
    holds = _held(case)
    if url.origin == "constructed" and (holds or case.policy.autonomy == "readonly"):
        where = f"in a conversation with {holds}" if holds else "and autonomy is readonly"
        yield Reason(
            rule="taint.constructed_get",
            code="CONSTRUCTED_GET",
            text=f"It requests an address on {url.host} that the model composed, {where}.",
            change="Write the address yourself: addresses you name are opened without asking.",
        )
    most = FOLLOWED.get(url.origin)
    if most is not None and url.followed >= most:
        stands = "on pages" if url.origin == "page" else "in search results"
        yield Reason(
            rule="address.enough",
            code="FOLLOWED_ENOUGH",
            text=f"This turn already followed {url.followed} addresses found {stands}; only {most} are followed"
            " without asking.",
            change="Write the address yourself: addresses you name are opened without asking.",
        )


def _ask_guest(case: Case) -> Iterator[Reason]:
    """Arguments that go to a guest outside carry whatever the model read, like an address that it composed."""
    tool = case.facts.tool
    if not case.facts.guest or tool is None or tool.destination != "external" or tool.effect != "READ":
        return
    holds = _held(case)
    if holds or case.policy.autonomy == "readonly":
        where = f"in a conversation with {holds}" if holds else "and autonomy is readonly"
        yield Reason(
            rule="guest.reads",
            code="CONSTRUCTED_GET",
            text=f"It sends what the model wrote to the guest {case.facts.guest}, {where}.",
        )


def _held(case: Case) -> str:
    """What the conversation took in that must not leave the machine without the owner's approval."""
    sources = (*case.facts.inherited, *case.facts.fresh)
    untrusted = f"untrusted content ({', '.join(dict.fromkeys(sources))})" if sources else ""
    return " and ".join(each for each in (untrusted, _PRIVATE if case.facts.private else "") if each)


def _ask_permit(case: Case) -> Iterator[Reason]:
    permit = case.facts.permit
    if permit is not None and permit.verdict == "ask":
        yield Reason(rule="session.asks", code="SESSION_ASKS", text=permit.text)


def _ask_opaque(case: Case) -> Iterator[Reason]:
    if case.facts.command is not None:
        yield from case.facts.command.opaque


def _ask_rules(case: Case) -> Iterator[Reason]:
    yield from matching_rules(case, "ask")


def _ask_autonomy(case: Case) -> Iterator[Reason]:
    in_tree = case.facts.tree and case.risk == "R2"  # the question is the merge
    listed = case.facts.permit is not None and case.risk == "R2"  # the session's lists say which are asked
    told = case.facts.tool is not None and case.facts.tool.always_ask  # one reason is enough
    asks = MATRIX[case.policy.autonomy][case.risk] == "ask" and not (in_tree or listed)
    own = case.risk == "R2" and bool(runs_own(case.facts, case.policy))
    if case.lane == "A" and (asks or own) and not told:
        yield Reason(
            rule=f"autonomy.{case.policy.autonomy}",
            code="AUTONOMY_ASKS",
            text=f"{describe(case, begin=True)} needs approval when autonomy is {case.policy.autonomy}.",
        )


ASKS: tuple[Rule, ...] = (
    _ask_unsafe,
    _ask_lane,
    _ask_starting,
    _ask_steering,
    _ask_executed,
    _ask_always,
    _ask_irreversible,
    _ask_taint,
    _ask_outlasting,
    _ask_address,
    _ask_guest,
    _ask_permit,
    _ask_opaque,
    _ask_rules,
    _ask_autonomy,
)
