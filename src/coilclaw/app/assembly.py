"""How the gate is put together from an App: the conveyor with everything it is handed."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from coilclaw.app.measured import timed_boundaries
from coilclaw.gate.conveyor import Approver, Conveyor
from coilclaw.gate.ends import Patience
from coilclaw.gate.grants import FollowUp, Granter, Limits
from coilclaw.gate.turn import Turn
from coilclaw.gate.upkeep import Upkeep
from coilclaw.packets.action import INTERNAL, Action
from coilclaw.packets.job import ENDED, Constraints, JobLimits
from coilclaw.packets.labels import join_labels
from coilclaw.packets.ports import Notes, Transport

if TYPE_CHECKING:
    from coilclaw.app.app import App


def build_conveyor(app: "App", approve: Approver, ask_owner: Callable[[str], Awaitable[str]] | None) -> Conveyor:
    """The conveyor of a home, with somebody to ask."""
    upkeep = Upkeep(
        db=app.db,
        workspace=app.workspace,
        labels=lambda: app.file_labels,
        snapshots=lambda: app.snapshots,
        warn=app.warn,
    )
    return Conveyor(
        db=app.db,
        ledger=app.ledger,
        inspector=app.inspector,
        granter=_granter(app, ask_owner),
        upkeep=upkeep,
        estop=app.estop,
        clock=app.clock,
        policy=app.policy,
        job_limits=lambda job_id: _job_limits(app, job_id),
        is_over=lambda action: _is_over(app, action),
        approve=approve,
        observe=app.observe,
        reached=timed_boundaries(app),
        redact=app.redact,
        seal=app.redactor.registered,
        locks=app.home.locks_dir,
        ttl=timedelta(hours=app.config.approvals.ttl_hours),
        patience=Patience(
            max_attempts=app.config.executor.max_attempts, pause_seconds=app.config.executor.backoff_seconds
        ),
        owner=app.owner_proof,
    )


def _granter(app: "App", ask_owner: Callable[[str], Awaitable[str]] | None) -> Granter:
    bounds = app.config.agent
    return Granter(
        workspace=app.workspace,
        snapshots=lambda: app.snapshots,
        policy=app.policy,
        warn=app.warn,
        forbidden_commands=frozenset(app.config.security.forbidden_commands),
        limits=Limits(
            tool_seconds=bounds.tool_timeout_seconds,
            shell_seconds=bounds.shell_timeout_seconds,
            http_seconds=bounds.http_timeout_seconds,
            max_bytes=bounds.max_response_bytes,
        ),
        clock=app.clock,
        memory=app.memory,
        open_box=app.open_box,
        transport=lambda narrowing: _way_out(app, narrowing),
        headers=lambda whom: _headers(app, whom),
        notes=lambda action, turn: _notes(app, action, turn),
        follow_up=lambda action, turn: _follow_up(app, action, turn),
        ask_owner=ask_owner,
    )


def _way_out(app: "App", narrowing: Sequence[str] | None) -> Transport:
    """The airlock, limited further to what a job declares."""
    from coilclaw.sandbox.airlock.transport import Airlock

    transport = app.transport
    if narrowing is None:
        return transport
    return transport.narrowed(narrowing) if isinstance(transport, Airlock) else transport


def _headers(app: "App", whom: str) -> tuple[tuple[str, str], ...]:
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


def _notes(app: "App", action: Action, turn: Turn) -> Notes:
    from coilclaw.store.notes import NoteShelf

    return NoteShelf(
        db=app.db,
        clock=app.clock,
        thread_id=action.thread_id,
        job_id=action.job_id,
        label=join_labels(turn.taint) if turn.taint else INTERNAL,
        idempotency_key=action.idempotency_key,
    )


def _follow_up(app: "App", action: Action, turn: Turn) -> FollowUp:
    from coilclaw.jobs.followups import FollowupLimits, Followups, Maker

    limits = app.config.schedules
    return Followups(
        db=app.db,
        clock=app.clock,
        limits=FollowupLimits(
            open=limits.followups_open, days=limits.followup_days, in_a_row=limits.followups_in_a_row
        ),
        maker=Maker(
            thread_id=action.thread_id,
            labels=turn.taint,
            constraints=turn.job.constraints if turn.job is not None else Constraints(),
            generation=turn.job.generation if turn.job is not None else 0,
            idempotency_key=action.idempotency_key,
        ),
    ).plan


def _job_limits(app: "App", job_id: str) -> JobLimits | None:
    from coilclaw.app.sops.job import with_questions
    from coilclaw.store.jobs import job_limits

    limits = job_limits(app.db.reader, job_id)
    return None if limits is None else with_questions(limits)


def _is_over(app: "App", action: Action) -> bool:
    """Whether the job or the run of an SOP that an action belongs to has come to its end."""
    if action.job_id is not None:
        from coilclaw.store.jobs import load_job

        job = load_job(app.db.reader, action.job_id)
        return job is None or job.state in ENDED
    if action.source != "sop":
        return False
    from coilclaw.store.sops import turn_is_over

    return turn_is_over(app.db.reader, action.turn_id)
