"""The known paths and their methods, for the door to check before a request costs anything."""

from collections.abc import Iterable

from litestar import Litestar
from litestar.routes import WebSocketRoute

WEBSOCKET = "WEBSOCKET"
"""The pseudo-method of a WebSocket, so that the rules for requests apply to it too."""


class Methods:
    """A tree of path segments; a segment in braces matches any."""

    def __init__(self, routes: Iterable[tuple[str, Iterable[str]]]) -> None:
        self._root = _Segment()
        for path, methods in routes:
            self._root.add(path.strip("/").split("/"), methods)

    @classmethod
    def of(cls, app: Litestar) -> "Methods":
        """The paths and methods of an application."""
        sockets = ((route.path, (WEBSOCKET,)) for route in app.routes if isinstance(route, WebSocketRoute))
        return cls((*((route.path, getattr(route, "methods", ())) for route in app.routes), *sockets))

    def allowed(self, path: str) -> frozenset[str]:
        """The methods of a path; empty if there is no such path."""
        return frozenset(self._root.find(path.strip("/").split("/")))


class _Segment:
    """One node of the tree."""

    def __init__(self) -> None:
        self._named: dict[str, _Segment] = {}
        self._any: _Segment | None = None
        self._methods: set[str] = set()

    def add(self, segments: list[str], methods: Iterable[str]) -> None:
        if not segments:
            self._methods.update(str(method) for method in methods)
            return
        first, *rest = segments
        if first.startswith("{"):
            self._any = self._any or _Segment()
            self._any.add(rest, methods)
        else:
            self._named.setdefault(first, _Segment()).add(rest, methods)

    def find(self, segments: list[str]) -> set[str]:
        """A literal segment takes precedence over a parameter."""
        if not segments:
            return self._methods
        first, *rest = segments
        if first in self._named and (found := self._named[first].find(rest)):
            return found
        return set() if self._any is None else self._any.find(rest)
