"""What the tools of mail and calendar share: an identity, the account behind it, and what was fetched for a card."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from coilclaw.features.mail.google_api import Fetch
from coilclaw.features.mail.store import keep_shown, read_shown
from coilclaw.packets.action import Identity
from coilclaw.packets.decision import RiskClass
from coilclaw.packets.errors import CoilclawError, ToolError
from coilclaw.packets.http import FetchRequest, HttpRequest, HttpResponse
from coilclaw.packets.ports import Context, Tool, ToolOutput
from coilclaw.packets.touches import Touches
from coilclaw.tools.declare import Declared

if TYPE_CHECKING:
    from coilclaw.config.google import Google
    from coilclaw.runtime.runtime import Runtime

A = TypeVar("A", bound=msgspec.Struct)
S = TypeVar("S", bound=msgspec.Struct)

Home = Callable[[], "Runtime"]
BOTH: frozenset[Identity] = frozenset({"user", "bot"})
LOOK_SECONDS = 20.0
MOST_FAULTS = 100


class MailTool(Declared[A], Generic[A]):
    """A tool that acts in the name of an account. Unbound it can only be described."""

    def __init__(
        self,
        home: Home,
        identity: Identity | None,
        make: "Callable[[Home, Identity], Tool]",
        run: Callable[[A, Context], Awaitable[ToolOutput]],
        args: type[A],
        *,
        identities: frozenset[Identity],
        effect: RiskClass,
        always_ask: bool,
        touches: Callable[[A], Touches],
        summary: Callable[[A], str],
    ) -> None:
        super().__init__(
            run,
            args,
            effect=effect,
            destination="external",
            idempotent=effect == "READ",
            always_ask=always_ask,
            touches=touches,
            summary=summary,
            identities=identities,
        )
        self._home = home
        self._identity: Identity | None = identity
        self._make = make
        self._twins: dict[Identity, Tool] = {}

    def acting_as(self, identity: Identity) -> Tool:
        """The tool in the name of one of its identities."""
        if identity not in self.identities:
            raise ValueError(f"{self.name} is never called as {identity}")
        if identity not in self._twins:
            self._twins[identity] = self._make(self._home, identity)
        return self._twins[identity]

    @property
    def identity(self) -> Identity:
        """In whose name it acts."""
        if self._identity is None:
            raise ValueError(f"{self.name} has no identity yet")
        return self._identity

    @property
    def google(self) -> "Google":
        """Where Google is."""
        return self._home().config.google

    @property
    def mailbox(self) -> str:
        """The address of the account; empty while it is not connected."""
        from coilclaw.features.mail.accounts import google_accounts

        return google_accounts(self._home()).state(self.identity).mailbox

    @property
    def who(self) -> str:
        """In whose name, in words for a card."""
        if self._identity is None:
            return "nobody"
        mailbox = self.mailbox
        return f"{self.identity} ({mailbox})" if mailbox else self.identity

    async def look_ahead(self, args: msgspec.Struct, *, begun: bool) -> None:
        """Most calls need nothing fetched."""


class FetchedForCard(Generic[S]):
    """What a card is made from: fetched before the decision, kept, so that any process shows and binds the same."""

    def __init__(self, home: Home, kind: type[S], name: str) -> None:
        self._home = home
        self._kind = kind
        self._name = name

    def __call__(self, item: str) -> S | ToolError:
        """What was fetched last, or why nothing could be."""
        app = self._home()
        fault = app.kept.get(f"mail_fault:{self._name}:{item}")
        kept = read_shown(app.db.reader, f"{self._name}:{item}")
        if kept is not None and not (isinstance(fault, ToolError) and fault.code in ("NOT_FOUND", "BEING_SENT")):
            return msgspec.json.decode(kept, type=self._kind)
        waits = ToolError("It was not fetched yet.", remedy="Propose it again.", code="NOT_FETCHED", begun=False)
        return fault if isinstance(fault, ToolError) else waits

    async def refresh(self, item: str, fetch: Callable[[Fetch], Awaitable[S]], *, begun: bool) -> None:
        """Fetch it anew, unless the call has begun. If that fails, what was fetched before stays: it was shown."""
        app = self._home()
        key = f"{self._name}:{item}"
        if begun:
            app.kept.pop(f"mail_fault:{key}", None)
            return
        try:
            text = msgspec.json.encode(await fetch(self._fetch)).decode()
        except CoilclawError as error:
            told = error if isinstance(error, ToolError) else ToolError(error.message, remedy=error.remedy, begun=False)
            for name in [name for name in app.kept if name.startswith("mail_fault:")][:-MOST_FAULTS]:
                del app.kept[name]  # a model may make up as many ids as it likes
            app.kept[f"mail_fault:{key}"] = told
            return
        app.kept.pop(f"mail_fault:{key}", None)
        if read_shown(app.db.reader, key) != text:
            await app.db.write(lambda tx: keep_shown(tx, app.clock, key, text))

    async def _fetch(self, request: FetchRequest) -> HttpResponse:
        """A read before the decision: a GET at Google, in the account's name, and nothing else."""
        from coilclaw.features.mail.send_as import send_as

        if request.purpose != "read" or request.method != "GET":
            raise ToolError("only reads are made before a decision.", code="NOT_GRANTED", begun=False)
        app = self._home()
        made = HttpRequest(
            principal="google",
            identity=request.identity,
            method="GET",
            url=request.url,
            timeout_seconds=LOOK_SECONDS,
            max_bytes=request.max_bytes,
        )
        return await send_as(app, app.transport, made)
