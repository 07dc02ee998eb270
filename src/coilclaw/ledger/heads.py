"""Signed heads: periodically, and on exit, a signature over the chain's length and last hash."""

import hmac
import os
import re
from pathlib import Path

import msgspec

from coilclaw.ledger.vouch import Count, first_count, read_count
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import LedgerBroken, StorageError
from coilclaw.packets.receipt import GENESIS, Covered, Head
from coilclaw.store.durable import open_plain, read_plain, sync_folder, write_all, write_durably
from coilclaw.store.tx import Tx

TAIL = 4096
KEY_BYTES = 1 << 16
"""No file beside the key is larger."""
_HEAD = msgspec.json.Decoder(Head)
_KEY = rb"[0-9a-f]{64}\n?"
_ROWS = b"coilclaw rows 1"
_NOTHING = b"\0 \n"
_MEND = (
    "If nothing was restored: `tail -n 1 tool_receipts.log.heads > keys/ledger.mark` in the home, then run"
    " `coilclaw receipt verify`. Otherwise see SECURITY.md, 'An older database'."
)
_RESTORE = "Restore the keys folder from a backup; without it heads can be neither made nor checked."


def key_name(public: bytes) -> str:
    """The key id that heads contain."""
    return sha256_hex(public)[:16]


def read_key(data: bytes) -> bytes | None:
    """A key as its file holds it; None when it is none."""
    return bytes.fromhex(data.decode()) if re.fullmatch(_KEY, data) else None


class SigningKey:
    """The ledger's Ed25519 key, in the keys folder, readable only by the owner."""

    def __init__(self, keys: Path) -> None:
        self.private_file = keys / "ledger.key"
        self.public_file = keys / "ledger.pub"
        self.mark_file = keys / "ledger.mark"
        """The last signed head, stored next to the key from the start: a missing one is a break, not a new home."""
        self.count_file = keys / "ledger.count"
        """The last committed rows, overwritten with each commit."""
        self._checked: tuple[tuple[int, int, int], bytes] | None = None

    def create(self) -> None:
        """Create the key if there is none; of several concurrent processes, one succeeds."""
        if self.private_file.exists() and self.public_file.exists():
            return
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self.private_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._make(self.private_file, Ed25519PrivateKey.generate().private_bytes_raw())
        private = Ed25519PrivateKey.from_private_bytes(self._read(self.private_file))
        public = private.public_key().public_bytes_raw()
        if not self.mark_file.exists():
            cover = Covered(audit=0, audit_hash=GENESIS, log=0, heads=0, previous=GENESIS)
            self.keep_mark(self.sign(0, GENESIS, "", cover))
        self.make_count(first_count(key_name(public)), replace=False)
        self._make(self.public_file, public)  # last: it completes the creation

    def make_count(self, count: Count, *, replace: bool) -> None:
        """Create the count, durably."""
        write_durably(self.count_file, count.sealed(self.bare_row_key()).data(), replace=replace)

    def bare_row_key(self) -> bytes:
        """The MAC key, derived from the private key."""
        return hmac.digest(self._read(self.private_file), _ROWS, "sha256")

    def row_key(self) -> bytes:
        """The MAC key for rows.

        An error if the signing key changed, or the count next to it is not authentic: then nothing may
        be done, because it could not be proved.
        """
        info = _stat(self.private_file)
        if self._checked is not None and self._checked[0] == info:
            return self._checked[1]
        key = self.bare_row_key()
        count = self.count_data()
        if count is None or not _belongs(count, key, key_name(self._read(self.public_file))):
            self.check_pair()
            self.check_count(count)
        self._checked = (info, key)
        return key

    def count_data(self) -> bytes | None:
        """The count's file; None if it is missing."""
        try:
            return read_plain(self.count_file, KEY_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{self.count_file} cannot be read ({error.strerror}).") from error

    def check_pair(self) -> None:
        """The private key must match the public one."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        private = Ed25519PrivateKey.from_private_bytes(self._read(self.private_file))
        if private.public_key().public_bytes_raw() != self._read(self.public_file):
            raise StorageError(
                f"the ledger key is damaged: {self.private_file} and {self.public_file} do not match.",
                remedy=_RESTORE,
            )

    def check_count(self, data: bytes | None) -> None:
        """A missing count means a new home only if the mark is of an earlier version; a signed head may replace it."""
        if data is None:
            mark = self.mark()
            if mark is not None and mark.previous:
                raise self._untold("gone", self.count_file)
            return
        head = decode_head(data.rstrip(b"\n"))
        if head is None or not head.previous or not self.holds(head):
            raise self._untold("damaged" if data.strip(_NOTHING) else "empty", self.count_file)

    def count(self) -> Count | None:
        """The last count; None if it is missing or not authentic."""
        data = self.count_data()
        if data is None:
            return None
        count, key = read_count(data), self.bare_row_key()
        if count is not None:
            return count if count.holds(key) else None
        head = decode_head(data.rstrip(b"\n"))
        if head is None or not head.previous or not self.holds(head):
            return None
        return Count(receipts=head.size, hash=head.hash, audit=head.audit, link=head.audit_hash, key=head.key)

    def keep_mark(self, head: Head) -> None:
        """Store the last head next to the key, durably."""
        write_durably(self.mark_file, msgspec.json.encode(head) + b"\n", replace=True)

    def mark(self) -> Head | None:
        """The last head stored next to the key; None if it is missing.

        A damaged one is an error, never treated as missing: truncating it could hide an older database.
        """
        try:
            line = read_plain(self.mark_file, KEY_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{self.mark_file} cannot be read ({error.strerror}).") from error
        try:
            return _HEAD.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._untold("damaged" if line.strip(_NOTHING) else "empty") from error

    def known_mark(self) -> Head | None:
        """The same for callers that require it; None only if no key was ever created."""
        mark = self.mark()
        if mark is None and self.public_file.exists():
            raise self._untold("gone")
        return mark

    def _untold(self, state: str, file: Path | None = None) -> LedgerBroken:
        what = "the signed mark" if file is None else "the count"
        return LedgerBroken(
            f"{what} {file or self.mark_file} is {state}, so it cannot be determined whether the database is an"
            " older copy, and nothing runs. A failing disk or a power cut can cause this; so can somebody hiding that"
            " older files were put back.",
            remedy=_MEND if file is None else _MEND.replace(self.mark_file.name, file.name),
        )

    def _make(self, path: Path, secret: bytes) -> None:
        """Write a key, unless there is one already."""
        write_durably(path, secret.hex().encode() + b"\n", replace=False)

    def _read(self, path: Path) -> bytes:
        try:
            data = read_plain(path, KEY_BYTES)
        except OSError as error:
            raise StorageError(f"the ledger key {path} cannot be read ({error.strerror}).", remedy=_RESTORE) from error
        key = read_key(data)
        if key is None:
            state = "damaged" if data.strip(_NOTHING) else "empty"
            raise StorageError(f"the ledger key {path} cannot be read: it is {state}.", remedy=_RESTORE)
        return key

    def public(self) -> bytes:
        """The public key, with which anybody can check heads."""
        return self._read(self.public_file)

    def name(self) -> str:
        """This key's id in heads."""
        return key_name(self.public())

    def sign(self, size: int, chain_hash: str, time: str, cover: Covered | None = None) -> Head:
        """A signed head; without a cover it covers only receipts, like those of earlier versions."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        private = Ed25519PrivateKey.from_private_bytes(self._read(self.private_file))
        name = key_name(private.public_key().public_bytes_raw())
        more = {} if cover is None else msgspec.structs.asdict(cover)
        head = Head(size=size, hash=chain_hash, time=time, key=name, signature="", **more)
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


def _stat(path: Path) -> tuple[int, int, int]:
    try:
        info = path.stat()
    except OSError:
        return (0, 0, 0)
    return (info.st_ino, info.st_mtime_ns, info.st_size)


def _belongs(data: bytes, key: bytes, name: str) -> bool:
    count = read_count(data)
    return count is not None and count.key == name and count.holds(key)


def decode_head(line: str | bytes) -> Head | None:
    """Parse a line as a head, byte for byte; None if it is not one."""
    data = line if isinstance(line, bytes) else line.encode("utf-8", "surrogateescape")
    try:
        head = _HEAD.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return head if head.line() == data else None


def last_head(db: Tx) -> tuple[Head | None, bytes]:
    """The newest head in the database, and its line."""
    row = db.execute("SELECT CAST(line AS BLOB) FROM ledger_heads ORDER BY size DESC LIMIT 1").fetchone()
    return (None, b"") if row is None else (decode_head(row[0]), bytes(row[0]))


def count_heads(db: Tx) -> int:
    """How many heads were ever signed here."""
    return int(db.execute("SELECT count(*) FROM ledger_heads").fetchone()[0])


def store_head(tx: Tx, head: Head) -> None:
    """Store the head in the database, replacing one of an earlier version."""
    tx.execute(
        "INSERT INTO ledger_heads (size, line) VALUES (?, ?) ON CONFLICT (size) DO UPDATE SET line = excluded.line",
        (head.size, head.line().decode()),
    )


def append_heads(path: Path, lines: list[bytes]) -> None:
    """Store heads next to the log too, durably. A last line torn by a power cut is rewritten from the rows."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        end = os.fstat(fd).st_size
        tail = os.pread(fd, TAIL, max(0, end - TAIL))
        torn = len(tail.rpartition(b"\n")[2])
        if torn:
            os.ftruncate(fd, end - torn)
        write_all(fd, b"".join(line + b"\n" for line in lines))
        os.fsync(fd)
        if not end:
            sync_folder(path.parent)  # the file is new, and so is its directory entry
    finally:
        os.close(fd)


def last_size_in(path: Path) -> int:
    """The size of the last chained head next to the log; -1 if there is none (the first head has size 0)."""
    try:
        with open_plain(path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            lines = file.read().split(b"\n")[:-1]
    except FileNotFoundError:
        return -1
    heads = (decode_head(line) for line in reversed(lines))
    return next((head.size for head in heads if head is not None and head.previous), -1)


def chained_heads(db: Tx, size: int) -> list[tuple[int, bytes]]:
    """The chained heads in the database beyond a size, in order."""
    rows = db.execute("SELECT size, CAST(line AS BLOB) FROM ledger_heads WHERE size > ? ORDER BY size", (size,))
    found = [(int(number), bytes(line)) for number, line in rows]
    return [(number, line) for number, line in found if (head := decode_head(line)) is not None and head.previous]
