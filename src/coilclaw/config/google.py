"""The section `[google]`: mail and calendar accounts."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from coilclaw.config.notify import EnvName

AUTHORIZE_URL: Final = "https://accounts.google.com/o/oauth2/v2/auth"
TOKEN_URL: Final = "https://oauth2.googleapis.com/token"  # noqa: S105  an address, not a token
REVOKE_URL: Final = "https://oauth2.googleapis.com/revoke"
GMAIL_URL: Final = "https://gmail.googleapis.com"
CALENDAR_URL: Final = "https://www.googleapis.com"

LoopbackUrl = Annotated[str, Meta(max_length=2048)]


class Google(msgspec.Struct, frozen=True, kw_only=True):
    """Your OAuth client at Google, for mail and calendar. Off until `client_id` is set. The addresses can only be
    moved to this machine, for tests and trials."""

    client_id: Annotated[str, Meta(pattern=r"^[!-~]{0,200}$", title="a client id")] = ""
    """The id of your OAuth client (type: desktop app). Empty: there are no mail and calendar tools."""
    client_secret_env: EnvName = "GOOGLE_CLIENT_SECRET"  # noqa: S105  the name of a variable
    """The name of the environment variable or stored secret with the client's secret, which Google wants of desktop
    apps too. Empty: none is sent."""
    authorize_url: LoopbackUrl = ""
    """Where you sign in. Empty: Google's own."""
    token_url: LoopbackUrl = ""
    """Where tokens come from. Empty: Google's own."""
    revoke_url: LoopbackUrl = ""
    """Where tokens are revoked. Empty: Google's own."""
    gmail_url: LoopbackUrl = ""
    """The origin of the Gmail API. Empty: Google's own."""
    calendar_url: LoopbackUrl = ""
    """The origin of the Calendar API. Empty: Google's own."""

    @property
    def configured(self) -> bool:
        """Whether there are mail and calendar tools at all."""
        return bool(self.client_id)

    @property
    def authorize(self) -> str:
        """Where the owner signs in."""
        return self.authorize_url or AUTHORIZE_URL

    @property
    def token(self) -> str:
        """Where tokens come from."""
        return self.token_url or TOKEN_URL

    @property
    def revoke(self) -> str:
        """Where tokens are revoked."""
        return self.revoke_url or REVOKE_URL

    @property
    def gmail(self) -> str:
        """The origin of the Gmail API, without a slash at its end."""
        return (self.gmail_url or GMAIL_URL).rstrip("/")

    @property
    def calendar(self) -> str:
        """The origin of the Calendar API, without a slash at its end."""
        return (self.calendar_url or CALENDAR_URL).rstrip("/")


_ADDRESSES = ("authorize_url", "token_url", "revoke_url", "gmail_url", "calendar_url")


def google_faults(google: Google) -> list[tuple[str, str]]:
    """What is wrong with the section: each key, and a sentence."""
    found: list[tuple[str, str]] = []
    for key in _ADDRESSES:
        url: str = getattr(google, key)
        if url and not _on_this_machine(url, bare=key in ("gmail_url", "calendar_url")):
            found.append((key, "can only be an address on this machine, such as http://127.0.0.1:4600; remove the key"))
    if not google.client_id and google != Google():
        found.append(("client_id", "is missing; `coilclaw docs google` says where to get one"))
    moved = [bool(getattr(google, key)) for key in _ADDRESSES]
    if any(moved) and not all(moved):
        # A token of one place must never be sent to the other.
        found.append(("token_url", "move all five addresses to this machine, or none of them"))
    return found


def _on_this_machine(url: str, *, bare: bool) -> bool:
    """Whether this is plain http to a loopback address; `bare` without a path."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    plain = url.isascii() and url.isprintable() and not set(" \\@#?%") & set(url)
    return (
        plain
        and parts.scheme == "http"
        and parts.hostname in ("127.0.0.1", "::1", "localhost")
        and port != 0
        and (not bare or parts.path in ("", "/"))
    )
