"""coilclaw mcp and coilclaw plugin: let outside programs in, look at them, switch them off."""

import asyncio
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, moment, print_json, print_result, print_rows, tell
from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from coilclaw.config.mcp import McpServer
    from coilclaw.features.guests.offer import ToolClass
    from coilclaw.features.guests.owner_guests import OwnerGuests
    from coilclaw.features.guests.views import GuestView
    from coilclaw.gate.conveyor import Outcome
    from coilclaw.packets.action import ToolCall
    from coilclaw.runtime import Runtime

_CLASSES = (
    click.option("--reads", default="", metavar="TOOLS", help="Tools that only read, separated by commas; * for all."),
    click.option("--writes", default="", metavar="TOOLS", help="Tools that change something."),
    click.option("--sends", default="", metavar="TOOLS", help="Tools that tell somebody something."),
)


@click.command(short_help="Let in an MCP server.")
@click.argument("name")
@click.argument("command", nargs=-1)
@click.option("--url", default="", help="The address of a server that is reached over HTTP, instead of a command.")
@click.option("--env", multiple=True, metavar="NAME", help="A secret that it gets as an environment variable.")
@click.option("--header", multiple=True, metavar="HEADER=NAME", help="A header, and the secret that is its value.")
@click.option("--oauth", multiple=True, metavar="HOST", help="A host to sign in at, for --url; the browser opens it.")
@click.option("--domain", multiple=True, help="A host that a boxed server may reach; list it as allowed too.")
@click.option("--read", multiple=True, metavar="FOLDER", help="A folder outside the workspace that it may read.")
@click.option("--write", multiple=True, metavar="FOLDER", help="A folder outside the workspace that it may change.")
@click.option(
    "--json", "json_file", type=click.Path(), help='A file in the common form {"mcpServers": …}; - for stdin.'
)
@_CLASSES[0]
@_CLASSES[1]
@_CLASSES[2]
def add(
    name: str, command: tuple[str, ...], url: str, env: tuple[str, ...], header: tuple[str, ...],
    oauth: tuple[str, ...], domain: tuple[str, ...], read: tuple[str, ...], write: tuple[str, ...],
    json_file: str | None, reads: str, writes: str, sends: str,
) -> int:  # fmt: skip
    """Let in an MCP server: `coilclaw mcp add NAME -- PROGRAM ARGUMENTS…`, or with --url.

    It is started once in its box to see what it offers. Then you are shown all of it, and say what each tool does:
    reads, writes or sends. Nothing is used before your yes.
    """
    from coilclaw.config.mcp import McpServer
    from coilclaw.features.guests.program import absolute_command

    way = "--json" if json_file is not None else "--url" if url else "a command"
    ways = {"--url": ("--json",), "a command": ("--json", "--url")}
    ways |= dict.fromkeys(("--header", "--oauth"), ("--json", "a command"))
    ways |= dict.fromkeys(("--env", "--domain", "--read", "--write"), ("--json", "--url"))
    given = {"--url": url, "a command": command, "--header": header, "--oauth": oauth}
    given |= {"--env": env, "--domain": domain, "--read": read, "--write": write}
    for option, refused in ways.items():
        if given[option] and way in refused:
            raise UsageError(f"{option} does not go with {way}.", remedy="Leave one of them out.")
    if json_file is not None:
        from coilclaw.features.guests.common_form import read_common_form

        server, left_out = read_common_form(name, _text(json_file))
        for line in left_out:
            tell(f"Left out: {line}", err=True)
    elif url:
        headers = dict(_pair(each) for each in header)
        server = McpServer(kind="http", url=url, headers=headers, oauth_hosts=oauth)
    else:
        if not command:
            raise UsageError("say how to start it.", remedy=f"coilclaw mcp add {name} -- PROGRAM ARGUMENTS…, or --url.")
        words = absolute_command(command, str(Path.cwd()))
        folders = [tuple(os.path.realpath(Path(each).expanduser()) for each in given) for given in (read, write)]
        server = McpServer(command=words, env=env, domains=domain, read=folders[0], write=folders[1])
    with opened() as app:
        server = _guests(app).with_kept_settings(name, server)
        if server.oauth_hosts:
            code = _sign_in_first(app, name, server)
            return code or _let_in(app, name, (reads, writes, sends), None)
        return _let_in(app, name, (reads, writes, sends), server)


def _sign_in_first(app: "Runtime", name: str, server: "McpServer") -> int:
    """Add the table, then sign in: before that the server says nothing about itself."""
    from coilclaw.features.guests.signing_in import is_signed_in

    guests = _guests(app)
    if app.config.mcp.servers.get(name) != server:
        code = _told(app, _carry(app, guests.add_call(name, server)), again=True)
        if code:
            return code
        app.refresh()
    return 0 if is_signed_in(app, name, server) else _sign_in(app, name, paste=False, again=True)


@click.command(short_help="Approve a server from config.toml, or one that changed.")
@click.argument("name")
@_CLASSES[0]
@_CLASSES[1]
@_CLASSES[2]
def approve(name: str, reads: str, writes: str, sends: str) -> int:
    """Look at a server again and approve what it offers now: what changed is shown word by word."""
    with opened() as app:
        return _let_in(app, name, (reads, writes, sends), None)


@click.command("list", short_help="List MCP servers and plugins.")
@json_option
def list_all(as_json: bool) -> None:
    """List every guest: MCP servers and plugins, and which of their tools are let in."""
    with opened() as app:
        found = _guests(app).views()
    if as_json:
        print_json(found)
        return
    rows = [
        (each.name, each.kind, each.state, f"{sum(tool.kind is not None for tool in each.tools)} of {len(each.tools)}",
         moment(each.approved_at) if each.approved_at else "never", each.fault)
        for each in found
    ]  # fmt: skip
    empty = "There are no guests. Add one with `coilclaw mcp add` or `coilclaw plugin install`."
    print_rows(rows, ("guest", "kind", "state", "tools let in", "approved", "last fault"), empty=empty)


@click.command(short_help="Show what a server may do and what it offers.")
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show what a guest may do, its tools, and what changed since you approved it."""
    with opened() as app:
        view = _guests(app).view(name)
    print_json(view) if as_json else _show(view)


@click.command(short_help="Start a server once and list its tools.")
@click.argument("name")
def test(name: str) -> int:
    """Start a server once in its box and list its tools, through the gate; nothing is let in."""
    with opened() as app:
        return _told(app, _carry(app, _guests(app).look_call(name)))


@click.command("sign-in", short_help="Sign in to a server in your browser.")
@click.argument("name")
@click.option("--paste", is_flag=True, help="For a machine without a browser: paste the address it ended at.")
def sign_in(name: str, paste: bool) -> int:
    """Sign in to an http server with OAuth, at the hosts that its table names (`oauth_hosts`)."""
    with opened() as app:
        return _sign_in(app, name, paste=paste)


def _sign_in(app: "Runtime", name: str, *, paste: bool, again: bool = False) -> int:
    """First the browser, then the owner's approval; the exit code."""
    from coilclaw.cli.signing_in import at_the_browser
    from coilclaw.features.guests.signing_in import account_of, begin_sign_in, connect_call

    server = _guests(app).server_to_sign_in(name)
    intro = f"Open this address in your browser to sign in to {name}:"
    at_the_browser(app, account_of(name), partial(begin_sign_in, app, name, server), intro, paste=paste)
    return _told(app, _carry(app, connect_call(app, name, server)), again=again)


def _told(app: "Runtime", outcome: "Outcome", *, again: bool = False) -> int:
    """Say what came of a call; with `again`, that the command goes on once it was approved. The exit code."""
    print_result(outcome.result.output, success=outcome.result.success)
    if outcome.pending:
        from coilclaw.cli.phrases import waits_for

        tell(f"{waits_for(app, outcome.action)}{' Then run the same command again.' * again}", err=True)
    return _exit(outcome)


@click.command(short_help="Switch a server off until you approve it again.")
@click.argument("name")
def disable(name: str) -> int:
    """Switch a guest off until you approve it again."""
    with opened() as app:
        done = asyncio.run(_guests(app).disable(name))
    tell(f"{name} is off. `coilclaw mcp approve {name}` lets it in again." if done else f"{name} was not in use.")
    return 0


@click.command(short_help="Remove a server.")
@click.argument("name")
def remove(name: str) -> int:
    """Remove a server: its account is revoked, its approval forgotten, and its table goes, which asks you.

    The account is the one of `coilclaw mcp sign-in`; the table is the server's in config.toml.
    """
    from coilclaw.packets.settings import SettingChange
    from coilclaw.runtime.settings import proposal

    with opened() as app:
        guests = _guests(app)
        for line in asyncio.run(guests.remove(name)):
            tell(line)
        if name not in app.config.mcp.servers:
            return 0
        return _exit(_carry(app, proposal(app, (SettingChange(key=f"mcp.servers.{name}", op="unset"),))))


@click.command(short_help="Show when a guest started, ended and failed.")
@click.argument("name")
@click.option("-n", "count", default=20, show_default=True, help="How many events.")
def log(name: str, count: int) -> None:
    """Show a guest's starts, ends, faults and approvals, the newest last."""
    from coilclaw.features.guests.store import guest_events

    with opened() as app:
        _guests(app).view(name)
        rows = [
            (moment(time), event.removeprefix("guest_").replace("_", " "), app.redact(_details(told)))
            for time, event, told in guest_events(app.db.reader, name, count)
        ]
    print_rows(rows, ("when", "what", "details"), empty="Nothing happened yet.")


def _details(told: str) -> str:
    """What an event says, in words; hashes are for `audit list`."""
    from coilclaw.packets.canonical import NotCanonical, parse_object

    try:
        said = parse_object(told)
    except NotCanonical:  # a damaged row is shown as it is
        return told
    words: list[str] = []
    if why := said.get("why"):
        words.append(str(why))
    if version := said.get("version"):
        words.append(f"version {version}")
    if tools := said.get("tools"):
        words.append(f"withheld: {', '.join(map(str, tools))}" if isinstance(tools, list) else f"{tools} tools")
    if receipt := said.get("receipt_id"):
        words.append(str(receipt))
    return ", ".join(words)


# Plugins


@click.group()
def plugin() -> None:
    """Use tools of plugins: folders with a manifest and programs, run in a box for each call."""


@plugin.command(short_help="List plugins.")
@json_option
def list_plugins(as_json: bool) -> None:
    """List installed plugins and which of their tools are let in."""
    with opened() as app:
        found = [view for view in _guests(app).views() if view.kind == "plugin"]
    if as_json:
        print_json(found)
        return
    rows = [(each.name, each.version, each.state, ", ".join(tool.name for tool in each.tools)) for each in found]
    print_rows(rows, ("plugin", "version", "state", "tools"), empty="There are no plugins.")


plugin.add_command(list_plugins, "list")


@plugin.command(short_help="Install a plugin from a folder.")
@click.argument("path")
@_CLASSES[0]
@_CLASSES[1]
@_CLASSES[2]
def install(path: str, reads: str, writes: str, sends: str) -> int:
    """Copy a plugin into the home and let it in: you are shown all it may do, and say what each tool does."""
    from coilclaw.features.guests.plugin_files import install as copy

    with opened() as app:
        offer = copy(app, Path(path))
        tell(f"Installed {offer.name} {offer.version}. Nothing of it has run.")
        return _let_in(app, offer.name, (reads, writes, sends), None)


@plugin.command("show", short_help="Show what a plugin may do and what it offers.")
@click.argument("name")
@json_option
def show_plugin(name: str, as_json: bool) -> None:
    """Show what a plugin may do, its tools, and what changed since you approved it."""
    with opened() as app:
        view = _guests(app).view(name)
    print_json(view) if as_json else _show(view)


@plugin.command("approve", short_help="Approve an installed plugin.")
@click.argument("name")
@_CLASSES[0]
@_CLASSES[1]
@_CLASSES[2]
def approve_plugin(name: str, reads: str, writes: str, sends: str) -> int:
    """Approve an installed plugin, or one that changed."""
    with opened() as app:
        return _let_in(app, name, (reads, writes, sends), None)


@plugin.command("remove", short_help="Remove a plugin.")
@click.argument("name")
def remove_plugin(name: str) -> int:
    """Remove a plugin and its files; its own folder beside the workspace stays."""
    with opened() as app:
        guests = _guests(app)
        if not guests.is_plugin(name):
            raise UsageError(f"there is no plugin {name[:80]!r}.", remedy="`coilclaw plugin list` shows them.")
        asyncio.run(guests.forget(name))
    tell(f"Removed {name}.")
    return 0


@plugin.command(short_help="Write a small plugin to start from.")
@click.argument("name")
def new(name: str) -> int:
    """Write a small plugin that works into a folder of that name here."""
    from coilclaw.features.guests.names import check_guest_name
    from coilclaw.features.guests.plugin_files import write_example

    check_guest_name(name)
    write_example(Path.cwd() / name, name)
    tell(f"Wrote {name}/manifest.toml and {name}/count-words. Try it: `coilclaw plugin install {name}`.")
    return 0


# What both share


def _guests(app: "Runtime") -> "OwnerGuests":
    from coilclaw.features.guests.owner_guests import OwnerGuests

    return OwnerGuests(app)


def _let_in(app: "Runtime", name: str, given: tuple[str, str, str], server: "McpServer | None") -> int:
    """Look, ask what each tool does, and ask for the approval."""
    guests = _guests(app)
    if server is None and guests.is_plugin(name):
        asyncio.run(guests.read_plugin(name))
    elif code := _look(app, name, server or app.config.mcp.servers.get(name)):
        return code
    from coilclaw.features.guests.store import load_guest

    row = load_guest(app.db.reader, name)
    if row is None or row.seen is None:
        raise UsageError(f"{name} sent no description of itself.")
    for fault in row.seen.faults:
        tell(f"Cannot be let in: {fault}", err=True)
    if not row.seen.tools:
        raise UsageError(f"{name} offers no tool that can be let in.", remedy="Nothing was added.")
    view = guests.looked(name)
    classes = _classes([tool.original for tool in row.seen.tools], given, view, reaches_out=row.seen.grant.reaches_out)
    if guests.is_let_in(name, classes, server):
        tell(f"{name} is let in already, with these tools and exactly as it is now. Nothing changed.")
        return 0
    return _told(app, _carry(app, guests.approve_call(name, classes, row.seen.digest, server)))


def _look(app: "Runtime", name: str, server: "McpServer | None") -> int:
    """Look at a server through the gate; the exit code if that did not happen."""
    guests = _guests(app)
    call = guests.look_call(name, server)
    if server is not None and guests.was_looked_at(name, server):
        return 0
    outcome = _carry(app, call)
    return 0 if outcome.result.success else _told(app, outcome, again=True)


def _classes(
    tools: list[str], given: tuple[str, str, str], view: "GuestView", *, reaches_out: bool
) -> "dict[str, ToolClass]":
    """What each tool does: as given, as approved before, or as the owner says now."""
    kinds: tuple[ToolClass, ...] = ("reads", "writes", "sends")
    most: ToolClass = "sends" if reaches_out else "writes"
    earlier: dict[str, ToolClass] = {}
    for tool in view.tools:
        if tool.kind is not None:
            earlier[tool.original] = tool.kind
    classes: dict[str, ToolClass] = dict.fromkeys(tools, most)
    classes |= {tool: kind for tool, kind in earlier.items() if tool in classes}
    named = [[word for word in text.split(",") if word] for text in given]
    for kind, words in zip(kinds, named, strict=True):
        for word in tools if words == ["*"] else words:
            if word not in classes:
                raise UsageError(f"it has no tool {word[:80]!r}.", remedy=f"It has: {', '.join(tools)}.")
            classes[word] = kind
    if any(named) or not (sys.stdin.isatty() and sys.stderr.isatty()) or set(tools) <= set(earlier):
        return classes
    tell("Its tools:", err=True)
    for number, name in enumerate(tools, 1):
        told = next((f" (it claims {each.claims})" for each in view.tools if each.original == name), "")
        tell(f"  {number}  {name}{told}", err=True)
    tell(f"Which of them only read? Those run without a question. The others count as {most!r} and ask.", err=True)
    answer = click.prompt(
        "Numbers (such as 1, 3-5), 'all', or Enter for none", default="", show_default=False, err=True
    )
    chosen = tools if answer.strip() == "all" else [tools[index] for index in _numbers(answer, len(tools))]
    for name in chosen:
        classes[name] = "reads"
    return classes


def _numbers(answer: str, most: int) -> list[int]:
    """Positions named by numbers and ranges of them, such as `1, 3-5`."""
    chosen: list[int] = []
    for word in answer.replace(",", " ").split():
        first, _, last = word.partition("-")
        ends = [int(each) for each in (first, last or first) if each.isascii() and each.isdecimal() and len(each) < 5]
        if len(ends) < 2 or word.endswith("-") or not 0 < ends[0] <= ends[1] <= most:
            raise UsageError(f"{answer!r} is not a list of numbers up to {most}.", remedy="Such as 1, 3-5.")
        chosen.extend(range(ends[0] - 1, ends[1]))
    return chosen


def _carry(app: "Runtime", call: "ToolCall") -> "Outcome":
    """Take a call of the owner's through the gate; where nobody can be asked, it waits."""
    from coilclaw.cli.commands.tool import run_tool

    return asyncio.run(run_tool(app, call, yes=False, source="gateway"))


def _exit(outcome: "Outcome") -> int:
    from coilclaw.cli.commands.tool import exit_code

    return exit_code(outcome)


def _show(view: "GuestView") -> None:
    version = f" {view.version}" if view.version else ""
    tell(f"{view.name}{version}: {view.state}")
    for line in view.may:
        tell(f"  {line}")
    if view.fault:
        tell(f"  It last failed: {view.fault}")
    rows = [(tool.name, tool.kind or "not let in", tool.claims, tool.withheld) for tool in view.tools]
    print_rows(rows, ("tool", "you say it", "it claims", "withheld because"), empty="It was not looked at yet.")
    for line in view.refused:
        tell(f"Cannot be let in: {line}")
    if view.difference:
        group = "plugin" if view.kind == "plugin" else "mcp"
        tell(f"\n{view.difference}\n\nApprove it with `coilclaw {group} approve {view.name}`.")


def _pair(text: str) -> tuple[str, str]:
    header, _, secret = text.partition("=")
    return header.strip(), secret.strip()


def _text(file: str) -> str:
    if file == "-":
        return sys.stdin.read(1 << 20)
    try:
        return Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read.") from error
