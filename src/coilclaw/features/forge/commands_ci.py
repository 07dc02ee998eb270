"""coilclaw ci: what the jobs of workflows run. Thin: a home for the run, what was handed over, one piece of work."""

import asyncio
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coilclaw.cli.output import print_line, tell
from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.features.forge.actions.handover import Handed
    from coilclaw.features.forge.actions.run_home import RunPlaces
    from coilclaw.runtime import Runtime


@click.group()
def ci() -> None:
    """What the workflows in GitHub Actions run; see docs/github.md. Works in such a run only.

    Nobody can be asked there, so whatever would need the owner is not done.
    """
    if os.environ.get("GITHUB_ACTIONS") == "true":
        # The runner obeys lines like `::set-output::` in what a step prints, whoever wrote them. Not after this one.
        print_line(f"::stop-commands::{secrets.token_hex(16)}")


@ci.command()
def intake() -> None:
    """Make a job of the words that were handed in, once for each key."""
    from coilclaw.features.forge.actions.ci_dispatch import take_in

    with _home() as (_, app):
        key = _given("CI_KEY", "") or f"run:{_given('GITHUB_RUN_ID')}"
        tell(asyncio.run(take_in(app, _given("CI_WORDS"), _given("CI_CHANNEL", "actions"), key)))


@ci.command()
def dispatch() -> None:
    """Start what cron/jobs.json says is due, each run once."""
    from coilclaw.features.forge.actions.ci_dispatch import dispatch as start_due

    with _home() as (_, app):
        tell(asyncio.run(start_due(app, app.clock())))


@ci.command()
def plan() -> None:
    """Decide whether a job may begin, and have it planned."""
    from coilclaw.features.forge.actions.ci_work import make_plan

    with _home() as (places, app):
        into = places.folder("plan")
        asyncio.run(make_plan(app, _given("CI_JOB_ID"), into))
    _hand_on(into)


@ci.command()
def fetch() -> None:
    """Fetch what the plan names, through the airlock."""
    from coilclaw.features.forge.actions.ci_work import fetch_all, read_run_plan

    with _home() as (places, app):
        planned = read_run_plan(_taken(places, "plan"))
        into = places.folder("fetch")
        asyncio.run(fetch_all(app, planned, into))
    _keep_chain(places, "fetch", into)
    _hand_on(into)


@ci.command()
def analyse() -> None:
    """Run the job's command over the tree, in a closed container.

    It has no network, no secrets and no writable disk.
    """
    from coilclaw.features.forge.actions.ci_work import analyse_tree, read_run_plan
    from coilclaw.features.forge.actions.run_home import run_places

    places = run_places(os.environ)
    handed = _taken(places, "plan")
    into = places.folder("analyse")
    analyse_tree(read_run_plan(handed), handed, _taken(places, "fetch"), places.temp, into)
    _hand_on(into)


@ci.command()
def author() -> None:
    """Run the job, and hand on what it would change."""
    from coilclaw.features.forge.actions.ci_work import read_run_plan, write_change

    with _home() as (places, app):
        planned = read_run_plan(_taken(places, "plan"))
        fetched = _taken(places, "fetch")
        into = places.folder("author")
        asyncio.run(write_change(app, planned, fetched, _taken(places, "analyse"), into))
    _keep_chain(places, "author", into)
    (into / "chain-fetch.json").write_bytes(fetched.read("chain-fetch.json"))
    _hand_on(into)


@ci.command()
def propose() -> None:
    """Open or update the pull request of a run, or of a revert."""
    from coilclaw.features.forge.actions.ci_propose import propose as open_pull
    from coilclaw.features.forge.actions.ci_propose import propose_revert

    with _home() as (places, app):
        if commit := _given("CI_REVERT", ""):
            tell(asyncio.run(propose_revert(app, commit)))
        else:
            tell(asyncio.run(open_pull(app, _taken(places, "author"), _given("GITHUB_RUN_ID", ""))))


@ci.command()
def check() -> int:
    """Check everything that is checked out, with your own checks.

    Those run in containers. Exit code 1 when one fails.
    """
    from coilclaw.features.forge.actions.ci_deploy import own_check_faults, tree_faults

    with _home() as (places, app):
        return _said([*tree_faults(app), *own_check_faults(app, places.checkout)])


@ci.command()
def deploy() -> int:
    """Try what was merged, and say on GitHub how it went. Exit code 1 when it cannot be used."""
    from coilclaw.features.forge.actions.ci_deploy import deploy as try_it

    with _home() as (_, app):
        return _said(asyncio.run(try_it(app, _given("GITHUB_SHA"))))


def _said(faults: list[str]) -> int:
    for fault in faults:
        print_line(fault, style="red")
    print_line(f"{len(faults)} found." if faults else "Nothing was found.")
    return int(bool(faults))


@contextmanager
def _home() -> "Iterator[tuple[RunPlaces, Runtime]]":
    from coilclaw.features.forge.actions.run_home import run_home, run_places

    places = run_places(os.environ)
    with run_home(places) as app:
        yield places, app


def _given(name: str, default: str | None = None) -> str:
    value = os.environ.get(name, default)
    if value is None or (default is None and not value):
        raise UsageError(f"{name} is not set.")
    return value


def _taken(places: "RunPlaces", name: str) -> "Handed":
    """What another job handed over, if it is exactly what that job said."""
    from coilclaw.features.forge.actions.handover import take

    return take(places.temp / name, _given(f"CI_{name.upper()}"))


def _keep_chain(places: "RunPlaces", part: str, into: Path) -> None:
    """The chain of this job's home, which was sealed when it was closed."""
    import msgspec

    from coilclaw.config import Home
    from coilclaw.ledger.heads import SigningKey
    from coilclaw.ledger.run_evidence import run_chain
    from coilclaw.store.read_connection import reading_apart

    home = Home(places.temp / "home")
    with reading_apart(home.database) as db:
        chain = run_chain(db, SigningKey(home.keys_dir), part)
    (into / f"chain-{part}.json").write_bytes(msgspec.json.encode(chain))


def _hand_on(into: Path) -> None:
    """Seal what was made, and say the hash of its manifest as the job's output."""
    from coilclaw.features.forge.actions.handover import seal

    digest = seal(into)
    if place := os.environ.get("GITHUB_OUTPUT"):
        with Path(place).open("a", encoding="utf-8") as output:
            output.write(f"manifest={digest}\n")
    tell(f"{into.name}: {digest}")
