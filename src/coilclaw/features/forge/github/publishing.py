"""What leaves for a public repository: the owner says so once for the repository, and for each pull request."""

from typing import TYPE_CHECKING, Annotated

import msgspec

from coilclaw.features.forge.store import load_pull
from coilclaw.ledger.audit import add_event
from coilclaw.packets.action import INTERNAL
from coilclaw.packets.errors import CoilclawError, ToolError
from coilclaw.packets.ports import Context, Tool, ToolOutput, Touches
from coilclaw.packets.text import visible
from coilclaw.store.tx import Tx
from coilclaw.tools.declare import owner_call, tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from coilclaw.runtime.runtime import Runtime

CARD_BYTES = 256 << 10


class PublicArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of bot_public."""

    repository: Annotated[str, msgspec.Meta(description="The repository, as owner/name.", max_length=140)]
    since: Annotated[str, msgspec.Meta(description="When it was found to be public.", max_length=40)]


class PublishArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of pr_publish."""

    number: Annotated[int, msgspec.Meta(description="The pull request.", ge=1)]
    head: Annotated[str, msgspec.Meta(description="The commit that everybody could read.", pattern="^[0-9a-f]{40,64}$")]


def publishing_tools(home: "Callable[[], Runtime]") -> tuple[Tool, ...]:
    """The two questions about a public repository; only the look at GitHub puts them."""
    return _make_public(home), _make_publish(home)


def publish_key(number: int, head: str) -> str:
    """Stands for the question about one head."""
    return f"publish:{number}:{head}"


def _make_public(home: "Callable[[], Runtime]") -> Tool:
    @owner_call(
        PublicArgs,
        destination="external",
        idempotent=True,
        touches=lambda args: Touches(
            subject=args.repository,
            public=True,
            says=f"{args.repository} is public. With your yes main and the signed heads go there, where everybody can"
            " read them for good: every file of the workspace that is on main, and every record of a job. Pull"
            " requests still ask, one by one. To keep it all to yourself, make it private instead.",
        ),
        summary=lambda args: f"Send the bot's main to {args.repository} although it is public",
    )
    async def bot_public(args: PublicArgs, context: Context) -> ToolOutput:
        """Go on sending to the bot's repository although it is public; the look at GitHub asks when it turns public."""
        from coilclaw.features.forge.github.store import github_state, set_github_state

        app = home()

        def write(tx: Tx) -> None:
            state = github_state(tx)
            if (app.config.forge.github.repository, state.public_since) != (args.repository, args.since):
                raise ToolError("GitHub has moved on since.", code="CHANGED_MEANWHILE", begun=False)
            set_github_state(tx, msgspec.structs.replace(state, public_allowed=args.since))
            add_event(tx, app.clock, "github_public", args.repository, {})

        await app.db.write(write)
        return ToolOutput(text=f"{args.repository} is sent to, although it is public.", label=INTERNAL)

    return bot_public


def _make_publish(home: "Callable[[], Runtime]") -> Tool:
    @tool(
        PublishArgs,
        effect="WRITE",
        destination="external",
        idempotent=True,
        always_ask=True,
        touches=lambda args: Touches(subject=f"#{args.number}", public=True, says=_card(home(), args)),
        summary=lambda args: f"Show #{args.number} on GitHub, where everybody can read it",
        callers=frozenset({"gateway"}),
    )
    async def pr_publish(args: PublishArgs, context: Context) -> ToolOutput:
        """Show one head of a pull request on a public repository; only the look at GitHub proposes it."""
        pull = load_pull(home().db.reader, args.number)
        if pull is None or pull.head_sha != args.head:
            raise ToolError("it has another head since.", code="CHANGED_MEANWHILE", begun=False)
        return ToolOutput(text=f"#{args.number} is shown at the next look.", label=INTERNAL)

    return pr_publish


def _card(app: "Runtime", args: PublishArgs) -> str:
    """The whole difference, or how to read it."""
    from coilclaw.features.forge.forge import LocalForge

    pull = load_pull(app.db.reader, args.number)
    if pull is None or pull.head_sha != args.head:
        return "Nothing would be shown."
    lines = [visible(pull.title), f"Everybody could read this at {app.config.forge.github.repository}."]
    if pull.taint:
        lines.append(f"Whoever made it took in untrusted content: {', '.join(pull.taint)}")
    try:
        patch = LocalForge(app).patch(pull)
    except CoilclawError:
        return "Nothing would be shown: its commits cannot be read."
    if len(patch) > CARD_BYTES:
        return "\n".join((*lines, "", f"Too much to show here: read it with `coilclaw pr diff {pull.number}`."))
    return "\n".join((*lines, "", visible(patch.decode("utf-8", "replace"))))
