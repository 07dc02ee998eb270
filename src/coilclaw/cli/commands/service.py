"""coilclaw service."""

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coilclaw.cli.open_home import here
from coilclaw.cli.output import counted, json_option, print_json, print_wrapped, tell
from coilclaw.cli.systemd_unit import (
    COMMANDS,
    EVOLVE,
    NAME,
    check_environment,
    environment_file,
    is_ours,
    unit_file,
    unit_text,
)
from coilclaw.packets.errors import ToolError, UsageError

if TYPE_CHECKING:
    from coilclaw.sandbox.system import Ran

WITHOUT = (
    "Run `coilclaw up` in a terminal that stays open, such as tmux; or sign in as this user where systemd runs,"
    " or have "
    "root run `loginctl enable-linger USER` first."
)


@click.group()
@click.option("--evolve", is_flag=True, help="The service of `coilclaw evolve up`, beside that of `coilclaw up`.")
@click.pass_context
def service(context: click.Context, evolve: bool) -> None:
    """Run `coilclaw up` as a service of this user, started at login and again after a crash. Linux only (systemd).

    With --evolve, as in `coilclaw service --evolve install`, it is `coilclaw evolve up`.
    """
    must_be_linux(sys.platform)
    context.obj = EVOLVE if evolve else NAME


def _name() -> str:
    """The unit that the command is about."""
    return str(click.get_current_context().obj)


def _file() -> Path:
    return unit_file(os.environ, _name())


def must_be_linux(platform: str) -> None:
    """Refuse elsewhere, with another way."""
    if platform != "linux":
        raise UsageError(
            f"`coilclaw service` works on Linux only: it writes a systemd unit, and this is {platform}.",
            remedy="Run `coilclaw up` in a terminal that stays open, such as tmux.",
        )


@service.command()
@click.option("--print", "only_print", is_flag=True, help="Print the unit without writing it.")
def install(only_print: bool) -> int:
    """Write the systemd user unit and have it started at login."""
    home = here().root
    if not home.is_dir():
        raise UsageError(f"there is no home at {home}.", remedy="Run `coilclaw init` first.")
    if _name() == EVOLVE and not (home / "evolve" / "bot.git").is_dir():
        raise UsageError("there is no repository for the agent yet.", remedy="Run `coilclaw evolve init` first.")
    text = unit_text(_program(), home, _name())
    if only_print:
        tell(text, nl=False)
        return 0
    check_environment(home)
    file = _file()
    _write(file, text)
    print_wrapped(f"Wrote {file}: runs `{_program()} {COMMANDS[_name()]}` with COILCLAW_HOME={home}.")
    print_wrapped(f"The service does not see this shell's variables: store keys with `coilclaw secret set`, or in"
               f" {environment_file(home)} (mode 0600).")  # fmt: skip
    trouble = _no_session()
    if trouble:
        print_wrapped(f"The service is not enabled: {trouble} {WITHOUT}", err=True)
        return 0
    _systemctl("daemon-reload")
    _systemctl("enable", _name())
    print_wrapped("It starts when you log in; `loginctl enable-linger` lets it run without a login. Start it now:"
               f" `{_words('start')}`.")  # fmt: skip
    return 0


@service.command()
def start() -> int:
    """Start the service now."""
    _must_be_ready()
    _systemctl("start", _name())
    first = "`coilclaw pair` shows a code for the first device"
    if _name() == EVOLVE:
        first = "`coilclaw evolve status` shows what it does"
    tell(f"Started. {first}, `{_words('logs')}` shows its log.")
    return 0


@service.command()
@click.option("--sessions", is_flag=True, help="Also end every coding session; otherwise they go on.")
def stop(sessions: bool) -> int:
    """Stop the service; what runs may finish within ten seconds. Coding sessions go on."""
    _must_be_ready()
    _systemctl("stop", _name())
    tell("Stopped.")
    if sessions:
        tell(f"{counted(_end_sessions(), 'coding session')} ended.")
    return 0


def _end_sessions() -> int:
    """End every keeper of this home; the next server records how each ended."""
    import asyncio

    from coilclaw.cli.open_home import here
    from coilclaw.sandbox.keepers import Keepers

    return asyncio.run(Keepers(here().root / "run").end_all(forget=False))


@service.command()
@json_option
def status(as_json: bool) -> int:
    """Say whether the service runs (exit 1 when it does not)."""
    installed = _file().is_file()
    shown: dict[str, str] = {}
    if installed:
        _must_be_ready()
        names = "ActiveState,SubState,MainPID,NRestarts,UnitFileState,ActiveEnterTimestamp"
        lines = _systemctl("show", _name(), f"--property={names}").out.splitlines()
        shown = dict(line.split("=", 1) for line in lines if "=" in line)
    running = shown.get("ActiveState") == "active"
    if as_json:
        number = {
            key: int(shown.get(name, "0") or "0") for key, name in (("pid", "MainPID"), ("restarts", "NRestarts"))
        }
        state, enabled = shown.get("ActiveState", ""), shown.get("UnitFileState") == "enabled"
        print_json({"installed": installed, "running": running, "state": state, "enabled": enabled, **number})
    elif not installed:
        tell(f"Not installed. Run `{_words('install')}`.")
    elif running:
        tell(f"Running since {shown.get('ActiveEnterTimestamp') or '?'}, process {shown.get('MainPID')},"
                   f" restarted {shown.get('NRestarts', '0')} times.")  # fmt: skip
    else:
        tell(f"Not running ({shown.get('ActiveState', '?')}, {shown.get('SubState', '?')}).")
    return 0 if running else 1


@service.command()
@click.option("--follow", "-f", is_flag=True, help="Keep printing new lines.")
@click.option("--lines", "-n", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Number of lines.")
def logs(follow: bool, lines: int) -> int:
    """Show what the service has said."""
    from coilclaw.sandbox.system import show_system

    sys.stdout.flush()
    more = ("--follow",) if follow else ()
    code = show_system("journalctl", "--user", f"--unit={_name()}", f"--lines={lines}", "--no-pager", *more)
    if code:
        raise ToolError(f"journalctl ended with {code}.", remedy=f"Does this user have a journal? {WITHOUT}")
    return 0


@service.command(short_help="Stop the service and remove its unit; the home is kept.")
def uninstall() -> int:
    """Stop the service and take the unit away; the home is left alone."""
    file = _file()
    if not file.is_file():
        tell("Not installed.")
        return 0
    _must_be_ours(file)
    reachable = not _no_session()
    if reachable:
        _systemctl("disable", "--now", _name())
    file.unlink()
    (file.parent / "default.target.wants" / _name()).unlink(missing_ok=True)
    if reachable:
        _systemctl("daemon-reload")
    tell(f"Removed {file}.")
    return 0


def _words(command: str) -> str:
    return f"coilclaw service {'--evolve ' if _name() == EVOLVE else ''}{command}"


def _program() -> Path:
    """This very program, by its absolute path."""
    beside = Path(sys.executable).with_name("coilclaw")
    found = str(beside) if beside.is_file() else shutil.which(sys.argv[0])
    if found is None:
        raise UsageError(
            "the program `coilclaw` was not found next to its interpreter.",
            remedy="Install it, then run it by its name.",
        )
    return Path(os.path.abspath(found))  # noqa: PTH100  links are kept: upgrades move what they point to


def _must_be_ours(file: Path) -> None:
    if not is_ours(file):
        raise UsageError(f"{file} was not written by `coilclaw service`.", remedy="Move it away first.")


def _write(file: Path, text: str) -> None:
    if file.exists():
        _must_be_ours(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f".{file.name}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.chmod(0o644)
    fresh.replace(file)


def _no_session() -> str:
    """Why the user's service manager cannot be reached; nothing when it can."""
    from coilclaw.sandbox.system import run_system

    try:
        ran = run_system("systemctl", "--user", "show", "--property=Version")
    except ToolError as error:
        return error.message
    said = ran.error.splitlines()
    return f"this user's systemd cannot be reached ({said[0] if said else ran.code})." if ran.code else ""


def _must_be_ready() -> None:
    if not _file().is_file():
        raise UsageError("the service is not installed.", remedy=f"Run `{_words('install')}`.")
    trouble = _no_session()
    if trouble:
        raise ToolError(trouble, remedy=WITHOUT)


def _systemctl(*args: str) -> "Ran":
    from coilclaw.sandbox.system import run_system

    ran = run_system("systemctl", "--user", *args)
    if ran.code:
        said = ran.error.splitlines()
        raise ToolError(
            f"systemctl {args[0]} failed: {said[0] if said else ran.code}.",
            remedy=f"`{_words('logs')}` may say more.",
        )
    return ran
