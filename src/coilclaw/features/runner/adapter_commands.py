"""coilclaw adapter: the coding programs that sessions can run, and which version."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, print_json, print_result, print_rows, tell
from coilclaw.features.runner.adapters.known import CLIS

if TYPE_CHECKING:
    from coilclaw.features.runner.adapters.contract import Adapter
    from coilclaw.features.runner.adapters.versions import InstalledVersion
    from coilclaw.packets.canonical import Json
    from coilclaw.runtime import Runtime

_NAME = click.argument("name", type=click.Choice(CLIS))


@click.group()
def adapter() -> None:
    """Coding programs: install, prove, choose and roll back the versions that sessions run."""


@adapter.command(short_help="Install a program that npm downloaded, and prove it.")
@_NAME
@click.option("--from", "source", required=True, metavar="FOLDER", help="Where npm installed it: its --prefix.")
def install(name: str, source: str) -> int:
    """Install a program from FOLDER, where npm downloaded it; prove it, and use it if it is the first.

    First run `npm install --ignore-scripts --prefix FOLDER PACKAGE@VERSION`; `coilclaw adapter list` names package and
    version. The files are copied and their hash is kept.
    """
    with opened() as app:
        code = _change(app, name, "install", str(Path(source).resolve()))
        if code == 0 and not _versions(app).history(_adapter(name)):
            newest = _versions(app).installed(_adapter(name))[-1]
            return _change(app, name, "use", newest.version)
        return code


@adapter.command("list", short_help="List programs and their versions.")
@json_option
def list_all(as_json: bool) -> None:
    """List the programs, the versions that are installed, and which one new sessions get."""
    with opened() as app:
        rows = [row for name in CLIS for row in _rows(app, _adapter(name))]
    if as_json:
        print_json([dict(zip(("program", "version", "state", "package"), row, strict=True)) for row in rows])
        return
    print_rows(rows, ("program", "version", "state", "package"), empty="")


def _rows(app: "Runtime", adapter: "Adapter") -> list[tuple[str, str, str, str]]:
    package = f"{adapter.package}@{adapter.version}"
    found = _versions(app).installed(adapter)
    if not found:
        return [(adapter.name, "", "not installed", package)]
    from coilclaw.features.runner.adapters.canary import NEEDED, canary_of

    current, canary = next(iter(_versions(app).history(adapter)), ""), canary_of(_versions(app), adapter)
    trial = "" if canary is None else f"on trial ({len(canary.good)} of {NEEDED})"
    return [
        (adapter.name, each.version,
         f"{trial}, proved" if canary is not None and each.version == canary.version else _state(each, current),
         package)
        for each in found
    ]  # fmt: skip


def _state(version: "InstalledVersion", current: str) -> str:
    proved = "proved" if version.sound else "failed its proof" if version.proved else "not proved"
    return f"in use, {proved}" if version.version == current else proved


@adapter.command("try", short_help="Prove a version: what its hook allows runs, nothing else does.")
@_NAME
@click.argument("version", default="")
def try_out(name: str, version: str) -> int:
    """Prove a version in a box, with a scripted model: only what the hook allows may run."""
    with opened() as app:
        proved = asyncio.run(_versions(app).try_out(_adapter(name), version))
    for each in proved.proved:
        told = "was not asked" if not each.asked else "ran" if each.ran else "did not run"
        where = "without a screen, " if each.mode == "structured" else ""
        tell(f"{where}{each.manner}: the command {told}{'' if each.holds else ', which is WRONG'}.")
    print_result(
        f"{name} {proved.version} {'does as its hook says' if proved.sound else 'fails'}.", success=proved.sound
    )
    return 0 if proved.sound else 1


@adapter.command(short_help="Put a version on trial, in some of the sessions without a screen.")
@_NAME
@click.argument("version")
def canary(name: str, version: str) -> int:
    """Put VERSION on trial, if it passed its proof: every fifth session without a screen gets it.

    Once five of them ended well, it is the default. If one fails, it is taken back at once.
    """
    with opened() as app:
        return _change(app, name, "canary", version)


@adapter.command(short_help="Choose the version for new sessions.")
@_NAME
@click.argument("version")
def use(name: str, version: str) -> int:
    """Use VERSION for new sessions, if it passed its proof. Running sessions keep theirs."""
    with opened() as app:
        return _change(app, name, "use", version)


@adapter.command(short_help="Go back to the previous version for new sessions.")
@_NAME
def rollback(name: str) -> int:
    """Go back to the previous version for new sessions."""
    with opened() as app:
        return _change(app, name, "rollback", "")


def _adapter(name: str) -> "Adapter":
    from coilclaw.features.runner.adapters.known import adapter_of

    found = adapter_of(name)  # pyright: ignore[reportArgumentType]  # one of CLIS
    assert found is not None  # noqa: S101 - these are programs
    return found


def _versions(app: "Runtime"):
    from coilclaw.features.runner.adapters.versions import Versions

    return Versions(app)


def _change(app: "Runtime", name: str, change: str, value: str) -> int:
    """Through the gate, so that there is a receipt."""
    from coilclaw.cli.commands.tool import exit_code, run_tool
    from coilclaw.cli.phrases import result_words, waits_for
    from coilclaw.features.runner.adapter_tool import CHANGE
    from coilclaw.packets.action import ToolCall

    args: dict[str, Json] = {"name": name, "change": change, "value": value}
    outcome = asyncio.run(run_tool(app, ToolCall.of(CHANGE, args), yes=True, source="gateway"))
    if outcome.pending:
        tell(waits_for(app, outcome.action), err=True)
    else:
        print_result(result_words(outcome.result), success=outcome.result.success)
    return exit_code(outcome)
