"""A new version on trial: some of the sessions that nobody watches get it, and what becomes of them decides.

Enough that end well make it the default. One whose program breaks takes it back by itself; a task that failed may be
the task's fault, so it takes several. Running sessions keep theirs.
"""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.runner.adapters.contract import Adapter
from coilclaw.features.runner.adapters.known import adapter_of
from coilclaw.features.runner.adapters.versions import Versions, replace_file
from coilclaw.features.runner.structured.serving import TASK_FAILED
from coilclaw.packets.errors import ToolError

if TYPE_CHECKING:
    from coilclaw.features.runner.store import Session
    from coilclaw.runtime.runtime import Runtime

_FILE = "canary"
NEEDED = 5
"""So many sessions must end well."""
MOST_FAILED = 3
"""So many tasks may fail before one ends well for each of them."""
SHARE = 20
"""Of a hundred sessions without a screen."""


class AdapterCanary(msgspec.Struct, frozen=True, kw_only=True):
    """A version on trial."""

    version: str
    share: int = SHARE
    good: tuple[str, ...] = ()
    """The sessions that ended well; each counts once."""
    failed: tuple[str, ...] = ()
    """Those whose program could not do its task."""


def canary_of(versions: Versions, adapter: Adapter) -> AdapterCanary | None:
    """The version on trial, if there is one that can still be used."""
    try:
        found = msgspec.json.decode((versions.folder(adapter) / _FILE).read_bytes(), type=AdapterCanary)
        return found if versions.named(adapter, found.version).sound else None
    except (OSError, msgspec.DecodeError, ToolError):
        return None


def begin_canary(versions: Versions, adapter: Adapter, version: str, share: int = SHARE) -> AdapterCanary:
    """Put a version on trial; it must have passed its proof, and another one must be in use."""
    versions.must_be_sound(adapter, version)
    if versions.in_use(adapter).name == version:
        raise ToolError(f"{adapter.name} {version} is in use already.", code="IN_USE", begun=False)
    return _put(versions, adapter, AdapterCanary(version=version, share=share))


def end_canary(versions: Versions, adapter: Adapter) -> None:
    """Nothing is on trial any more."""
    (versions.folder(adapter) / _FILE).unlink(missing_ok=True)


def program_for(app: "Runtime", adapter: Adapter, session: "Session") -> Path:
    """The version that a new session gets, which is written down for its end."""
    versions = Versions(app)
    place = versions.in_use(adapter)
    canary = canary_of(versions, adapter) if session.spec.structured else None
    if canary is not None and _share_of(session.session_id) < canary.share:
        place = versions.folder(adapter, canary.version)
    replace_file(_note(app, session.session_id), place.name.encode())
    return place


def judge(app: "Runtime", session: "Session") -> str:
    """See how a session on trial ended; returns what that changed, in words."""
    adapter = adapter_of(session.spec.provider)
    if adapter is None or not adapter.package or not session.spec.structured:
        return ""
    versions = Versions(app)
    canary = canary_of(versions, adapter)
    if canary is None or _version_of(app, session.session_id) != canary.version:
        return ""
    name = f"{adapter.name} {canary.version}"
    if session.code == "EXITED" and session.exit_code == TASK_FAILED:
        failed = (*canary.failed, *({session.session_id} - {*canary.failed}))
        if len(failed) < MOST_FAILED + len(canary.good):
            _put(versions, adapter, msgspec.structs.replace(canary, failed=failed))
            return ""
    if session.code in ("UNGUARDED", "START_FAILED") or (session.code == "EXITED" and session.exit_code != 0):
        end_canary(versions, adapter)
        versions.distrust(adapter, canary.version)
        return f"{name} was on trial and failed, so no new session gets it. It must be proved again to be used."
    if session.code != "EXITED" or session.session_id in canary.good:
        return ""  # it was stopped, or lost: that says nothing about the program
    canary = msgspec.structs.replace(canary, good=(*canary.good, session.session_id))
    if len(canary.good) < NEEDED:
        _put(versions, adapter, canary)
        return ""
    versions.use(adapter, canary.version)
    return f"{name} was on trial and did well: new sessions get it."


def _put(versions: Versions, adapter: Adapter, canary: AdapterCanary) -> AdapterCanary:
    replace_file(versions.folder(adapter) / _FILE, msgspec.json.encode(canary))
    return canary


def _share_of(session_id: str) -> int:
    """A number below 100 that belongs to a session."""
    return int.from_bytes(hashlib.sha256(session_id.encode()).digest()[:4]) % 100


def _note(app: "Runtime", session_id: str) -> Path:
    return app.home.root / "sessions" / session_id / "program"


def _version_of(app: "Runtime", session_id: str) -> str:
    try:
        return _note(app, session_id).read_text()
    except OSError:
        return ""
