"""A configuration change, as proposed, shown and written."""

from typing import Annotated, Literal, TypeAlias

import msgspec

Scalar: TypeAlias = str | bool | int | float
Value: TypeAlias = Scalar | list[str] | dict[str, str]
"""A value in config.toml."""


class SettingChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One changed key."""

    key: Annotated[str, msgspec.Meta(description="Its dotted name in config.toml.", min_length=1, max_length=300)]
    op: Annotated[
        Literal["set", "unset", "add", "remove"],
        msgspec.Meta(description="`add` and `remove` change one item of a list."),
    ] = "set"
    value: Annotated[Value | None, msgspec.Meta(description="The value, or the item; omitted for `unset`.")] = None


class ConfigEdit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes from one exact file to another: an approval binds both."""

    changes: Annotated[tuple[SettingChange, ...], msgspec.Meta(min_length=1, max_length=50)]
    before: Annotated[str, msgspec.Meta(description="SHA-256 of the file before the change.", pattern="^[0-9a-f]{64}$")]
    after: Annotated[str, msgspec.Meta(description="SHA-256 of the file after the change.", pattern="^[0-9a-f]{64}$")]
