"""The vault: encrypted storage of secrets, and its keys.

AES-256-GCM. A sealed value carries a header (format and key id), its nonce, and the ciphertext; table, row and header
are associated data, so that a value moved to another row does not open. The key comes from the environment, or from
`keys/encryption.key`, which is created once. During a rotation the previous key is kept as `encryption.key.old`.
"""

import base64
import binascii
import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from coilclaw.packets.errors import StorageError, UsageError

VARIABLE = "COILCLAW_ENCRYPTION_KEY_B64"
NEW_VARIABLE = "COILCLAW_ENCRYPTION_KEY_NEW_B64"
MAGIC = b"CCV1"
KEY_BYTES = 32
ID_BYTES = 8
NONCE_BYTES = 12
_HEADER = len(MAGIC) + ID_BYTES


class UnknownKey(StorageError):
    """The value was encrypted with a key that is missing."""

    def __init__(self, key_id: str) -> None:
        super().__init__(
            f"the stored secrets are encrypted with the key {key_id}, which is missing.",
            remedy=f"Set {VARIABLE} to that key, or restore keys/encryption.key from a backup.",
        )


class _Key(msgspec.Struct, frozen=True):
    secret: bytes

    @property
    def key_id(self) -> str:
        return hashlib.sha256(self.secret).digest()[:ID_BYTES].hex()

    def __repr__(self) -> str:
        return f"_Key({self.key_id})"


class Vault:
    """Encrypts and decrypts. Keys are read when needed: another process may have rotated them."""

    def __init__(self, keys: Path, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.file = keys / "encryption.key"
        self.old_file = keys / "encryption.key.old"

    def current(self) -> str:
        """The id of the current key; creates the key if there is none yet."""
        key = self._named(VARIABLE)
        if key is None:
            self._make(os.urandom(KEY_BYTES))
            key = self._read(self.file)
        if key is None:
            raise StorageError(f"{self.file} is missing.", remedy="Restore the keys folder from a backup.")
        return key.key_id

    def seal(self, key_id: str, table: str, row_id: str, plain: bytes) -> bytes:
        """Encrypt a value for exactly this row, with the key of that id."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key = self._key(key_id)
        header = MAGIC + bytes.fromhex(key_id)
        nonce = os.urandom(NONCE_BYTES)
        return header + nonce + AESGCM(key.secret).encrypt(nonce, plain, _bound(header, table, row_id))

    def open(self, table: str, row_id: str, sealed: bytes) -> bytes:
        """Decrypt the value of exactly this row."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        header, nonce, rest = sealed[:_HEADER], sealed[_HEADER : _HEADER + NONCE_BYTES], sealed[_HEADER + NONCE_BYTES :]
        if not header.startswith(MAGIC) or len(nonce) < NONCE_BYTES:
            raise _damaged(table, row_id)
        key = self._key(sealed_with(sealed))
        try:
            return AESGCM(key.secret).decrypt(nonce, rest, _bound(header, table, row_id))
        except InvalidTag as error:
            raise _damaged(table, row_id) from error

    # Keys

    def _key(self, key_id: str) -> _Key:
        for find in (
            lambda: self._named(VARIABLE),
            lambda: self._read(self.file),
            lambda: self._read(self.old_file),
            lambda: self._named(NEW_VARIABLE),
        ):
            key = find()
            if key is not None and key.key_id == key_id:
                return key
        raise UnknownKey(key_id)

    def _named(self, variable: str) -> _Key | None:
        text = self._environ.get(variable, "")
        return _decoded(text, variable) if text else None

    def _read(self, path: Path) -> _Key | None:
        try:
            return _decoded(path.read_text(encoding="ascii"), str(path))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeError) as error:
            raise StorageError(f"the key {path} cannot be read.", remedy="Check its owner and mode.") from error

    def _make(self, secret: bytes) -> None:
        """Write a key atomically and durably unless one exists; of several concurrent callers one succeeds."""
        if not self.file.exists():
            partial = self._written(secret)
            try:
                with suppress(FileExistsError):
                    os.link(partial, self.file)
            finally:
                partial.unlink()
            self._settle()

    def _written(self, secret: bytes) -> Path:
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = self.file.with_name(f"{self.file.name}.{os.urandom(6).hex()}")
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(base64.b64encode(secret) + b"\n")
            file.flush()
            os.fsync(fd)
        return partial

    def _settle(self) -> None:
        """Sync the folder, so that names survive a power cut."""
        fd = os.open(self.file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    # Rotation

    @property
    def by_environment(self) -> bool:
        """Whether the owner keeps the key in the environment."""
        return bool(self._environ.get(VARIABLE))

    @property
    def unfinished(self) -> bool:
        """Whether a rotation is unfinished: some values may need the previous key."""
        return self.old_file.exists()

    def next_key(self, in_force: str | None) -> str:
        """Start a rotation: returns the id of the new key; values under the old one can still be decrypted.

        A key file gets a new one next to the old. A key in the environment is followed by the designated next one; one
        that was set but never used is itself the next.
        """
        offered = self._named(NEW_VARIABLE)
        if not self.by_environment:
            return self._next_file(offered.secret if offered is not None else os.urandom(KEY_BYTES))
        current = self.current()
        if offered is not None and offered.key_id != current:
            return offered.key_id
        if in_force not in (None, current):
            return current
        raise UsageError(
            f"the key comes from {VARIABLE}, so the next one must come from the environment too.",
            remedy=f"Set {NEW_VARIABLE} to a new one (openssl rand -base64 32), and keep it.",
        )

    def _next_file(self, secret: bytes) -> str:
        self.current()
        partial = self._written(secret)
        try:
            os.link(self.file, self.old_file)  # refuses to replace a key that something may still need
        except OSError as error:
            partial.unlink()
            raise StorageError(f"{self.old_file} cannot be created ({error.strerror}).") from error
        self._settle()  # the previous key must be durable under its new name before it loses the old one
        partial.replace(self.file)
        self._settle()
        return self.current()

    def forget_old(self) -> None:
        """Remove the previous key, which nothing is encrypted with any more."""
        self.old_file.unlink(missing_ok=True)
        for partial in self.file.parent.glob(f"{self.file.name}.????????????"):
            partial.unlink(missing_ok=True)  # left by a rotation that was killed before it started
        self._settle()


def sealed_with(sealed: bytes) -> str:
    """The id of the key that encrypted a value."""
    return sealed[len(MAGIC) : _HEADER].hex()


def _bound(header: bytes, table: str, row_id: str) -> bytes:
    return header + table.encode() + b"\0" + row_id.encode("utf-8", "surrogatepass")


def _decoded(text: str, where: str) -> _Key:
    try:
        secret = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) != KEY_BYTES:
        raise StorageError(
            f"{where} does not contain a key of exactly {KEY_BYTES} bytes in base64.",
            remedy="Restore the right key; generate a new one with: openssl rand -base64 32",
        )
    return _Key(secret)


def _damaged(table: str, row_id: str) -> StorageError:
    return StorageError(
        f"the encrypted value of {row_id} in {table} is damaged, or belongs to another row.",
        remedy="Set it again, or restore the database from a backup.",
    )
