"""Query strings: unknown names are refused, and enum values ignore case."""

from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, cast, get_args, get_origin
from urllib.parse import parse_qsl, urlencode

from litestar import Litestar, Request
from litestar.routes import HTTPRoute

from coilclaw.packets.text import one_line
from coilclaw.server.problems import Trouble

Words: TypeAlias = dict[str, str]
"""The values an enum takes, by their lower case."""


class Queries:
    """The query parameters of each route. Give `check` to the application, then `learn` its routes."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], dict[str, Words]] = {}

    def learn(self, app: Litestar) -> None:
        """Collect the parameters of every route, once."""
        for route in app.routes:
            if isinstance(route, HTTPRoute):
                for method, (handler, model) in route.route_handler_map.items():
                    hints = handler.parsed_fn_signature.parameters
                    self._known[(route.path_format, str(method))] = {
                        each.field_alias: _words_of(hints[each.field_name].raw) if each.field_name in hints else {}
                        for each in model.expected_query_params
                    }

    async def check(self, request: "Request[Any, Any, Any]") -> None:
        """422 for an unknown or duplicate name; enum values are normalised to the route's spelling."""
        text = request.scope["query_string"]
        if not text:
            return
        known = self._known.get((request.scope["path_template"], str(request.scope["method"])), {})
        pairs = parse_qsl(text.decode("latin-1"), keep_blank_values=True)
        _refuse_unknown([name for name, _ in pairs if name not in known], sorted(known))
        _refuse_twice([name for name, _ in pairs])
        spelled = [(name, known[name].get(value.lower(), value)) for name, value in pairs]
        if spelled != pairs:
            request.scope["query_string"] = urlencode(spelled).encode()


def _refuse_unknown(unknown: list[str], known: list[str]) -> None:
    if not unknown:
        return
    names = ", ".join(sorted({repr(one_line(name[:40])) for name in unknown[:3]}))
    remedy = f"This route takes {', '.join(known)}." if known else "This route takes no query parameters."
    raise Trouble(422, "UNKNOWN_PARAMETER", f"unknown query parameter: {names}.", remedy=remedy)


def _refuse_twice(names: list[str]) -> None:
    """No route takes a list; one of two values would be ignored silently."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Trouble(422, "UNFIT", f"the query parameter {twice} appears twice.", remedy="Give it once.")


def _words_of(hint: object) -> Words:
    """The values of the literal in a parameter's type, if there is one."""
    kind = get_origin(hint)
    if kind is Annotated:
        return _words_of(get_args(hint)[0])
    if kind is Literal:
        return {str(value).lower(): str(value) for value in get_args(hint)}
    if kind in (Union, UnionType):
        found: Words = {}
        for inner in cast("tuple[object, ...]", get_args(hint)):
            found |= _words_of(inner)
        return found
    return {}
