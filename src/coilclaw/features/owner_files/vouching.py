"""Vouching: the owner's word that what a labelled file holds counts as their own. An action like any other, lane C."""

from typing import TYPE_CHECKING, Annotated

import msgspec

from coilclaw.ledger.audit import add_event
from coilclaw.packets.action import INTERNAL, ToolCall
from coilclaw.packets.canonical import digest_of
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import Context, Tool, ToolOutput, Touches
from coilclaw.runtime.extensions import home_of
from coilclaw.tools.declare import owner_call

if TYPE_CHECKING:
    from coilclaw.gate.labels import FileLabels
    from coilclaw.runtime.runtime import Runtime
    from coilclaw.store.labels import LabelRow
    from coilclaw.store.tx import Tx

_NAMED = 50
"""So many labels are named on the card; all of them are counted, and bound."""


class FileVouchArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of file_vouch."""

    path: Annotated[str, msgspec.Meta(description="A file or folder that is labelled.", min_length=1, max_length=4096)]
    project_id: Annotated[
        str, msgspec.Meta(description="The project it is in; empty for the workspace.", max_length=64)
    ]
    labels: Annotated[
        tuple[str, ...], msgspec.Meta(description="The labels that go, as the card names them.", max_length=_NAMED)
    ]
    count: Annotated[int, msgspec.Meta(description="How many labels go.", ge=1)]
    digest: Annotated[str, msgspec.Meta(description="Stands for all of them.", min_length=64, max_length=64)]


def vouch_call(app: "Runtime", path: str, project_id: str = "") -> ToolCall | None:
    """The call by which the owner vouches for a path as it is labelled now; None where it has no label of its own."""
    rows = app.project_root(project_id).labels.vouched(path)
    if not rows:
        return None
    args = {
        "path": path,
        "project_id": project_id,
        "labels": [f"{place_of(row)}  {row.label}" for row in rows[:_NAMED]],
        "count": len(rows),
        "digest": _digest(rows),
    }
    return ToolCall.of("file_vouch", dict(args))


def instead(files: "FileLabels", path: str) -> str:
    """What to look at where a path has no label of its own: its folder's, or that of a command that has not ended."""
    if files.labels_of(path):
        return (
            "A parent folder, a file of the same size, or an action still in progress is labelled: see"
            " `coilclaw labels list`."
        )
    return "It already counts as yours; see `coilclaw labels list`."


def place_of(row: "LabelRow") -> str:
    """The path, or in words what is labelled instead."""
    if row.content_hash == "held":
        return f"{row.path} (all, while this action is in progress)"
    return (row.path or ".") + ("/" if row.content_hash == "dir" and row.path else "")


def _digest(rows: "list[LabelRow]") -> str:
    parts = [f"{row.path}\0{row.label}\0{row.content_hash}\0{row.size}" for row in rows]
    return digest_of(*(part.encode("utf-8", "surrogateescape") for part in sorted(parts)))


def _vouching(args: FileVouchArgs) -> Touches:
    more = (f"… and {args.count - len(args.labels)} more",) if args.count > len(args.labels) else ()
    first = f"Vouch for {args.path}: what it holds now will count as yours, wherever else the same bytes lie."
    says = "\n".join([first, "These labels go:", *args.labels, *more])
    return Touches(subject=args.path, public=True, says=says)


def vouch_tools(runtime: "Runtime | None") -> tuple[Tool, ...]:
    """The tool of vouching; without a home it can only be described."""
    home = home_of(runtime)

    @owner_call(
        FileVouchArgs,
        destination="internal",
        idempotent=True,
        touches=_vouching,
        summary=lambda args: f"Vouch for {args.path}",
    )
    async def file_vouch(args: FileVouchArgs, context: Context) -> ToolOutput:
        """Let what a labelled file or folder holds count as the owner's; only the owner does."""
        app = home()
        files = app.project_root(args.project_id).labels

        def write(tx: "Tx") -> bool:
            rows = files.vouched(args.path)
            if rows and _digest(rows) != args.digest:
                return False  # another label came meanwhile, or the file was written: that was not vouched for
            files.forget(tx, rows)
            for row in rows:
                payload = {"label": row.label, "content_hash": row.content_hash, "labelled_at": row.created_at}
                add_event(tx, app.clock, "label_forgotten", row.path or ".", dict(payload))
            return True

        if not await app.db.write(write):
            raise ToolError(
                f"{args.path} is labelled differently by now.",
                remedy="Look at it again, then vouch for it.",
                code="CHANGED_MEANWHILE",
                begun=False,
            )
        return ToolOutput(text=f"{args.path} counts as yours now.", label=INTERNAL)

    return (file_vouch,)
