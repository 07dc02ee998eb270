"""What the doctor looks at: whether each guest that was let in can still be used, and whether it starts."""

import asyncio
from typing import TYPE_CHECKING

from coilclaw.features.guests.given import granted_folders, program_of, secrets_of
from coilclaw.features.guests.guests import guests_of
from coilclaw.features.guests.offer import GuestGrant, Pin
from coilclaw.features.guests.plugin_files import copy_of
from coilclaw.features.guests.program import folder_digest
from coilclaw.features.guests.store import DAMAGED, load_guests
from coilclaw.packets.box import Probe
from coilclaw.packets.errors import CoilclawError, ToolError
from coilclaw.packets.text import one_line

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.store.tx import Tx


START_SECONDS = 30.0
_AT_ONCE = 4


def guest_probes(app: "Runtime", db: "Tx", *, start: bool) -> list[Probe]:
    """A probe for each guest that is let in and switched on. Blocking: it reads every file of their programs.

    With `start`, each that could be used is started once in its box, or asked at its address, and ended. A plugin is
    given no call, so it does nothing but start.
    """
    found: dict[str, Probe] = {}
    sound: list[Pin] = []
    for row in load_guests(db):
        if row.enabled and row.pin is not None:
            found[row.name] = _guest(app, row.pin)
            if found[row.name].state == "ok":
                sound.append(row.pin)
        elif row.enabled and row.fault == DAMAGED:
            remedy = f"Run `coilclaw mcp approve {row.name}`."
            found[row.name] = _faulty(row.name, "its stored approval is damaged", remedy)
    if start and sound and not app.estop.engaged():
        found |= asyncio.run(_started(app, sound))
    return list(found.values())


async def _started(app: "Runtime", pins: list[Pin]) -> dict[str, Probe]:
    """What starting each of them showed, some at a time."""
    from coilclaw.features.guests.running import RunningGuests

    guests, turn = RunningGuests(app), asyncio.Semaphore(_AT_ONCE)

    async def one(pin: Pin) -> Probe:
        name, is_plugin = pin.offer.name, pin.offer.grant.kind == "plugin"
        log = f"`coilclaw mcp log {name}` tells more."
        async with turn:
            try:
                async with asyncio.timeout(START_SECONDS):
                    withheld = await guests.check(pin)
            except TimeoutError:
                return _faulty(name, f"it did not start within {START_SECONDS:.0f} seconds", log)
            except (CoilclawError, OSError) as error:
                told = app.redact(getattr(error, "message", "") or str(error)).rstrip(".")
                return _faulty(name, f"it does not start: {one_line(told)}", getattr(error, "remedy", "") or log)
        if withheld:
            detail = f"it offers other tools than were approved; withheld: {', '.join(withheld)}"
            return _faulty(name, one_line(detail), f"See what changed with `coilclaw mcp approve {name}`.")
        tools = f"{len(pin.classes)} tool{'' if len(pin.classes) == 1 else 's'} let in"
        told = "its program is the approved one and starts" if is_plugin else "started once and offers them unchanged"
        return Probe(name=f"guest {name}", state="ok", detail=f"{tools}, {told}")

    try:
        probes = await asyncio.gather(*map(one, pins))
    finally:
        await guests.close()
    return dict(zip((pin.offer.name for pin in pins), probes, strict=True))


def _guest(app: "Runtime", pin: Pin) -> Probe:
    name, grant = pin.offer.name, pin.offer.grant
    again = f"See what changed with `coilclaw {'plugin' if grant.kind == 'plugin' else 'mcp'} approve {name}`."
    if not guests_of(app).is_configured(pin):
        return _faulty(name, "it is not given what was approved, so its tools are withheld", again)
    try:
        if _program(app, pin) != grant.program:
            return _faulty(name, "its program is not the one that was approved, so it is not started", again)
        granted_folders(app, grant.read, grant.write)
        secrets_of(app, (*grant.env, *(secret for _, secret in grant.headers)))
        must_be_listed(app, grant)
    except (CoilclawError, OSError) as error:
        remedy = error.remedy if isinstance(error, CoilclawError) else ""
        return _faulty(name, app.redact(getattr(error, "message", "") or str(error)).rstrip("."), remedy or again)
    tools = f"{len(pin.classes)} tool{'' if len(pin.classes) == 1 else 's'} let in"
    return Probe(
        name=f"guest {name}",
        state="ok",
        detail=f"{tools}, not contacted" if grant.kind == "http" else f"{tools}, its program is the approved one",
    )


def _program(app: "Runtime", pin: Pin) -> str:
    """The hash of what would run now."""
    grant = pin.offer.grant
    if grant.kind == "http":
        return ""
    if grant.kind == "plugin":
        folder = copy_of(app, pin.offer)
        return folder_digest(folder) if folder.is_dir() else ""
    return program_of(app, grant).digest


def must_be_listed(app: "Runtime", grant: GuestGrant) -> None:
    """Raise unless every host of a boxed guest may be reached as the configuration is now."""
    if not grant.domains:
        return
    from coilclaw.runtime.reachable import listing_of, url_fact

    listing = listing_of(app.config)
    for domain in grant.domains:
        host = f"any{domain[1:]}" if domain.startswith("*") else domain
        url = host if "://" in host else f"https://{host}/"
        if url_fact(app.config, listing, url, "box", ()).code:
            raise ToolError(
                f"{domain} is not among security.allowed_domains, so it cannot be reached.",
                remedy=f"Allow it with `coilclaw config set --add security.allowed_domains {domain}`.",
                code="NOT_LISTED",
                begun=False,
            )


def _faulty(name: str, detail: str, remedy: str) -> Probe:
    return Probe(name=f"guest {name}", state="warn", detail=detail, remedy=remedy)
