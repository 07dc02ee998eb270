"""settings_change: changes keys of config.toml. Only the owner's own surfaces call it, and it always asks."""

from collections.abc import Awaitable, Callable

import msgspec

from coilclaw.packets.action import INTERNAL
from coilclaw.packets.canonical import Json
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, ToolOutput, Touches
from coilclaw.packets.settings import ConfigEdit, SettingChange
from coilclaw.tools.declare import Declared


class ConfigWriter(msgspec.Struct, frozen=True, kw_only=True):
    """How the tool shows and writes changes."""

    difference: Callable[[ConfigEdit], str]
    """What would change in the current file, or why nothing can."""
    write: Callable[[ConfigEdit], Awaitable[str]]
    """Writes it and returns a message; raises ToolError if the file is not the one that was shown."""


async def _nowhere(_: ConfigEdit) -> str:
    raise ToolError("changing settings was not granted to this call.", code="NOT_GRANTED", begun=False)


def make_settings_change(writer: ConfigWriter | None) -> Declared[ConfigEdit]:
    """The tool, with a way to write; without one, it is declared but refuses."""
    by = writer or ConfigWriter(difference=lambda _: "", write=_nowhere)

    async def settings_change(args: ConfigEdit, context: Context) -> ToolOutput:
        """Change keys of config.toml; only the panel and `coilclaw config set` can call it."""
        text = await by.write(args)
        keys: list[Json] = [change.key for change in args.changes]
        return ToolOutput(text=text, label=INTERNAL, metadata={"keys": keys, "sha256": args.after})

    return Declared(
        settings_change,
        ConfigEdit,
        effect="WRITE",
        destination="machine",
        idempotent=True,  # a repeat finds the file already changed, or does not write it
        always_ask=True,
        touches=lambda args: Touches(subject="config.toml", says=by.difference(args)),
        summary=lambda args: f"Change settings: {'; '.join(_told(change) for change in args.changes)}.",
        callers=frozenset({"gateway"}),
        governs=True,
    )


def _told(change: SettingChange) -> str:
    value = msgspec.json.encode(change.value).decode()
    return {
        "set": f"{change.key} = {value}",
        "unset": f"{change.key} back to its default",
        "add": f"{value} is added to {change.key}",
        "remove": f"{value} is removed from {change.key}",
    }[change.op]
