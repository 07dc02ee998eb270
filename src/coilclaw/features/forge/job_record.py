"""The record of a job in git: what the runtime knows about it when its pull request is opened, and when it is over."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from coilclaw.features.forge.job_file import JobFileFacts, Stands, runtime_files, skills_of_job
from coilclaw.features.forge.paths import evidence_path
from coilclaw.features.forge.store import pull_of_job
from coilclaw.packets.canonical import JsonObject, parse_object
from coilclaw.packets.decision import Risk
from coilclaw.packets.forge import PullRequest
from coilclaw.packets.ids import stamp
from coilclaw.sandbox.fast_import import Written
from coilclaw.store.job_history import last_answer
from coilclaw.store.jobs import JobRow, load_job
from coilclaw.store.usage import models_of_job

if TYPE_CHECKING:
    from coilclaw.features.forge.forge import LocalForge
    from coilclaw.runtime.runtime import Runtime


class JobRecords:
    """Gathers the facts for the files of jobs. Blocking: call it in a thread."""

    def __init__(self, app: "Runtime", forge: "LocalForge") -> None:
        self._app = app
        self._forge = forge

    def facts(
        self,
        job: JobRow,
        *,
        branch: str,
        base: str,
        pr: int | None,
        risk: Risk,
        files: Mapping[str, str | None],
        stands: Stands,
        allowed_by: str = "",
    ) -> JobFileFacts:
        """What is known of a job besides its pull request, together with that."""
        db = self._app.db.reader
        return JobFileFacts(
            branch=branch,
            base=base,
            pr=pr,
            mode=self._forge.mode(),
            risk=risk,
            summary=self._app.redact(last_answer(db, job)),
            files=files,
            models=models_of_job(db, job.job_id),
            skills=skills_of_job(db, job),
            stands=stands,
            allowed_by=allowed_by,
        )

    def final_files(self, job_id: str) -> list[Written]:
        """The record of a job that is over, for the export; the evidence that stands on main stays as it is."""
        app, forge = self._app, self._forge
        job, pull = load_job(app.db.reader, job_id), pull_of_job(app.db.reader, job_id)
        if job is None or job.updated_at[:10] >= stamp(app.clock())[:10]:
            return []  # of complete days, as the events are
        known = forge.repository.read(forge.bot.main(), evidence_path(job_id))
        evidence = None if known is None else parse_object(known.strip())
        facts = self.facts(
            job,
            branch="" if pull is None else pull.branch,
            base="" if pull is None else pull.base_sha,
            pr=None if pull is None else pull.number,
            risk="R0" if pull is None else pull.risk,
            files=_files(evidence),
            stands=_stands(pull),
            allowed_by="" if pull is None or pull.state != "MERGED" else self._allowed(pull.merged_sha),
        )
        return runtime_files(app.db.reader, app.clock, job, facts, evidence)

    def _allowed(self, merge: str) -> str:
        """Who allowed a merge, in the words of its commit."""
        repository = self._forge.repository
        if not repository.resolve(merge):  # the owner rewrote main
            return f"Merged as {merge}, which is no longer in the repository."
        commit = repository.log(merge, 1)[0]
        trailers = dict(line.split(": ", 1) for line in commit.body.splitlines() if ": " in line)
        by, action = trailers.get("Approved-By", ""), trailers.get("Action", "")
        if not by and self._app.config.forge.kind == "github":
            by = "the owner, on GitHub"  # whose merges there say nothing of it
        allowed = f"Allowed by: {by}{f' ({action})' if action else ''}. " if by else ""
        return f"{allowed}Merged as {merge} at {commit.time}."


def _stands(pull: PullRequest | None) -> Stands:
    if pull is None or pull.state != "MERGED":
        return "unmerged"
    return "reverted" if pull.reason else "merged"


def _files(evidence: JsonObject | None) -> dict[str, str | None]:
    """The files that a job changed, as its evidence names them."""
    listed = () if evidence is None else evidence.get("files")
    found: dict[str, str | None] = {}
    for each in listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ():
        if isinstance(each, Mapping) and isinstance(path := each.get("path"), str):
            digest = each.get("sha256")
            found[path] = digest if isinstance(digest, str) else None
    return found
