"""Guests: their routes."""

from typing import TYPE_CHECKING

from coilclaw.features import Feature

if TYPE_CHECKING:
    from coilclaw.server.part import Part
    from coilclaw.server.serving import Serving


def guests_part(serving: "Serving") -> "Part":
    """The routes of guests."""
    from coilclaw.features.guests.owner_guests import OwnerGuests
    from coilclaw.features.guests.routes import GuestRoutes
    from coilclaw.server.part import Part

    return Part(controllers=(GuestRoutes,), given={"guests": OwnerGuests(serving.runtime, serving.core.conveyor)})


FEATURE = Feature(part=guests_part)
