"""A part of the server: controllers of one subject, and what they are given by name."""

from dataclasses import dataclass, field

from litestar import Controller


@dataclass(frozen=True, kw_only=True)
class Part:
    """What the application is put together from."""

    controllers: tuple[type[Controller], ...]
    given: dict[str, object] = field(default_factory=dict[str, object])
    """What handlers of this part ask for by parameter name; names are unique over all parts."""
