"""git_commit, and the two calls by which the owner lets the agent into a folder. Those are the owner's alone."""

from typing import TYPE_CHECKING, Annotated

import msgspec

from coilclaw.ledger.audit import add_event
from coilclaw.packets.action import INTERNAL
from coilclaw.packets.errors import ToolError, UsageError
from coilclaw.packets.ids import new_id
from coilclaw.packets.ports import Context, Tool, ToolOutput, Touches
from coilclaw.runtime.extensions import home_of
from coilclaw.store.projects import KIND, earlier_project, load_project, put_project, vouch_for
from coilclaw.store.tx import Tx
from coilclaw.tools.declare import owner_call, tool

if TYPE_CHECKING:
    from collections.abc import Callable

    from coilclaw.runtime.runtime import Runtime

VOUCHED = "Its files will count as yours."
NOT_VOUCHED = "Its files will count as untrusted until you vouch for it."


class CommitArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of git_commit."""

    message: Annotated[
        str, msgspec.Meta(description="The commit message: a short first line.", min_length=1, max_length=16_000)
    ]
    paths: Annotated[
        tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=4096)], ...],
        msgspec.Meta(description="Files and folders to commit; without them, everything that changed.", max_length=200),
    ] = ()


@tool(
    CommitArgs,
    effect="WRITE",
    destination="workspace",
    idempotent=False,
    always_ask=True,
    touches=lambda args: Touches(reads=args.paths, commits=args.paths),
    summary=lambda args: f"Commit {', '.join(args.paths[:5]) or 'all changes'}: {args.message.splitlines()[0][:200]}",
)
async def git_commit(args: CommitArgs, context: Context) -> ToolOutput:
    """Commit changed files in the project's git repository. Nothing is pushed; hooks do not run. The owner is asked."""
    if context.commit is None:
        raise ToolError("no commit was granted to this call.", code="NOT_GRANTED", begun=False)
    commit = await context.commit(args.message)
    return ToolOutput(text=f"Committed as {commit}.", label=INTERNAL, metadata={"commit": commit})


class AddArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of project_add."""

    name: Annotated[str, msgspec.Meta(description="What the project is called.", min_length=1, max_length=64)]
    path: Annotated[str, msgspec.Meta(description="Its folder.", min_length=1, max_length=4096)]
    inode: Annotated[int, msgspec.Meta(description="Tells the folder from another one at its path.")]
    vouch: Annotated[bool, msgspec.Meta(description="Whether its files count as the owner's.")]


class VouchArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of project_vouch."""

    project_id: Annotated[str, msgspec.Meta(description="The project.", min_length=1, max_length=64)]
    name: Annotated[str, msgspec.Meta(description="What it is called.", min_length=1, max_length=64)]
    path: Annotated[str, msgspec.Meta(description="Its folder.", min_length=1, max_length=4096)]


def _letting_in(args: AddArgs) -> Touches:
    says = f"Let the agent work in {args.path} (project {args.name}). {VOUCHED if args.vouch else NOT_VOUCHED}"
    return Touches(subject=args.path, public=True, says=says)


def _vouching(args: VouchArgs) -> Touches:
    says = f"Vouch for every file in {args.path} (project {args.name}), also those that come later. {VOUCHED}"
    return Touches(subject=args.path, public=True, says=says)


def project_tools(runtime: "Runtime | None") -> tuple[Tool, ...]:
    """The tools of projects; without a home they can only be described."""
    home = home_of(runtime)
    return (git_commit, _make_add(home), _make_vouch(home))


def _make_add(home: "Callable[[], Runtime]") -> Tool:
    @owner_call(
        AddArgs,
        destination="internal",
        idempotent=False,
        touches=_letting_in,
        summary=lambda args: f"Let the agent work in {args.path}",
    )
    async def project_add(args: AddArgs, context: Context) -> ToolOutput:
        """Let the agent work in a folder of the owner's; only the panel and `coilclaw project add` can call it."""
        from coilclaw.features.projects.folder import check_folder, check_name

        app = home()
        try:
            folder = check_folder(app, args.path)
            name = check_name(app, args.name, folder.path)
        except UsageError as error:
            raise ToolError(error.message, remedy=error.remedy, code="NO_PROJECT", begun=False) from error
        if (folder.path, folder.inode) != (args.path, args.inode):
            raise ToolError(f"{args.path} is another folder by now.", code="CHANGED_MEANWHILE", begun=False)

        def write(tx: Tx) -> str:
            earlier = earlier_project(tx, folder.path, folder.inode)
            project_id = new_id(KIND, app.clock()) if earlier is None else earlier.project_id
            put_project(
                tx,
                app.clock,
                project_id=project_id,
                name=name,
                path=folder.path,
                inode=folder.inode,
                vouched=args.vouch,
            )
            add_event(tx, app.clock, "project_added", project_id, {"name": name, "vouched": args.vouch})
            return project_id

        project_id = await app.db.write(write)
        text = f"{name} is added: the agent can work in {folder.path}."
        return ToolOutput(text=text, label=INTERNAL, metadata={"project_id": project_id})

    return project_add


def _make_vouch(home: "Callable[[], Runtime]") -> Tool:
    @owner_call(
        VouchArgs,
        destination="internal",
        idempotent=True,
        touches=_vouching,
        summary=lambda args: f"Vouch for the files of project {args.name}",
    )
    async def project_vouch(args: VouchArgs, context: Context) -> ToolOutput:
        """Let the files of a project count as the owner's; only the panel and `coilclaw project vouch` can call it."""
        app = home()
        project = load_project(app.db.reader, args.project_id)
        if project is None or (project.name, project.path) != (args.name, args.path):
            raise ToolError(f"there is no such project {args.name}.", code="NO_PROJECT", begun=False)

        def write(tx: Tx) -> bool:
            done = vouch_for(tx, args.project_id, vouched=True)
            if done:
                add_event(tx, app.clock, "project_vouched", args.project_id, {"name": args.name})
            return done

        if not await app.db.write(write):
            raise ToolError(f"the project {args.name} was removed.", code="NO_PROJECT", begun=False)
        return ToolOutput(text=f"The files of {args.name} count as yours now.", label=INTERNAL)

    return project_vouch
