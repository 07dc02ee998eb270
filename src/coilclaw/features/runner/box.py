"""The box of a session: its checkout, a home of its own, and what policy and organization leave of the rest."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from coilclaw.config.runner import org_called
from coilclaw.features.runner.adapters.known import PlacedProgram, adapter_of
from coilclaw.features.runner.checkouts import Checkout, Checkouts
from coilclaw.features.runner.spec import SessionPolicy, StartSession
from coilclaw.features.runner.store import Session
from coilclaw.packets.box import BROKER_FOR_HOURS, BoxLimits, BoxMount, BoxSpec
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.keepers import KeeperOrder
from coilclaw.sandbox.toolchains import lent

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

_SHELLS = ("/bin/bash", "/bin/sh")
HOME = "/session/home"
"""Where a session finds its own home; not below /tmp, which some programs refuse."""
ENVIRONMENT = (
    ("HOME", HOME),
    ("TMPDIR", f"{HOME}/tmp"),  # noqa: S108 - its own
    ("TERM", "xterm-256color"),
    ("COLORTERM", "truecolor"),
    ("PS1", r"\W \$ "),
    *(
        (f"GIT_{who}_{what}", value)
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "coilclaw"), ("EMAIL", "coilclaw@localhost"))
    ),
)
_FILE_BYTES = 16 << 30
_WRITE_BYTES = 256 << 30
"""A session runs for days and shares its file system with others; the cap on checkouts is what bounds it."""


def domains_for(app: "Runtime", wanted: StartSession) -> tuple[str, ...]:
    """The domains that a session may reach."""
    return tuple(app.config.security.allowed_domains) if wanted.policy.network.mode == "open" else ()


def keeper_order(app: "Runtime", checkouts: Checkouts, session: Session) -> KeeperOrder:
    """What a keeper is told: the box, and the terminal's first size."""
    assert session.checkout is not None  # noqa: S101 - there is one before a keeper is asked
    hide, owned = app.box_walls()
    size = session.spec.size
    return KeeperOrder(
        session_id=session.session_id,
        spec=box_spec(app, checkouts, session, session.checkout),
        tier=app.open_box().tier,
        hide=hide,
        owned=owned,
        estop=app.estop.names,
        rows=size.rows,
        columns=size.columns,
    )


def box_spec(app: "Runtime", checkouts: Checkouts, session: Session, checkout: Checkout) -> BoxSpec:
    """Everything the box is given."""
    spec, runner = session.spec, app.config.runner
    home = session_home(checkout)
    program = program_in(app, session, checkout)
    (home / "tmp").mkdir(parents=True, exist_ok=True, mode=0o700)
    policy = spec.policy
    forbidden = tuple(each.rpartition("/")[2] for each in policy.shell_denylist if " " not in each)
    only = _only(policy, spec.provider)
    toolchains, path = lent(app.config.security.toolchains if only is None else (), forbidden)
    return BoxSpec(
        command=program.argv,
        workspace=checkout.path,
        cwd=room_of(checkout, spec.room_path),
        hidden=(*_hidden(checkout, policy), *program.hidden),
        read_only=(checkout.path,) if checkout.mode == "read" else (),
        allowed_binaries=only,
        forbidden_binaries=forbidden,
        environment=(("PATH", path), *ENVIRONMENT, *_secrets(app, session), *program.environment),
        domains=domains_for(app, spec),
        broker=BROKER_FOR_HOURS,
        local_sockets=spec.provider == "shell",  # all it is given is its own, or holds none: docs/decisions/0038
        mounts=(
            *checkouts.box_mounts(checkout),
            BoxMount(source=str(home), at=HOME, writable=True),
            *toolchains,
            *program.mounts,
        ),
        listeners=program.ports,
        limits=BoxLimits(
            wall_seconds=None,
            cpu_seconds=None,
            memory_bytes=runner.memory_bytes,
            processes=runner.processes,
            open_files=runner.open_files,
            file_bytes=_FILE_BYTES,
            write_bytes=_WRITE_BYTES,
            address_space=False,
        ),
    )


def _only(policy: SessionPolicy, provider: str) -> tuple[str, ...] | None:
    """The programs in the box of a person's shell. A coding program may be allowed more, so its box has them all."""
    if policy.shell_allowlist is None or provider != "shell":
        return None
    return (*policy.shell_allowlist, "bash", "sh")


def program_in(app: "Runtime", session: Session, checkout: Checkout) -> PlacedProgram:
    """What runs in the box: a shell for a person, or a coding program with its hook."""
    adapter = adapter_of(session.spec.provider)
    if adapter is None:
        return PlacedProgram(argv=(_shell(),))
    from coilclaw.features.runner.adapters.placing import place_program

    return place_program(app, adapter, session, session_home(checkout), room_of(checkout, session.spec.room_path))


def session_home(checkout: Checkout) -> Path:
    """The private home of a session, beside its checkout."""
    return Path(checkout.path).with_name(".home")


def _shell() -> str:
    return next((each for each in _SHELLS if os.access(each, os.X_OK)), _SHELLS[-1])


def room_of(checkout: Checkout, room_path: str) -> str:
    """The folder that a session begins in; it must be a folder of the checkout."""
    room = os.path.normpath(Path(checkout.path, room_path.strip("/")))
    inside = room == checkout.path or room.startswith(f"{checkout.path}/")
    if not inside or os.path.realpath(room) != room or not Path(room).is_dir():
        raise ToolError(
            f"the checkout has no folder {room_path!r}.",
            remedy="Choose a folder of the repository, or none.",
            code="ROOM_UNKNOWN",
            begun=False,
        )
    return room


def _hidden(checkout: Checkout, policy: SessionPolicy) -> tuple[str, ...]:
    named = (os.path.normpath(Path(checkout.path, each.strip("/"))) for each in policy.forbidden_paths)
    return tuple(each for each in named if each.startswith(f"{checkout.path}/"))


def secrets_for(app: "Runtime", org_id: str, *, spawned: bool) -> tuple[str, ...]:
    """The names of the secrets that a session of an organization is given; fewer if a model began it."""
    org = org_called(app.config.orgs, org_id)
    names = () if org is None else org.secrets
    return tuple(each for each in names if each in app.config.runner.spawned_secrets) if spawned else names


def _secrets(app: "Runtime", session: Session) -> tuple[tuple[str, str], ...]:
    spawned = session.started_by == "agent" or bool(session.spec.parent_id)
    found: list[tuple[str, str]] = []
    for name in secrets_for(app, session.org_id, spawned=spawned):
        value = app.keyring.get(name)
        if value:
            app.redactor.register(name, value)
            found.append((name, value))
    return tuple(found)
