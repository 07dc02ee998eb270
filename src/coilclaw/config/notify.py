"""The section `[notify]`: notifications while the panel is closed."""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

EnvName = Annotated[
    str, Meta(pattern=r"^([A-Z_][A-Z0-9_]*)?$", title="the NAME of an environment variable such as OPENAI_API_KEY")
]
Address = Annotated[
    str,
    Meta(
        pattern=r"^([A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,190})?$",
        title="a mail address such as owner@example.com",
    ),
]
NoticeType: TypeAlias = Literal[
    "approval_needed", "approval_expiring", "job_failed", "job_completed", "proactive_reach_out", "alert_raised",
    "session_waiting",
]  # fmt: skip


class Smtp(msgspec.Struct, frozen=True, kw_only=True):
    """A mail server for notifications. It must prove its name by TLS."""

    host: Annotated[str, Meta(pattern=r"^[A-Za-z0-9.:-]{0,253}$", title="a host name or an address")] = ""
    """The server's name. Empty: no mail is sent."""
    port: Annotated[int, Meta(ge=1, le=65_535)] = 587
    """465 uses TLS from the start; any other port must offer STARTTLS."""
    from_: Address = msgspec.field(default="", name="from")
    """The sender's address."""
    to: Address = ""
    """The recipient's address."""
    user: Annotated[str, Meta(pattern=r"^[!-~]{0,200}$", title="a user name")] = ""
    """The user name. Empty: the address in `from`."""
    password_env: EnvName = ""
    """The name of the environment variable with the password. Empty: no authentication."""


class Notify(msgspec.Struct, frozen=True, kw_only=True):
    """How CoilClaw notifies you while the panel is closed: by Web Push (enabled in the panel), by a message to one
    address, by mail. All say that something is waiting, never what."""

    types: tuple[NoticeType, ...] = (
        "approval_needed", "approval_expiring", "job_failed", "job_completed", "proactive_reach_out", "alert_raised",
        "session_waiting",
    )  # fmt: skip
    """Which notifications are sent outside the panel."""
    quiet: Annotated[
        str,
        Meta(
            pattern=r"^(([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9])?$",
            title='hours such as "22:00-07:00"',
        ),
    ] = ""
    """Nothing is sent during these hours; notifications that are still useful follow afterwards."""
    timezone: Annotated[str, Meta(pattern=r"^[A-Za-z0-9/_+-]{0,64}$", title='a time zone such as "Europe/Berlin"')] = ""
    """The time zone of `quiet`. Empty: this machine's."""
    url: str = ""
    """An ntfy-compatible address that gets a POST for each notification, such as `https://ntfy.example.net/topic`. The
    airlock lets notifications reach exactly its host and port."""
    token_env: EnvName = ""
    """The name of the environment variable with the access token for `url`. Empty: none is sent."""
    contact: Annotated[str, Meta(pattern=r"^(mailto:|https://)[!-~]{3,200}$", title="a mailto: or https: address")] = (
        "mailto:owner@example.com"
    )
    """A contact address for push services, in case of problems with our messages."""
    smtp: Smtp = Smtp()
    """Notifications by mail."""
