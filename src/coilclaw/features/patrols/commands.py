"""coilclaw patrol, alert and quest."""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, moment, print_json, print_line, print_rows, tell

if TYPE_CHECKING:
    from coilclaw.features.patrols.quests import Quests
    from coilclaw.features.patrols.store import Quest
    from coilclaw.runtime import Runtime

TERMINAL = "terminal"


@click.group()
def patrol() -> None:
    """Look after repositories: lint, tests, builds, dependencies and security, boxed, by hand or on a schedule."""


@patrol.command("list", short_help="List repositories with their health, and the newest runs.")
@json_option
def list_all(as_json: bool) -> None:
    """List what patrols look after, its health, and how each patrol last went."""
    from coilclaw.features.patrols.views import buildings_of

    with opened() as app:
        found = buildings_of(app)
        if as_json:
            print_json(found)
            return
        rows = [
            (
                each.building,
                "unknown" if each.health is None else str(each.health),
                str(each.alerts),
                patrol.kind,
                patrol.last.state if patrol.last else "never ran",
                moment(patrol.last.started_at) if patrol.last else "",
                patrol.last.run_id if patrol.last else "",
            )
            for each in found
            for patrol in each.patrols
        ]
        rows += [(each.building, "unknown", "0", "", "never ran", "", "") for each in found if not each.patrols]
        columns = ("building", "health", "alerts", "patrol", "last", "when", "run")
        empty = "There are no repositories. Add one with `coilclaw repo add PATH`."
        print_rows(sorted(rows), columns, empty=empty)


@patrol.command(short_help="Run patrols of a repository now.")
@click.argument("repo")
@click.argument("kinds", default="all", metavar="[KIND,…]")
@click.option("--room", default=None, metavar="FOLDER", help="Only this folder of the repository.")
@click.option("--detach", "-d", is_flag=True, help="Leave it to the worker.")
@json_option
def run(repo: str, kinds: str, room: str | None, detach: bool, as_json: bool) -> int:
    """Run patrols of REPO: lint, test, build, deps, security, suggest, several with commas, or all that it has.

    The exit code is 0 when all of them passed, 1 when one found something or could not run, 4 when one waits for you.
    """
    from coilclaw.features.jobs.background import Background
    from coilclaw.features.patrols.patrol_job import start_patrol
    from coilclaw.features.patrols.store import runs_of_job
    from coilclaw.features.patrols.target import target_of
    from coilclaw.features.patrols.views import run_view, run_words

    with opened() as app:
        target = target_of(app, repo, kinds, room)

        async def work() -> "tuple[str, str, str]":
            from coilclaw.features.jobs.terminal import work_on

            job = await start_patrol(app, target, channel="cli")
            if not detach:
                job = await work_on(app, Background(app), job, None)
                await _quests(app).upkeep()
            return job.job_id, job.state, job.reason

        job_id, state, reason = asyncio.run(work())
        runs = runs_of_job(app.db.reader, job_id)
        if as_json:
            print_json({"job_id": job_id, "state": state, "reason": reason, "runs": [run_view(each) for each in runs]})
        elif detach:
            tell(f"Patrol {job_id} is queued. See `coilclaw patrol list`.")
        else:
            for each in runs:
                print_line(run_words(each))
                print_line(f"  coilclaw patrol show {each.run_id}")
            if state != "DONE" and not any(each.state == "error" for each in runs):
                tell(f"{state}: {reason}", err=True)
            if not runs and state == "DONE":
                tell("It has no commands to run. Name some in [repos.NAME.patrols]; see docs/patrols.md.", err=True)
    if detach:
        return 0
    if state == "WAITING_APPROVAL":
        return 4
    return 0 if state == "DONE" and all(each.state == "passed" for each in runs) else 1


@patrol.command(short_help="Show a run: what it found, and what its command wrote.")
@click.argument("run_id")
@json_option
def show(run_id: str, as_json: bool) -> None:
    """Show a run of a patrol; `last` is the newest. What its command wrote may be anybody's words."""
    from coilclaw.features.patrols.store import needed_run, runs_before
    from coilclaw.features.patrols.views import run_shown, run_words

    with opened() as app:
        newest = runs_before(app.db.reader, None, 1) if run_id == "last" else []
        found = newest[0] if newest else needed_run(app.db.reader, run_id)
        if as_json:
            print_json(run_shown(found))
            return
        print_line(run_words(found))
        print_line(f"command:  {found.command}")
        print_line(f"commit:   {found.base or '-'}")
        print_line(f"read as:  {found.format or '-'}")
        print_line(f"job:      {found.job_id}")
        if found.output.strip():
            print_line("what it wrote (untrusted):")
            for line in found.output.splitlines()[-60:]:
                print_line(f"  {line}")


@patrol.command(short_help="Run patrols of a repository on a schedule.")
@click.argument("repo")
@click.argument("kinds", default="all", metavar="[KIND,…]")
@click.option("--room", default=None, metavar="FOLDER", help="Only this folder of the repository.")
@click.option("--cron", metavar="CRON", help='When, as five cron fields: "0 4 * * *" is every night at four.')
@click.option("--interval", metavar="TIME", help="Or the interval between runs: 6h, 24h.")
@click.option("--timezone", metavar="ZONE", default="UTC", show_default=True, help="The IANA zone of --cron.")
def schedule(repo: str, kinds: str, room: str | None, cron: str | None, interval: str | None, timezone: str) -> int:
    """Add a schedule that runs patrols of REPO. `coilclaw schedule` lists, pauses and removes it."""
    from coilclaw.features.patrols.target import INPUT, target_of
    from coilclaw.features.schedules.registry_edit import adding
    from coilclaw.features.schedules.schedule_entry import new_entry
    from coilclaw.features.schedules.schedule_views import find
    from coilclaw.features.schedules.scheduler import Scheduler
    from coilclaw.features.schedules.store.schedules import schedule_ids
    from coilclaw.features.schedules.terminal import say_row

    with opened() as app:
        target = target_of(app, repo, kinds, room)
        given = {
            "cron": cron, "interval": interval, "timezone": timezone, "goal": f"Patrol {target.text}.",
            "inputs": {INPUT: target.text},
        }  # fmt: skip
        entry = new_entry(None, given, app.clock(), schedule_ids(app.db.reader), enabled=True)
        asyncio.run(Scheduler(app).edit(adding(entry)))
        say_row(app, find(app, str(entry["job_id"])), "added")
    return 0


@click.group()
def alert() -> None:
    """What patrols found: one alert for each thing, counted, resolved by the run that no longer sees it."""


@alert.command("list")
@click.option("--all", "everything", is_flag=True, help="Resolved ones too.")
@json_option
def list_alerts(everything: bool, as_json: bool) -> None:
    """List open alerts, the newest first. Their words are those of the programs that found them."""
    from coilclaw.features.patrols.store import alerts_before
    from coilclaw.features.patrols.views import alert_view

    with opened() as app:
        found = [
            alert_view(each, app.clock()) for each in alerts_before(app.db.reader, None, 200, everything=everything)
        ]
        if as_json:
            print_json(found)
            return
        rows = [
            (each.alert_id, each.state, each.severity, each.building, each.kind, str(each.count), each.summary[:80])
            for each in found
        ]
        columns = ("alert", "state", "severity", "building", "patrol", "seen", "what")
        print_rows(rows, columns, empty="There are no open alerts.")


@alert.command()
@click.argument("alert_id")
@click.option("--reason", required=True, help="Why.")
@click.option("--days", type=click.IntRange(1, 365), default=7, show_default=True, help="For how long.")
def mute(alert_id: str, reason: str, days: int) -> None:
    """Leave an alert out of the repository's health for some days. It is still counted."""
    from coilclaw.features.patrols.http_patrols import muted

    with opened() as app:
        until = app.clock() + timedelta(days=days)
        done = asyncio.run(muted(app, alert_id, reason=reason, until=until, by=TERMINAL))
    tell(f"Alert {done.alert_id} is muted until {moment(done.muted_until or '')}.")


@alert.command()
@click.argument("alert_id")
def resolve(alert_id: str) -> None:
    """Close an alert by hand. A run that sees it again raises it again."""
    from coilclaw.features.patrols.http_patrols import resolved

    with opened() as app:
        done = asyncio.run(resolved(app, alert_id, by=TERMINAL))
    tell(f"Alert {done.alert_id} is resolved.")


@alert.command("quest")
@click.argument("alert_id")
def make_quest(alert_id: str) -> None:
    """Offer an alert as a quest; errors are offered automatically."""
    from coilclaw.features.patrols.store import needed_alert

    with opened() as app:
        made = asyncio.run(_quests(app).offer(needed_alert(app.db.reader, alert_id)))
    tell(f"Quest {made.quest_id} is on offer: coilclaw quest take {made.quest_id}")


@click.group()
def quest() -> None:
    """Alerts as tasks: take one to start a session; it is done when its patrol passes on the session's branch."""


@quest.command("list")
@click.option("--all", "everything", is_flag=True, help="Also those that are done or dropped.")
@json_option
def list_quests(everything: bool, as_json: bool) -> None:
    """List quests, the newest first."""
    from coilclaw.features.patrols.store import OPEN_QUEST, quests_before
    from coilclaw.features.patrols.views import quest_view

    with opened() as app:
        found = [quest_view(each) for each in quests_before(app.db.reader, None, 200, () if everything else OPEN_QUEST)]
    if as_json:
        print_json(found)
        return
    rows = [
        (
            each.quest_id,
            each.state.replace("_", " "),
            each.session_id or "-",
            ", ".join(each.approvals),
            each.title[:80],
        )
        for each in found
    ]
    print_rows(rows, ("quest", "state", "session", "needs", "what"), empty="There are no quests.")


@quest.command()
@click.argument("quest_id")
@click.option("--provider", default="shell", show_default=True, help="What works on it, as in `session start`.")
def take(quest_id: str, provider: str) -> int:
    """Take a quest: start a session with its task. Commit on the session's branch, then end it, or use `review`."""
    with opened() as app:
        taken = asyncio.run(take_here(app, quest_id, provider))
        _say(taken)
        tell(f"coilclaw session attach {taken.session_id}")
    return 0


async def take_here(app: "Runtime", quest_id: str, provider: str) -> "Quest":
    """Take a quest by the word of whoever typed it, which is an answer where that is enough."""
    from coilclaw.cli.terminal import Terminal
    from coilclaw.features.patrols.quests import Quests

    conveyor = app.conveyor(Terminal(assume_yes=True).approve)
    return await Quests(app, conveyor).take(quest_id, by=TERMINAL, provider=provider)


@quest.command(short_help="Have its patrol look at its branch.")
@click.argument("quest_id")
@click.option("--detach", "-d", is_flag=True, help="Leave it to the worker.")
def review(quest_id: str, detach: bool) -> int:
    """Have its patrol look at what was committed on its branch; when that passes, the quest is done."""

    async def work(app: "Runtime") -> "Quest":
        from coilclaw.features.jobs.background import Background
        from coilclaw.features.jobs.terminal import work_on
        from coilclaw.features.patrols.patrol_job import job_of_run
        from coilclaw.features.patrols.store import needed_quest

        made = await _quests(app).review(quest_id)
        job = job_of_run(app, made.run_id)
        if not detach and job is not None:
            await work_on(app, Background(app), job, None)
            await _quests(app).upkeep()
        return needed_quest(app.db.reader, quest_id)

    with opened() as app:
        done = asyncio.run(work(app))
        _say(done)
    return 0 if done.state == "done" or detach else 1


@quest.command()
@click.argument("quest_id")
@click.option("--reason", default="The owner dropped it.", help="Why.")
def drop(quest_id: str, reason: str) -> None:
    """Drop a quest. Its session goes on; its alert stays."""
    with opened() as app:
        _say(asyncio.run(_quests(app).drop(quest_id, reason=app.redact(reason)[:400])))


def _say(quest: "Quest") -> None:
    tell(f"Quest {quest.quest_id} is {quest.state.replace('_', ' ')}. {quest.reason}".rstrip())


def _quests(app: "Runtime") -> "Quests":
    from coilclaw.features.patrols.quests import Quests
    from coilclaw.packets.card import nobody

    return Quests(app, app.conveyor(nobody))
