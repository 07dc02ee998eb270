"""Labels around a call: those its content carries in and out, the files it changed, what its card shows."""

import asyncio
import os
from typing import TYPE_CHECKING

import msgspec

from coilclaw.gate.facts import Inspected
from coilclaw.gate.outcomes import End
from coilclaw.gate.paths import PathFact
from coilclaw.gate.preview import Existing, Restored, Returning, diff_shown, new_content
from coilclaw.gate.records import Record, Write
from coilclaw.gate.root import Root
from coilclaw.gate.turn import Turn
from coilclaw.gate.undoing import Kept
from coilclaw.packets.action import Action, Label, ToolResult, untrusted
from coilclaw.packets.canonical import digest_of, parse_object, sha256_hex
from coilclaw.packets.labels import is_untrusted, join_labels, untrusted_only
from coilclaw.packets.text import one_line
from coilclaw.packets.touches import Touches
from coilclaw.sandbox.files import read_existing
from coilclaw.sandbox.manifests import LINK
from coilclaw.store.actions import keep_seen, seen_hash
from coilclaw.store.database import Database
from coilclaw.store.job_trees import note_changed
from coilclaw.store.tx import Tx

if TYPE_CHECKING:
    from coilclaw.gate.labels import Looked
    from coilclaw.lib.shell.facts import CommandFacts
    from coilclaw.sandbox.quarantine import HeldFile
    from coilclaw.sandbox.snapshot import Change

SHOWN_BYTES = 1 << 19
"""The largest file whose difference is shown on a card."""


NAMED = 20
"""The most folders that a result lists."""


class Labelling:
    """Keeps labels, changed files and shown content in step with what calls do."""

    def __init__(self, db: Database) -> None:
        self._db = db

    # Before: what the owner is shown, and whether it still holds

    def existing(self, inspected: Inspected) -> Existing | None:
        """What the file a call would write holds now, for the difference on its card."""
        path = next((path for path in inspected.facts.paths if path.write and not path.boxed), None)
        return None if path is None else _existing(inspected.root, path)

    def restored(self, inspected: Inspected) -> Restored | None:
        """What would come back, for a call that brings files back."""
        wanted = inspected.touches.restores
        if wanted is None:
            return None
        plan = inspected.root.undoing.plan(wanted, tainted=bool(inspected.taint))
        if plan is None:
            return Restored(snapshot="")
        labels = inspected.root.undoing.labels_of(plan)
        changes = [
            Returning(
                path=each.path,
                removed=each.entry is None,
                since=each.since,
                labels=labels.get(each.path, ()),
                difference=_difference(inspected.root, each),
            )
            for each in plan.changes
        ]
        kept = plan.snapshot
        return Restored(
            snapshot=kept.id,
            time=kept.time,
            note=kept.note,
            changes=tuple(changes),
            stays=plan.stays,
            left_out=plan.left_out,
            governing=plan.governing,
            irreversible=bool(inspected.facts.irreversible),
        )

    def held(self, inspected: Inspected) -> "list[HeldFile]":
        """The held files that a call would put in place."""
        released = inspected.touches.releases
        if released is None:
            return []
        try:
            return inspected.root.quarantine.shown(released)
        except OSError:
            return []  # they are gone, and then nothing is put in place

    def marked(self, action: Action, touches: Touches) -> tuple[str, ...]:
        """For what would leave this machine: values that came from an account, and those that stand in untrusted
        content but not in the owner's words."""
        if action.decision.lane != "B" or not action.taint:
            return touches.foreign
        from coilclaw.gate.tainted_values import marked_values
        from coilclaw.store.labels import conversation_texts

        texts = conversation_texts(self._db.reader, action.thread_id, turn_id=action.turn_id)
        if not texts.untrusted:
            return (*touches.foreign, "(the untrusted content it may come from is not stored in this conversation)")
        given = {**parse_object(action.call.args_bytes), **({"": touches.text} if touches.text else {})}
        found = marked_values(given, texts.untrusted, texts.owner)
        marked = tuple(dict.fromkeys((*touches.foreign, *found)))
        return marked if texts.complete else (*marked, "(there is more untrusted content than could be compared)")

    def see(self, action_id: str, inspected: Inspected) -> Record | None:
        """Remembers where a waiting call's paths lead and what the files it would replace hold."""
        seen = self.seen(inspected)
        if not seen:
            return None

        def record(tx: Tx, _: ToolResult) -> None:
            keep_seen(tx, action_id, seen)

        return record

    def is_as_seen(self, action_id: str, inspected: Inspected) -> bool:
        """Whether everything is still as it was shown to the owner."""
        noted = seen_hash(self._db.reader, action_id)
        told = msgspec.structs.replace(inspected, facts=msgspec.structs.replace(inspected.facts, irreversible="told"))
        if noted == self.seen(told):
            return True  # the card warned that it cannot be undone; if it can by now, nothing is lost
        if not noted and not any(path.write and not path.boxed for path in inspected.facts.paths):
            return not inspected.facts.irreversible  # it replaces nothing, so nothing had to be noted
        return noted == self.seen(inspected)

    def seen(self, inspected: Inspected, restored: Restored | None = None) -> str:
        """Stands for where the paths of a call lead, and for what the files it would replace hold."""
        parts: list[bytes] = []
        for path in inspected.facts.paths:
            if not path.boxed:
                content = (path.state.encode() or _content(inspected.root, path.absolute)) if path.write else b""
                parts += [path.absolute.encode("utf-8", "surrogateescape"), content]
        restored = restored or self.restored(inspected)
        if restored is not None:
            parts.append(restored.snapshot.encode())
            parts += [f"{each.removed:d}{each.path}".encode("utf-8", "surrogateescape") for each in restored.changes]
            parts += [each.difference.encode("utf-8", "replace") for each in restored.changes if each.difference]
        if inspected.facts.irreversible:
            parts.append(b"it cannot be undone")
        if inspected.at.project_id:  # a yes for one folder does not cover another
            parts.append(f"in {inspected.at.project_id}".encode())
        return digest_of(*parts) if parts else ""

    # Around the effect: what comes in, and what is changed

    def before(self, action: Action, inspected: Inspected, turn: Turn) -> Write | None:
        """What must be on record before an effect that may write untrusted content: a crash must not launder it."""
        if inspected.facts.only_reads and not any(path.write for path in inspected.facts.paths):
            return None
        if inspected.touches.moves is not None:
            return self._moving(inspected, turn)
        labels = self._flowing(inspected, turn)
        if not labels:
            return None
        if inspected.facts.command is not None:
            return lambda tx: inspected.root.labels.hold(tx, action.action_id, labels)
        content = new_content(action, inspected)
        path = next((path.relative for path in inspected.facts.paths if path.write and path.relative), None)
        if path is None or content is None:
            return None
        expected = inspected.root.labels.expected(path, content)
        made = not os.path.lexists(inspected.root.folder / path)
        names = inspected.root.labels.names([path] if made else [])

        def write(tx: Tx) -> None:
            inspected.root.labels.mark(tx, expected, labels)
            inspected.root.labels.mark(tx, names, labels)

        return write

    def _moving(self, inspected: Inspected, turn: Turn) -> Write | None:
        """Labels move with a file; those of who chose the new name, and of the old name, stay with the name."""
        taken, (source, target) = inspected.taken, inspected.touches.moves or ("", "")
        tops = {path.asked: path.relative for path in inspected.facts.paths if not path.within}
        start, end = tops.get(source), tops.get(target)
        if taken is None or not start or not end:
            return None
        labels = inspected.root.labels
        files = [f"/{entry.below}" if entry.below else "" for entry in taken.files]
        named = labels.labels_of_found([(f"{start}{each}", "", 0) for each in files])
        labelled = bool(named or labels.labels_of(start))
        marks: list[tuple[Looked, tuple[Label, ...]]] = []
        for each in files if labelled or turn.taint else ():
            old, new = f"{start}{each}", f"{end}{each}"
            called = labels.labels_of_found([(old, "", 0)]) if named else ()
            marks.append((labels.names([new]), untrusted_only((*turn.taint, *called))))
            if labelled:
                marks.append((labels.look([old]).at(new), labels.labels_of(old)))

        def write(tx: Tx) -> None:
            for looked, sources in marks:
                labels.mark(tx, looked, sources)

        return write

    def _flowing(self, inspected: Inspected, turn: Turn) -> tuple[Label, ...]:
        """Every untrusted source that may flow into what the call writes."""
        labels = [
            *turn.taint,
            *inspected.taint,
            *(untrusted(place.host or "network") for place in inspected.facts.domains),
        ]
        if inspected.facts.command is not None:
            labels += _carried_by_command(inspected, inspected.facts.command)
        return untrusted_only(labels)

    def carried(self, inspected: Inspected) -> tuple[Label, ...]:
        """The labels of the files a call can read; looked up before and after, as it may have read at either time."""
        if inspected.facts.command is not None:
            return _carried_by_command(inspected, inspected.facts.command)
        if inspected.touches.target is not None or inspected.touches.searches:
            return ()  # a search labels what it found by the files it found it in
        if inspected.touches.restores is not None:
            return inspected.root.undoing.labels(inspected.touches.restores)
        if inspected.commit is not None:
            return ()  # its result tells the commit's id, and nothing of what is in it
        if inspected.touches.commits is not None:
            return inspected.root.labels.labels_of("")  # why there can be none may name any file
        read = [path.relative for path in inspected.facts.paths if not path.write and path.relative is not None]
        return tuple(label for path in read for label in inspected.root.labels.labels_of(path))

    async def after(
        self, action: Action, end: End, inspected: Inspected, turn: Turn, carried: tuple[Label, ...], kept: Kept
    ) -> tuple[End, Record | None]:
        """Label what a call brought in, note it in the turn, and record what it changed with its outcome."""
        end = self._labelled(end, inspected, carried)
        turn.take_in(end.result.label, kept=not _is_external(inspected))
        touches = inspected.touches
        asked = touches.url is not None and touches.target is None and touches.principal != "google"
        result = msgspec.structs.replace(
            end.result,
            fetched=asked and end.status == "allowed",  # an error may repeat our own words
            private=_is_private(inspected),
        )
        end = msgspec.structs.replace(end, result=result)
        settled = await inspected.root.undoing.settle(kept, inspected.facts)
        end = _with_missed(end, settled or [])
        labels = untrusted_only(turn.taint)  # the result's own label is part of it, and so is all that flowed into it
        touched = self._touched(inspected, settled, end.result)
        if not labels and turn.job is None and (inspected.root.key or not _files(touched)):
            return end, self.release(action, inspected)
        if inspected.touches.restores is not None or inspected.touches.moves is not None:
            labels = ()  # what is brought back or moved has the labels it had, and no others
        return self._within_job(end, turn, touched), await self._recording(action, inspected, touched, labels, kept)

    def _labelled(self, end: End, inspected: Inspected, carried: tuple[Label, ...]) -> End:
        """The end with every source that its result may stem from."""
        found = list(untrusted_only((*carried, *self.carried(inspected))))
        ours = inspected.touches.target is not None or inspected.touches.principal == "google"  # errors in our words
        asked = None if ours else inspected.facts.url
        if asked is not None and end.status != "allowed":  # what went wrong may quote the server
            found.append(untrusted(asked.host or "network"))
        found += [untrusted(place.host or "network") for place in inspected.facts.domains]
        if inspected.touches.guest:
            found.append(untrusted(f"guest:{inspected.touches.guest}"))
        label = join_labels((end.result.label, *found)) if found else end.result.label
        fresh = _is_external(inspected) and is_untrusted(label)
        return msgspec.structs.replace(end, result=msgspec.structs.replace(end.result, label=label, fresh=fresh))

    def output_label(self, inspected: Inspected, carried: tuple[Label, ...]) -> Label:
        """What a command's output carries while it runs; `carried` is what its files carried when it began."""
        places = (untrusted(place.host or "network") for place in inspected.facts.domains)
        return join_labels((*carried, *self.carried(inspected), *places))

    async def after_death(self, action: Action, inspected: Inspected, begun_at: str) -> Record | None:
        """The same for a call whose process died: it may have made every change since the last snapshot."""
        labels = (*action.taint, *inspected.root.labels.held(action.action_id))
        if not labels and action.job_id is None:
            return None
        by_command = inspected.facts.command is not None and not inspected.facts.only_reads
        found = await asyncio.to_thread(inspected.root.undoing.touched_since, begun_at) if by_command else None
        touched = self._touched(inspected, found, None)
        return await self._recording(action, inspected, touched, labels, Kept())

    def release(self, action: Action, inspected: Inspected) -> Record | None:
        """Release the holds of a call that touched nothing, or nothing that counts."""
        if inspected.facts.command is None:
            return None

        def record(tx: Tx, _: ToolResult) -> None:
            inspected.root.labels.release(tx, action.action_id)

        return record

    def _touched(self, inspected: Inspected, found: list[str] | None, result: ToolResult | None) -> tuple[str, ...]:
        """Workspace files a call changed, or may have changed; the whole workspace if that is unknown."""
        told = result.metadata.get("paths") if result is not None else None
        if isinstance(told, list) and inspected.facts.command is None:
            return tuple(str(path) for path in told)
        named = tuple(path.relative for path in inspected.facts.paths if path.write and path.relative)
        if inspected.facts.only_reads:
            return named
        return (*named, "") if found is None else tuple(dict.fromkeys((*named, *found)))

    async def _recording(
        self, action: Action, inspected: Inspected, touched: tuple[str, ...], labels: tuple[Label, ...], kept: Kept
    ) -> Record | None:
        files = [] if inspected.root.key else _files(touched)
        held = await asyncio.to_thread(inspected.root.undoing.held, kept, files) if files else {}
        looked = await asyncio.to_thread(inspected.root.labels.look, touched) if labels and touched else None
        names = inspected.root.labels.names(touched if inspected.facts.command is not None else ())

        def record(tx: Tx, _: ToolResult) -> None:
            if looked is not None:
                inspected.root.labels.mark(tx, looked, labels)
                inspected.root.labels.mark(tx, names, labels)
            if inspected.facts.command is not None:
                inspected.root.labels.release(tx, action.action_id)
            if action.job_id is not None:
                from coilclaw.store.jobs import add_job_files

                add_job_files(tx, action.job_id, _files(touched))
            if held:
                note_changed(tx, action.action_id, held)

        return record

    def _within_job(self, end: End, turn: Turn, touched: tuple[str, ...]) -> End:
        """How many files a command changed is known only afterwards; too many make it fail, with the reason."""
        if turn.job is None:
            return end
        files = turn.job.files_changed | frozenset(_files(touched))
        if files == turn.job.files_changed and "" not in touched:
            return end
        turn.job = msgspec.structs.replace(turn.job, files_changed=files)
        most = turn.job.constraints.max_files_changed
        if most is None or (len(files) <= most and "" not in touched):
            return end
        count = "which files it changed is unknown" if "" in touched else f"it has now changed {len(files)}"
        text = f"{end.result.output}\n\nThis job may change {most} files, and {count}."
        result = msgspec.structs.replace(end.result, success=False, output=text, error=text, code="JOB_FILES")
        return msgspec.structs.replace(end, status="failed", result=result, reason="JOB_FILES")


def _existing(root: Root, path: PathFact) -> Existing | None:
    """What is at a path."""
    try:
        size = os.lstat(path.absolute).st_size
    except OSError:
        return None
    return Existing(size=size, data=read_existing(root.folder, path.relative, SHOWN_BYTES) if path.relative else None)


def _difference(root: Root, change: "Change") -> str:
    """What an undo would change in a file that governs the agent: a yes covers nothing that was not shown."""
    if not root.places.governs(change.path):
        return ""
    before = _existing(root, root.places.restored(change.path))
    if change.entry is None:
        return diff_shown(change.path, before, b"")
    if change.entry.content.startswith(LINK):
        return f"{one_line(change.path)} would be a link to {one_line(change.entry.content.removeprefix(LINK))}"
    data = root.undoing.content(change.entry)
    return "" if data is None else diff_shown(change.path, before, data)


def _content(root: Root, path: str) -> bytes:
    try:
        info = os.lstat(path)
    except OSError:
        return b"absent"
    data = None
    if info.st_size <= SHOWN_BYTES and path.startswith(f"{root.folder}/"):
        data = read_existing(root.folder, os.path.relpath(path, root.folder), SHOWN_BYTES)
    return f"{info.st_size} {info.st_mtime_ns}".encode() if data is None else sha256_hex(data).encode()


def _with_missed(end: End, touched: list[str]) -> End:
    """The end with the folders that changed and that no undo brings back: nobody could know them before."""
    from coilclaw.sandbox.scan import MISSED

    missed = [path for path in touched if path.rpartition("/")[2] in MISSED]
    if not missed:
        return end
    more = f" and {len(missed) - NAMED} more" if len(missed) > NAMED else ""
    text = f"(Undo does not cover what changed in {', '.join(missed[:NAMED])}{more}.)"
    output = f"{end.result.output}\n\n{text}".strip()
    return msgspec.structs.replace(end, result=msgspec.structs.replace(end.result, output=output))


def _is_external(inspected: Inspected) -> bool:
    """Whether what a call brings comes from outside this machine, or from an outside program on it."""
    tool = inspected.tool
    if inspected.touches.handle is not None or inspected.touches.guest:
        return True  # a command with domains may be behind a handle
    return bool(inspected.touches.domains) or (tool is not None and tool.destination == "external")


def _is_private(inspected: Inspected) -> bool:
    """Whether a call returns content kept on this machine, and not merely a report of what it did."""
    tool, touches = inspected.tool, inspected.touches
    if tool is None or touches.public:
        return False
    named = touches.command is not None or bool(touches.reads) or touches.restores is not None
    named = named or touches.principal == "google"  # mail and calendars are personal
    return named or (tool.effect == "READ" and tool.destination != "external")


def _files(touched: tuple[str, ...]) -> list[str]:
    """The files among what was touched: neither folders nor the workspace as a whole."""
    return [path for path in touched if path and not path.endswith("/")]


def _carried_by_command(inspected: Inspected, command: "CommandFacts") -> tuple[Label, ...]:
    return inspected.root.labels.labels_for_command(command, without_uploads=inspected.facts.without_uploads)
