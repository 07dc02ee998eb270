"""Signed heads: from time to time, and on exit, a signature over how long the chain is and where it ends."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

import msgspec

from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import LedgerBroken, StorageError
from coilclaw.packets.ids import Clock, stamp
from coilclaw.packets.receipt import GENESIS, Head
from coilclaw.store.durable import sync_folder, write_durably

_HEAD = msgspec.json.Decoder(Head)
_NOTHING = b"\0 \n"
_MEND = (
    "If nothing was put back: `tail -n 1 tool_receipts.log.heads > keys/ledger.mark` in the home, then run"
    " `coilclaw receipt verify`. Otherwise see SECURITY.md, 'An older database'."
)


def key_name(public: bytes) -> str:
    """How heads name the key they were signed with."""
    return sha256_hex(public)[:16]


class SigningKey:
    """The ledger's Ed25519 key, in the keys folder, readable by the owner alone."""

    def __init__(self, keys: Path) -> None:
        self.private_file = keys / "ledger.key"
        self.public_file = keys / "ledger.pub"
        self.mark_file = keys / "ledger.mark"
        """The last signed head, kept beside the key from its first day: no head at all is a break, not a beginning."""

    def create(self) -> None:
        """Make the key if there is none; of several processes that try at once, one succeeds."""
        if self.private_file.exists() and self.public_file.exists():
            return
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self.private_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._make(self.private_file, Ed25519PrivateKey.generate().private_bytes_raw())
        private = Ed25519PrivateKey.from_private_bytes(self._read(self.private_file))
        if not self.mark_file.exists():
            self.keep_mark(self.sign(0, GENESIS, ""))
        self._make(self.public_file, private.public_key().public_bytes_raw())  # last: with it the making is done

    def keep_mark(self, head: Head) -> None:
        """Remember the last head beside the key, durably."""
        write_durably(self.mark_file, msgspec.json.encode(head) + b"\n", replace=True)

    def mark(self) -> Head | None:
        """The last head as remembered beside the key; None when it is gone.

        A damaged one is an error, never taken for none: to cut it off would be the way to hide an older database.
        """
        try:
            line = self.mark_file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{self.mark_file} cannot be read ({error.strerror}).") from error
        try:
            return _HEAD.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._untold("damaged" if line.strip(_NOTHING) else "empty") from error

    def known_mark(self) -> Head | None:
        """The same for whoever must not go on without it; None only where no key was ever made."""
        mark = self.mark()
        if mark is None and self.public_file.exists():
            raise self._untold("gone")
        return mark

    def _untold(self, state: str) -> LedgerBroken:
        return LedgerBroken(
            f"the signed mark {self.mark_file} is {state}, so nobody can tell whether the database is an older copy,"
            " and nothing is done. A failing disk or a power cut can leave that; so can somebody who hides that older"
            " files were put back.",
            remedy=_MEND,
        )

    def _make(self, path: Path, secret: bytes) -> None:
        """Put a key there, unless one is there already."""
        write_durably(path, secret.hex().encode() + b"\n", replace=False)

    def _read(self, path: Path) -> bytes:
        try:
            return bytes.fromhex(path.read_text().strip())
        except (OSError, ValueError) as error:
            raise StorageError(
                f"the ledger key {path} cannot be read.",
                remedy="Restore the keys folder from a backup; without it heads can be neither made nor checked.",
            ) from error

    def name(self) -> str:
        """How heads name this key."""
        return key_name(self._read(self.public_file))

    def sign(self, size: int, chain_hash: str, time: str) -> Head:
        """A signed head."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        private = Ed25519PrivateKey.from_private_bytes(self._read(self.private_file))
        name = key_name(private.public_key().public_bytes_raw())
        head = Head(size=size, hash=chain_hash, time=time, key=name, signature="")
        return msgspec.structs.replace(head, signature=private.sign(head.signed_bytes()).hex())

    def holds(self, head: Head) -> bool:
        """Whether the head was signed by this key."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        public = self._read(self.public_file)
        if head.key != key_name(public):
            return False
        try:
            Ed25519PublicKey.from_public_bytes(public).verify(bytes.fromhex(head.signature), head.signed_bytes())
        except (InvalidSignature, ValueError):
            return False
        return True


def store_head(tx: sqlite3.Connection, key: SigningKey, clock: Clock, size: int, chain_hash: str) -> Head:
    """Sign the chain as it stands and keep the head in the database."""
    head = key.sign(size, chain_hash, stamp(clock()))
    tx.execute(
        "INSERT INTO ledger_heads (size, line) VALUES (?, ?) ON CONFLICT (size) DO NOTHING",
        (size, msgspec.json.encode(head).decode()),
    )
    return head


def append_head(path: Path, head: Head) -> None:
    """Keep the head beside the log too."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        end = os.fstat(fd).st_size
        torn = b"\n" if end and os.pread(fd, 1, end - 1) != b"\n" else b""
        os.write(fd, torn + msgspec.json.encode(head) + b"\n")
        os.fsync(fd)
        if not end:
            sync_folder(path.parent)  # it is new, and so is its name
    finally:
        os.close(fd)


def heads_from_rows(db: sqlite3.Connection) -> list[Head]:
    """Every head the database knows."""
    return [_decode(row[0]) for row in db.execute("SELECT line FROM ledger_heads ORDER BY size")]


def heads_from_file(path: Path) -> list[Head]:
    """Every head kept beside the log. Damaged lines are passed over: whoever could damage one could remove it too."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error.strerror}).") from error
    heads: list[Head] = []
    for line in lines:
        with suppress(LedgerBroken):
            heads.append(_decode(line))
    return heads


def _decode(line: str | bytes) -> Head:
    try:
        return _HEAD.decode(line)
    except msgspec.DecodeError as error:
        raise LedgerBroken(
            f"a signed head is damaged ({error}).", remedy="See SECURITY.md, 'A broken ledger'."
        ) from error
