"""The tools of mail and calendar. Nothing of this is imported while `[google]` is not configured."""

from typing import TYPE_CHECKING

from coilclaw.packets.ports import Tool
from coilclaw.runtime.extensions import home_of

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime


def mail_tools(runtime: "Runtime | None") -> tuple[Tool, ...]:
    """The owner's calls about accounts and the six tools; without a home they can only be described."""
    from coilclaw.features.mail.account_calls import account_tools
    from coilclaw.features.mail.reading import GetFull, GetSnippet, ListEvents, SearchThreads
    from coilclaw.features.mail.writing import DraftReply, SendDraft

    home = home_of(runtime)
    kinds = (SearchThreads, GetSnippet, GetFull, DraftReply, SendDraft, ListEvents)
    return (*account_tools(runtime), *(kind(home) for kind in kinds))
