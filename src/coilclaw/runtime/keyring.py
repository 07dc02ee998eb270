"""The keyring: secrets by the name of their variable, from the environment or, where it has none, from the vault."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from coilclaw.config import named_secrets
from coilclaw.packets.errors import CoilclawError, UsageError
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.config import Config
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.secrets.redactor import Redactor

OUR_OWN = ("COILCLAW_ENCRYPTION_KEY_B64", "COILCLAW_ENCRYPTION_KEY_NEW_B64")
"""The vault's own key is never looked up in the vault."""
MOST_BYTES = 64 * 1024


class Keyring(Mapping[str, str]):
    """The environment, in which names of secrets that are not set there are looked up in the vault."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app
        self.names = secret_names(app.config)
        self._opened: dict[str, tuple[bytes, str]] = {}

    def __getitem__(self, name: str) -> str:
        value = self._app.environ.get(name, "")
        if not value and name in self.names:
            stored = self._stored(name, self._app.redactor)
            if stored is not None:
                return stored
        return value or self._app.environ[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._app.environ)

    def __len__(self) -> int:
        return len(self._app.environ)

    def holds(self, name: str, db: Tx | None = None) -> bool:
        """Whether a lookup would find a value. The vault is not opened for that; `db` is a database that stands in."""
        from coilclaw.store.stored_secrets import sealed_secret

        if self._app.environ.get(name):
            return True
        return name in self.names and sealed_secret(db or self._app.db.reader, name) is not None

    def missing(self) -> list[str]:
        """The names of secrets that the environment does not have."""
        return [name for name in self.names if not self._app.environ.get(name)]

    def register_stored(self, redactor: "Redactor") -> None:
        """Redact stored secrets from the start. A database that cannot be read gives away no secrets either."""
        for name in self.missing():
            with suppress(CoilclawError, sqlite3.Error):
                self._stored(name, redactor)

    def _stored(self, name: str, redactor: "Redactor") -> str | None:
        """The value stored under the name. The redactor learns it before anybody else gets it."""
        from coilclaw.store.stored_secrets import get_secret, sealed_secret

        if not self._app.config.memory.path.exists():
            return None
        sealed = sealed_secret(self._app.db.reader, name)
        if sealed is None:
            return None
        known = self._opened.get(name)
        if known is None or known[0] != sealed:  # stored anew, perhaps by another process
            known = sealed, get_secret(self._app.db.reader, self._app.vault, name) or ""
            redactor.register(name, known[1])
            self._opened[name] = known
        return known[1]


def secret_names(config: "Config") -> frozenset[str]:
    """The names of secrets that the vault may hold; what opens it is not among them."""
    return frozenset(named_secrets(config)) - set(OUR_OWN)


def set_secret(app: "Runtime", name: str, value: str) -> str:
    """Store a secret; returns why redacting it would also hit ordinary text, or nothing."""
    from coilclaw.ledger.audit import add_event
    from coilclaw.secrets.redactor import Redactor
    from coilclaw.store.stored_secrets import put_secret

    if name in OUR_OWN:
        raise UsageError(f"{name} unlocks the vault, so it cannot be stored in it.")
    if not value or "\0" in value or "\n" in value or len(value.encode("utf-8", "replace")) > MOST_BYTES:
        raise UsageError(f"a secret must be one non-empty line of at most {MOST_BYTES // 1024} KB.")

    def write(tx: Tx) -> None:
        put_secret(tx, app.clock, app.vault, name, value)
        add_event(tx, app.clock, "secret_stored", name, {})

    app.db.write_now(write)
    return Redactor.refusal(value)


def forget_secret(app: "Runtime", name: str) -> bool:
    """Remove a secret; False when there was none."""
    from coilclaw.ledger.audit import add_event
    from coilclaw.store.stored_secrets import remove_secret

    def write(tx: Tx) -> bool:
        removed = remove_secret(tx, name)
        if removed:
            add_event(tx, app.clock, "secret_removed", name, {})
        return removed

    return app.db.write_now(write)


def rotate_keys(app: "Runtime") -> tuple[str, int]:
    """Seal everything with a new key: its id, and how many values that were.

    Killed at any point, everything still opens, and the next call finishes what this one began.
    """
    from coilclaw.store.lock import FairLock
    from coilclaw.store.sealed import key_in_force

    vault = app.vault
    lock = FairLock(app.home.locks_dir / "rotation")
    try:
        with lock:  # one rotation at a time
            if vault.unfinished:
                _seal_anew(app, vault.current())
                app.reached("rotation_resumed")
                vault.forget_old()
            key_id = vault.next_key(key_in_force(app.db.reader))
            app.reached("key_made")
            count = _seal_anew(app, key_id)
            app.reached("sealed_anew")
            vault.forget_old()
    finally:
        lock.close()
    return key_id, count


def _seal_anew(app: "Runtime", key_id: str) -> int:
    from coilclaw.ledger.audit import add_event
    from coilclaw.store.sealed import seal_all_anew

    def write(tx: Tx) -> int:
        count = seal_all_anew(tx, app.vault, key_id)
        add_event(tx, app.clock, "keys_rotated", "vault", {"key_id": key_id, "values": count})
        app.reached("sealing_anew")
        return count

    return app.db.write_now(write)
