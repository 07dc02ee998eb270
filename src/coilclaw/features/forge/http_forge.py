"""The forge over HTTP: shown, and the merge mode set."""

from typing import TYPE_CHECKING

from coilclaw.features.forge.merge_mode import ending_yolo, tightening
from coilclaw.features.forge.pulls import Pulls
from coilclaw.features.forge.views import (
    INTEL,
    SHOWN_BYTES,
    BotView,
    ChangedFile,
    FileDiff,
    IntelView,
    PullShown,
    bot_view,
    changed_files,
    file_diffs,
    intel_files,
    pull_shown,
    shown_path,
)
from coilclaw.ledger.audit import add_event
from coilclaw.packets.action import ToolCall
from coilclaw.packets.settings import SettingChange
from coilclaw.packets.text import visible
from coilclaw.runtime.owner_calls import OwnerCalls
from coilclaw.runtime.settings import NothingChanges, proposal
from coilclaw.store.deliveries import add_delivery

if TYPE_CHECKING:
    from coilclaw.packets.action import Action
    from coilclaw.packets.forge import MergeMode, PullRequest
    from coilclaw.server.serving import Serving
    from coilclaw.server.webhooks import WebhookDelivery
    from coilclaw.store.tx import Tx


WAKING = frozenset({"push", "pull_request", "pull_request_review", "repository"})
"""Events after which a look is worth it: any other is taken and does nothing."""


class HttpForge:
    """The pull requests of one home. Methods that are not async block: call them in a thread."""

    def __init__(self, serving: "Serving") -> None:
        self._app = serving.runtime
        self._core = serving.core
        self._calls = OwnerCalls(serving.runtime, serving.core.conveyor)
        self.pulls = Pulls(serving.runtime, serving.core.conveyor)

    def shown(self, pull: "PullRequest") -> PullShown:
        """Everything about a pull request."""
        return pull_shown(self._app, pull, self.pulls.forge.mode(), self._core.said)

    def files(self, pull: "PullRequest", place: int, limit: int) -> tuple[list[ChangedFile], bool]:
        """Some of the files it changes, and whether more follow."""
        forge = self.pulls.forge_of(pull)
        changes = forge.changes(pull)
        return changed_files(forge, changes[place : place + limit]), len(changes) > place + limit

    def diff(self, pull: "PullRequest", place: int, limit: int, path: str | None) -> tuple[list[FileDiff], bool]:
        """The differences of some files, and whether more follow; with a path, of all that are shown by this name."""
        forge = self.pulls.forge_of(pull)
        changes = forge.changes(pull)
        if path is not None:
            named = [each for each in changes if shown_path(each.path) == path]
            return file_diffs(forge, pull, named, self._core.said), False
        wanted = changes[place : place + limit]
        whole = len(wanted) == len(changes)
        return file_diffs(forge, pull, wanted, self._core.said, whole=whole), len(changes) > place + limit

    def bot(self) -> BotView:
        """How the bot's repository stands."""
        return bot_view(self._app, self.pulls.forge, self._core.said)

    def webhook_secret(self) -> str:
        """What signs the webhooks of the bot's repository; empty if none is taken."""
        forge = self._app.config.forge
        name = forge.github.webhook_secret_env if forge.kind == "github" else ""
        return (self._app.keyring.get(name) if name else None) or ""

    async def wake(self, delivery: "WebhookDelivery") -> bool:
        """Bring the next look at GitHub forward, once for each delivery; False if there is no reason to."""
        from coilclaw.features.forge.github.store import wake

        app = self._app
        if delivery.event not in WAKING:
            return False

        def write(tx: "Tx") -> bool:
            if not add_delivery(tx, app.clock, app.config.forge.github.repository, delivery.ids):
                return False
            wake(tx, app.clock)
            add_event(tx, app.clock, "github_webhook", delivery.delivery_id, {"event": delivery.event})
            return True

        return await app.db.write(write)

    async def set_mode(self, mode: "MergeMode", hours: int | None, *, by: str, key: str | None) -> "Action | None":
        """Make merges stricter at once, or propose to loosen them; None when there is nothing to wait for."""
        if mode == "strict":
            call = tightening(self._app)
            if call is None:
                return None
            return self._calls.earlier(call.tool, key) or await self._calls.make(call, by=by, key=key)
        if mode == "yolo":
            call = ToolCall.of("bot_yolo", {"hours": hours or 1})
            return self._calls.earlier(call.tool, key) or await self._calls.make(call, by=by, key=key, at_once=False)
        if (ends := ending_yolo(self._app)) is not None:
            await self._calls.make(ends, by=by, key=None)
        try:
            call = proposal(self._app, (SettingChange(key="forge.merge_mode", op="set", value=mode),))
        except NothingChanges:
            return None
        return self._calls.earlier(call.tool, key) or await self._calls.make(call, by=by, key=key, at_once=False)

    def intel(self, place: int, limit: int) -> tuple[list[IntelView], bool]:
        """Findings on main, and whether more follow."""
        found = intel_files(self.pulls.forge)
        views = [IntelView(path=shown_path(self._core.said(path)), size=entry.size) for path, entry in found]
        return views[place : place + limit], len(views) > place + limit

    def intel_file(self, path: str) -> tuple[IntelView, str, bool] | None:
        """One of them with its text, and whether that is left out for its length; None when it is not there."""
        path = path if path.startswith(INTEL) else f"{INTEL}{path}"
        entry = dict(intel_files(self.pulls.forge)).get(path)
        if entry is None:
            return None
        view = IntelView(path=shown_path(self._core.said(path)), size=entry.size)
        if entry.size > SHOWN_BYTES:
            return view, "", True
        data = self.pulls.forge.repository.blobs([entry.blob])[entry.blob]
        return view, visible(self._core.said(data.decode("utf-8", "replace"))), False
