"""One call of a plugin: JSON in, one JSON object out, in a box of its own."""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.guests.given import granted_folders, guest_folder, own_environment
from coilclaw.features.guests.mcp_client import CallResult, GuestFault
from coilclaw.features.guests.offer import OfferedTool, Pin
from coilclaw.features.guests.plugin_files import copy_of, signature
from coilclaw.features.guests.program import folder_digest
from coilclaw.packets.box import BoxLimits, BoxMount, BoxResult, BoxSpec
from coilclaw.packets.canonical import Json, NotCanonical, canonical_bytes, parse_object
from coilclaw.packets.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from coilclaw.runtime.runtime import Runtime

OUTPUT = 1 << 20
AT = "/guest/plugin"
_SEEN = 300
NOT_STARTED = (126, 127)
"""How a program ends that cannot be executed, or whose interpreter is missing."""


class PluginAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a plugin answers."""

    success: bool
    output: str = ""
    error: str | None = None
    metadata: dict[str, Json] = {}


async def call_plugin(
    app: "Runtime", pin: Pin, tool: OfferedTool, arguments: dict[str, Json], call_id: str
) -> CallResult:
    """Run the plugin's program once and read its answer."""
    folder = copy_of(app, pin.offer)
    await asyncio.to_thread(_must_be_approved, app, pin, folder)
    asked = canonical_bytes({"tool": tool.original, "args": arguments, "call_id": call_id})
    box, spec = app.open_box(), plugin_spec(app, pin, tool, folder, asked)
    if spec.domains:
        from coilclaw.sandbox.box import reaching

        box = reaching(box, app.transport)
    return _answer(await box.run(spec), app.redact)


async def start_plugin(app: "Runtime", pin: Pin) -> None:
    """Start each program of a plugin in its box and let it end; GuestFault when one cannot be started.

    Nothing is asked of it, and it gets no network and no folder but its own.
    """
    folder = copy_of(app, pin.offer)
    await asyncio.to_thread(_must_be_approved, app, pin, folder)
    box, programs = app.open_box(), {each.command: each for each in pin.offer.tools if each.original in pin.classes}
    for tool in programs.values():
        spec = plugin_spec(app, pin, tool, folder, b"")
        result = await box.run(msgspec.structs.replace(spec, domains=(), mounts=spec.mounts[:1]))
        if result.end != "exited" or result.exit_code in NOT_STARTED:
            told = app.redact(result.stderr.decode("utf-8", "replace")).strip()[-_SEEN:]
            why = result.reason or f"{tool.command[0]} exited with code {result.exit_code}."
            raise GuestFault(f"{why} {told}".strip(), code="PLUGIN_FAILED", answered=False)


def _must_be_approved(app: "Runtime", pin: Pin, folder: "Path") -> None:
    """Compare the copy with its hash, once for each state of its files."""
    key, now = f"plugin {folder}", signature(folder)
    if now and app.kept.get(key) == now:
        return
    if not folder.is_dir() or folder_digest(folder) != pin.offer.grant.program:
        name = pin.offer.name
        raise ToolError(
            f"the files of {name} are not those that were approved.",
            remedy=f"Approve it again: `coilclaw plugin approve {name}`.",
            code="GUEST_CHANGED",
            begun=False,
        )
    app.kept[key] = now


def plugin_spec(app: "Runtime", pin: Pin, tool: OfferedTool, folder: "Path", asked: bytes) -> BoxSpec:
    """The box of one call."""
    grant, own = pin.offer.grant, guest_folder(app, pin.offer.name)
    program = f"{AT}/{tool.command[0].removeprefix('./')}"
    mounts = granted_folders(app, grant.read, grant.write)
    return BoxSpec(
        command=(program, *tool.command[1:]),
        workspace=str(own),
        cwd=str(own),
        environment=own_environment(own),
        domains=grant.domains,
        mounts=(BoxMount(source=str(folder), at=AT, writable=False), *mounts),
        stdin=asked,
        limits=BoxLimits(
            wall_seconds=grant.call_seconds,
            cpu_seconds=int(grant.call_seconds) + 1,
            memory_bytes=grant.memory_mb << 20,
            output_bytes=OUTPUT,
            kept_bytes=OUTPUT,
            address_space=False,
        ),
    )


def _answer(result: BoxResult, redact: "Callable[[str], str]") -> CallResult:
    """The answer, or what was seen instead of one, redacted before it is cut: half a secret would not be found."""
    if result.end != "exited" or result.exit_code:
        told = redact(result.stderr.decode("utf-8", "replace")).strip()[-_SEEN:]
        why = result.reason or f"It exited with code {result.exit_code}."
        raise GuestFault(f"{why} {told}".strip(), code="PLUGIN_FAILED", answered=result.end == "exited")
    try:
        answer = msgspec.convert(dict(parse_object(result.stdout)), PluginAnswer)
    except (NotCanonical, msgspec.ValidationError) as error:
        seen = redact(result.stdout.decode("utf-8", "replace"))[:_SEEN]
        raise GuestFault(
            f"It did not answer with one JSON object {{success, output, error, metadata}} ({str(error)[:200]}): {seen}",
            code="PLUGIN_ANSWER",
            answered=True,
        ) from error
    text = answer.output if answer.success else (answer.error or answer.output)
    return CallResult(text=text, is_error=not answer.success, structured=None, blobs=())
