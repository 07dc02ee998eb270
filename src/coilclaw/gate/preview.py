"""What a card shows of an effect: as it would be, with nothing hidden in it and nothing pushed out of sight."""

import json
from collections import Counter
from itertools import islice

import msgspec

from coilclaw.gate.facts import Inspected
from coilclaw.packets.action import Action
from coilclaw.packets.canonical import parse_object
from coilclaw.packets.text import one_line, visible

PREVIEW_LINES = 200
LINE_CHARACTERS = 400
FOLD_OVER, FOLD_HEAD, FOLD_TAIL = 30, 18, 8
NO_END = "\\ No line break at the end of the file"


class Existing(msgspec.Struct, frozen=True, kw_only=True):
    """What stands where a file would be written."""

    size: int
    data: bytes | None
    """None when it is too large to compare, or no plain file."""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What an undo would bring back, as things stand now."""

    snapshot: str
    """Which one it is; empty when there is none."""
    time: str = ""
    note: str = ""
    paths: tuple[str, ...] = ()


def preview(action: Action, inspected: Inspected, existing: Existing | None, restored: Restored | None = None) -> str:
    """The command, the difference, the message, the address, or the files that come back."""
    touches = inspected.touches
    if restored is not None:
        return _comes_back(restored)
    if touches.command is not None:
        return f"{_folded(touches.command)}\n\n{_bound(inspected)}"
    if touches.writes:
        content = parse_object(action.call.args_bytes).get("content")
        if isinstance(content, str):
            return _diff(touches.writes[0], existing, content.encode("utf-8", "surrogatepass"))
    if touches.target is not None:
        return _message(action, inspected)
    if touches.says is not None:
        return _folded(touches.says)
    return _cut(one_line(touches.url or ""))


def _comes_back(restored: Restored) -> str:
    """Every file by name, however many: a folded list would hide the one that matters."""
    if not restored.snapshot:
        return "There is no such snapshot: nothing would be brought back."
    kept = f"{restored.snapshot}, kept {restored.time[:19].replace('T', ' ')} UTC ({one_line(restored.note)})"
    if not restored.paths:
        return f"Nothing is gone or changed since {kept}."
    names = "\n".join(f"  {_cut(one_line(path))}" for path in restored.paths)
    return (
        f"Since {kept}\nthese are gone or changed, whoever did that, and would be as they were then:\n{names}\n"
        "What they hold now is kept first, so that this can be undone too."
    )


def _bound(inspected: Inspected) -> str:
    domains = inspected.touches.domains
    where = f"in a box that may reach {', '.join(domains)}" if domains else "in a box without network"
    where = "WITHOUT A BOX" if inspected.facts.unsafe else where
    return f"(Runs {where}. The approval binds this text, not what the files it uses hold.)"


def _message(action: Action, inspected: Inspected) -> str:
    """What would be sent, as it would be sent."""
    if inspected.inputs:
        data = inspected.inputs[0]
        return f"({len(data)} bytes)\n{_folded(_text(data))}"
    payload = parse_object(action.call.args_bytes).get("payload", {})
    return _folded(json.dumps(payload, ensure_ascii=False, indent=2))


def _text(data: bytes) -> str:
    """Bytes as text in which different bytes never look the same."""
    return data.decode("utf-8", "backslashreplace")


def _lines(text: str) -> list[str]:
    """Lines as an editor has them; every other character that some program takes for a line break is shown."""
    return visible(text).split("\n")


def _file_lines(text: str) -> list[str]:
    """The lines of a file with what ends them; the last one may have nothing."""
    *lines, last = text.split("\n")
    ended = [f"{line}\n" for line in lines]
    return [*ended, last] if last else ended


def _ended(line: str) -> list[str]:
    """A line of a difference as it is shown: cut, and told if it is the last of a file and does not end."""
    shown = _cut(visible(line.removesuffix("\n")))
    return [shown] if line.endswith("\n") else [shown, NO_END]


def _cut(line: str) -> str:
    more = len(line) - LINE_CHARACTERS
    return line if more <= 0 else f"{line[:LINE_CHARACTERS]}… {more} more characters"


def _folded(text: str) -> str:
    """The text without runs of empty lines, a long middle folded away: nothing can push a card off the screen."""
    lines: list[str] = []
    for line in _lines(text):
        if line.strip() or not lines or lines[-1].strip():
            lines.append(_cut(line))
    if len(lines) > FOLD_OVER:
        left_out = len(lines) - FOLD_HEAD - FOLD_TAIL
        lines = [*lines[:FOLD_HEAD], f"… {left_out} more lines …", *lines[-FOLD_TAIL:]]
    return "\n".join(lines)


def _diff(path: str, existing: Existing | None, content: bytes) -> str:
    from coilclaw.gate.difference import unified

    path = one_line(path)
    if existing is not None and existing.data is None:
        return f"{path}: {existing.size} bytes are replaced by {len(content)} (too large to compare here)"
    if existing is not None and existing.data == content:
        return "(no change)"
    before = [] if existing is None else _file_lines(_text(existing.data or b""))
    name = "/dev/null" if existing is None else path
    found = unified(before, _file_lines(_text(content)), old=name, new=path)
    lines = list(islice(found, PREVIEW_LINES))
    rest = Counter(line[0] for line in found)
    if not lines and not content:
        return f"{path}: a new file with nothing in it"
    if not lines:
        return f"{path}: the bytes differ in a way that text cannot show"
    shown = [told for line in lines for told in _ended(line)]
    if rest:
        shown.append(f"… {rest.total()} more lines: {rest['+']} added, {rest['-']} removed")
    return "\n".join(shown)
