"""Once a day: the workspace is swept, signed heads are anchored, and the ledger's export is a pull request."""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from coilclaw.features.forge.export import export_files
from coilclaw.features.forge.forge import EXPORT, LocalForge
from coilclaw.features.forge.heads import anchor_heads
from coilclaw.features.forge.job_record import JobRecords
from coilclaw.features.forge.questions import MergeQuestions
from coilclaw.packets.forge import PullRequest
from coilclaw.packets.ids import stamp
from coilclaw.store.meta import read_meta, write_meta

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime

_DONE = "forge.daily"
TITLE = "Audit events and job records through {day}"
BODY = (
    "The runtime's own record: audit events of complete days (UTC), and the final state of jobs. No model had a part"
    " in it. What it holds may be pruned from the home once it is merged."
)


async def export_day(app: "Runtime", conveyor: "Conveyor") -> int:
    """Do the day's work, once a day whichever worker comes first; how many pull requests that made or changed."""
    today = stamp(app.clock())[:10]
    if read_meta(app.db.reader, _DONE) == today:
        return 0
    forge = LocalForge(app)
    if forge.bot.fault():
        return 0  # the doctor says what is wrong; it is done as soon as it can be
    await app.ledger.seal_now()
    pull = await asyncio.to_thread(_put, app, forge, today)
    if pull is not None:
        pull = await forge.check(pull)
        if all(check.passed for check in pull.checks):
            await MergeQuestions(app, conveyor, forge).put(pull)
    await app.db.write(lambda tx: write_meta(tx, _DONE, today))
    return int(pull is not None)


def _put(app: "Runtime", forge: LocalForge, today: str) -> PullRequest | None:
    forge.bot.settle("daily")
    anchor_heads(app)
    files = export_files(app, today, JobRecords(app, forge).final_files)
    last = stamp(app.clock() - timedelta(days=1))[:10]  # today is not complete
    return forge.open_plain(EXPORT, files, TITLE.format(day=last), BODY, ("intent:LEDGER_EXPORT",)) if files else None
