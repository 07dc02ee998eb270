"""main_accept: the owner takes in a commit that somebody pushed to main on GitHub."""

from typing import TYPE_CHECKING, Annotated

import msgspec

from coilclaw.ledger.audit import add_event
from coilclaw.packets.action import INTERNAL
from coilclaw.packets.errors import CoilclawError, ToolError
from coilclaw.packets.forge import MAIN
from coilclaw.packets.ports import Context, Tool, ToolOutput, Touches
from coilclaw.packets.text import visible
from coilclaw.store.tx import Tx
from coilclaw.tools.declare import owner_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from coilclaw.runtime.runtime import Runtime

ACCEPT = "main_accept"


class AcceptArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of main_accept."""

    commit: Annotated[str, msgspec.Meta(description="The commit on main on GitHub.", pattern="^[0-9a-f]{40}$")]


def make_accept(home: "Callable[[], Runtime]") -> Tool:
    """The tool of a home."""

    @owner_call(
        AcceptArgs,
        destination="internal",
        idempotent=True,
        touches=lambda args: Touches(subject="main", public=True, says=_card(home(), args.commit)),
        summary=lambda args: f"Take in {args.commit[:12]}, which somebody pushed to main on GitHub",
    )
    async def main_accept(args: AcceptArgs, context: Context) -> ToolOutput:
        """Take in a commit on main of GitHub that no merge of ours made; the look at GitHub asks."""
        from coilclaw.features.forge.github.store import github_state, set_github_state

        app = home()

        def write(tx: Tx) -> None:
            state = github_state(tx)
            if state.held != args.commit:
                raise ToolError("GitHub has moved on since.", code="CHANGED_MEANWHILE", begun=False)
            set_github_state(tx, msgspec.structs.replace(state, accepted=args.commit))
            add_event(tx, app.clock, "github_accepted", args.commit, {})

        await app.db.write(write)
        return ToolOutput(text=f"{args.commit[:12]} is taken in at the next look.", label=INTERNAL)

    return main_accept


def _card(app: "Runtime", commit: str) -> str:
    """The whole difference; the commit was brought here when it was held."""
    from coilclaw.sandbox.bot_repository import BotRepository

    try:
        repository = BotRepository(app.workspace)
        patch = repository.patch(repository.resolve(MAIN), commit)
    except CoilclawError:
        return "Nothing would be taken in: the commit is not here."
    return visible(patch.decode("utf-8", "replace"))
