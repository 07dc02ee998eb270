"""Sends a message to the configured mail server. Nothing but the greeting is sent before TLS has proved its name."""

import asyncio
import base64
import ssl
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TypeAlias

from coilclaw.airlock.judge import EgressVerdict, judge_url
from coilclaw.airlock.transport import Airlock
from coilclaw.airlock.trust import tls_context
from coilclaw.airlock.url import Target
from coilclaw.packets.errors import EgressRefused, TransportError
from coilclaw.packets.mail import Mail

TLS_PORT = 465
ACCEPTED = 250
MOST_LINES = 64
_GREETING, _READY, _SIGNED_IN, _GO_ON, _DATA = 220, 220, 235, 334, 354
Streams: TypeAlias = "tuple[asyncio.StreamReader, asyncio.StreamWriter]"


def mail_url(host: str, port: int) -> str:
    """The server as a target for the judge. TLS proves its name, so the rules of https apply."""
    return f"https://{f'[{host}]' if ':' in host else host}:{port}/"


async def send_mail(airlock: Airlock, mail: Mail) -> int:
    """Send a message; returns the server's last reply: 250 accepted, 4xx retry later, 5xx never.

    Raises EgressRefused or TransportError, whose `sent` is false if the message itself was not sent.
    """
    url = mail_url(mail.host, mail.port)
    target = judge_url(url, "notify", airlock.listing)
    if isinstance(target, EgressVerdict):
        airlock.note("notify", None, "block", target.code)
        raise EgressRefused(f"The airlock refused to send mail: {target.reason}.", code=target.code)
    deadline = asyncio.get_running_loop().time() + mail.timeout_seconds
    verdict, code, reply = "pass", "BROKEN", 0
    try:
        reply = await _deliver(airlock, target, mail, deadline)
        code = "OK" if reply == ACCEPTED else "REFUSED"
    except EgressRefused as error:
        verdict, code = "block", error.code
        raise
    except TransportError as error:
        code = "TIMEOUT" if error.timeout else "BROKEN" if error.sent else "NO_CONNECTION"
        raise
    finally:
        airlock.note("notify", target, "block" if verdict == "block" else "pass", code, status=reply)
    return reply


async def _deliver(airlock: Airlock, target: Target, mail: Mail, deadline: float) -> int:
    context = tls_context(airlock.ca_file, "")
    at_once = mail.port == TLS_PORT
    streams = await airlock.connect(target, deadline, tls=context if at_once else False)
    talk = _Talk(target.host, streams)
    try:
        with talk.faults():
            async with asyncio.timeout_at(deadline):
                return await talk.deliver(mail, None if at_once else context)
    finally:
        streams[1].close()
        with suppress(OSError, TimeoutError):  # the reply to QUIT is irrelevant
            async with asyncio.timeout(1):
                await streams[1].wait_closed()


class _Talk:
    """One SMTP session. An unexpected reply ends it."""

    def __init__(self, host: str, streams: Streams) -> None:
        self._host = host
        self._reader, self._writer = streams
        self._sent = False

    async def deliver(self, mail: Mail, context: ssl.SSLContext | None) -> int:
        greeting, _ = await self._reply()
        if greeting != _GREETING:
            return greeting
        _, offers = await self._say("EHLO localhost")
        if context is not None:
            if "STARTTLS" not in offers:
                raise self._broken("offers no STARTTLS, and mail is never sent without TLS")
            await self._begin_tls(context)
            _, offers = await self._say("EHLO localhost")
        if mail.password and (reply := await self._sign_in(mail, offers)) != _SIGNED_IN:
            return reply
        for line, expected in (
            (f"MAIL FROM:<{mail.sender}>", ACCEPTED),
            (f"RCPT TO:<{mail.recipient}>", ACCEPTED),
            ("DATA", _DATA),
        ):
            reply, _ = await self._say(line)
            if reply != expected and not (expected == ACCEPTED and reply == ACCEPTED + 1):
                return reply
        self._sent = True
        body = b"\r\n".join(b"." + line if line.startswith(b".") else line for line in mail.message.split(b"\r\n"))
        self._writer.write(body.removesuffix(b"\r\n") + b"\r\n.\r\n")
        reply, _ = await self._reply()
        self._writer.write(b"QUIT\r\n")
        return reply

    async def _begin_tls(self, context: ssl.SSLContext) -> None:
        reply, _ = await self._say("STARTTLS")
        if reply != _READY:
            raise self._broken("refused STARTTLS")
        with suppress(TimeoutError):
            async with asyncio.timeout(0):  # data injected before TLS must not be read as if it came through it
                if await self._reader.read(1):
                    raise self._broken("sent something between STARTTLS and TLS")
        await self._writer.start_tls(context, server_hostname=self._host)

    async def _sign_in(self, mail: Mail, offers: set[str]) -> int:
        ways = next((set(offer.split()[1:]) for offer in offers if offer.startswith("AUTH ")), set[str]())
        if "PLAIN" in ways:
            return (await self._say("AUTH PLAIN " + _b64(f"\0{mail.user}\0{mail.password}")))[0]
        if "LOGIN" not in ways:
            raise self._broken("offers neither AUTH PLAIN nor AUTH LOGIN")
        reply = 0
        for line in ("AUTH LOGIN", _b64(mail.user), _b64(mail.password)):
            reply, _ = await self._say(line)
            if reply != _GO_ON:
                break
        return reply

    async def _say(self, line: str) -> tuple[int, set[str]]:
        self._writer.write(line.encode("ascii", "replace") + b"\r\n")
        return await self._reply()

    async def _reply(self) -> tuple[int, set[str]]:
        """The code of a reply, and its lines in capitals."""
        lines: set[str] = set()
        for _ in range(MOST_LINES):
            line = (await self._reader.readuntil(b"\n")).decode("ascii", "replace").rstrip("\r\n")
            if not line[:3].isdigit() or line[3:4] not in ("", " ", "-"):
                break
            lines.add(line[4:].upper())
            if line[3:4] != "-":
                return int(line[:3]), lines
        raise self._broken("did not speak SMTP")

    @contextmanager
    def faults(self) -> Generator[None]:
        """Turn transport failures into one kind of error."""
        try:
            yield
        except ssl.SSLCertVerificationError as error:
            raise self._broken(f"has an invalid certificate: {error.verify_message}") from error
        except TimeoutError as error:
            raise TransportError(f"{self._host} timed out.", sent=self._sent, timeout=True) from error
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise self._broken("broke the connection, or its reply is too long") from error

    def _broken(self, what: str) -> TransportError:
        return TransportError(f"{self._host} {what}.", sent=self._sent, remedy="Check [notify.smtp].")


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
