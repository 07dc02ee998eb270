"""coilclaw repo: the repositories that coding sessions work on."""

import asyncio
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, print_json, print_result, print_rows, tell
from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.packets.settings import SettingChange
    from coilclaw.runtime import Runtime

_GITHUB = re.compile(r"[A-Za-z0-9](?:-?[A-Za-z0-9]){0,38}/[A-Za-z0-9_.-]{1,100}")


@click.group()
def repo() -> None:
    """Name the repositories that coding sessions work on.

    A session works in a checkout of its own; the repository itself is only read. Projects need no entry.
    """


@repo.command(short_help="Add a repository: a folder, or one on GitHub.")
@click.argument("place", metavar="PATH|OWNER/NAME")
@click.option("--name", default="", help="What it is called; otherwise the name of its folder, or its name on GitHub.")
@click.option("--token", default="", metavar="NAME", help="The secret with a token that may read it, for GitHub.")
@click.option("--copy", multiple=True, metavar="FILE", help="A file of the folder to copy into each checkout, as .env.")
@click.option("--setup", default="", metavar="COMMAND", help="A command to run in each new checkout, without network.")
def add(place: str, name: str, token: str, copy: tuple[str, ...], setup: str) -> int:
    """Add a repository to config.toml. It asks you like every change of the configuration.

    An existing folder is meant where there is one; otherwise OWNER/NAME is a repository on GitHub, fetched when the
    first session starts.
    """
    with opened() as app:
        return add_repository(app, place, name=name, token=token, copy=copy, setup=setup)


def add_repository(
    app: "Runtime", place: str, *, name: str = "", token: str = "", copy: tuple[str, ...] = (), setup: str = ""
) -> int:
    """Propose the table of a repository, ask the owner, and say what came of it; the exit code."""
    from coilclaw.cli.commands.tool import exit_code, run_tool
    from coilclaw.cli.phrases import result_words, waits_for
    from coilclaw.config.tables import REPOS, TABLES
    from coilclaw.features.runner.sources import git_dir_of
    from coilclaw.runtime.settings import proposal

    folder = os.path.realpath(Path(place).expanduser())
    on_github = not Path(folder).exists() and _GITHUB.fullmatch(place) is not None
    called = name or (place.split("/")[1] if on_github else Path(folder).name)
    if not TABLES[REPOS].names(called):
        raise UsageError(f"{called[:80]!r} cannot be a name: {TABLES[REPOS].naming()}.", remedy="Use --name.")
    if called in app.config.repos:
        raise UsageError(f"there is a repository {called} already.", remedy="Choose another name with --name.")
    if not on_github:
        git_dir_of(folder)
    keys = {"github": place} if on_github else {"path": folder}
    keys |= {key: value for key, value in (("token_env", token), ("setup", setup)) if value}
    outcome = asyncio.run(run_tool(app, proposal(app, _table(called, keys, copy)), yes=False, source="gateway"))
    print_result(result_words(outcome.result), success=outcome.result.success)
    if outcome.pending:
        tell(waits_for(app, outcome.action), err=True)
    return exit_code(outcome)


def _table(name: str, keys: dict[str, str], copy: tuple[str, ...]) -> "tuple[SettingChange, ...]":
    from coilclaw.packets.settings import SettingChange

    changes = [SettingChange(key=f"repos.{name}.{key}", value=value) for key, value in keys.items()]
    return (*changes, *([SettingChange(key=f"repos.{name}.copy", value=[*copy])] if copy else []))


@repo.command("list", short_help="List repositories and projects.")
@json_option
def list_all(as_json: bool) -> None:
    """List what sessions can work on: repositories of config.toml, and projects."""
    from coilclaw.features.runner.checkouts import Checkouts
    from coilclaw.features.runner.sources import repo_views

    with opened() as app:
        found = repo_views(app, Checkouts(app).borrowers())
    if as_json:
        print_json(found)
        return
    rows = [(each.name, each.provider, each.place, str(each.checkouts), each.fault or "yes") for each in found]
    empty = "There are no repositories. Add one with `coilclaw repo add PATH`."
    print_rows(rows, ("repository", "kind", "where", "checkouts", "usable"), empty=empty)


@repo.command(short_help="Remove cached copies that nobody needs.")
def prune() -> None:
    """Remove cached copies of repositories that no checkout borrows from.

    The copy of a repository that is still listed comes back with the next session.
    """
    from coilclaw.features.runner.checkouts import Checkouts

    with opened() as app:
        pruned = asyncio.run(Checkouts(app).prune())
    tell(f"Removed {pruned.repositories} cached repositories, {pruned.freed_bytes >> 20} MiB.")
