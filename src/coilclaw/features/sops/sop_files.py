"""The shelf: the owner's procedures as they lie in the workspace, read without following any link."""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.sops.sop import MAX_FILE_BYTES
from coilclaw.features.sops.sop_toml import Read, broken, read_sop
from coilclaw.packets.action import Label
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import ToolError, UsageError
from coilclaw.packets.labels import untrusted_only
from coilclaw.packets.names import did_you_mean
from coilclaw.tools.approval import RUNTIME_TOOLS

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

FOLDER = "sops"
FILE = "SOP.toml"
MOST_SOPS = 500


class SopFile(msgspec.Struct, frozen=True, kw_only=True):
    """A procedure as its file has it now."""

    name: str
    read: Read
    file_hash: str = ""
    labels: tuple[Label, ...] = ()
    """The untrusted sources its content came from."""


class SopBroken(UsageError):
    """An invalid file; `faults` lists every error in it."""

    def __init__(self, name: str, faults: Sequence[str]) -> None:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        super().__init__(
            f"the procedure {name} is invalid: {faults[0]}{more}", remedy=f"See `coilclaw sop validate {name}`."
        )
        self.faults = tuple(faults)


class SopFiles:
    """The owner's procedures, as they lie in the workspace."""

    def __init__(self, app: "Runtime") -> None:
        self._app = app

    def names(self) -> list[str]:
        """Every folder under sops/, links not followed."""
        from coilclaw.sandbox.files import FileGrant, WorkspaceFiles

        grant = FileGrant(asked=FOLDER, root=str(self._app.workspace), relative=FOLDER, writable=False)
        with suppress(ToolError):
            entries = WorkspaceFiles((grant,)).list(FOLDER, limit=MOST_SOPS)
            return [entry.name for entry in entries if entry.kind == "dir"]
        return []

    def every(self) -> list[SopFile]:
        """Every procedure; one that cannot be read is told as broken beside the others."""
        return [self._read_or_tell(name) for name in self.names()]

    def _read_or_tell(self, name: str) -> SopFile:
        try:
            return self.read(name)
        except UsageError as error:
            return SopFile(name=name, read=broken(str(error)))

    def read(self, name: str) -> SopFile:
        """One procedure, with every fault it has."""
        from coilclaw.sandbox.files import read_existing

        if "/" in name or name in ("", ".", "..") or "\0" in name:
            raise UsageError(f"{name!r} is not a valid name of a procedure.", remedy=did_you_mean(name, self.names()))
        path = f"{FOLDER}/{name}/{FILE}"
        labels = self._app.root.labels.labels_of(path)  # before and after: it may change while it is read
        data = read_existing(self._app.workspace, path, MAX_FILE_BYTES)
        if data is None:
            if not os.path.lexists(self._app.workspace / path):
                if name not in self.names():
                    raise UsageError(f"there is no procedure {name!r}.", remedy=did_you_mean(name, self.names()))
                return SopFile(name=name, read=broken(f"{path} does not exist."))
            text = f"{path} is not a regular file of at most {MAX_FILE_BYTES} bytes; links are not followed."
            return SopFile(name=name, read=broken(text))
        tools = {key: tool for key, tool in self._app.tools.items() if key not in RUNTIME_TOOLS}
        return SopFile(
            name=name,
            read=read_sop(data, name, tools, self._app.redact),
            file_hash=sha256_hex(data),
            labels=untrusted_only((*labels, *self._app.root.labels.labels_of(path))),
        )
