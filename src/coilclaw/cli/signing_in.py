"""Signing in to an account at the terminal: an address for the browser, and waiting for what it brings back."""

import asyncio
import sys
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol

from coilclaw.cli.output import tell

if TYPE_CHECKING:
    from coilclaw.runtime import Runtime
    from coilclaw.runtime.oauth.client import Pending
    from coilclaw.runtime.oauth.sign_ins import Account


class Begin(Protocol):
    """Starts a sign-in, which listens for the browser or waits for the address that it ended at."""

    def __call__(self, *, listen: bool) -> "Awaitable[Pending]": ...


def at_the_browser(app: "Runtime", account: "Account", begin: Begin, intro: str, *, paste: bool) -> None:
    """Have the owner sign in; returns once the answer waits for their approval, else OAuthError says why."""
    from coilclaw.runtime.oauth.sign_ins import sign_ins

    signing = sign_ins(app)

    async def listen() -> None:
        try:
            pending = await begin(listen=True)
            tell(f"{intro}\n\n{pending.address}\n")
            tell("Waiting for the browser…")
            await signing.wait(account)
        except BaseException:
            await signing.close()
            raise

    if not paste:
        asyncio.run(listen())
        return
    # The address is read between two loops: a thread that reads it would outlive Ctrl-C until the next Enter.
    pending = asyncio.run(_first(begin))
    tell(f"{intro}\n\n{pending.address}\n")
    tell("The browser then ends at an address that it cannot open. Paste that address here:")
    asyncio.run(signing.paste(account, sys.stdin.readline()))


async def _first(begin: Begin) -> "Pending":
    return await begin(listen=False)
