"""The section of the agent that works on itself: `[evolve]`."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class Evolve(msgspec.Struct, frozen=True, kw_only=True):
    """The agent that works on its own code, in a container; see evolve.md."""

    merge: Literal["strict", "boxed"] = "strict"
    """Who moves main of its repository: `strict` asks you with a card, `boxed` lets it move by itself. In both, nothing
    of it runs outside the container, and your Directives and `spec/` stay as they are."""
    container: Literal["auto", "podman", "box"] = "auto"
    """What holds it: `podman` is a container of Podman's within our box (tier C), `box` the box of every command (tier
    A or B), `auto` the first of these that works here."""
    network: Literal["broker", "routed"] = "broker"
    """`broker`: no route at all, only `domains` by way of CoilClaw. `routed`: public addresses directly, by way of
    slirp4netns in Podman's container, behind a guard that rejects private ones and this machine's. It needs your proof
    once (`coilclaw evolve route`), and is refused where the guard does not hold."""
    domains: tuple[Annotated[str, Meta(min_length=1, max_length=253)], ...] = ()
    """Hosts of packages that it may reach, of `security.allowed_domains`. Without any, it has no network."""
    model: str = ""
    """Which of `[providers.models]` answers it. Empty: `default_provider`."""
    daily_tokens: Annotated[int, Meta(ge=0, le=10**12)] = 2_000_000
    """Tokens per day (UTC) that it may use, in and out; 0 means no limit of its own. `budgets.daily_tokens` applies as
    well."""
    look_seconds: Annotated[int, Meta(ge=1, le=600)] = 600
    """How often it reads COMMS.md, and the watcher looks at it when nothing happens."""
    start_seconds: Annotated[int, Meta(ge=1, le=3600)] = 120
    """How long a start may take; then main is started again."""
    disk_mb: Annotated[int, Meta(ge=64, le=10**7)] = 2048
    """How much its volume, its objects and its record may occupy together. Beyond it, it is ended."""
    memory_mb: Annotated[int, Meta(ge=64, le=10**7)] = 2048
    """How much memory it may use."""
    processes: Annotated[int, Meta(ge=16, le=100_000)] = 256
    """How many processes it may have."""
