"""The engine of deliveries: claims rows that are due, sends them side by side, writes down what came of each.

A row is claimed in a commit before anything is sent and ended in one afterwards. A process that dies in between leaves
the row to the next one, which sends it once more: the one case in which something is said twice.
"""

import asyncio
from datetime import datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING

from coilclaw.features.notifications.push import Push
from coilclaw.features.notifications.senders import LONGEST_WAIT, SendEnd, end_of_error, send_by_mail, send_to_url
from coilclaw.features.notifications.store.deliveries import (
    MAIL_WAY,
    URL_WAY,
    Delivery,
    any_due,
    claim_deliveries,
    end_delivery,
)
from coilclaw.features.notifications.words import LIVES
from coilclaw.packets.errors import CoilclawError

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

AT_ONCE = 8
"""Sends beside each other; the slowest one holds up only its own round."""
FIRST_WAIT = timedelta(seconds=30)


class Deliveries:
    """Sends what is due, over any number of processes."""

    def __init__(self, runtime: "Runtime") -> None:
        self._app = runtime
        self._push = Push(runtime)

    async def tick(self) -> int:
        """Send what is due now; how many sends that were. With nothing due, in quiet hours and during ESTOP nothing is
        written."""
        app = self._app
        if not any_due(app.db.reader, app.clock) or app.estop.engaged() or self._is_quiet():
            return 0
        claimed = await app.db.write(lambda tx: claim_deliveries(tx, app.clock, LIVES, AT_ONCE))
        ends = await asyncio.gather(*(self._deliver(each) for each in claimed), return_exceptions=True)
        for error in filter(None, ends):
            raise error
        return len(claimed)

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            end = await self._send(delivery)
        except CoilclawError as error:
            end = end_of_error(error)
        wait = max(end.wait, min(FIRST_WAIT * 2 ** min(delivery.attempts - 1, 16), LONGEST_WAIT))
        await self._app.db.write(
            lambda tx: end_delivery(
                tx,
                self._app.clock,
                delivery,
                status="due" if end.status == "retry" else end.status,
                code=end.code,
                certain=end.certain,
                wait=wait if end.status == "retry" else timedelta(),
            )
        )

    async def _send(self, delivery: Delivery) -> SendEnd:
        if delivery.way == URL_WAY:
            return await send_to_url(self._app, delivery)
        if delivery.way == MAIL_WAY:
            return await send_by_mail(self._app, delivery)
        return await self._push.send(delivery)

    def _is_quiet(self) -> bool:
        notify = self._app.config.notify
        return bool(notify.quiet) and is_quiet(notify.quiet, self._app.clock(), _zone(notify.timezone))


def is_quiet(hours: str, now: datetime, zone: tzinfo | None) -> bool:
    """Whether a moment lies in hours such as 22:00-07:00, by the clock of a zone; None is this machine's."""
    here = now.astimezone(zone).time()
    start, end = (time.fromisoformat(part) for part in hours.split("-"))
    return start <= here < end if start <= end else here >= start or here < end


def _zone(name: str) -> tzinfo | None:
    from zoneinfo import ZoneInfo

    return ZoneInfo(name) if name else None
