"""Reaching out: the agent says something to the owner by itself, in the conversation it works in."""

from collections.abc import Callable

import msgspec

from coilclaw.features.notifications.store import AGAIN, News, Quota, Reason
from coilclaw.ledger.audit import Wanted, add_event, last_events
from coilclaw.packets.action import INTERNAL, Action
from coilclaw.packets.canonical import digest_of, sha256_hex
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ids import Clock, from_stamp, stamp
from coilclaw.packets.labels import join_labels
from coilclaw.store.actions import action_with_key
from coilclaw.store.database import Database
from coilclaw.store.threads import MessageRow, add_message, message_exists, thread_exists
from coilclaw.store.tx import Tx

TOOL = "reach_out"


class ReachOuts:
    """Posts what calls of `reach_out` say. Which conversation it belongs to, and whose words stand behind it, is read
    from the stored action, never from the call."""

    def __init__(self, *, db: Database, clock: Clock, redact: Callable[[str], str]) -> None:
        self._db = db
        self._clock = clock
        self._redact = redact

    async def post(self, idempotency_key: str, reason: str, message: str) -> tuple[str, str | None]:
        """Post it; the conversation it stands in, and when the owner would be notified again if they are not of this
        one. The same call again posts it once."""
        why = msgspec.convert(reason, Reason)
        text = self._redact(message)
        return await self._db.write(lambda tx: self._post(tx, idempotency_key, why, text))

    def _post(self, tx: Tx, key: str, reason: Reason, text: str) -> tuple[str, str | None]:
        action = action_with_key(tx, TOOL, key)
        if action is None or not action.begun:
            raise ToolError("no such call is in progress.", code="NOT_GRANTED", begun=False)
        if not action.thread_id or not thread_exists(tx, action.thread_id):
            raise ToolError(
                "there is no conversation to post it to.",
                remedy="Reach out from a conversation or a job.",
                code="NO_THREAD",
                begun=False,
            )
        message_id = f"msg_{digest_of(b'reach_out', key.encode('utf-8'))[:24]}"
        again_at = None
        if not message_exists(tx, message_id):
            again_at = self._again_at(tx, action, reason)
            add_message(tx, self._clock, _message(action, message_id, reason, text))
            add_event(
                tx,
                self._clock,
                "reach_out",
                action.job_id or action.thread_id,
                {
                    "reason": reason,
                    "thread_id": action.thread_id,
                    "job_id": action.job_id,
                    "message_id": message_id,
                    "action_id": action.action_id,
                    "sha256": sha256_hex(text.encode("utf-8", "replace")),
                },
            )
        return action.thread_id, again_at

    def _again_at(self, tx: Tx, action: Action, reason: Reason) -> str | None:
        """When the owner may be notified again; None when they will be of this one.

        What was posted before counts from its event on: the notifier makes a notification of it a moment later.
        """
        about = action.job_id or action.thread_id
        last = last_events(tx, Wanted(event_type="reach_out", entity_id=about), 1)
        if last and (again := from_stamp(last[-1].created_at) + AGAIN) > self._clock():
            return stamp(again)
        news = News(
            type="proactive_reach_out",
            entity_id=about,
            thread_id=action.thread_id,
            job_id=action.job_id,
            reason=reason,
        )
        return Quota(tx, self._clock).again_at(news)


def _message(action: Action, message_id: str, reason: Reason, text: str) -> MessageRow:
    """It stands in the conversation by itself, not as a step of the turn that wrote it: the owner's next words may
    answer it, and a later turn is shown it as a notice with its label."""
    return MessageRow(
        message_id=message_id,
        thread_id=action.thread_id,
        turn_id=f"turn_{message_id.removeprefix('msg_')}",
        role="system",
        content=text,
        label=join_labels(action.taint) if action.taint else INTERNAL,
        metadata={"reach_out": reason, "by_action": action.action_id, "by_job": action.job_id},
    )
