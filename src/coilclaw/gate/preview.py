"""What a card shows of an effect: all of it, as it would be, with nothing hidden. Folding is left to screens."""

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from coilclaw.gate.facts import Inspected
from coilclaw.gate.undoing import in_words
from coilclaw.packets.action import Action, Label
from coilclaw.packets.canonical import parse_object
from coilclaw.packets.text import duration, moment, one_line, visible

if TYPE_CHECKING:
    from coilclaw.gate.taking import TakenAlong, TakenEntry
    from coilclaw.sandbox.commit import CommitPlan
    from coilclaw.sandbox.quarantine import HeldFile

HELD_BYTES = 1 << 18
"""So much of held files is shown on one card."""
NO_END = "\\ No line break at the end of the file"


class Existing(msgspec.Struct, frozen=True, kw_only=True):
    """What stands where a file would be written."""

    size: int
    data: bytes | None
    """None when it is too large to compare, or no plain file."""


class Returning(msgspec.Struct, frozen=True, kw_only=True):
    """One file that an undo would change."""

    path: str
    removed: bool
    """It was made since, and would be removed; otherwise it would be as it was."""
    since: bool
    """Somebody else changed it after what is undone."""
    labels: tuple[Label, ...]
    """Untrusted sources of what it held, or of its name."""
    difference: str = ""
    """What would change in it, for a file that governs the agent."""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What an undo would bring back, as things stand now."""

    snapshot: str
    """Which one it is; empty when there is none."""
    time: str = ""
    note: str = ""
    changes: tuple[Returning, ...] = ()
    stays: tuple[str, ...] = ()
    """Made since, and changed by somebody else after that."""
    left_out: tuple[str, ...] = ()
    """Changed too, but not restored."""
    governing: tuple[str, ...] = ()
    """Changed too, and restored only if it is named."""
    irreversible: bool = False


def preview(
    action: Action,
    inspected: Inspected,
    existing: Existing | None,
    restored: Restored | None = None,
    held: "Sequence[HeldFile]" = (),
) -> str:
    """The command, the difference, the message, the address, or the files that come back or leave the quarantine."""
    touches = inspected.touches
    if restored is not None:
        return _comes_back(restored)
    if touches.command is not None:
        return f"{visible(touches.command)}\n\n{_bound(inspected)}"
    if inspected.fault is not None:
        return f"It would change nothing: {visible(str(inspected.fault))}"
    if inspected.commit is not None:
        return _commits(action, inspected.commit)
    if inspected.taken is not None:
        return _goes(inspected, inspected.taken)
    if inspected.edited is not None:  # against the content that the approval binds
        before = Existing(size=len(inspected.inputs[0]), data=inspected.inputs[0])
        return diff_shown(touches.writes[0], before, inspected.edited)
    content = new_content(action, inspected)
    if touches.writes and content is not None:
        return diff_shown(touches.writes[0], existing, content)
    if touches.target is not None:
        return _message(action, inspected)
    if touches.says is not None:
        return "\n\n".join((visible(touches.says), *_held(held)))
    return one_line(touches.url or "")


def _held(files: "Sequence[HeldFile]") -> Iterator[str]:
    """Each file with what it holds, or how that differs from what is in place; what cannot be read, by its hash."""
    left = HELD_BYTES
    for each in files:
        where = f"{one_line(each.path)} ({each.size} bytes, held as {one_line(each.place)})"
        data = each.data if each.data is not None and _is_text(each.data) and len(each.data) <= left else None
        if data is None:
            kind = "It leads to" if each.content.startswith("link:") else "Not shown here: SHA-256"
            yield f"{where}\n{kind} {one_line(each.content.removeprefix('link:'))}"
            continue
        left -= len(data)
        before = None if each.before is None else Existing(size=len(each.before), data=each.before)
        yield f"{where}\n{diff_shown(each.path, before, data)}"


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode("utf-8")
    except UnicodeDecodeError:
        return False


def _commits(action: Action, plan: "CommitPlan") -> str:
    """The message, whose commit it is, and every change in it."""
    message = parse_object(action.call.args_bytes).get("message")
    name, address = plan.author
    where, files = plan.branch.removeprefix("refs/heads/"), _counted(len(plan.paths), "file")
    return (
        f"{visible(str(message))}\n\n(Commits {files} on {one_line(where)} as {one_line(name)}"
        f" <{one_line(address)}>. Nothing is pushed. Undo does not take a commit back.)\n\n{visible(_text(plan.diff))}"
    )


def _goes(inspected: Inspected, taken: "TakenAlong") -> str:
    """Everything that is moved or removed, by name."""
    moves, removes = inspected.touches.moves, inspected.touches.removes or ""
    top, name = taken.entries[0], one_line(moves[0] if moves else removes)
    verb = f"Moves {name} to {one_line(moves[1])}" if moves else f"Removes {name}"
    lines = [f"{verb} ({top.size} bytes)."]
    if top.is_folder:
        folders, size = len(taken.entries) - len(taken.files) - 1, sum(entry.size for entry in taken.entries)
        held = f"{_counted(len(taken.files), 'file')} and {_counted(folders, 'folder')}"
        lines = [f"{verb}: a folder with {held}, {size} bytes in all."]
    lines += [f"  {one_line(entry.below)}{_weight(entry)}" for entry in taken.entries[1:]]
    if moves and taken.replaces is not None:
        lines.append(f"It takes the place of {one_line(moves[1])} ({taken.replaces} bytes).")
    if taken.empty_folders:
        lines.append(f"Undo brings files back, but no empty folders (here {taken.empty_folders}).")
    return "\n".join(lines)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _weight(entry: "TakenEntry") -> str:
    return "/" if entry.is_folder else f"  {entry.size} bytes"


def new_content(action: Action, inspected: Inspected) -> bytes | None:
    """What the file that a call writes will hold; None when it writes none, or nobody can say."""
    if inspected.edited is not None:
        return inspected.edited
    content = parse_object(action.call.args_bytes).get("content")
    return content.encode("utf-8", "surrogatepass") if isinstance(content, str) else None


def _comes_back(restored: Restored) -> str:
    """Every file by name, however many."""
    if not restored.snapshot:
        return "There is no such snapshot: nothing would be restored."
    kept = f"{restored.snapshot}, kept {moment(restored.time, 'seconds')} ({one_line(restored.note)})"
    back = [_named(each) for each in restored.changes if not each.removed]
    removed = [_named(each) for each in restored.changes if each.removed]
    if not back and not removed:
        what = "Nothing that this undo restores" if restored.left_out or restored.governing else "Nothing"
        return "\n".join([f"{what} was deleted or changed since {kept}.", *_staying(restored)])
    lines = [f"Since {kept}"]
    if back:
        lines += ["these were deleted or changed, and would be restored:", *back]
    if removed:
        lines += ["these were created, and would be removed:", *removed]
    lines += _staying(restored)
    lines.append(
        "Their current content may not be kept: then this cannot be undone."
        if restored.irreversible
        else "Their current content is kept first, so that this can be undone too."
    )
    lines += [f"\n{each.difference}" for each in restored.changes if each.difference]
    return "\n".join(lines)


def _named(each: Returning) -> str:
    since = " (changed by somebody else since)" if each.since else ""
    return f"  {one_line(each.path)}{since}{in_words(each.labels)}"


def _staying(restored: Restored) -> list[str]:
    lines: list[str] = []
    if restored.stays:
        names = [f"  {one_line(path)}" for path in restored.stays]
        lines += ["these were created, but somebody else changed them since, so they stay:", *names]
    if restored.left_out:
        names = [f"  {one_line(path)}" for path in restored.left_out]
        lines += ["these were changed too, but undo does not restore them:", *names]
    if restored.governing:
        names = [f"  coilclaw undo {restored.snapshot} --path {shlex.quote(path)}" for path in restored.governing]
        lines += ["these were changed too; they govern the agent, so each comes back by name only:", *names]
    return lines


def _bound(inspected: Inspected) -> str:
    domains = inspected.touches.domains
    where = f"in a box that may reach {', '.join(domains)}" if domains else "in a box without network"
    where = "WITHOUT A BOX" if inspected.facts.unsafe else where
    seconds = inspected.touches.seconds
    aside = "runs in the background, up to" if inspected.touches.background else "may run up to"
    where += f" and {aside} {duration(seconds)}" if seconds is not None else ""
    undo = "" if inspected.facts.only_reads else " Undo leaves out node_modules, .venv and __pycache__."
    return f"(Runs {where}. The approval binds this text, not the content of the files it uses.{undo})"


def _message(action: Action, inspected: Inspected) -> str:
    """What would be sent, as it would be sent."""
    if inspected.inputs:
        data = inspected.inputs[0]
        return f"({len(data)} bytes)\n{visible(_text(data))}"
    payload = parse_object(action.call.args_bytes).get("payload", {})
    return visible(json.dumps(payload, ensure_ascii=False, indent=2))


def _text(data: bytes) -> str:
    """Bytes as text in which different bytes never look the same."""
    return data.decode("utf-8", "backslashreplace")


def _file_lines(text: str) -> list[str]:
    """The lines of a file with what ends them; the last one may have nothing."""
    *lines, last = text.split("\n")
    ended = [f"{line}\n" for line in lines]
    return [*ended, last] if last else ended


def _ended(line: str) -> list[str]:
    """A line of a difference as it is shown, told if it is the last of a file and does not end."""
    shown = visible(line.removesuffix("\n"))
    return [shown] if line.endswith("\n") else [shown, NO_END]


def diff_shown(path: str, existing: Existing | None, content: bytes, *, around: int | None = None) -> str:
    """What would change in a file, line by line, as a card shows it, with so many equal lines around it."""
    from coilclaw.gate.difference import AROUND, unified

    path = one_line(path)
    if existing is not None and existing.data is None:
        told = f"{path}: {existing.size} bytes are replaced by {len(content)} (too large to compare here)"
        return f"{told}:\n{visible(_text(content))}" if content else told
    if existing is not None and existing.data == content:
        return "(no change: the file has exactly this content already)"
    before = [] if existing is None else _file_lines(_text(existing.data or b""))
    name = "/dev/null" if existing is None else path
    shown = AROUND if around is None else around
    lines = list(unified(before, _file_lines(_text(content)), old=name, new=path, around=shown))
    if not lines and not content:
        return f"{path}: a new, empty file"
    if not lines:
        return f"{path}: the bytes differ in a way that text cannot show"
    return "\n".join(told for line in lines for told in _ended(line))
