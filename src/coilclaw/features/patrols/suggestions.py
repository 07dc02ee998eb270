"""The patrol `suggest`: offers what others found as quests, and where that is enabled, has them mended as drafts."""

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.patrols.quests import PATROL, Quests
from coilclaw.features.patrols.report import clean
from coilclaw.features.patrols.store import (
    PatrolRun,
    begin_run,
    finish_run,
    load_run,
    quests_before,
    sessions_of_quests_since,
)
from coilclaw.features.patrols.target import run_id_of, settings_of
from coilclaw.packets.errors import CoilclawError
from coilclaw.packets.ids import stamp

if TYPE_CHECKING:
    from coilclaw.gate.conveyor import Conveyor
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.store.jobs import JobRow

SUGGEST = "suggest"
A_DAY = timedelta(days=1)


async def suggest(app: "Runtime", conveyor: "Conveyor", job: "JobRow", repo: str, room: str) -> PatrolRun:
    """Do the run of a job, once. Each session it starts is an action of its own, and each quest is taken once."""
    settings, run_id = settings_of(app, repo), run_id_of(job.job_id, room, SUGGEST)
    known = load_run(app.db.reader, run_id)
    if known is not None and known.state != "running":
        return known
    begun = PatrolRun(
        run_id=run_id, repo=repo, room=room, kind=SUGGEST, checkout_ref="", base="", job_id=job.job_id, quest_id="",
        command=settings.patrols.get(SUGGEST, ""), format=SUGGEST, state="running", reason="", passed=0, failed=0,
        skipped=0, findings=0, seconds=0.0, output="", started_at=stamp(app.clock()), ended_at=None,
    )  # fmt: skip
    await app.db.write(lambda tx: begin_run(tx, app.clock, begun))
    quests = Quests(app, conveyor)
    await quests.offer_open(repo, room)
    taken, faults = await _taken(app, quests, repo, room)
    app.reached("suggested")
    wrong = clean(app.redact("; ".join(faults)), 400)
    state = "error" if faults else "passed"
    done = msgspec.structs.replace(begun, state=state, reason=wrong, findings=taken, output="")
    return await app.db.write(lambda tx: finish_run(tx, app.clock, done, None, ""))


async def _taken(app: "Runtime", quests: Quests, repo: str, room: str) -> tuple[int, list[str]]:
    """Take as many as the day has room for: how many, and what went wrong."""
    settings = settings_of(app, repo)
    if not settings.opens_pr:
        return 0, []
    if not settings.patrols.get(SUGGEST):
        return 0, [f'no coding program is named: set suggest = "claude" below [repos.{repo}.patrols]']
    begun = sessions_of_quests_since(app.db.reader, repo, stamp(app.clock() - A_DAY))
    left = settings.suggestions_per_day - begun
    offered = [each for each in quests_before(app.db.reader, None, 1000, ("offered",)) if each.repo == repo]
    taken, faults = 0, list[str]()
    for quest in reversed([each for each in offered if each.room == room]):  # the oldest first
        if taken >= left or faults:
            break
        try:
            await quests.take(quest.quest_id, by=PATROL, provider=settings.patrols[SUGGEST])
            taken += 1
        except CoilclawError as error:  # the others would meet the same
            faults.append(str(error))
    return taken, faults
