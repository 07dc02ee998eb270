"""What the doctor looks at: whether each guest that was let in can still be used. Nothing of a guest runs for it."""

from typing import TYPE_CHECKING

from coilclaw.features.guests.guests import guests_of
from coilclaw.features.guests.offer import GuestGrant, Pin
from coilclaw.features.guests.plugin_files import copy_of
from coilclaw.features.guests.program import find_program, folder_digest, must_be_apart
from coilclaw.features.guests.running import granted_folders, secrets_of, worked_in
from coilclaw.features.guests.store import DAMAGED, load_guests
from coilclaw.packets.box import Probe
from coilclaw.packets.errors import CoilclawError, ToolError

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.store.tx import Tx


def guest_probes(app: "Runtime", db: "Tx") -> list[Probe]:
    """A probe for each guest that is let in and switched on. Blocking: it reads every file of their programs."""
    found: list[Probe] = []
    for row in load_guests(db):
        if row.enabled and row.pin is not None:
            found.append(_guest(app, row.pin))
        elif row.enabled and row.fault == DAMAGED:
            found.append(_faulty(row.name, "its stored approval is damaged", f"Run `coilclaw mcp approve {row.name}`."))
    return found


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
    program = find_program(grant.command, app.environ.get("PATH", "/usr/bin:/bin"))
    must_be_apart(program.mounts, worked_in(app))
    return program.digest


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
