"""Jobs as they are shown, at the terminal and over HTTP: in a list, and everything there is to say about one."""

from typing import TYPE_CHECKING

import msgspec

from coilclaw.packets.canonical import Json

if TYPE_CHECKING:
    from coilclaw.features.jobs.views import JobModel
    from coilclaw.packets.action import Action
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.store.jobs import JobRow

EVENTS = 1000


def summary(row: "JobRow") -> dict[str, Json]:
    """A job in a listing."""
    from coilclaw.features.jobs.lifecycle import COARSE

    return {
        "job_id": row.job_id,
        "thread_id": row.thread_id,
        "goal": row.goal,
        "state": row.state,
        "status": COARSE[row.state],
        "reason": row.reason,
        "attempt": row.attempt,
        "next_wakeup_at": row.next_wakeup_at,
        "deadline_at": row.deadline_at,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }


def waiting_for(app: "Runtime", row: "JobRow") -> "list[Action]":
    """What a job waits for the owner to answer."""
    return pending_of_turn(app, row.turn_id)


def pending_of_turn(app: "Runtime", turn_id: str) -> "list[Action]":
    """The actions of a turn that wait for the owner and are in nobody's hands."""
    from coilclaw.store.actions import load_action
    from coilclaw.store.job_history import standing_of

    waiting = [each for each in standing_of(app.db.reader, turn_id).values() if each.status == "PENDING"]
    found = (load_action(app.db.reader, each.action_id) for each in waiting if not each.held)
    return [action for action in found if action is not None]


def story(app: "Runtime", row: "JobRow") -> dict[str, Json]:
    """What was asked, planned, done, spent and left."""
    from coilclaw.features.jobs.checkpoint import CheckpointRefused, read_checkpoint
    from coilclaw.store.job_history import job_artifacts, last_answer, pull_named
    from coilclaw.store.jobs import job_events, job_files
    from coilclaw.store.usage import tokens_of_job

    db = app.db.reader
    try:
        place: Json = msgspec.to_builtins(read_checkpoint(row.checkpoint)) if row.checkpoint else None
    except CheckpointRefused as error:
        place = {"refused": str(error)}
    return {
        "spec": msgspec.to_builtins(row.spec),
        "plan": None if row.plan is None else msgspec.to_builtins(row.plan),
        "checkpoint": place,
        "budget": msgspec.to_builtins(row.budget),
        "tokens": tokens_of_job(db, row.job_id),
        "events": [msgspec.to_builtins(event) for event in job_events(db, row.job_id, EVENTS)],
        "waiting": [
            {
                "action_id": action.action_id,
                "tool": action.call.tool,
                "expires_at": action.expires_at,
                "answer": f"coilclaw approvals approve {action.action_id}",
            }
            for action in waiting_for(app, row)
        ],
        "pull": msgspec.to_builtins(pull_named(db, row.job_id)),
        "files": list(job_files(db, row.job_id)),
        "artifacts": [msgspec.to_builtins(artifact) for artifact in job_artifacts(db, row.job_id)],
        "models": [msgspec.to_builtins(each) for each in models_of(app, row)],
        "evidence": evidence_of(app, row),
        "answer": last_answer(db, row),
    }


def models_of(app: "Runtime", row: "JobRow") -> "list[JobModel]":
    """Which model did what of a job: read the goal, planned it, did each step of the plan."""
    from coilclaw.features.jobs.views import JobModel
    from coilclaw.store.jobs import job_events
    from coilclaw.store.threads import turn_messages

    found: dict[tuple[str, str, str], int] = {}
    for event in job_events(app.db.reader, row.job_id, EVENTS):
        if event.type == "draft" and event.payload.get("provider"):
            part = (str(event.payload["what"]), str(event.payload["provider"]), str(event.payload.get("model")))
            found[part] = found.get(part, 0) + 1
    for message in turn_messages(app.db.reader, row.thread_id, row.turn_id, EVENTS):
        if message.role == "assistant" and message.provider:
            place = message.metadata.get("plan_step", 0)
            part = (f"step {place + 1 if isinstance(place, int) else 1}", message.provider, message.model)
            found[part] = found.get(part, 0) + 1
    return [
        JobModel(part=part, provider=provider, model=model, answers=count)
        for (part, provider, model), count in found.items()
    ]


def evidence_of(app: "Runtime", row: "JobRow") -> Json:
    """The newest manifest of a job that is over, as it is kept."""
    from coilclaw.packets.canonical import parse_object
    from coilclaw.store.job_history import artifact_bytes
    from coilclaw.store.jobs import job_events

    for event in reversed(job_events(app.db.reader, row.job_id, EVENTS)):
        named = event.payload.get("evidence")
        if isinstance(named, list) and named:
            data = artifact_bytes(app.db.reader, str(named[-1]))
            return None if data is None else parse_object(data)
    return None
