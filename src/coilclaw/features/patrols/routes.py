"""Patrols, alerts and quests over HTTP, for the owner's devices; and webhooks, which are signed and carry nothing."""

from datetime import timedelta
from typing import Annotated, Any

import msgspec
from litestar import Controller, Request, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody, QueryParameter

from coilclaw.features.approvals.views import redacted
from coilclaw.features.patrols.http_patrols import HttpPatrols
from coilclaw.features.patrols.store import alerts_before, load_run, needed_alert, quests_before, runs_before
from coilclaw.features.patrols.views import (
    AlertView,
    BuildingView,
    QuestView,
    RunShown,
    RunView,
    alert_view,
    quest_view,
    run_shown,
    run_view,
)
from coilclaw.features.patrols.webhooks import Webhooks
from coilclaw.packets.errors import ToolError, UsageError
from coilclaw.server.core import Core
from coilclaw.server.door.caller import Caller
from coilclaw.server.pages import Cursor, Limit, Page, page_of, read_cursor
from coilclaw.server.problems import NotThere, Trouble, problems
from coilclaw.server.webhooks import signed_delivery

_HOURS = 24 * 365


class BuildingList(msgspec.Struct, frozen=True, kw_only=True):
    """Buildings, by name."""

    items: list[BuildingView]


class RunPatrol(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A patrol to run."""

    repo: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    kinds: Annotated[str, msgspec.Meta(min_length=1, max_length=100)] = "all"
    """`lint`, `test`, `build`, `deps`, `security`, several with commas, or `all`."""
    room: Annotated[str, msgspec.Meta(max_length=200)] | None = None


class PatrolStarted(msgspec.Struct, frozen=True, kw_only=True):
    """The job that does it."""

    job_id: str


class MuteAlert(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why and for how long an alert is muted."""

    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=400)]
    hours: Annotated[int, msgspec.Meta(ge=1, le=_HOURS)]


class TakeQuest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who works on it."""

    provider: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] = "shell"


class DropQuest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why it is given up."""

    reason: Annotated[str, msgspec.Meta(max_length=400)] = ""


class WebhookTaken(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that was accepted."""

    started: bool
    """False if it came before, or a patrol that has not begun will see it anyway."""


class PatrolRoutes(Controller):
    """Patrols and what they looked after."""

    path = "/runner/v1"
    tags = ("patrols",)

    @get("/buildings", operation_id="listBuildings", summary="Health and trends", sync_to_thread=True)
    def buildings(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        http_patrols: NamedDependency[HttpPatrols],
    ) -> BuildingList:
        """Every repository, or room of one, with its health and how its patrols went."""
        caller.must_be_device()
        return redacted(core, BuildingList(items=http_patrols.buildings()))

    @get("/patrols", operation_id="listPatrolRuns", summary="Runs, newest first", sync_to_thread=True)
    def runs(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        repo: Annotated[str | None, QueryParameter(max_length=200, description="Only of this repository.")] = None,
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Page[RunView]:
        """Runs of patrols, newest first."""
        caller.must_be_device()
        rows = runs_before(core.db.reader, read_cursor(cursor, str), limit + 1, repo)
        views = [redacted(core, run_view(row)) for row in rows]
        return page_of(views, limit, [row.run_id for row in rows])

    @get(
        "/patrols/{run_id:str}",
        operation_id="getPatrolRun",
        summary="One run",
        responses=problems(404),
        sync_to_thread=True,
    )
    def show(self, core: NamedDependency[Core], caller: NamedDependency[Caller], run_id: FromPath[str]) -> RunShown:
        """A run, with the end of what its command wrote."""
        caller.must_be_device()
        run = load_run(core.db.reader, run_id)
        if run is None:
            raise NotThere("such run", "See GET /runner/v1/patrols.")
        return redacted(core, run_shown(run))

    @post("/patrols", operation_id="runPatrol", summary="Run a patrol", responses=problems(403, 422))
    async def run(
        self,
        caller: NamedDependency[Caller],
        http_patrols: NamedDependency[HttpPatrols],
        data: JSONBody[RunPatrol],
        request_key: NamedDependency[str | None],
    ) -> PatrolStarted:
        """Run patrols of a repository now, as a job."""
        caller.must_be_device()
        try:
            job = await http_patrols.run(data.repo, data.kinds, data.room, request_key)
        except ToolError as error:
            raise Trouble(422, error.code or "REFUSED", error.message, remedy=error.remedy) from error
        return PatrolStarted(job_id=job.job_id)


class AlertRoutes(Controller):
    """What patrols found."""

    path = "/runner/v1/alerts"
    tags = ("patrols",)

    @get("/", operation_id="listAlerts", summary="Alerts, newest first", sync_to_thread=True)
    def list_all(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        http_patrols: NamedDependency[HttpPatrols],
        everything: Annotated[bool, QueryParameter(description="Resolved ones too.")] = False,
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Page[AlertView]:
        """Open alerts, newest first; each fingerprint stands once."""
        caller.must_be_device()
        rows = alerts_before(core.db.reader, read_cursor(cursor, str), limit + 1, everything=everything)
        now = http_patrols.app.clock()
        views = [redacted(core, alert_view(row, now)) for row in rows]
        return page_of(views, limit, [row.alert_id for row in rows])

    @post("/{alert_id:str}/mute", operation_id="muteAlert", summary="Mute", status_code=200, responses=problems(404))
    async def mute(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        http_patrols: NamedDependency[HttpPatrols],
        alert_id: FromPath[str],
        data: JSONBody[MuteAlert],
    ) -> AlertView:
        """Mute an alert for some hours. It is still counted."""
        caller.must_be_device()
        _known_alert(core, alert_id)
        until = http_patrols.app.clock() + timedelta(hours=data.hours)
        return redacted(core, await http_patrols.mute(alert_id, reason=data.reason, until=until, by=caller.by))

    @post(
        "/{alert_id:str}/resolve",
        operation_id="resolveAlert",
        summary="Resolve",
        status_code=200,
        responses=problems(404),
    )
    async def resolve(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        http_patrols: NamedDependency[HttpPatrols],
        alert_id: FromPath[str],
    ) -> AlertView:
        """Close an alert. A run that sees it again raises it again."""
        caller.must_be_device()
        _known_alert(core, alert_id)
        return redacted(core, await http_patrols.resolve(alert_id, by=caller.by))

    @post(
        "/{alert_id:str}/quest",
        operation_id="offerQuest",
        summary="Make it a quest",
        status_code=200,
        responses=problems(404),
    )
    async def quest(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        http_patrols: NamedDependency[HttpPatrols],
        alert_id: FromPath[str],
    ) -> QuestView:
        """Offer an alert as a quest; the one there is if it has one already."""
        caller.must_be_device()
        _known_alert(core, alert_id)
        return redacted(core, quest_view(await http_patrols.quests.offer(needed_alert(core.db.reader, alert_id))))


class QuestRoutes(Controller):
    """Alerts as tasks."""

    path = "/runner/v1/quests"
    tags = ("patrols",)

    @get("/", operation_id="listQuests", summary="Quests, newest first", sync_to_thread=True)
    def list_all(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        limit: Limit = 50,
        cursor: Cursor = None,
    ) -> Page[QuestView]:
        """Quests, newest first."""
        caller.must_be_device()
        rows = quests_before(core.db.reader, read_cursor(cursor, str), limit + 1)
        return page_of([redacted(core, quest_view(row)) for row in rows], limit, [row.quest_id for row in rows])

    @post("/{quest_id:str}/take", operation_id="takeQuest", summary="Take", status_code=200, responses=problems(409))
    async def take(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        http_patrols: NamedDependency[HttpPatrols],
        quest_id: FromPath[str],
        data: JSONBody[TakeQuest],
    ) -> QuestView:
        """Start a session that works on it."""
        caller.must_be_device()
        try:
            quest = await http_patrols.quests.take(quest_id, by=caller.by, provider=data.provider)
        except (UsageError, ToolError) as error:
            raise Trouble(409, "NOT_TAKEN", core.said(error.message), remedy=error.remedy) from error
        return redacted(core, quest_view(quest))

    @post(
        "/{quest_id:str}/review",
        operation_id="reviewQuest",
        summary="Look at its branch",
        status_code=200,
        responses=problems(409),
    )
    async def review(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        http_patrols: NamedDependency[HttpPatrols],
        quest_id: FromPath[str],
    ) -> QuestView:
        """Have its patrol look at what was committed; it is done when that passes."""
        caller.must_be_device()
        try:
            quest = await http_patrols.quests.review(quest_id)
        except (UsageError, ToolError) as error:
            raise Trouble(409, "NO_BRANCH", core.said(error.message), remedy=error.remedy) from error
        return redacted(core, quest_view(quest))

    @post("/{quest_id:str}/drop", operation_id="dropQuest", summary="Drop", status_code=200, responses=problems(404))
    async def drop(
        self,
        core: NamedDependency[Core],
        caller: NamedDependency[Caller],
        http_patrols: NamedDependency[HttpPatrols],
        quest_id: FromPath[str],
        data: JSONBody[DropQuest],
    ) -> QuestView:
        """Drop a quest. Its session goes on."""
        caller.must_be_device()
        try:
            quest = await http_patrols.quests.drop(quest_id, reason=core.said(data.reason) or "The owner dropped it.")
        except UsageError as error:
            raise NotThere("such quest", "See GET /runner/v1/quests.") from error
        return redacted(core, quest_view(quest))


class WebhookRoutes(Controller):
    """Deliveries of a forge. Open at the door: the signature is the proof."""

    path = "/runner/v1/webhooks"
    tags = ("patrols",)

    @post(
        "/{repo_id:str}",
        operation_id="deliverWebhook",
        summary="A signed delivery",
        status_code=202,
        responses=problems(403),
    )
    async def deliver(
        self, webhooks: NamedDependency[Webhooks], request: Request[Any, Any, Any], repo_id: FromPath[str]
    ) -> WebhookTaken:
        """Start the patrols that the configuration names. The body is only checked against its signature."""
        delivery = await signed_delivery(request, webhooks.secret(repo_id))
        return WebhookTaken(started=await webhooks.deliver(repo_id, delivery))


def _known_alert(core: Core, alert_id: str) -> None:
    try:
        needed_alert(core.db.reader, alert_id)
    except UsageError as error:
        raise NotThere("such alert", "See GET /runner/v1/alerts.") from error
