"""The agent's own notes and artifacts, each stored with the label of the turn that wrote it."""

from coilclaw.packets.action import Label
from coilclaw.packets.canonical import Json, digest_of, sha256_hex
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ids import Clock, new_id, stamp
from coilclaw.packets.labels import join_labels
from coilclaw.packets.ports import Note
from coilclaw.store.database import Database
from coilclaw.store.threads import ANNOUNCED, ARTIFACT_BYTES, MessageRow, add_message, thread_exists
from coilclaw.store.tx import Tx

NOTE_BYTES = 64 * 1024


def artifact_id_of(idempotency_key: str) -> str:
    """The id of the artifact that a call with this key stores: the same call, the same id."""
    return f"art_{digest_of(b'artifact', idempotency_key.encode('utf-8'))[:32]}"


class NoteShelf:
    """The Notes port for one call. Writes carry `label`; reads come with their own."""

    def __init__(
        self,
        *,
        db: Database,
        clock: Clock,
        thread_id: str,
        turn_id: str,
        job_id: str | None,
        label: Label,
        idempotency_key: str,
    ) -> None:
        self._db = db
        self._clock = clock
        self._thread_id = thread_id or None
        self._turn_id = turn_id
        self._job_id = job_id
        self._label = label
        self._key = idempotency_key

    async def write_note(self, title: str, content: str) -> None:
        """Store a note under its title, replacing a note with that title and its label."""
        _check_size(len(content.encode("utf-8")), NOTE_BYTES, "note", "Shorten it, or store it with artifact_put.")

        def write(tx: Tx) -> None:
            now = self._clock()
            tx.execute(
                "INSERT INTO notes (note_id, thread_id, title, content, label, created_at, updated_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (title) DO UPDATE SET thread_id = excluded.thread_id,"
                " content = excluded.content, label = excluded.label, updated_at = excluded.updated_at",
                (new_id("note", now), self._thread_id, title, content, self._label, stamp(now), stamp(now)),
            )

        await self._db.write(write)

    def read_note(self, title: str) -> Note | None:
        """The note with that title."""
        row = self._db.reader.execute(
            "SELECT title, content, label, updated_at FROM notes WHERE title = ?", (title,)
        ).fetchone()
        return None if row is None else Note(title=row[0], content=row[1], label=row[2], updated_at=row[3])

    def list_notes(self, *, limit: int) -> list[Note]:
        """Notes without their content, newest first."""
        rows = self._db.reader.execute(
            "SELECT title, label, updated_at FROM notes ORDER BY updated_at DESC, title LIMIT ?", (limit,)
        )
        return [Note(title=row[0], content="", label=row[1], updated_at=row[2]) for row in rows]

    async def put_artifact(self, *, kind: str, name: str, content: bytes, part: int = 0) -> str:
        """Store an artifact and return its id; repeating the call stores it once. A call with several numbers them."""
        _check_size(len(content), ARTIFACT_BYTES, "artifact", "Split it, or write it to a workspace file.")
        return await self._db.write(lambda tx: self._put(tx, kind, name, content, part))

    def _put(self, tx: Tx, kind: str, name: str, content: bytes, part: int) -> str:
        artifact_id = artifact_id_of(f"{self._key}#{part}" if part else self._key)
        content_hash = sha256_hex(content)
        kept = tx.execute(
            "SELECT type, name, content_hash, label FROM artifacts WHERE artifact_id = ?", (artifact_id,)
        ).fetchone()
        if kept is None:
            tx.execute(
                "INSERT INTO artifacts (artifact_id, job_id, thread_id, type, name, blob, content_hash, label,"
                " created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    artifact_id,
                    self._job_id,
                    self._thread_id,
                    kind,
                    name,
                    content,
                    content_hash,
                    self._label,
                    stamp(self._clock()),
                ),
            )
            self._announce(tx, artifact_id, f"Artifact {name} ({kind}, {len(content)} bytes): {artifact_id}.")
        elif (kept[0], kept[1], kept[2]) != (kind, name, content_hash):
            raise ToolError(
                f"another artifact ({artifact_id}) was stored with this idempotency key.",
                remedy="Use a new key for new content.",
                code="ARTIFACT_CONFLICT",
                begun=False,
            )
        else:  # the same call again, possibly from a turn with more sources
            label = join_labels((kept[3], self._label))
            tx.execute("UPDATE artifacts SET label = ? WHERE artifact_id = ?", (label, artifact_id))
        return artifact_id

    def _announce(self, tx: Tx, artifact_id: str, text: str) -> None:
        """Post the artifact to its thread, for readers; the model learns of it from its call."""
        if self._thread_id is None or not thread_exists(tx, self._thread_id):
            return
        about: dict[str, Json] = {ANNOUNCED: artifact_id}
        if self._job_id is not None:
            about["job_id"] = self._job_id
        row = MessageRow(
            message_id=f"msg_{artifact_id.removeprefix('art_')}",
            thread_id=self._thread_id,
            turn_id=self._turn_id,
            role="system",
            content=text,
            label=self._label,
            metadata=about,
        )
        add_message(tx, self._clock, row)

    def get_artifact(self, artifact_id: str) -> tuple[bytes, Label] | None:
        """An artifact's bytes and where they came from."""
        row = self._db.reader.execute(
            "SELECT blob, label FROM artifacts WHERE artifact_id = ?", (artifact_id,)
        ).fetchone()
        return None if row is None else (bytes(row[0]), row[1])


def _check_size(size: int, most: int, noun: str, remedy: str) -> None:
    if size > most:
        raise ToolError(
            f"the {noun} is {size} bytes; at most {most} are allowed.",
            remedy=remedy,
            code=f"{noun.upper()}_TOO_LARGE",
            begun=False,
        )
