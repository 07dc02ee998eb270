"""One who follows the event stream over a plain socket, as a browser's EventSource would."""

import asyncio
import json


class Follower:
    """Keeps what it was told: `events` in order, `last` the last id, `comments` how many heartbeats came."""

    def __init__(self, port, token, query="", last=None):
        self.port = port
        self.token = token
        self.query = query
        self.last = last
        self.events = []
        self.comments = 0
        self.status = 0
        self.headers = {}
        self.ended = False
        self._reader = self._writer = self._reading = None
        self._news = asyncio.Event()

    async def open(self):
        """Connect and read until the answer's head is there."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 22)
        last = "" if self.last is None else f"Last-Event-ID: {self.last}\r\n"
        self._writer.write(
            f"GET /v1/events{self.query} HTTP/1.1\r\nHost: localhost:{self.port}\r\n"
            f"Authorization: Bearer {self.token}\r\n{last}\r\n".encode()
        )
        try:
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        except (OSError, asyncio.IncompleteReadError):  # a server that was killed meanwhile
            self._writer.close()
            raise
        self.status = int(head.split()[1])
        self.headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head.split("\r\n")[1:] if line)
        }
        return self

    def read(self):
        """Go on reading in the background."""
        self._reading = asyncio.ensure_future(self._read())
        return self

    async def _read(self):
        try:
            whole = b""
            while size := int(await self._reader.readline() or b"0", 16):
                whole += await self._reader.readexactly(size)
                await self._reader.readexactly(2)
                *blocks, whole = whole.split(b"\n\n")
                for block in blocks:
                    self._take(block.decode())
                self._news.set()
        except (OSError, asyncio.IncompleteReadError, ValueError):
            pass
        finally:
            self.ended = True
            self._news.set()

    def _take(self, block):
        fields = {}
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            if name:
                fields[name] = value.removeprefix(" ")
            else:
                self.comments += 1
        if "id" in fields:
            self.last = int(fields["id"])
        if "data" in fields:
            self.events.append((fields["event"], fields.get("id"), json.loads(fields["data"])))

    async def until(self, true, seconds=60):
        """Wait until something is true of this one; the bound only ends what would hang."""
        async with asyncio.timeout(seconds):
            while not true(self):
                self._news.clear()
                if not true(self):
                    await self._news.wait()
        return self

    async def reach(self, number, seconds=60):
        """Wait until that number was told or passed over."""
        return await self.until(lambda f: f.last == number, seconds)

    def numbers(self):
        """The numbers of the events that have one, without hello and gaps."""
        return [data["seq"] for name, number, data in self.events if number and name not in ("hello", "gap")]

    def named(self, name):
        return [data for event, _, data in self.events if event == name]

    async def close(self):
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._writer is not None:
            self._writer.transport.abort()

    async def __aenter__(self):
        return (await self.open()).read()

    async def __aexit__(self, *_):
        await self.close()
