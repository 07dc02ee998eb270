"""coilclaw config."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from coilclaw.cli.open_home import here
from coilclaw.cli.output import json_option, print_json, tell

if TYPE_CHECKING:
    from coilclaw.config import Origin
    from coilclaw.packets.canonical import JsonObject


@click.group()
def config() -> None:
    """Validate or show the configuration."""


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
