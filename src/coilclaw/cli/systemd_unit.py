"""The systemd user units that run `coilclaw up` and `coilclaw evolve up`: their text, and what forbids writing it."""

import stat
from collections.abc import Mapping
from pathlib import Path

from coilclaw.packets.errors import UsageError

NAME = "coilclaw.service"
EVOLVE = "coilclaw-evolve.service"
COMMANDS = {NAME: "up", EVOLVE: "evolve up"}
MARK = "# Written by `coilclaw service install`"

_TEXT = """\
{mark}; changes are lost when that is run again.
# Put overrides into {name}.d/*.conf and keys into {environment} (mode 0600).

[Unit]
Description={description}
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=exec
ExecStart={program} {command}
Environment={home}
EnvironmentFile=-{environment}
Restart=on-failure
RestartSec=2
# Exit code 2 is a usage or configuration error: a restart would not help.
RestartPreventExitStatus=2
{ending}
TimeoutStopSec=30
# A box that runs out of memory must not take the service with it.
OOMPolicy=continue
LimitCORE=0
UMask=0077
# Commands run in boxes made of namespaces and mounts of their own, stricter than a unit's. Options that forbid
# namespaces (RestrictNamespaces=), cover parts of /proc (ProtectKernelTunables=, ProtectProc=) or take system calls
# away (SystemCallFilter=, RestrictSUIDSGID=) keep boxes from being made; NoNewPrivileges=, which they imply, does so
# where bwrap is installed set-uid.

[Install]
WantedBy=default.target
"""


_ENDINGS = {
    NAME: "# Coding sessions outlive the server: only it is stopped here. Its boxes end with it by themselves.\n"
    "KillMode=process",
    EVOLVE: "# It ends its watcher and its agent itself; what is left after that is killed.\nKillMode=mixed",
}
_DESCRIPTIONS = {NAME: "CoilClaw, an agent for one owner", EVOLVE: "CoilClaw's agent that works on itself"}
_MISREAD = frozenset("\"'*?[]\\")


def unit_file(environ: Mapping[str, str], name: str = NAME) -> Path:
    """Where systemd looks for units of this user."""
    kept = environ.get("XDG_CONFIG_HOME", "")
    folder = Path(kept) if kept.startswith("/") else Path(environ.get("HOME") or Path.home()) / ".config"
    return folder / "systemd" / "user" / name


def environment_file(home: Path) -> Path:
    """Where the owner may put variables for the service."""
    return home / "environment"


def unit_text(program: Path, home: Path, name: str = NAME) -> str:
    """The unit. Nothing secret is in it: only where things are."""
    for path in (program, home):
        _check(path)
    return _TEXT.format(
        mark=MARK,
        name=name,
        description=_DESCRIPTIONS[name],
        command=COMMANDS[name],
        ending=_ENDINGS[name],
        program=_quoted(str(program)),
        home=_quoted(f"COILCLAW_HOME={home}"),
        environment=_plain(str(environment_file(home))),
    )


def is_ours(file: Path) -> bool:
    """Whether a unit that is there was written by us, so that it may be written anew or taken away."""
    return file.read_text(encoding="utf-8", errors="replace").startswith(MARK)


def check_environment(home: Path) -> None:
    """The file with keys is for its owner's eyes alone."""
    file = environment_file(home)
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
    except FileNotFoundError:
        return
    if mode & 0o077:
        raise UsageError(f"others may read {file} (mode {mode:04o}).", remedy=f"Run `chmod 600 {file}`.")


def _check(path: Path) -> None:
    """What systemd would read as something else than a path."""
    text = str(path)
    if not path.is_absolute() or not text.isprintable() or set(text) & _MISREAD or text != text.strip():
        raise UsageError(
            f"systemd unit files cannot express the path {text!r}.",
            remedy="Use an absolute path without quotes, backslashes, wildcards or line breaks.",
        )


def _plain(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(text: str) -> str:
    return f'"{_plain(text)}"' if " " in text else _plain(text)
