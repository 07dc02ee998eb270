"""Checkpoints: all that a job must remember between two steps, written so that a later version can still read it."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from coilclaw.packets.action import Label
from coilclaw.packets.canonical import Json, JsonObject, NotCanonical, parse_object
from coilclaw.packets.errors import CoilclawError
from coilclaw.packets.labels import join_labels

VERSION = 1
Migration: TypeAlias = Callable[[dict[str, Json]], dict[str, Json]]
"""Makes a checkpoint of the next version out of one."""

MIGRATIONS: dict[int, Migration] = {}
"""By the version they start from; the first released one is 1."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a job stands."""

    version: int = VERSION
    step: int = 0
    """The number of the next step; every earlier one is over."""
    position: int = 0
    """Which step of the plan is being worked on."""
    tokens: int = 0
    calls: int = 0
    fresh: tuple[Label, ...] = ()
    inherited: tuple[Label, ...] = ()
    waiting: tuple[str, ...] = ()
    """Actions that had no end when the step was over."""
    reminded: bool = False
    """The step of the plan was answered without its evidence, and the model was told so."""

    finished: bool = False
    """Every step is over; what is left is its pull request."""

    @property
    def label(self) -> Label:
        """What the checkpoint itself carries."""
        return join_labels((*self.fresh, *self.inherited))


class CheckpointRefused(CoilclawError):
    """A checkpoint that this version cannot go on from."""


def write_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The bytes to keep."""
    return msgspec.json.encode(checkpoint)


def read_checkpoint(data: bytes, migrations: dict[int, Migration] | None = None) -> Checkpoint:
    """A checkpoint of this or any earlier version; what cannot be understood is refused with the reason."""
    try:
        fields = dict(parse_object(data))
    except NotCanonical as error:
        raise CheckpointRefused(f"the checkpoint cannot be read: {error}.") from error
    version = _version(fields)
    if version > VERSION:
        raise CheckpointRefused(
            f"the checkpoint was written by a newer CoilClaw (version {version}, this one knows {VERSION}).",
            remedy="Upgrade CoilClaw, then create the job again.",
        )
    steps = MIGRATIONS if migrations is None else migrations
    while version < VERSION:
        if version not in steps:
            raise CheckpointRefused(f"there is no migration from checkpoint version {version} to {VERSION}.")
        fields = steps[version](fields)
        version += 1
        fields["version"] = version
    return _typed(fields)


def _version(fields: JsonObject) -> int:
    version = fields.get("version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise CheckpointRefused("the checkpoint has no version.")
    return version


def _typed(fields: JsonObject) -> Checkpoint:
    try:
        return msgspec.convert(fields, Checkpoint)
    except msgspec.ValidationError as error:
        raise CheckpointRefused(f"the checkpoint does not match its version: {error}.") from error
