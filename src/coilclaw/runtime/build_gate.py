"""Builds the gate of an open home: the conveyor and everything it needs."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from coilclaw.gate.attempt import Attempts
from coilclaw.gate.conveyor import Approver, Conveyor
from coilclaw.gate.decision_input import Policy, background_share
from coilclaw.gate.facts import Counts
from coilclaw.gate.grants import FollowUp, Granter, Limits
from coilclaw.gate.inspection import Inspection
from coilclaw.gate.intake import Intake
from coilclaw.gate.labelling import Labelling
from coilclaw.gate.outcomes import Patience
from coilclaw.gate.records import Records
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import INTERNAL, Action, untrusted
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import CoilclawError, ToolError
from coilclaw.packets.job import ENDED, JobLimits
from coilclaw.packets.labels import join_labels
from coilclaw.packets.ports import Notes, Transport
from coilclaw.runtime.metrics import timed_boundaries
from coilclaw.tools.approval import with_runtime_tools
from coilclaw.tools.release import quarantine_release

if TYPE_CHECKING:
    from coilclaw.gate.policy_file import LoadedPolicies
    from coilclaw.runtime.runtime import Runtime


def build_conveyor(app: "Runtime", approve: Approver, ask_owner: Callable[[str], Awaitable[str]] | None) -> Conveyor:
    """The conveyor of a home, with an approver."""
    _settle_repository(app)
    reached = timed_boundaries(app)
    labelling = Labelling(app.db)
    intake = Intake(
        db=app.db,
        inspector=app.inspector,
        upkeep=labelling,
        clock=app.clock,
        policy=app.policy,
        job_limits=lambda job_id: _job_limits(app, job_id),
        observe=app.observe,
        seal=app.redactor.registered,
        ttl=lambda: timedelta(hours=app.config.approvals.ttl_hours),
    )
    records = Records(
        db=app.db,
        ledger=app.ledger,
        clock=app.clock,
        locks=app.home.locks_dir,
        reached=reached,
        owner=app.owner_proof,
    )
    return Conveyor(
        db=app.db,
        ledger=app.ledger,
        intake=intake,
        records=records,
        attempts=Attempts(_granter(app, ask_owner), app.estop, app.redact, records.releasing),
        inspection=Inspection(
            intake,
            labelling,
            quarantine_release.name,
            records,
            app.clock,
            lambda text: app.observe("tool_trouble", {"message": text}),
        ),
        labelling=labelling,
        background=app.background,
        estop=app.estop,
        clock=app.clock,
        is_over=lambda action: _is_over(app, action),
        approve=approve,
        observe=app.observe,
        reached=reached,
        redact=app.redact,
        patience=lambda: Patience(
            max_attempts=app.config.executor.max_attempts, pause_seconds=app.config.executor.backoff_seconds
        ),
    )


def build_policy(app: "Runtime", loaded: "LoadedPolicies", config_hash: str) -> Policy:
    """The rules in force: what the configuration grants, narrowed by these policy files."""
    from coilclaw.gate.callers import is_runtime_only

    own = frozenset(name for name, tool in app.tools.items() if is_runtime_only(tool))
    security, budgets = app.config.security, app.config.budgets
    return Policy(
        autonomy=security.autonomy,
        workspace_only=security.workspace_only,
        allowed_commands=frozenset(security.allowed_commands),
        forbidden_commands=frozenset(security.forbidden_commands),
        allowlists=(("channels.cli.tools_allow", app.allowed_tools | own),),
        offered=app.offered_tools,
        calls_per_minute=budgets.tool_calls_per_minute,
        open_proposals=budgets.open_proposals,
        rules=loaded.rules,
        broken=loaded.broken,
        hash=sha256_hex(f"{config_hash}:{loaded.hash}:{loaded.broken}".encode()),
    )


def counts_before(app: "Runtime", before: str, turn: Turn) -> Counts:
    """How much was going on before that action."""
    from coilclaw.store.actions import count_actions, count_asked_reads

    exact_from = background_share(app.config.budgets.tool_calls_per_minute)
    local = [name for name, each in app.tools.items() if each.destination != "external"]
    recent, waiting = count_actions(app.db.reader, app.clock, before, exact_from, local)
    reads = count_asked_reads(app.db.reader, turn.turn_id, before) if turn.fresh else 0
    return Counts(recent=recent, waiting=waiting, asked_reads=reads)


def _settle_repository(app: "Runtime") -> None:
    """Add git settings that an earlier version did not make; warn about a workspace that another home uses."""
    from coilclaw.sandbox.repository import is_settled, other_homes, settle

    if is_settled(app.workspace, app.home.root):
        return
    try:
        others = other_homes(app.workspace, app.home.root)
        if others:
            app.warn(
                f"the workspace {app.workspace} also belongs to another home ({', '.join(others)})."
                " Set workspace_dir, or run `coilclaw init --share-workspace` to let both work in it."
            )
        else:
            settle(app.workspace, app.home.root)
    except (CoilclawError, OSError) as error:
        app.warn(f"the workspace's repository could not be configured: {error}")


def _granter(app: "Runtime", ask_owner: Callable[[str], Awaitable[str]] | None) -> Granter:
    return Granter(
        policy=app.policy,
        limits=lambda: _limits(app),
        clock=app.clock,
        memory=app.memory,
        open_box=app.open_box,
        transport=lambda narrowing: _way_out(app, narrowing),
        headers=lambda whom: _headers(app, whom),
        send_as=lambda transport, request: app.extensions.send_as(app, transport, request),
        notes=lambda action, turn: _notes(app, action, turn),
        follow_up=lambda action, turn: _follow_up(app, action, turn),
        ask_owner=ask_owner,
        running=app.commands,
        background=app.background,
    )


def _limits(app: "Runtime") -> Limits:
    bounds = app.config.agent
    return Limits(
        tool_seconds=bounds.tool_timeout_seconds,
        shell_seconds=bounds.shell_timeout_seconds,
        shell_writes=bounds.shell_write_bytes,
        http_seconds=bounds.http_timeout_seconds,
        max_bytes=bounds.max_response_bytes,
    )


def _way_out(app: "Runtime", narrowing: Sequence[Sequence[str]]) -> Transport:
    """The airlock, limited further to what a job and skills declare."""
    from coilclaw.airlock.transport import Airlock

    transport = app.transport
    if isinstance(transport, Airlock):
        for domains in narrowing:
            transport = transport.narrowed(domains)
    return transport


def _headers(app: "Runtime", whom: str) -> tuple[tuple[str, str], ...]:
    """What the owner's own accounts need; added here, never shown to a tool."""
    if whom == "web_search":
        search = app.config.web_search
        key = app.keyring.get(search.api_key_env, "") if search.api_key_env else ""
        if not key:
            return ()
        return (("X-Subscription-Token", key),) if search.kind == "brave" else (("Authorization", f"Bearer {key}"),)
    if whom.startswith("webhook:"):
        hook = app.config.webhooks[whom.removeprefix("webhook:")]
        secret = app.keyring.get(hook.secret_env, "") if hook.secret_env else ""
        return ((hook.header, secret),) if secret else ()
    return ()


def _notes(app: "Runtime", action: Action, turn: Turn) -> Notes:
    from coilclaw.packets.names import guest_of
    from coilclaw.store.notes import NoteShelf

    guest = guest_of(action.call.tool)
    sources = (*turn.taint, *((untrusted(f"guest:{guest}"),) if guest else ()))
    return NoteShelf(
        db=app.db,
        clock=app.clock,
        thread_id=action.thread_id,
        turn_id=action.turn_id,
        job_id=action.job_id,
        label=join_labels(sources) if sources else INTERNAL,
        idempotency_key=action.idempotency_key,
    )


def _follow_up(app: "Runtime", action: Action, turn: Turn) -> FollowUp:
    plan = app.extensions.follow_up
    return _plans_nothing if plan is None else plan(app, action, turn)


async def _plans_nothing(_goal: str, _at: datetime | None, _minutes: int | None) -> tuple[str, str]:
    raise ToolError("planning a follow-up was not granted to this call.", code="NOT_GRANTED", begun=False)


def _job_limits(app: "Runtime", job_id: str) -> JobLimits | None:
    from coilclaw.store.jobs import job_limits

    limits = job_limits(app.db.reader, job_id)
    return None if limits is None else with_runtime_tools(limits)


def _is_over(app: "Runtime", action: Action) -> bool:
    """Whether the job, the coding session or the run of an SOP that an action belongs to has ended."""
    if action.job_id is not None:
        from coilclaw.store.jobs import load_job

        job = load_job(app.db.reader, action.job_id)
        return job is None or job.state in ENDED
    if action.source == "session":
        return app.extensions.session_is_over(app, action.source_id)
    if action.source != "sop":
        return False
    from coilclaw.store.sops import turn_is_over

    return turn_is_over(app.db.reader, action.turn_id)
