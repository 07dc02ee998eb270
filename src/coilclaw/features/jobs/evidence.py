"""Evidence: what a job leaves behind so that anybody can check later what it did, by hashes."""

from collections.abc import Iterable, Mapping

import msgspec

from coilclaw.packets.action import INTERNAL
from coilclaw.packets.canonical import Json, JsonObject, canonical_bytes, sha256_hex
from coilclaw.packets.ids import Clock, stamp
from coilclaw.store.job_history import (
    ActionReceipt,
    JobArtifact,
    add_job_artifact,
    count_messages,
    job_artifacts,
    turn_receipts,
)
from coilclaw.store.jobs import JobRow
from coilclaw.store.tx import Tx
from coilclaw.store.usage import tokens_of_job

MANIFEST = "evidence_manifest"
MOST_RECEIPTS = 5000
MOST_FILES = 5000


def put_manifest(tx: Tx, clock: Clock, job: JobRow, files: Mapping[str, str | None]) -> str:
    """Keep the manifest of a job that ends as `job` stands; returns the artifact's id."""
    content = canonical_bytes(manifest(tx, clock, job, files))
    return add_job_artifact(tx, clock, job, kind=MANIFEST, name="manifest", content=content, label=INTERNAL)


def manifest(db: Tx, clock: Clock, job: JobRow, files: Mapping[str, str | None]) -> dict[str, Json]:
    """Everything there is to show for a job: what was asked, how it ended, and the hashes of what it left."""
    receipts = turn_receipts(db, job.turn_id, MOST_RECEIPTS + 1)
    spec: JsonObject = msgspec.to_builtins(job.spec)
    fields: dict[str, Json] = {
        "job_id": job.job_id,
        "spec_hash": sha256_hex(canonical_bytes(spec)),
        "state": job.state,
        "reason": job.reason,
        "receipts": [_receipt(each) for each in receipts[:MOST_RECEIPTS]],
        "receipts_left_out": len(receipts) > MOST_RECEIPTS,
        "artifacts": [_artifact(each) for each in job_artifacts(db, job.job_id) if each.kind != MANIFEST],
        "files": [{"path": path, "sha256": files[path]} for path in sorted(files)[:MOST_FILES]],
        "files_left_out": len(files) > MOST_FILES,
        "messages": count_messages(db, job.thread_id, job.turn_id),
        "tokens": tokens_of_job(db, job.job_id),
        "made_at": stamp(clock()),
    }
    return {**fields, "manifest_hash": sha256_hex(canonical_bytes(fields))}


def holds(fields: JsonObject) -> bool:
    """Whether a manifest is what its own hash says."""
    rest = {name: value for name, value in fields.items() if name != "manifest_hash"}
    return sha256_hex(canonical_bytes(rest)) == fields.get("manifest_hash")


def missing(required: Iterable[str], artifacts: Iterable[JobArtifact]) -> list[str]:
    """Names that a job had to leave and did not, as an artifact's name or kind."""
    there = {name for each in artifacts if each.kind != MANIFEST for name in (each.name, each.kind)}
    return [name for name in required if name not in there]


def _receipt(each: ActionReceipt) -> JsonObject:
    return {"id": each.id, "hash": each.receipt_hash, "tool": each.tool, "status": each.status}


def _artifact(each: JobArtifact) -> JsonObject:
    return {"id": each.artifact_id, "name": each.name, "kind": each.kind, "sha256": each.sha256}
