"""The ways out that the owner configures, a message to one address and mail, and what a send can come to."""

from collections.abc import Iterable
from datetime import timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Literal

import msgspec

from coilclaw.features.notifications.words import TELLINGS, TITLE, leads_to
from coilclaw.packets.errors import CoilclawError, EgressRefused, TransportError
from coilclaw.packets.http import HttpRequest
from coilclaw.packets.mail import Mail

if TYPE_CHECKING:
    from coilclaw.features.notifications.store.deliveries import Delivery
    from coilclaw.runtime.runtime import Runtime

TIMEOUT_SECONDS = 10.0
MAIL_SECONDS = 20.0
MOST_BYTES = 64 * 1024
"""Of an answer only the head is read; this bounds what anybody can make us take in."""
LONGEST_WAIT = timedelta(hours=1)


class SendEnd(msgspec.Struct, frozen=True, kw_only=True):
    """What one send came to."""

    status: Literal["sent", "retry", "failed"]
    code: str
    certain: bool = True
    """Whether somebody knows if it arrived."""
    wait: timedelta = timedelta()
    """How long the other side wants to be left alone, at least."""


def end_of(status: int, headers: Iterable[tuple[str, str]]) -> SendEnd:
    """What an answer over HTTP means."""
    code = f"HTTP_{status}"
    if 200 <= status < 300:
        return SendEnd(status="sent", code=code)
    if status in (408, 425, 429) or status >= 500:
        said = next((value for name, value in headers if name.lower() == "retry-after"), "").strip()
        seconds = int(said) if said.isascii() and said.isdigit() and len(said) < 7 else 0
        return SendEnd(status="retry", code=code, wait=min(timedelta(seconds=seconds), LONGEST_WAIT))
    return SendEnd(status="failed", code=code)


def end_of_error(error: CoilclawError) -> SendEnd:
    """What it means that no answer came. A name may lead elsewhere tomorrow, so a refusal is tried again too."""
    if isinstance(error, TransportError):
        code = "TIMEOUT" if error.timeout else "BROKEN" if error.sent else "NO_CONNECTION"
        return SendEnd(status="retry", code=code, certain=not error.sent)
    return SendEnd(status="retry", code=error.code if isinstance(error, EgressRefused) else type(error).__name__)


async def send_to_url(app: "Runtime", delivery: "Delivery") -> SendEnd:
    """POST to the configured address, as ntfy takes it."""
    notify = app.config.notify
    if not notify.url:
        return SendEnd(status="failed", code="NOT_CONFIGURED")
    telling = TELLINGS[delivery.type]
    token = app.keyring.get(notify.token_env, "") if notify.token_env else ""
    request = HttpRequest(
        principal="notify",
        method="POST",
        url=notify.url,
        headers=(
            ("Title", TITLE),
            ("Click", f"{app.address}/{leads_to(delivery.type, delivery.entity_id)}"),
            ("Priority", "high" if telling.urgency == "high" else "default"),
            ("Content-Type", "text/plain; charset=utf-8"),
            *((("Authorization", f"Bearer {token}"),) if token else ()),
        ),
        body=telling.words.encode(),
        timeout_seconds=TIMEOUT_SECONDS,
        max_bytes=MOST_BYTES,
    )
    async with app.transport.stream(request) as answer:
        return end_of(answer.status, answer.headers)


async def send_by_mail(app: "Runtime", delivery: "Delivery") -> SendEnd:
    """Hand a mail to the configured server."""
    smtp = app.config.notify.smtp
    if not smtp.host:
        return SendEnd(status="failed", code="NOT_CONFIGURED")
    password = app.keyring.get(smtp.password_env, "") if smtp.password_env else ""
    if smtp.password_env and not password:
        return SendEnd(status="retry", code="NO_PASSWORD")
    mail = Mail(
        host=smtp.host,
        port=smtp.port,
        user=smtp.user or smtp.from_,
        password=password,
        sender=smtp.from_,
        recipient=smtp.to,
        message=_message(app, delivery),
        timeout_seconds=MAIL_SECONDS,
    )
    reply = await app.send_mail(mail)
    if reply == 250:
        return SendEnd(status="sent", code="SMTP_250")
    return SendEnd(status="failed" if reply >= 500 else "retry", code=f"SMTP_{reply}")


def _message(app: "Runtime", delivery: "Delivery") -> bytes:
    """The same for every notification of a type, but for ids and time."""
    smtp = app.config.notify.smtp
    words = TELLINGS[delivery.type].words
    lines = (
        f"From: {TITLE} <{smtp.from_}>",
        f"To: <{smtp.to}>",
        f"Subject: {TITLE}: {words}",
        f"Date: {format_datetime(app.clock())}",
        f"Message-ID: <{delivery.notification_id}@coilclaw.invalid>",
        "Auto-Submitted: auto-generated",
        "MIME-Version: 1.0",
        "Content-Type: text/plain; charset=us-ascii",
        "",
        f"{words}.",
        "",
        f"{app.address}/{leads_to(delivery.type, delivery.entity_id)}",
        "",
    )
    return "\r\n".join(lines).encode("ascii", "replace")
