"""Why a call is refused: every rule that denies, in the order their reasons are given."""

import re
from collections.abc import Iterator

import msgspec

from coilclaw.gate.decision_input import (
    BACKGROUND,
    MATRIX,
    SKILL_LAYER,
    Case,
    Rule,
    UrlFact,
    describe,
    reaches_outside,
    told_paths,
    unlisted,
)
from coilclaw.gate.identities import NEVER_SENDS
from coilclaw.gate.paths import PathFact
from coilclaw.gate.policy_match import matching_rules
from coilclaw.packets.action import Source
from coilclaw.packets.decision import HELD_BACK, Reason
from coilclaw.packets.settings import SettingChange

COMMANDS, DOMAINS = "security.allowed_commands", "security.allowed_domains"
TOOLCHAINS = "security.toolchains"
PLAIN = r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,63}"


def _deny_estop(case: Case) -> Iterator[Reason]:
    if case.facts.estop:
        yield Reason(
            rule="estop",
            code="ESTOP",
            text="ESTOP is engaged: no tool runs until the owner clears it.",
            change="Clear it in the panel with your passkey, or with `coilclaw estop --clear` while there is none.",
        )


def _deny_root(case: Case) -> Iterator[Reason]:
    if case.facts.root_fault:
        yield Reason(
            rule="root.gone",
            code="PROJECT_GONE",
            text=f"Nothing can be done here: {case.facts.root_fault}",
            change="Put the folder back, or add it again with `coilclaw project add`.",
        )


def _deny_unknown(case: Case) -> Iterator[Reason]:
    if case.facts.tool is None:
        near = case.facts.near_names
        yield Reason(
            rule="tool.unknown",
            code="TOOL_UNKNOWN",
            text=f"There is no tool named {case.facts.tool_name[:80]!r}.",
            change=f"Did you mean {' or '.join(near)}?" if near else "See `coilclaw tool list`.",
        )


def _deny_identity(case: Case) -> Iterator[Reason]:
    """A closed rule: nothing lifts it, neither policy files, nor autonomy, nor the owner proposing it again."""
    facts = case.facts
    if facts.identity == "user" and facts.tool is not None and facts.tool.effect == "EXFILTRATION":
        yield Reason(
            rule="identity.user_never_sends",
            code=NEVER_SENDS,
            text="Nothing is ever sent in the owner's own name.",
            change="Write a draft as user, for the owner to send; or let the bot send one of its own.",
        )
    if facts.identity_fault is not None:
        yield facts.identity_fault


def _deny_schema(case: Case) -> Iterator[Reason]:
    """Not beside a wrong identity, which stands in the arguments: "unknown field" would contradict "needs one"."""
    if case.facts.schema_error and case.facts.identity_fault is None:
        yield Reason(
            rule="tool.arguments",
            code="ARGS_INVALID",
            text=f"The arguments do not match the tool's schema: {case.facts.schema_error.rstrip('.')}.",
            change="Send arguments that match the tool's schema.",
        )


def _deny_secret(case: Case) -> Iterator[Reason]:
    if case.facts.secret:
        yield Reason(
            rule="secret.not_granted",
            code="SECRET_NOT_GRANTED",
            text="The arguments contain a secret that this tool was not granted.",
            change="Refer to the secret by the name of its environment variable.",
        )


def _deny_budget(case: Case) -> Iterator[Reason]:
    most = case.share(case.policy.calls_per_minute)
    if not case.by_owner and not case.local_read and case.facts.recent_calls >= most:
        yield Reason(
            rule="budget.calls",
            code="RATE_LIMITED",
            text=f"{most} call{' was' if most == 1 else 's were'} made within a minute, which is the limit.",
            change="Wait a minute, or raise budgets.tool_calls_per_minute.",
        )


def _deny_not_listed(case: Case) -> Iterator[Reason]:
    served = case.setting.source == "mcp"
    whom = "MCP clients" if served else "the agent"
    offered = (("mcp.serve.tools", case.policy.offered),) if served else ()
    for layer, tools in (*case.policy.allowlists, *offered):
        if case.facts.tool_name not in tools and case.facts.tool is not None:
            yield Reason(
                rule=f"allowlist.{layer}",
                code="TOOL_NOT_ALLOWED",
                text=f"{case.facts.tool_name} is not in the allowlist of {layer}.",
                change=_to_list(layer, whom),
            )


def _to_list(layer: str, whom: str) -> str:
    if layer.startswith(SKILL_LAYER):
        name = layer.removeprefix(SKILL_LAYER)
        return f"Work within the skill; if it needs this tool, add it to allowed-tools in skills/{name}/SKILL.md."
    return f"Add it to {layer} if {whom} should have it."


_PLACES: dict[Source, str] = {"sop": "procedures", "gateway": "the panel"}
"""Names of the places from which the runtime makes its own calls."""


def _deny_runtime(case: Case) -> Iterator[Reason]:
    """A call reserved for the runtime must come from the runtime, so that nothing else can create such a card."""
    tool = case.facts.tool
    if tool is None:
        return
    if case.setting.source not in tool.callers:
        places = " and ".join(_PLACES.get(place, place) for place in sorted(tool.callers)) or "the runtime"
        yield Reason(
            rule="tool.runtime",
            code="TOOL_NOT_ALLOWED",
            text=f"{case.facts.tool_name} can only be called by {places}.",
            change="Ask the owner with ask_user.",
        )


def _deny_job(case: Case) -> Iterator[Reason]:
    """A job's limits apply to every call it makes, not to calls that the runtime makes about it."""
    job = case.facts.job
    if job is None or case.facts.tool is None or case.by_owner:
        return
    allowed = job.constraints.allowed_tools
    if allowed is not None and case.facts.tool_name not in allowed:
        yield Reason(
            rule="job.tools",
            code="JOB_TOOL",
            text=f"{case.facts.tool_name} is not among the tools this job may use ({', '.join(allowed) or 'none'}).",
            change="Create a job that may use it.",
        )
    programs = job.constraints.allowed_programs
    if programs is not None and case.facts.command is not None:
        for program in case.facts.command.programs:
            if program not in programs:
                yield Reason(
                    rule="job.programs",
                    code="JOB_PROGRAM",
                    text=f"The command runs {program}; this job may run {', '.join(programs) or 'no program'}.",
                    change="Create a job that may run it.",
                )
    most = job.constraints.max_files_changed
    if most is not None:
        written = {path.relative for path in case.facts.paths if path.write and path.relative is not None}
        full = len(job.files_changed) >= most and not case.facts.only_reads
        if full or (written and len(job.files_changed | written) > most):
            files = "1 file" if most == 1 else f"{most} files"
            yield Reason(
                rule="job.files",
                code="JOB_FILES",
                text=f"This job may change {files} and has changed {len(job.files_changed)}.",
                change="Create a job that may change more.",
            )


def _deny_broken_policy(case: Case) -> Iterator[Reason]:
    if case.policy.broken and case.risk != "R0":
        yield Reason(
            rule="policy.broken",
            code="POLICY_BROKEN",
            text=f"A policy file is broken, so only reads run: {case.policy.broken}",
            change="Fix the file; `coilclaw policy show` says where.",
        )


def _deny_paths(case: Case) -> Iterator[Reason]:
    for path in told_paths(case.facts):
        if path.fault:
            yield Reason(rule="path.fault", code="PATH_INVALID", text=f"{path.asked[:80]!r}: {path.fault}.")
        elif path.in_home:
            yield Reason(
                rule="path.home",
                code="PATH_HOME",
                text=f"{path.asked} is inside CoilClaw's own home, which no tool may see.",
            )
        elif path.forbidden_by:
            yield Reason(
                rule="path.forbidden",
                code="PATH_FORBIDDEN",
                text=f"{path.asked} is under {path.forbidden_by}, which is forbidden.",
                change="Use a path inside the workspace.",
            )
        elif case.policy.workspace_only and reaches_outside(path):
            lend = _to_lend(case, path)
            yield Reason(
                rule="path.outside",
                code="PATH_OUTSIDE_WORKSPACE",
                text=f"{path.asked} is a link to {path.absolute}, which boxes do not see."
                if lend
                else f"{path.asked} is outside the workspace.",
                change=_to_allow(TOOLCHAINS, lend, "run it") if lend else "Use a path inside the workspace.",
                allow=_added(TOOLCHAINS, lend),
            )


def _to_lend(case: Case, path: PathFact) -> tuple[str, ...]:
    """The folder of programs that a link of the folder leads to, where lending it to boxes would help."""
    command = case.facts.command
    named = command is not None and path.asked in command.executes
    return (path.lendable,) if path.lendable and named and not _tainted(case) else ()


_WHAT_IT_DOES = {
    "guarded": "steers later work",
    "executed": "is run automatically by other programs",
    "owner": "governs the agent",
}


def _deny_protected(case: Case) -> Iterator[Reason]:
    tainted = bool(case.facts.fresh or case.facts.inherited)
    protected = ("guarded", "executed", "owner") if case.facts.tree else ("guarded", "executed")  # owner asks elsewhere
    for path in told_paths(case.facts):
        if not path.write or path.relative is None:
            continue
        if path.path_class == "never":
            yield Reason(
                rule="path.runtime",
                code="PATH_PROTECTED",
                text=f"{path.asked} may only be written by the runtime (.git and anything git treats as one,"
                " audit, jobs).",
                change="Write elsewhere in the workspace.",
            )
        elif path.path_class == "owner" and path.boxed:
            yield Reason(
                rule="path.owner",
                code="PATH_PROTECTED",
                text=f"{path.asked} governs the agent; commands cannot write it.",
                change="Propose the change with file_edit or file_write: the owner is asked.",
            )
        elif path.path_class in ("guarded", "executed") and path.boxed and case.setting.source in BACKGROUND:
            yield Reason(
                rule="path.background",
                code="PATH_PROTECTED",
                text=f"{path.asked} {_WHAT_IT_DOES[path.path_class]}; a background command cannot write it.",
                change="Propose the change with file_edit or file_write: the owner is asked.",
            )
        elif path.path_class in protected and tainted:
            yield Reason(
                rule="path.tainted",
                code="PATH_TAINTED",
                text=f"{path.asked} {_WHAT_IT_DOES[path.path_class]}, and this conversation took in untrusted content.",
                change="Start a new conversation, or let the owner make the change.",
            )


def _deny_commit(case: Case) -> Iterator[Reason]:
    """What other programs run must not get into a history by somebody else's hand: a checkout would put it in place."""
    if not (case.facts.fresh or case.facts.inherited):
        return
    for path in case.facts.committed:
        if path.path_class == "executed":
            yield Reason(
                rule="path.tainted",
                code="PATH_TAINTED",
                text=f"{path.asked} is run automatically by other programs, and this conversation took in untrusted"
                " content, so it is not committed.",
                change="Name the other paths, or let the owner commit it.",
            )


_INSTEAD = {"rm": "Delete files with file_delete, which can be undone"}
"""What to use instead of forbidden programs."""


def _deny_commands(case: Case) -> Iterator[Reason]:
    command = case.facts.command
    if command is None:
        return
    yield from command.blocked
    for program in command.programs:
        if any(program == name or program.startswith(f"{name}.") for name in case.policy.forbidden_commands):
            yield Reason(
                rule="command.forbidden",
                code="COMMAND_FORBIDDEN",
                text=f"The command runs {program}, which is forbidden.",
                change=f"{_INSTEAD.get(program, 'Do it another way')}, or remove it from security.forbidden_commands.",
            )


def _deny_repository(case: Case) -> Iterator[Reason]:
    if case.facts.changes_repository:
        yield Reason(
            rule="command.repository",
            code="GIT_READ_ONLY",
            text="Commands cannot change the folder's git repository: its .git is read-only to them.",
            change="Commit a project with git_commit, take a change back with file_edit or undo, and leave branches,"
            " stashes and pushes to the owner.",
        )


def _deny_network(case: Case) -> Iterator[Reason]:
    url = case.facts.url
    for place in (*(() if url is None else (url,)), *case.facts.domains):
        if place.code:
            yield Reason(
                rule="network.airlock",
                code=place.code,
                text=place.reason,
                change=_to_allow(DOMAINS, _listable(case, place), "reach it") if place.code == "NOT_LISTED" else "",
                allow=_added(DOMAINS, _listable(case, place)),
            )


def _deny_permit(case: Case) -> Iterator[Reason]:
    permit = case.facts.permit
    if permit is not None and permit.verdict == "deny":
        yield Reason(rule="session.denies", code="SESSION_DENIES", text=permit.text)


def _deny_fresh_taint(case: Case) -> Iterator[Reason]:
    if case.lane == "B" and case.facts.fresh:
        yield Reason(
            rule="taint.fresh",
            code=HELD_BACK,
            text=f"This turn took in untrusted content ({', '.join(case.facts.fresh)}), so nothing may leave"
            " the machine in it.",
            change="The owner is shown this call and can put it up for approval; do not propose it again.",
        )


def _deny_rules(case: Case) -> Iterator[Reason]:
    if not case.policy.rules:
        return
    given: set[str] = set()
    for place in (case.facts.url, *case.facts.domains):  # a rule about a domain speaks of each one a command asks for
        of_place = case
        if place is not case.facts.url:
            of_place = msgspec.structs.replace(case, facts=msgspec.structs.replace(case.facts, url=place))
        for reason in matching_rules(of_place, "deny"):
            if reason.rule not in given:
                given.add(reason.rule)
                yield reason


def _deny_autonomy(case: Case) -> Iterator[Reason]:
    autonomy = case.policy.autonomy
    if case.facts.tool is None:
        return  # an unknown tool is the only reason to give
    if case.by_owner and (case.facts.tool.governs or case.facts.tool.tightens):
        return  # autonomy bounds the agent; it must not keep the owner from changing it
    if autonomy == "readonly" and (case.lane != "A" or case.risk != "R0"):
        yield Reason(
            rule="autonomy.readonly",
            code="AUTONOMY_READONLY",
            text=f"Autonomy is readonly and this is {describe(case)}.",
            change="Set security.autonomy to supervised to be asked instead.",
        )
    elif (case.lane == "A" or case.facts.domains) and MATRIX[autonomy][case.risk] == "deny":
        yield Reason(
            rule=f"autonomy.{autonomy}",
            code="AUTONOMY_DENIES",
            text=f"{describe(case, begin=True)} is blocked when autonomy is {autonomy}.",
            change=_way_out(case),
            allow=_added(COMMANDS, _unlisted(case)) or _added(TOOLCHAINS, _all_lendable(case)),
        )


def _all_lendable(case: Case) -> tuple[str, ...]:
    """The folders to lend, if that is all that is wrong with a command."""
    command = case.facts.command
    outside = [_to_lend(case, path) for path in case.facts.paths if reaches_outside(path)]
    if command is None or not all(outside) or case.lane == "C" or set(unlisted(case.facts, case.policy)):
        return ()
    return tuple(dict.fromkeys(folder for folders in outside for folder in folders))


def _listable(case: Case, place: UrlFact) -> tuple[str, ...]:
    return (place.listable,) if place.listable and not _tainted(case) else ()


def _tainted(case: Case) -> bool:
    """What untrusted content may have brought up is not put into the owner's mouth."""
    return bool(case.facts.fresh or case.facts.inherited)


def _unlisted(case: Case) -> tuple[str, ...]:
    """Programs that listing would let run, if that is all that is wrong and their names are plain words."""
    command = case.facts.command
    if command is None or _tainted(case) or set(command.programs) & case.policy.forbidden_commands:
        return ()
    if any(reaches_outside(path) for path in case.facts.paths) or case.lane == "C":
        return ()
    programs = unlisted(case.facts, case.policy)
    return programs if all(re.fullmatch(PLAIN, program) for program in programs) else ()


def _added(key: str, items: tuple[str, ...]) -> tuple[SettingChange, ...]:
    return tuple(SettingChange(key=key, op="add", value=item) for item in items)


def _to_allow(key: str, items: tuple[str, ...], what: str) -> str:
    """How the owner would list it. Only plain words are put into a command that people copy."""
    if not items:
        return f"Add it to {key} if the agent should {what}."
    return f"If the agent should {what}: `coilclaw config set --add {key} {' '.join(items)}`."


def _way_out(case: Case) -> str:
    command = case.facts.command
    if command is not None:
        if _all_lendable(case) or set(command.programs) & case.policy.forbidden_commands:
            return ""  # another reason says what to do
        return _to_allow(COMMANDS, _unlisted(case), "have the program")
    return "Use a path inside the workspace." if case.facts.paths else ""


DENIES: tuple[Rule, ...] = (
    _deny_estop,
    _deny_root,
    _deny_unknown,
    _deny_identity,
    _deny_schema,
    _deny_secret,
    _deny_not_listed,
    _deny_runtime,
    _deny_job,
    _deny_broken_policy,
    _deny_commands,
    _deny_repository,
    _deny_paths,
    _deny_protected,
    _deny_commit,
    _deny_network,
    _deny_permit,
    _deny_fresh_taint,
    _deny_rules,
    _deny_autonomy,
    _deny_budget,
)
