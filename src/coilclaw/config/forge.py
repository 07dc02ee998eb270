"""The section `[forge]`: where jobs work, how pull requests are checked, and which of them merge without a question."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class ForgeCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Your own command that must succeed before a pull request can be merged."""

    command: Annotated[str, Meta(max_length=4096)] = ""
    """The command, run in a box without network on the merge result."""
    timeout_seconds: Annotated[float, Meta(gt=0, le=3600)] = 300.0
    """Its timeout; a longer run has failed."""


class Forge(msgspec.Struct, frozen=True, kw_only=True):
    """Pull requests: how the changes of jobs are reviewed and merged."""

    enabled: bool = True
    """Jobs work in a copy of the workspace and end in a pull request. Off: they write the workspace and ask for each
    write, as conversations do."""
    trees_dir: Path | None = None
    """The folder of the copies that jobs work in. By default next to the workspace, with its name
    and `-trees`."""
    merge_mode: Literal["strict", "whitelist"] = "strict"
    """strict: you approve every merge. whitelist: a change of only `merge_allow` merges automatically if its checks
    pass. A third mode, yolo, can only be set for some hours: `coilclaw bot mode yolo --for 8h`."""
    merge_allow: tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...] = ("intel/**", "memory/**")
    """Paths that the whitelist merges, as patterns: `*` within a name, `**` for any number of folders. Paths that
    govern the agent cannot be listed."""
    pr_days: Annotated[int, Meta(ge=1, le=365)] = 14
    """Days after which an unanswered pull request is closed and its job cancelled."""
    checks: dict[str, ForgeCheck] = {}
    """Your own required checks, each a table `[forge.checks.NAME]`."""
