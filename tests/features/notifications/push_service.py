"""A browser, its push service on loopback, and the way a sender takes to it: the real judge, then a real connection."""

import asyncio
import base64
import hashlib
import hmac
import os
from contextlib import asynccontextmanager

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from coilclaw.airlock import Airlock, Listing
from coilclaw.packets.ids import utc_now
from tests.airlock.airlock_harness import Resolver

ENDPOINT = "https://push.example.net/wpush/v2/abc"
PUBLIC = "93.184.216.34"


def text_of(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def bytes_of(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _expand(salt: bytes, secret: bytes, info: bytes, length: int) -> bytes:
    key = hmac.digest(salt, secret, hashlib.sha256)
    return hmac.digest(key, info + b"\x01", hashlib.sha256)[:length]


class Browser:
    """The receiving side of RFC 8291, written from its text and not from the sender."""

    def __init__(self, key=None, auth=None):
        self.key = key or ec.generate_private_key(ec.SECP256R1())
        self.auth = auth or os.urandom(16)
        self.point = self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    def subscription(self, endpoint=ENDPOINT):
        keys = {"p256dh": text_of(self.point), "auth": text_of(self.auth)}
        return {"endpoint": endpoint, "expirationTime": None, "keys": keys}

    def read(self, body: bytes) -> bytes:
        """The message; whatever does not hold raises."""
        salt, size, length = body[:16], int.from_bytes(body[16:20], "big"), body[20]
        sender, rest = body[21 : 21 + length], body[21 + length :]
        assert len(rest) <= size <= 4096
        shared = self.key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender))
        secret = _expand(self.auth, shared, b"WebPush: info\0" + self.point + sender, 32)
        key = _expand(salt, secret, b"Content-Encoding: aes128gcm\0", 16)
        nonce = _expand(salt, secret, b"Content-Encoding: nonce\0", 12)
        message, mark, padding = AESGCM(key).decrypt(nonce, rest, None).rpartition(b"\x02")
        assert (mark, padding.strip(b"\0")) == (b"\x02", b"")
        return message


class Got(msgspec.Struct):
    """One request as the service got it."""

    path: str
    headers: dict[str, str]
    body: bytes


class Service:
    """A real HTTP server. `answers` are given in turn, the last one again and again; a function writes its own."""

    def __init__(self):
        self.port = 0
        self.got: list[Got] = []
        self.answers = [reply(201)]

    async def _serve(self, reader, writer):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.got.append(Got(path=first.split()[1], headers=headers, body=body))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if callable(answer):
                await answer(writer)
            else:
                writer.write(answer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def reply(status: int, *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status} X", "Content-Length: 0", *headers, "", ""]).encode()


async def never(writer) -> None:
    """Take the request and say nothing."""
    await asyncio.sleep(3600)


async def endless(writer) -> None:
    """Say yes, and then a gigabyte."""
    writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 1073741824\r\n\r\n")
    for _ in range(1024):
        writer.write(b"x" * (1 << 20))
        await writer.drain()


@asynccontextmanager
async def push_service():
    service = Service()
    server = await asyncio.start_server(service._serve, "127.0.0.1", 0)
    service.port = server.sockets[0].getsockname()[1]
    try:
        yield service
    finally:
        server.close()
        await asyncio.sleep(0.01)


class Detour:
    """A transport that judges as the airlock does, by names of a scripted resolver, and then goes to loopback instead
    of to the address that was judged."""

    def __init__(self, service, *addresses, seconds=None):
        self.names = Resolver(*(addresses or ([PUBLIC],)))
        self.place = f"http://127.0.0.1:{service.port}"
        self.judge = Airlock(Listing(), log=lambda line: None, clock=utc_now, resolve=self.names)
        self.way = Airlock(Listing.build(webhooks=[self.place]), log=lambda line: None, clock=utc_now)
        self.seconds = seconds
        self.seen = []

    async def check(self, url, principal):
        await self.judge.check(url, principal)

    @asynccontextmanager
    async def stream(self, request):
        await self.check(request.url, request.principal)
        self.seen.append(request)
        path = "/" + request.url.split("/", 3)[3]
        seconds = self.seconds or request.timeout_seconds
        asked = msgspec.structs.replace(request, principal="webhook", url=self.place + path, timeout_seconds=seconds)
        async with self.way.stream(asked) as arrival:
            yield arrival
