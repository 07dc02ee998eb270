"""bot_pack: the CoilClaw that runs in Actions install is this one, packed into the bot's repository with its lock."""

import base64
import csv
import hashlib
import io
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Annotated

import msgspec

import coilclaw
from coilclaw.packets.action import INTERNAL
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import ToolError, UsageError
from coilclaw.packets.ports import Context, Tool, ToolOutput, Touches
from coilclaw.tools.declare import owner_call

FOLDER = ".github/coilclaw"
LOCK = f"{FOLDER}/requirements.lock"
_PACKAGE = Path(coilclaw.__file__).parent
_WHEEL = "Wheel-Version: 1.0\nGenerator: coilclaw bot setup\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_INFO = ("METADATA", "entry_points.txt", "licenses/LICENSE")
_DAY = (1980, 1, 1, 0, 0, 0)
"""The date of every file in the archive: the same program gives the same bytes."""


class PackArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of bot_pack."""

    path: Annotated[str, msgspec.Meta(pattern=rf"^{FOLDER}/coilclaw-[0-9a-z.+]+-py3-none-any\.whl$")]
    wheel: Annotated[str, msgspec.Meta(description="SHA-256 of the wheel.", pattern="^[0-9a-f]{64}$")]
    lock: Annotated[str, msgspec.Meta(description="SHA-256 of the lock.", pattern="^[0-9a-f]{64}$")]


class PackedProgram(msgspec.Struct, frozen=True):
    """This program as a wheel, and the lock that names it and everything it needs by their hashes."""

    path: str
    wheel: bytes
    lock: bytes

    @property
    def args(self) -> PackArgs:
        """What the owner says yes to."""
        return PackArgs(path=self.path, wheel=sha256_hex(self.wheel), lock=sha256_hex(self.lock))

    def stands_in(self, workspace: Path) -> bool:
        """Whether both files are there, as they should be."""
        wanted = {self.path: self.wheel, LOCK: self.lock}
        places = {workspace / path: data for path, data in wanted.items()}
        return all(
            place.is_file() and not place.is_symlink() and place.read_bytes() == data for place, data in places.items()
        )


def packed_program() -> PackedProgram:
    """Pack the program that is running."""
    lock = next((file for file in _locks() if file.is_file()), None)
    if lock is None:
        raise UsageError(
            "this installation has no lock of what it needs.",
            remedy=f"Put a wheel and a lock with hashes into {FOLDER} yourself.",
        )
    path = f"{FOLDER}/coilclaw-{distribution('coilclaw').version}-py3-none-any.whl"
    wheel = _wheel()
    line = f"./{path} --hash=sha256:{sha256_hex(wheel)}\n"
    return PackedProgram(path, wheel, f"{line}{lock.read_text('utf-8')}".encode())


def _locks() -> tuple[Path, ...]:
    """Inside a wheel, or beside the sources."""
    return _PACKAGE / "requirements.lock", _PACKAGE.parent.parent / "requirements.lock"


def _wheel() -> bytes:
    about = distribution("coilclaw")
    info = f"coilclaw-{about.version}.dist-info"
    files = {f"coilclaw/{path}": file.read_bytes() for path, file in _files()}
    files |= {f"{info}/{name}": text.encode() for name in _INFO if (text := about.read_text(name)) is not None}
    files[f"{info}/WHEEL"] = _WHEEL.encode()
    record, rows = io.StringIO(), [(name, f"sha256={_digest(data)}", len(data)) for name, data in files.items()]
    csv.writer(record, lineterminator="\n").writerows([*rows, (f"{info}/RECORD", "", "")])
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in (*files.items(), (f"{info}/RECORD", record.getvalue().encode())):
            entry = zipfile.ZipInfo(name, _DAY)
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return made.getvalue()


def _files() -> Iterator[tuple[str, Path]]:
    for file in sorted(_PACKAGE.rglob("*")):
        name = file.relative_to(_PACKAGE).as_posix()
        if file.is_file() and not file.is_symlink() and "__pycache__" not in name and name != "requirements.lock":
            yield name, file


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def make_pack() -> Tool:
    """The tool; it needs nothing of the home but the files that it is granted."""

    @owner_call(
        PackArgs,
        destination="workspace",
        idempotent=True,
        touches=lambda args: Touches(writes=(args.path, LOCK)),
        summary=lambda args: (
            f"Put {args.path.rpartition('/')[2]} (SHA-256 {args.wheel}) and its lock into {FOLDER}:"
            " jobs in Actions install exactly that"
        ),
    )
    async def bot_pack(args: PackArgs, context: Context) -> ToolOutput:
        """Put the CoilClaw that is running into the bot's repository; only `coilclaw bot setup --actions` asks."""
        packed = packed_program()
        if packed.args != args:
            raise ToolError("CoilClaw was updated since.", code="CHANGED_MEANWHILE", begun=False)
        if context.files is None:
            raise ToolError("no file was granted to this call.", code="NOT_GRANTED", begun=False)
        for path, data in ((packed.path, packed.wheel), (LOCK, packed.lock)):
            context.files.write(path, data)
        return ToolOutput(text=f"Wrote {packed.path} and {LOCK}.", label=INTERNAL)

    return bot_pack
