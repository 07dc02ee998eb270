"""What the program of a session asks for, as actions: a command, a write, a request, a secret, a push, a deployment.

None of these does anything by itself: executed, it is the program's leave to go on once, in its own box. What stays in
the disposable checkout is lane A and follows the session's lists; what leaves it is lane B.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from coilclaw.features.runner.tools import SessionId
from coilclaw.packets.action import INTERNAL, Label, Source, untrusted
from coilclaw.packets.ports import Context, Permit, Tool, ToolOutput, Touches
from coilclaw.packets.text import one_line
from coilclaw.tools.declare import tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from coilclaw.config.runner import Repo
    from coilclaw.features.runner.store import Session
    from coilclaw.lib.shell.facts import CommandFacts
    from coilclaw.runtime.runtime import Runtime

COMMAND, WRITE, FETCH, SECRET, PUSH, DEPLOY = (
    "session_command", "session_write", "session_fetch", "session_secret", "session_push", "session_deploy",
)  # fmt: skip
Category: TypeAlias = Literal["merge", "deps_add", "secrets", "deploy", "command", "write", "network"]
"""What an approval is about; the first four always ask."""
LONGEST = 64 << 10
_ASKERS: frozenset[Source] = frozenset({"session"})
_HARMLESS = ("command.executes", "command.interpreter", "command.unbounded")
"""What a command reader cannot look into is the box's business here; what it cannot read at all is asked."""
_ADDS = {
    "npm": {"install", "i", "ci", "add", "update", "up", "upgrade", "exec"}, "pip": {"install"}, "pip3": {"install"},
    "pnpm": {"add", "install", "i", "update", "up", "dlx"}, "yarn": {"add", "install", "upgrade", "up", "dlx"},
    "bun": {"add", "install", "i", "update", "x"}, "pipx": {"install", "run"}, "uv": {"add", "sync", "pip"},
    "poetry": {"add", "update", "install"}, "cargo": {"add", "install", "update"}, "go": {"get", "install"},
    "gem": {"install"}, "bundle": {"add", "install", "update"}, "composer": {"require", "install", "update"},
    "pdm": {"add", "install", "sync", "update"},
}  # fmt: skip
"""Subcommands that bring in packages."""

Text: TypeAlias = Annotated[str, msgspec.Meta(description="What the program said of it.", max_length=LONGEST)]


class SessionCommandArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of session_command and session_deploy."""

    session_id: SessionId
    command: Annotated[str, msgspec.Meta(description="The command, as the program would run it.", max_length=LONGEST)]
    tool: Annotated[str, msgspec.Meta(description="The program's own name for it.", max_length=200)] = ""
    text: Text = ""


class SessionWriteArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of session_write and session_secret."""

    session_id: SessionId
    paths: Annotated[tuple[str, ...], msgspec.Meta(description="The files.", max_length=200)]
    tool: Annotated[str, msgspec.Meta(description="The program's own name for it.", max_length=200)] = ""
    text: Text = ""
    sha256: Annotated[str, msgspec.Meta(description="Of the whole text, where that is longer.", max_length=64)] = ""


class SessionFetchArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of session_fetch."""

    session_id: SessionId
    address: Annotated[str, msgspec.Meta(description="The address.", max_length=8192)]
    tool: Annotated[str, msgspec.Meta(description="The program's own name for it.", max_length=200)] = ""
    text: Text = ""


# What the lists say: pure


@lru_cache(maxsize=16)
def _facts(command: str) -> "CommandFacts":
    """One question is looked at several times on its way through the gate; its words are read once."""
    from coilclaw.lib.shell.command import read_command

    return read_command(command)


def command_category(command: str, deploys: tuple[str, ...]) -> Category:
    """What a command is about, as far as its words tell; what changed is read again before anything leaves."""
    words = command.split()
    if any(" ".join(each.split()) in " ".join(words) for each in deploys):
        return "deploy"
    facts = _facts(command)
    plain = {each.strip("\"'\\;&|()") for each in words}
    for program in facts.programs:
        verbs = _ADDS.get(program.rpartition("/")[2])
        if verbs and verbs & plain:
            return "deps_add"
    return "secrets" if names_secret((*facts.reads, *facts.writes)) else "command"


def command_permit(
    command: str,
    *,
    allowed: frozenset[str],
    denied: tuple[str, ...],
    forbidden: tuple[str, ...],
    asked: tuple[str, ...],
    category: Category,
) -> Permit:
    """What the lists of a session say to a command: the denylist denies, the allowlist runs, the rest asks."""
    facts = _facts(command)
    words = " ".join(command.split())
    for each in denied:
        if each in facts.programs or (" " in each and " ".join(each.split()) in words):
            return Permit(verdict="deny", text=f"The session's policy forbids {one_line(each)!r}.")
    if never := [each for each in facts.programs if each in forbidden]:
        return Permit(verdict="deny", text=f"security.forbidden_commands forbids {one_line(never[0])!r}.")
    if facts.blocked:
        return Permit(verdict="deny", text=facts.blocked[0].text)
    if "git push" in facts.verbs:
        text = "A session cannot push: commit, and the owner takes the commits out with `coilclaw session pr`."
        return Permit(verdict="deny", text=text)
    if category != "command":
        return Permit(verdict="ask", text=_WHY[category])
    if category in asked:
        return Permit(verdict="ask", text=_EVERY.format("command"))
    if named := [each for each in asked if each in facts.programs]:
        return Permit(verdict="ask", text=f"The session's policy asks before {one_line(named[0])!r}.")
    if unread := [each for each in facts.opaque if each.rule not in _HARMLESS]:
        return Permit(verdict="ask", text=unread[0].text)
    if strange := [each for each in facts.programs if each not in allowed]:
        return Permit(verdict="ask", text=f"It runs {one_line(', '.join(strange[:4]))}, which no list names.")
    return Permit(verdict="allow", text="The session's lists allow it.")


_EVERY = "The session's policy asks before every {}."
_WHY: dict[str, str] = {
    "deps_add": "It brings packages into the project.",
    "deploy": "It deploys.",
    "secrets": "It reads a file that usually holds secrets.",
}


def _secret_name(path: str) -> bool:
    """Whether files of this name usually hold secrets."""
    name = path.rpartition("/")[2].lower()
    return (
        (name.startswith(".env") and not name.endswith((".example", ".sample", ".template")))
        or name in {".npmrc", ".netrc", ".pypirc", "credentials", ".git-credentials", "id_rsa", "id_ed25519"}
        or name.endswith((".pem", ".key", ".p12", ".pfx", ".keystore"))
    )


def names_secret(paths: tuple[str, ...]) -> bool:
    """Whether one of these paths usually holds secrets."""
    return any(map(_secret_name, paths))


# What the session is


def session_taint(app: "Runtime", session: "Session") -> tuple[Label, ...]:
    """What may have misled it: its repository if nobody vouched for that, what it reached out to, and what misled
    whoever began it."""
    from coilclaw.features.runner.store import begun_with, has_reached_out
    from coilclaw.features.runner.store.family import family_of

    db = app.db.reader
    family = family_of(db, session)  # they tell each other what they read
    theirs = {untrusted(each.session_id) for each in family}
    found: list[Label] = sorted({label for each in family for label in begun_with(db, each)} - theirs)
    if not repo_vouched(app, session):
        found.append(untrusted(f"repo:{session.spec.repo.text}"))
    if any(has_reached_out(db, each.session_id) for each in family):
        found.append(untrusted("network"))
    return tuple(found)


def repo_vouched(app: "Runtime", session: "Session") -> bool:
    """Whether the owner stands for what is in the repository of a session."""
    ref = session.spec.repo
    if ref.provider == "project":
        from coilclaw.store.projects import project_named

        project = project_named(app.db.reader, ref.name)
        return project is not None and project.vouched
    repo = table_of(app, session)
    if repo is None:
        return False
    return repo.path is not None if repo.vouched is None else repo.vouched


def deploys_of(app: "Runtime", session: "Session") -> tuple[str, ...]:
    """The commands that deploy the repository of a session."""
    repo = table_of(app, session)
    return () if repo is None else repo.deploy


def table_of(app: "Runtime", session: "Session") -> "Repo | None":
    """The table of its repository. Its name is the owner's choice: at GitHub others may use that of a folder here."""
    from coilclaw.features.runner.repo_choice import repo_ref
    from coilclaw.features.runner.sources import sources_of

    found = (each for each in sources_of(app).values() if repo_ref(each) == session.spec.repo)
    return next((app.config.repos.get(each.name) for each in found if each.provider != "project"), None)


def session_tools(home: "Callable[[], Runtime]") -> tuple[Tool, ...]:
    """The tools by which sessions ask."""
    return (
        _command(home, COMMAND), _command(home, DEPLOY), _write(home), _secret(home), _fetch(home),
    )  # fmt: skip


def _session(home: "Callable[[], Runtime]", session_id: str) -> "tuple[Runtime, Session]":
    from coilclaw.features.runner.sessions import sessions_of

    app = home()
    return app, sessions_of(app).get(session_id)


def _leave(words: str) -> ToolOutput:
    return ToolOutput(text=words, label=INTERNAL)


def _command(home: "Callable[[], Runtime]", name: str) -> Tool:
    def touches(args: SessionCommandArgs) -> Touches:
        from coilclaw.features.runner.box import domains_for

        app, session = _session(home, args.session_id)
        policy, security = session.spec.policy, app.config.security
        listed = security.allowed_commands if policy.shell_allowlist is None else policy.shell_allowlist
        category: Category = "deploy" if name == DEPLOY else command_category(args.command, deploys_of(app, session))
        permit = command_permit(
            args.command,
            allowed=frozenset(listed),
            denied=policy.shell_denylist,
            forbidden=security.forbidden_commands,
            asked=policy.requires_approval_for,
            category=category,
        )
        if args.tool and not args.command and permit.verdict == "allow":  # a tool that no adapter knows
            permit = Permit(verdict="ask", text=f"{one_line(args.tool)} is a tool that nothing is known about.")
        shown = args.command or f"{args.tool} {args.text}"
        return Touches(subject=one_line(shown)[:200], says=shown, domains=domains_for(app, session.spec), permit=permit)

    async def run(args: SessionCommandArgs, context: Context) -> ToolOutput:
        return _leave("The session may run it once.")

    run.__name__ = name
    run.__doc__ = (
        "Let the program of a session run a command in its box."
        if name == COMMAND
        else "Let the program of a session run a command that deploys."
    )
    return tool(
        SessionCommandArgs,
        effect="WRITE",
        destination="machine" if name == COMMAND else "external",
        idempotent=True,
        always_ask=name == DEPLOY,
        touches=touches,
        summary=lambda args: f"Run in a session: {one_line(args.command or args.tool)[:200]}",
        callers=_ASKERS,
    )(run)


def _write(home: "Callable[[], Runtime]") -> Tool:
    def touches(args: SessionWriteArgs) -> Touches:
        _, session = _session(home, args.session_id)
        if session.spec.mode == "read":
            permit = Permit(verdict="deny", text="The checkout of this session cannot be changed.")
        elif names_secret(args.paths):
            permit = Permit(verdict="ask", text=_WHY["secrets"])
        elif "write" in session.spec.policy.requires_approval_for:
            permit = Permit(verdict="ask", text=_EVERY.format("write"))
        else:
            permit = Permit(verdict="allow", text="It stays in the session's own checkout.")
        return Touches(subject=one_line(", ".join(args.paths))[:200], says=args.text, permit=permit)

    @tool(
        SessionWriteArgs,
        effect="WRITE",
        destination="machine",
        idempotent=True,
        always_ask=False,
        touches=touches,
        summary=lambda args: f"Write in a session: {one_line(', '.join(args.paths))[:200]}",
        callers=_ASKERS,
    )
    async def session_write(args: SessionWriteArgs, context: Context) -> ToolOutput:
        """Let the program of a session write files of its checkout."""
        return _leave("The session may write them once.")

    return session_write


def _secret(home: "Callable[[], Runtime]") -> Tool:
    def touches(args: SessionWriteArgs) -> Touches:
        _session(home, args.session_id)
        permit = Permit(verdict="ask", text=_WHY["secrets"])
        return Touches(subject=one_line(", ".join(args.paths))[:200], says=", ".join(args.paths), permit=permit)

    @tool(
        SessionWriteArgs,
        effect="WRITE",
        destination="machine",
        idempotent=True,
        always_ask=True,
        touches=touches,
        summary=lambda args: f"Read a secret in a session: {one_line(', '.join(args.paths))[:200]}",
        callers=_ASKERS,
    )
    async def session_secret(args: SessionWriteArgs, context: Context) -> ToolOutput:
        """Let the program of a session read files that usually hold secrets."""
        return _leave("The session may read them once.")

    return session_secret


def _fetch(home: "Callable[[], Runtime]") -> Tool:
    def touches(args: SessionFetchArgs) -> Touches:
        from coilclaw.features.runner.box import domains_for

        app, session = _session(home, args.session_id)
        host = urlsplit(args.address).hostname or ""
        if not domains_for(app, session.spec):
            permit = Permit(verdict="deny", text="This session has no network.")
        elif not host:
            permit = Permit(verdict="deny", text="What it would reach cannot be told.")
        else:
            permit = Permit(verdict="ask", text="It reaches out.")
        domains = (host,) if host and permit.verdict == "ask" else ()
        return Touches(subject=one_line(args.address)[:200], says=args.address, domains=domains, permit=permit)

    @tool(
        SessionFetchArgs,
        effect="WRITE",
        destination="external",
        idempotent=True,
        always_ask=False,
        touches=touches,
        summary=lambda args: f"Reach {one_line(args.address)[:200]} from a session",
        callers=_ASKERS,
    )
    async def session_fetch(args: SessionFetchArgs, context: Context) -> ToolOutput:
        """Let the program of a session request an address; what it reads there counts as untrusted."""
        return _leave("The session may reach it once.")

    return session_fetch
