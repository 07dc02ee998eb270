"""A home served by `coilclaw up` in a process of its own, and a small client for it."""

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

from coilclaw.ledger.audit import add_event
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ids import stamp, utc_now
from coilclaw.server.door.tokens import new_token, token_hash
from coilclaw.store.database import Database
from coilclaw.store.devices import add_device, add_token

COILCLAW = Path(sys.executable).with_name("coilclaw")
BARE = Path(__file__).with_name("bare.py")


def environment(folder: Path) -> dict[str, str]:
    """Nothing of this shell but the PATH."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "COILCLAW_HOME": f"{folder}/.coilclaw",
        "LANG": "C.UTF-8",
    }


class Served:
    """A running server: its port, its process, a token for it, and its database."""

    def __init__(self, port: int, pid: int, token: str, database: Database) -> None:
        self.port = port
        self.pid = pid
        self.head = f"Host: localhost:{port}\r\nAuthorization: Bearer {token}\r\n"
        self.database = database

    def happen(self, number: int) -> int:
        """So many events in one commit; the number of the last."""

        def write(tx: sqlite3.Connection) -> None:
            for _ in range(number):
                add_event(tx, utc_now, "job_step", "job_1m7h0z8rzxb5zp46pr3", {"step": 1})

        self.database.write_now(write)
        return int(self.database.reader.execute("SELECT max(seq) FROM audit_log").fetchone()[0])


def _until(process: "subprocess.Popen[bytes]", pattern: str) -> int:
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(pattern, line.decode(errors="replace")):
            return int(found[1])
    raise ToolError("The server ended before it listened, so nothing can be measured.")


@contextmanager
def _ended(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def served(folder: Path, config: str = "", **more: str) -> Iterator[Served]:
    """`coilclaw up` over a fresh home with one paired device and no limits on how often it may ask."""
    folder.mkdir()
    environ = {**environment(folder), **more}
    subprocess.run([COILCLAW, "init", "--quiet"], env=environ, check=True, stdout=subprocess.DEVNULL)
    home = folder / ".coilclaw"
    (home / "config.toml").write_text(f"{config}\n[server]\nrequests_per_minute = 1000000\n")
    database = Database(home / "memory.sqlite", home / "locks")
    token = _paired(database)
    process = subprocess.Popen(
        [COILCLAW, "up", "--addr", "127.0.0.1:0"], env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        with _ended(process):
            yield Served(_until(process, r"http://localhost:(\d+)/"), process.pid, token, database)
    finally:
        database.close()


def _paired(database: Database) -> str:
    token = new_token(os.urandom)

    def write(tx: sqlite3.Connection) -> None:
        add_device(
            tx, utc_now, device_id="dev_bench", name="bench", public_key="", confirmed=True, paired_by="terminal"
        )
        add_token(
            tx,
            utc_now,
            token_id="tok_bench",
            device_id="dev_bench",
            token_hash=token_hash(token),
            way="bearer",
            expires_at=stamp(utc_now() + timedelta(days=1)),
        )

    database.write_now(write)
    return token


@contextmanager
def bare(kind: str, folder: Path) -> Iterator[tuple[int, int]]:
    """The bare counterpart of that kind: its port and its process."""
    process = subprocess.Popen(
        [sys.executable, BARE, kind], env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with _ended(process):
        yield _until(process, r"(\d+)"), process.pid


def memory_of(pid: int) -> float:
    """Resident megabytes of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def cpu_of(pid: int) -> float:
    """CPU seconds a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Line:
    """A connection that asks and reads, with as little of its own as possible."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, port: int) -> "Line":
        """Connect."""
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 22))

    async def ask(self, method: str, path: str, head: str, body: bytes = b"") -> bytes:
        """A request and the body of its answer, which must have a length."""
        kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        self.writer.write(f"{method} {path} HTTP/1.1\r\n{head}{kind}\r\n".encode() + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        found = re.search(rb"(?i)content-length: (\d+)", answer)
        if not answer.startswith(b"HTTP/1.1 2") or found is None:
            raise ToolError(f"{method} {path} was not answered well: {answer[:200]!r}")
        return await self.reader.readexactly(int(found[1]))

    async def follow(self, path: str, head: str) -> "Line":
        """Open a stream, as far as its hello."""
        self.writer.write(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
        answer = await self.reader.readuntil(b"event: hello")
        if not answer.startswith(b"HTTP/1.1 200"):
            raise ToolError(f"{path} was not answered well: {answer[:200]!r}")
        return self

    async def count(self, mark: bytes, number: int) -> None:
        """Read until a mark was seen so often."""
        rest = b""
        while number > 0:
            data = rest + await self.reader.read(1 << 16)
            if len(data) == len(rest):
                raise ToolError("A stream ended, so nothing can be measured.")
            number -= data.count(mark)
            rest = data[-len(mark) + 1 :]

    def close(self) -> None:
        """Hang up."""
        with suppress(RuntimeError):
            self.writer.transport.abort()
