"""adapter_change: which coding programs sessions run is the owner's choice, with a receipt."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from coilclaw.features.runner.adapters.contract import Provider
from coilclaw.packets.action import INTERNAL
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, Tool, ToolOutput, Touches
from coilclaw.packets.text import one_line
from coilclaw.tools.declare import tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from coilclaw.runtime.runtime import Runtime

CHANGE = "adapter_change"
LONGEST = 1800


class AdapterChangeArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of adapter_change."""

    name: Annotated[Provider, msgspec.Meta(description="The program.")]
    change: Annotated[Literal["install", "canary", "use", "rollback"], msgspec.Meta(description="What to do.")]
    value: Annotated[str, msgspec.Meta(description="The folder, or the version.", max_length=4096)]


def adapter_tool(home: "Callable[[], Runtime]") -> Tool:
    """adapter_change."""

    @tool(
        AdapterChangeArgs,
        effect="WRITE",
        destination="machine",
        idempotent=True,
        always_ask=False,
        touches=lambda args: Touches(subject=args.name, public=True, seconds=LONGEST, says=_words(args)),
        summary=_words,
        callers=frozenset({"gateway"}),
    )
    async def adapter_change(args: AdapterChangeArgs, context: Context) -> ToolOutput:
        """Install, choose or roll back a version of a coding program; only `coilclaw adapter` does."""
        from coilclaw.features.runner.adapters.known import adapter_of
        from coilclaw.features.runner.adapters.versions import Versions

        adapter, versions = adapter_of(args.name), Versions(home())
        if adapter is None or not adapter.package:
            raise ToolError(f"{args.name} needs no installation.", code="NOT_INSTALLED", begun=False)
        if args.change == "install":
            taken = versions.take(adapter, Path(args.value))
            proved = await versions.try_out(adapter, taken.version)
            how = "does as its hook says" if proved.sound else "does not do as its hook says, so it cannot be used"
            text = f"{args.name} {taken.version} is installed, and {how}."
            return ToolOutput(
                text=text, label=INTERNAL, success=proved.sound, code="" if proved.sound else "NOT_PROVED"
            )
        if args.change == "canary":
            from coilclaw.features.runner.adapters.canary import NEEDED, begin_canary

            trial = begin_canary(versions, adapter, args.value)
            text = f"{args.name} {trial.version} is on trial: {trial.share} of 100 sessions without a screen get it."
            return ToolOutput(text=f"{text} {NEEDED} that end well make it the default.", label=INTERNAL)
        version = versions.use(adapter, args.value) if args.change == "use" else versions.roll_back(adapter)
        return ToolOutput(text=f"New sessions get {args.name} {version}.", label=INTERNAL)

    return adapter_change


def _words(args: AdapterChangeArgs) -> str:
    match args.change:
        case "install":
            return f"Install {args.name} from {one_line(args.value)}, and prove it"
        case "canary":
            return f"Put {args.name} {one_line(args.value)} on trial in some of the sessions without a screen"
        case "use":
            return f"Give {args.name} {one_line(args.value)} to new sessions"
        case _:
            return f"Give the version of {args.name} before to new sessions"
