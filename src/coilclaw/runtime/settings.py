"""Changes of config.toml through the gate: checked as a whole before they are proposed, bound to the file shown.

The action holds the changed keys and two hashes, of the file it was proposed for and of what that becomes; the card's
difference is made from the file when it is shown. So no content of the file is stored, a yes holds for one exact
outcome, and an attempt that was cut off finds out whether it had written (docs/decisions/0027).
"""

import asyncio
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coilclaw.config import load, read_config
from coilclaw.config.edit import Key, edit_text, find_key
from coilclaw.config.environment import ALIASES, variable_for
from coilclaw.packets.action import ToolCall
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import ConfigError, ToolError, UsageError
from coilclaw.packets.settings import ConfigEdit, SettingChange, Value
from coilclaw.runtime.live_config import needs_restart
from coilclaw.runtime.reachable import listing_of
from coilclaw.store.projects import open_projects

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.tools.configure import ConfigWriter

TOOL = "settings_change"
CHANGED = (
    "config.toml is not what it was when this was proposed, so nothing was written."
    " Look at it, then make the change again."
)


class NothingChanges(UsageError):
    """The file already says what was asked for."""


def proposal(app: "Runtime", changes: tuple[SettingChange, ...]) -> ToolCall:
    """The call that makes these changes; a UsageError says why they cannot be made, and nothing is proposed."""
    for change in changes:
        _must_hold_no_secret(app, change)
        _must_lend_no_project(app, change)
    before = _read(app)
    after = _edited(before, changes)
    if after == before:
        raise NothingChanges("config.toml already says so.", remedy="Nothing was proposed.")
    _must_be_valid(app, changes, after)
    edit = ConfigEdit(changes=changes, before=sha256_hex(before), after=sha256_hex(after))
    return ToolCall.of(TOOL, msgspec.to_builtins(edit))


def notes(app: "Runtime", changes: tuple[SettingChange, ...]) -> list[str]:
    """What the owner should know about these changes: what overrides them, what needs a restart."""
    keys = [find_key(change.key) for change in changes]
    told = [
        f"{name} is set in the environment and comes first: {'.'.join(key.path)} has no effect where it is set."
        for key in keys
        for name in _variables(app.environ, key)
    ]
    if late := [".".join(key.path) for key in keys if needs_restart(key.path)]:
        told.append(f"Takes effect at the next start: {', '.join(dict.fromkeys(late))}.")
    return told


def config_writer(app: "Runtime") -> "ConfigWriter":
    """What the tool shows and writes by."""
    from coilclaw.tools.configure import ConfigWriter

    async def write(edit: ConfigEdit) -> str:
        for change in edit.changes:
            _must_lend_no_project(app, change)  # one may have been added since
        await asyncio.to_thread(_write, app, edit)
        app.live.refresh(own=True)
        await app.live.record(edit.before)
        return " ".join(["Written to config.toml.", *notes(app, edit.changes)])

    return ConfigWriter(difference=lambda edit: _difference(app, edit), write=write)


def _difference(app: "Runtime", edit: ConfigEdit) -> str:
    from coilclaw.gate.preview import Existing, diff_shown

    try:
        before = _read(app)
        if sha256_hex(before) == edit.after:
            return "(config.toml already holds this)"
        after = _bound(before, edit)
    except (UsageError, ToolError) as error:
        return f"It would change nothing: {error}"
    # The sentence of the card names each key in full; a line above it is the end of its comment.
    return diff_shown("config.toml", Existing(size=len(before), data=before), after, around=1)


def _write(app: "Runtime", edit: ConfigEdit) -> None:
    """Put the new file in place, whole and durable, if the old one is still there; one writer at a time."""
    from coilclaw.store.durable import full_disk, write_durably
    from coilclaw.store.lock import FairLock

    lock = FairLock(app.home.locks_dir / "config")
    try:
        with lock:
            before = _read(app)
            if sha256_hex(before) == edit.after:
                return  # an earlier attempt wrote it
            after = _bound(before, edit)
            app.reached("config_checked")
            try:
                write_durably(Path(os.path.realpath(app.home.config_file)), after, replace=True)
            except OSError as error:
                raise full_disk(app.home.config_file) if error.errno == 28 else ToolError(
                    f"config.toml cannot be written ({error.strerror}).", code="CONFIG_NOT_WRITTEN", begun=False
                ) from error  # fmt: skip
            app.reached("config_written")
    finally:
        lock.close()


def _bound(before: bytes, edit: ConfigEdit) -> bytes:
    """What was shown and approved, byte for byte."""
    if sha256_hex(before) != edit.before:
        raise ToolError(CHANGED, code="CONFIG_CHANGED", begun=False)
    after = _edited(before, edit.changes)
    if sha256_hex(after) != edit.after:
        raise ToolError(
            "this version would write the change in another way than was shown.", code="CONFIG_CHANGED", begun=False
        )
    return after


def _read(app: "Runtime") -> bytes:
    try:
        return read_config(app.home)
    except ConfigError as error:
        raise UsageError(str(error), remedy="Fix it by hand first.") from error


def _edited(before: bytes, changes: tuple[SettingChange, ...]) -> bytes:
    try:
        return edit_text(before.decode("utf-8"), changes).encode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError("config.toml is not UTF-8.", remedy="Fix it by hand first.") from error


def _must_be_valid(app: "Runtime", changes: tuple[SettingChange, ...], after: bytes) -> None:
    """The whole new file, as this process would read it, and without what the environment would hide of it."""
    hiding = {name for change in changes for name in _variables(app.environ, find_key(change.key))}
    for environ in (app.environ, {name: value for name, value in app.environ.items() if name not in hiding}):
        try:
            listing_of(load(app.home, environ, after).config)
        except ConfigError as error:
            raise UsageError(
                f"the configuration would be invalid: {'; '.join(error.problems[:5])}",
                remedy="Nothing was proposed. Change what belongs together at once.",
            ) from error


def _variables(environ: Mapping[str, str], key: Key) -> list[str]:
    """Variables that are set and override a key."""
    names = (variable_for(key.path), *(name for name, path in ALIASES.items() if path == key.path))
    return [name for name in names if environ.get(name)]


def _must_hold_no_secret(app: "Runtime", change: SettingChange) -> None:
    key = find_key(change.key)
    try:
        "".join(_texts(change.value)).encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the value for {change.key} is not text.") from error
    if any(app.redact(text) != text or ("://" in text and "@" in text) for text in _texts(change.value)):
        name = key.path[-1] if key.path[-1].endswith("_env") else "api_key_env or secret_env"
        raise UsageError(
            f"the value for {change.key} looks like a secret; config.toml holds only the names of secrets.",
            remedy=f"Store it with `coilclaw secret set NAME`, then put NAME into {name}.",
        )


def _must_lend_no_project(app: "Runtime", change: SettingChange) -> None:
    """What the agent can write in one project must not be run first by the boxes of everything else."""
    if find_key(change.key).path != ("security", "toolchains") or change.op == "remove":
        return
    for text in _texts(change.value):
        given = app.user_home / text[2:] if text.startswith("~/") else app.home.root / text
        folder = Path(os.path.realpath(given))
        for project in open_projects(app.db.reader):
            if folder.is_relative_to(project.path) or Path(project.path).is_relative_to(folder):
                raise UsageError(
                    f"{folder} and the project {project.name} ({project.path}) lie in one another, and the agent can"
                    " write there: it cannot be lent to boxes.",
                    remedy="Lend a folder apart from what the agent works in.",
                )


def _texts(value: Value | None) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from (name, item)
