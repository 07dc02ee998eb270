"""coilclaw config."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import click

from coilclaw.cli import completion
from coilclaw.cli.open_home import here, opened
from coilclaw.cli.output import json_option, print_json, print_wrapped, tell

if TYPE_CHECKING:
    from coilclaw.config import Origin
    from coilclaw.packets.action import ToolCall
    from coilclaw.packets.canonical import JsonObject
    from coilclaw.packets.settings import SettingChange
    from coilclaw.runtime import Runtime

Op: TypeAlias = Literal["add", "remove"]


@click.group()
def config() -> None:
    """Validate, show or change the configuration."""


@config.command()
@json_option
def validate(as_json: bool) -> int:
    """Check the whole configuration and name every fault."""
    from coilclaw.config import load
    from coilclaw.packets.errors import ConfigError

    home = here()
    try:
        loaded = load(home, os.environ)
    except ConfigError as error:
        if not as_json:
            raise
        print_json({"valid": False, "problems": error.problems})
        return 2
    if as_json:
        print_json({"valid": True, "problems": [], "warnings": loaded.warnings})
        return 0
    for warning in loaded.warnings:
        tell(f"warning: {warning}", err=True)
    where = home.config_file if home.config_file.exists() else f"{home.config_file} (absent: defaults)"
    tell(f"{where} is valid.")
    return 0


@config.command("set", short_help="Propose to change keys of config.toml.")
@click.argument("words", metavar="KEY VALUE...", nargs=-1, required=True, shell_complete=completion.config_keys)
@click.option("--add", "op", flag_value="add", help="Add the VALUEs to the list KEY.")
@click.option("--remove", "op", flag_value="remove", help="Take the VALUEs out of the list KEY.")
def set_keys(words: tuple[str, ...], op: str | None) -> int:
    """Set KEY to VALUE, or several keys at once: KEY VALUE KEY VALUE. Lists are written a,b,c.

    The whole new file is checked first. Then you see the difference and are asked, as for everything that governs the
    agent; without a terminal, or once you have a passkey, it waits for your approval. Comments stay, and running
    processes take the change up by themselves. Secrets are only ever named: `coilclaw secret set`.

    Exit code: 0 done, 1 failed, 2 cannot be set, 3 denied, 4 approval needed or rejected, 5 ESTOP.
    """
    from coilclaw.config.edit import find_key, typed_value
    from coilclaw.packets.errors import UsageError
    from coilclaw.packets.settings import SettingChange

    if op is not None:
        key, *items = words
        if not items:
            raise UsageError(f"what should be {'added to' if op == 'add' else 'removed from'} {key}?")
        return _change([SettingChange(key=key, op=cast("Op", op), value=item) for item in items])
    if len(words) % 2:
        raise UsageError(f"{words[-1][:80]} has no value.", remedy="Give KEY VALUE, or several such pairs.")
    pairs = zip(words[::2], words[1::2], strict=True)
    return _change([SettingChange(key=key, op="set", value=typed_value(find_key(key), text)) for key, text in pairs])


@config.command(short_help="Propose to take keys out of config.toml.")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True, shell_complete=completion.config_keys)
def unset(keys: tuple[str, ...]) -> int:
    """Give each KEY its default again; a KEY such as webhooks.NAME removes that whole table."""
    from coilclaw.packets.settings import SettingChange

    return _change([SettingChange(key=key, op="unset") for key in keys])


def _change(changes: "list[SettingChange]") -> int:
    from coilclaw.runtime.settings import NothingChanges, proposal

    with opened() as app:
        try:
            call = proposal(app, tuple(changes))
        except NothingChanges as error:
            tell(str(error))
            return 0
        return propose(app, call, tuple(changes))


def propose(app: "Runtime", call: "ToolCall", changes: "tuple[SettingChange, ...]") -> int:
    """Carry a change of settings through the gate and say what came of it; the exit code."""
    import asyncio

    from coilclaw.cli.commands.tool import exit_code, run_tool
    from coilclaw.cli.phrases import result_words, waits_for
    from coilclaw.runtime.settings import notes

    outcome = asyncio.run(run_tool(app, call, yes=False, source="gateway"))
    print_wrapped(result_words(outcome.result), err=not outcome.result.success)
    if outcome.pending:
        for note in notes(app, changes):
            print_wrapped(note, err=True)
        print_wrapped(waits_for(app, outcome.action), err=True)
    return exit_code(outcome)


@config.command(short_help="Show every value in force and where it comes from.")
@json_option
def show(as_json: bool) -> None:
    """Show every value in force and where it comes from; secrets are never shown."""
    from coilclaw.config import load, show_config

    loaded = load(here(), os.environ)
    if as_json:
        print_json(show_config(loaded.config, loaded.origins))
        return
    _print_section(show_config(loaded.config), "", loaded.origins)


def _print_section(section: "JsonObject", prefix: str, origins: "dict[str, Origin]") -> None:
    import msgspec

    for name, value in section.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and key not in origins:
            _print_section(value, f"{key}.", origins)
        else:
            tell(f"{key} = {msgspec.json.encode(value).decode()}  # {origins.get(key, 'default')}")
