"""The configuration of a long-running process: when config.toml changes, it takes effect without a restart.

A file that does not hold, is empty or gone leaves the old configuration in force as a whole, and that is said. What a
process cannot change while it runs keeps its value until the next start.
"""

import time
from typing import TYPE_CHECKING

import msgspec

from coilclaw.config import Config, FileStamp, load, secret_variables, stamp_of
from coilclaw.config.options import values_of
from coilclaw.config.tables import KeyPath
from coilclaw.packets.errors import ConfigError
from coilclaw.runtime.reachable import listing_of
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.packets.canonical import Json
    from coilclaw.runtime.runtime import Runtime

FIXED = (("workspace_dir",), ("memory", "path"), ("memory", "backend"), ("receipts",), ("server",), ("log",))
"""What a running process keeps: open files, sockets and what was made for them."""
SETTLED_SECONDS = 0.1
"""Some editors empty a file before they write it, so a file touched just now is read again a moment later."""
KNOWN = "config_sha256"


def needs_restart(path: KeyPath) -> bool:
    """Whether a change of this key takes effect at the next start only."""
    return any(path[: len(fixed)] == fixed for fixed in FIXED)


class LiveConfig:
    """Notices that config.toml changed, and applies it or says why not."""

    def __init__(self, app: "Runtime", stamp: FileStamp | None) -> None:
        self._app = app
        self._seen = stamp_of(app.home) if stamp is None else stamp
        self._said = app.config
        """What the file said last; start options such as `up --addr` may override it."""
        self.fault = ""
        """Why the file as it is now is not in force; empty when it is."""

    def refresh(self, *, at_once: bool = False, own: bool = False) -> bool:
        """Look at the file; True when another configuration is in force now. Costs one stat while nothing changed.

        With `own` this process has just written it, and the call that did says so.
        """
        stamp = stamp_of(self._app.home)
        if stamp == self._seen or not (at_once or own or _is_settled(stamp)):
            return False
        self._seen = stamp
        if not stamp or not stamp[1]:
            return self._refuse("config.toml is empty or gone.")
        try:
            loaded = load(self._app.home, self._app.environ)
            listing_of(loaded.config)
        except ConfigError as error:
            return self._refuse("; ".join(error.problems[:5]))
        self._seen, self.fault = loaded.stamp, ""
        for warning in loaded.warnings:
            self._app.warn(warning)
        return self._adopt(loaded.config, own=own)

    def _refuse(self, why: str) -> bool:
        self.fault = self._app.redact(why)
        self._app.warn(f"The configuration in force stays as it was: {self.fault}")
        return False

    def _adopt(self, wanted: Config, *, own: bool) -> bool:
        app = self._app
        old, new = dict(values_of(self._said)), dict(values_of(wanted))
        self._said = wanted
        changed = sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
        late = [path for path in changed if needs_restart(path)]
        if not changed:
            return False
        if len(late) < len(changed):
            _put_in_force(app, _as_far_as_possible(app.config, wanted))
        fields: dict[str, Json] = {"keys": [".".join(path) for path in changed if path not in late]}
        if late:
            fields["needs_restart"] = [".".join(path) for path in late]
        app.observe("config_changed", {**fields, "own": True} if own else fields)
        return len(late) < len(changed)

    async def record(self, before: str | None = None) -> int:
        """Tell the audit that the file is another than the one it knows of: once, whichever process comes first.

        `before` is the hash of the file that this process replaced.
        """
        from coilclaw.config import read_config
        from coilclaw.ledger.audit import add_event
        from coilclaw.packets.canonical import sha256_hex
        from coilclaw.store.meta import read_meta, write_meta

        app = self._app
        try:
            now = sha256_hex(read_config(app.home))
        except ConfigError:
            return 0
        policy = app.policy().hash

        def write(tx: Tx) -> int:
            known = read_meta(tx, KNOWN) or before
            if known == now:
                return 0
            write_meta(tx, KNOWN, now)
            if known is not None:
                payload: dict[str, Json] = {"before": known, "after": now, "policy_hash": policy}
                add_event(tx, app.clock, "config_changed", "config.toml", payload)
            return int(known is not None)

        return 0 if read_meta(app.db.reader, KNOWN) == now else await app.db.write(write)


def _is_settled(stamp: FileStamp) -> bool:
    return not stamp or not 0 <= time.time() - stamp[2] / 1e9 < SETTLED_SECONDS


def _as_far_as_possible(old: Config, new: Config) -> Config:
    """The new configuration, except for what this process cannot change while it runs."""
    return msgspec.structs.replace(
        new,
        workspace_dir=old.workspace_dir,
        memory=msgspec.structs.replace(new.memory, path=old.memory.path, backend=old.memory.backend),
        receipts=old.receipts,
        server=old.server,
        log=old.log,
    )


def _put_in_force(app: "Runtime", config: Config) -> None:
    """Drop everything built from the old configuration; it is rebuilt when next needed."""
    from coilclaw.airlock.transport import Airlock
    from coilclaw.runtime.keyring import secret_names

    made = app.__dict__
    stale = ["tools", "allowed_tools", "offered_tools", "listing", "_policies", "_config_hash"]
    old, new = app.config.security, config.security
    if (new.forbidden_paths, new.toolchains) != (old.forbidden_paths, old.toolchains):
        stale.append("_box")
        app.roots.forget()
    app.config = config
    for name in stale:
        made.pop(name, None)
    if "keyring" in made:
        app.keyring.names = secret_names(config)
    if "redactor" in made:  # every sink holds this one
        for name in secret_variables(config):
            if app.environ.get(name):
                app.redactor.register(name, app.environ[name])
        app.keyring.register_stored(app.redactor)
    airlock = made.get("airlock")
    if isinstance(airlock, Airlock):
        airlock.listing = app.listing
