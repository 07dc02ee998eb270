"""shell: one command line, run in a box and nowhere else."""

from typing import Annotated

import msgspec

from coilclaw.packets.action import untrusted
from coilclaw.packets.box import BoxResult
from coilclaw.packets.errors import ToolError
from coilclaw.packets.labels import join_labels
from coilclaw.packets.ports import Context, ToolOutput, Touches
from coilclaw.packets.text import duration
from coilclaw.tools.declare import tool

SHOWN = 64 * 1024
LONGEST_SECONDS = 1800
CODES = {
    "timeout": "TOOL_TIMEOUT",
    "stopped": "ESTOP",
    "output_limit": "OUTPUT_LIMIT",
    "memory_limit": "MEMORY_LIMIT",
    "cpu_limit": "CPU_LIMIT",
    "process_limit": "PROCESS_LIMIT",
    "write_limit": "WRITE_LIMIT",
    "left_behind": "LEFT_BEHIND",
    "signalled": "SIGNALLED",
    "exited": "EXIT_NONZERO",
}

NO_NETWORK = "[This box has no network. A command that needs hosts must name them in `domains`.]"

_Domain = Annotated[str, msgspec.Meta(pattern=r"^([A-Za-z0-9.-]+|https?://[A-Za-z0-9.-]+(:[0-9]+)?)$", max_length=270)]


class ShellArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of shell."""

    command: Annotated[
        str,
        msgspec.Meta(
            description="A command line for /bin/sh, which is not bash. It starts in the workspace each time: only"
            " files there stay, not /tmp, variables or `cd`. For files prefer the file tools, which ask less and show"
            " what they change. Unless it names attachments, or only reads, that folder is empty for it.",
            min_length=1,
        ),
    ]
    domains: Annotated[
        tuple[_Domain, ...],
        msgspec.Meta(
            description="Allowed hosts it must reach over https, as in example.com, or as scheme://host:port; none: no"
            " network.",
            max_length=8,
        ),
    ] = ()
    timeout_seconds: (
        Annotated[
            int,
            msgspec.Meta(
                description="How long it may run; about two minutes by default.",
                ge=1,
                le=LONGEST_SECONDS,
            ),
        ]
        | None
    ) = None
    background: Annotated[
        bool,
        msgspec.Meta(
            description="Do not wait: gives a handle for command_status and command_stop, and up to 30 minutes. Other"
            " commands cannot reach a server started here, since each has a box of its own: to try one, start it with &"
            " and call it in the same command."
        ),
    ] = False


def _text(data: bytes) -> str:
    shown = data[:SHOWN].decode("utf-8", "replace")
    return shown + (f"\n… {len(data) - SHOWN} more bytes" if len(data) > SHOWN else "")


def _host(domain: str) -> str:
    return domain.rpartition("://")[2].partition(":")[0].lower()


def _first(command: str) -> str:
    """The beginning of a command, with a note if there is more."""
    line, _, rest = command.strip().partition("\n")
    shown = line if len(line) <= 120 else f"{line[:120]}…"
    more = len([each for each in rest.split("\n") if each.strip()])
    return f"{shown} … ({more} more lines)" if more else shown


def _reach(domains: tuple[str, ...]) -> str:
    return f" with a way to {', '.join(domains)}" if domains else ""


def _seconds(args: ShellArgs) -> int | None:
    """The call's timeout, if it sets one; a background command gets the maximum."""
    return LONGEST_SECONDS if args.background and args.timeout_seconds is None else args.timeout_seconds


def _time(args: ShellArgs) -> str:
    seconds = _seconds(args)
    return f"{' in the background' if args.background else ''}{f' for up to {duration(seconds)}' if seconds else ''}"


def _missed_network(result: BoxResult) -> bool:
    """Whether a command says that it found no way out."""
    import re

    said = re.compile(
        rb"ENOTCACHED|ENOTFOUND|EAI_AGAIN|[Cc]ould not resolve|[Nn]ame resolution|[Nn]ame or service not known"
        rb"|Network is unreachable|No matching distribution found|network (was|is) disabled|in offline mode"
        rb"|--offline was specified"
    )
    return any(said.search(data) for data in (result.stdout, result.stderr))


def _report(args: ShellArgs, result: BoxResult) -> str:
    parts = [_text(result.stdout)]
    if result.stderr:
        parts.append("[stderr]\n" + _text(result.stderr))
    if result.end != "exited":
        parts.append(f"[{result.reason or result.end}]")
    elif result.exit_code:
        parts.append(f"[exit {result.exit_code}]")
    if not args.domains and (result.end != "exited" or result.exit_code) and _missed_network(result):
        parts.append(NO_NETWORK)
    if result.hint:
        parts.append(f"[{result.hint}]")
    return "\n".join(part for part in parts if part) or "(no output)"


@tool(
    ShellArgs,
    effect="WRITE",
    destination="workspace",
    idempotent=False,
    always_ask=False,
    touches=lambda args: Touches(
        command=args.command, domains=args.domains, seconds=_seconds(args), background=args.background
    ),
    summary=lambda args: f"Run `{_first(args.command)}`{_reach(args.domains)}{_time(args)}.",
)
async def shell(args: ShellArgs, context: Context) -> ToolOutput:
    """Run a shell command in the workspace, boxed: read-only system, limits, no network beyond the domains granted."""
    if context.run_command is None:
        raise ToolError("no box was granted to this call.", code="NOT_GRANTED", begun=False)
    result = await context.run_command(args.command)
    success = result.end == "exited" and result.exit_code == 0
    return ToolOutput(
        text=_report(args, result),
        label=join_labels(untrusted(_host(domain)) for domain in args.domains),
        success=success,
        code="" if success else CODES[result.end],
        exit=result.exit_code,
        stdout=_text(result.stdout),
        stderr=_text(result.stderr),
        metadata={
            "seconds": round(result.seconds, 3),
            "tier": result.tier,
            "end": result.end,
            **({"lendable": result.lendable} if result.lendable else {}),
        },
    )
