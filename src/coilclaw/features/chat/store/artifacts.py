"""Artifacts by their id, whoever left them: what they are, and their bytes."""

import msgspec

from coilclaw.packets.action import Label
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.tx import Tx


class ArtifactRow(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact without its bytes."""

    artifact_id: str
    kind: str
    """What it is: message, report, upload, …"""
    name: str
    size: int
    sha256: str
    label: Label
    thread_id: str | None
    job_id: str | None
    created_at: str


def load_artifact(db: Tx, artifact_id: str) -> ArtifactRow | None:
    """One artifact by its id."""
    row = db.execute(
        "SELECT artifact_id, type, name, length(blob), content_hash, label, thread_id, job_id, created_at"
        " FROM artifacts WHERE artifact_id = ?",
        (artifact_id,),
    ).fetchone()
    if row is None:
        return None
    return ArtifactRow(
        artifact_id=row[0],
        kind=row[1],
        name=row[2],
        size=int(row[3]),
        sha256=row[4] or sha256_hex(artifact_content(db, artifact_id) or b""),
        label=row[5],
        thread_id=row[6],
        job_id=row[7],
        created_at=row[8],
    )


def artifact_content(db: Tx, artifact_id: str) -> bytes | None:
    """An artifact's bytes."""
    row = db.execute("SELECT blob FROM artifacts WHERE artifact_id = ?", (artifact_id,)).fetchone()
    return None if row is None else bytes(row[0])


def keep_artifact(
    tx: Tx, clock: Clock, *, artifact_id: str, kind: str, name: str, content: bytes, label: Label
) -> None:
    """Keep bytes that belong to no conversation; the same id again changes nothing."""
    tx.execute(
        "INSERT INTO artifacts (artifact_id, type, name, content_hash, blob, label, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (artifact_id, kind, name, sha256_hex(content), content, label, stamp(clock())),
    )
