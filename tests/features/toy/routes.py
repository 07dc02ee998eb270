"""The routes of the toy."""

import msgspec
from litestar import Controller, get, post
from litestar.di import NamedDependency

from tests.features.toy.knocks import Knocks


class Knocked(msgspec.Struct, frozen=True, kw_only=True):
    """How often somebody knocked."""

    count: int


class KnocksController(Controller):
    """Knock, and look."""

    path = "/v1/knocks"

    @post("")
    async def knock(self, knocks: NamedDependency[Knocks]) -> Knocked:
        """Knock once."""
        return Knocked(count=knocks.knock())

    @get("")
    async def look(self, knocks: NamedDependency[Knocks]) -> Knocked:
        """Look how often."""
        return Knocked(count=knocks.count)
