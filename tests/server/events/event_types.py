"""Every type of audit event that the source can write, read from the source itself."""

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3] / "src" / "coilclaw"
ROOMS = ("agent", "cli", "features", "gate", "ledger", "runtime", "server", "work")
"""The rooms that can write events."""

WRITERS = {"add_event": 2, "_event": 1, "note": 1}
"""Who writes events, and where the type stands among the arguments."""

MENTIONED = re.compile(r"add_event|_event\(|\bnote\(|\bkeep\(|EVENT_OF|^Change\b", re.MULTILINE)
"""Files without any of these need no reading."""

TOLD_ELSEWHERE = {
    # Where a type is no literal, and where its literals stand instead.
    "ledger/audit.py": "the function itself",
    "gate/records.py": "EVENT_OF and the callers of note()",
    "gate/conveyor.py": "the callers of note()",
    "gate/intake.py": "the callers of note()",
    "features/schedules/sync.py": "the literals of Change",
    "features/sops/procedures.py": "the callers of _event() in features/sops/record.py",
}


def _name(call):
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _calls(tree, name):
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node) == name]


class _Module:
    """A file, and what an expression in it can be."""

    def __init__(self, path):
        self.place = str(path.relative_to(SOURCE))
        self.tree = ast.parse(path.read_text())

    def words(self, node):
        """The literals an expression may be; none when it cannot be read."""
        match node:
            case ast.Constant(value=str() as word):
                return {word}
            case ast.IfExp():
                one, other = self.words(node.body), self.words(node.orelse)
                return one | other if one and other else set()
            case ast.JoinedStr(values=[ast.Constant(value=str() as start), *_]) if start.endswith("_"):
                return {f"{start}x"}  # the first word tells the topic
            case ast.Name():
                return self._assigned(node.id) or self._handed_in(node.id)
        return set()

    def _assigned(self, name):
        found = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and any(getattr(each, "id", "") == name for each in node.targets):
                found |= self.words(node.value)
        return found

    def _handed_in(self, name):
        """What the callers in this file give a parameter of that name."""
        found = set()
        for function in (
            node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ):
            names = [each.arg for each in function.args.args if each.arg != "self"]
            for call in _calls(self.tree, function.name) if name in names else ():
                at = names.index(name)
                if len(call.args) > at and not isinstance(call.args[at], ast.Name):
                    found |= self.words(call.args[at])
        return found

    def written(self):
        """Each place that writes an event, with the types it may have there."""
        for writer, at in WRITERS.items():
            for call in _calls(self.tree, writer):
                # The conveyor's note takes no transaction, so its type comes first.
                first = writer == "note" and bool(call.args) and isinstance(call.args[0], ast.Constant)
                if len(call.args) > at:
                    yield f"{self.place}:{call.lineno}", self.words(call.args[0 if first else at])
        for call in _calls(self.tree, "keep"):
            if len(call.args) > 3 and self.place.startswith(("features/jobs/", "features/schedules/")):
                yield f"{self.place}:{call.lineno}", {f"job_{kind}" for kind in self.words(call.args[3])}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") in ("Change", "EVENT_OF"):
                words = {each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant)}
                yield f"{self.place}:{node.lineno}", {word for word in words if "_" in word}


def event_types():
    """The types, by where they are written; and the places whose type cannot be read."""
    found, unread = {}, []
    for path in sorted(path for room in ROOMS for path in (SOURCE / room).rglob("*.py")):
        if not MENTIONED.search(path.read_text()):
            continue
        module = _Module(path)
        for place, words in module.written():
            if not words and module.place not in TOLD_ELSEWHERE:
                unread.append(place)
            found.update(dict.fromkeys(words, place))
    for path in sorted(SOURCE.rglob("*.sql")):
        for told in re.findall(r"INSERT INTO audit_log[^;]*?VALUES \(([^;]*?)\);", path.read_text()):
            found[re.findall(r"'([a-z]+_[a-z_]*[a-z])'", told)[0]] = path.name
    return found, unread
