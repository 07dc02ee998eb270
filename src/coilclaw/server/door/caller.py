"""The caller: which paired device a request comes from, how it sent its token, and what that token opens."""

from typing import Literal

import msgspec

from coilclaw.store.runner_tokens import Access

SCOPED = "/runner/v1/"
"""The only paths that a runner token opens."""


class TokenScope(msgspec.Struct, frozen=True, kw_only=True):
    """What a runner token opens."""

    org_id: str
    repo_id: str | None
    """None: every repository of the organisation."""
    session_id: str | None
    """None: every session."""
    access: Access

    def covers(self, org_id: str, repo_id: str, session_id: str | None) -> bool:
        """Whether a session (None: those of a repository as such) is within it."""
        return (
            self.org_id == org_id
            and self.repo_id in (None, repo_id)
            and (self.session_id is None or self.session_id == session_id)
        )


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """An admitted caller."""

    device_id: str
    token_id: str
    way: Literal["cookie", "bearer"]
    confirmed: bool
    """False until a passkey has vouched for the device; until then it can only request that."""
    scope: TokenScope | None
    """None for a device's own token."""
    opens: Literal["", "mcp"] = ""
    """What a device's own token opens: everything, or `/mcp` alone."""

    @property
    def by(self) -> str:
        """How this device's answers are recorded."""
        return f"device:{self.device_id}"

    def sees(self, org_id: str, repo_id: str, session_id: str | None) -> bool:
        """Whether a session may be shown to this caller. One that may not is treated as if it did not exist."""
        return self.scope is None or self.scope.covers(org_id, repo_id, session_id)

    def must_be_device(self) -> None:
        """Raise if this caller has only a runner token: it cannot widen itself."""
        if self.scope is not None:
            from coilclaw.server.problems import Trouble  # with it comes the web framework, which few commands need

            raise Trouble(403, "OUT_OF_SCOPE", "a runner token cannot do this.", remedy="Use the device's own token.")

    @property
    def drives(self) -> bool:
        """Whether this caller may act on the sessions it sees."""
        return self.scope is None or self.scope.access == "drive"

    def must_drive(self) -> None:
        """Raise if this caller may only watch."""
        if not self.drives:
            from coilclaw.server.problems import Trouble

            raise Trouble(403, "WATCH_ONLY", "this token may only watch.", remedy="Ask for one with `access: drive`.")
