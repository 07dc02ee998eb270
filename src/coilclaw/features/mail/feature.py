"""Mail and calendar: the routes of accounts."""

from typing import TYPE_CHECKING

from coilclaw.features import Feature

if TYPE_CHECKING:
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving


def mail_part(serving: "Serving") -> "Part":
    """The routes of accounts."""
    from coilclaw.features.mail.owner_accounts import OwnerAccounts
    from coilclaw.features.mail.routes import AccountRoutes
    from coilclaw.server.part import Part

    return Part(controllers=(AccountRoutes,), given={"accounts": OwnerAccounts(serving.runtime, serving.core.conveyor)})


FEATURE = Feature(part=mail_part)
