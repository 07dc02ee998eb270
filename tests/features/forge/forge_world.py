"""A home with a job in it, for tests of what the forge writes and checks."""

import subprocess
from datetime import UTC, datetime

import msgspec

from coilclaw.features.forge.checks import run_checks
from coilclaw.features.forge.job_file import JobFileFacts, runtime_files
from coilclaw.features.jobs.record import create
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.forge import PullRequest
from coilclaw.packets.job import Constraints, JobSpec, Outputs
from coilclaw.sandbox.bot_repository import BOT, BotRepository, Written
from coilclaw.store.jobs import JobBudget, JobRow, save
from tests.home import Sample

JOB = "job_01kx3v9t2c8m4q7r5n"


def moment():
    return datetime(2026, 3, 1, 0, 30, tzinfo=UTC)


def add_job(sample, goal="Write the weekly report.", *, taint="internal", job_id=JOB, **spec):
    """A job that is being worked on."""
    made = JobSpec(
        job_id=job_id,
        intent=spec.pop("intent", goal),
        constraints=spec.pop("constraints", Constraints()),
        outputs=spec.pop("outputs", Outputs()),
        **spec,
    )
    row = JobRow(
        job_id=job_id,
        thread_id=f"conv_{job_id}",
        goal=goal,
        state="RECEIVED",
        spec=made,
        budget=JobBudget(tokens=1000, steps=10),
        created_at="2026-02-28T23:59:59.000Z",
    )

    def write(tx):
        job = create(tx, moment, row, "cli")
        return save(tx, moment, msgspec.structs.replace(job, state="EXECUTING", checkpoint_label=taint), job.version)

    return sample.app.db.write_now(write)


def file_facts(**more):
    """What the forge knows about its pull request."""
    known = {
        "branch": f"job/{JOB}",
        "base": "a" * 40,
        "pr": 7,
        "mode": "strict",
        "risk": "R2",
        "summary": "I wrote the report.",
        "files": {"reports/week.md": "b" * 64, "old.md": None},
        "models": ("mock/mock-1",),
        "skills": (),
        "stands": "proposed",
        "allowed_by": "",
    }
    return JobFileFacts(**{**known, **more})


class World:
    """A bot with a job whose pull request is to be checked."""

    def __init__(self, folder, **config):
        self.sample = Sample(folder, **config)
        self.app = self.sample.app
        self.repository = BotRepository(self.app.workspace)
        self.main = self.repository.resolve("refs/heads/main")
        self.job = None

    def add_job(self, **spec):
        self.job = add_job(self.sample, **spec)
        return self.job

    def put_on_main(self, *written):
        self.main = self.repository.commit(self.main, written, "main", BOT, 1_800_000_000)

    def head_of(self, changes, *, own=True, more=()):
        """The commit of the pull request: these changes, and what the runtime writes beside them."""
        if self.job is None:
            self.add_job()
        written = [
            Written(path, data) if isinstance(data, bytes | None) else Written(path, *data)
            for path, data in changes.items()
        ]
        hashes = {each.path: None if each.data is None else sha256_hex(each.data) for each in written}
        if own:
            written += runtime_files(self.app.db.reader, moment, self.job, file_facts(files=hashes))
        return self.repository.commit(self.main, [*written, *more], "change", BOT, 1_800_000_000)

    def pull(self, head, taint=(), job_id=JOB):
        return PullRequest(
            number=1, repository="", job_id=job_id, session_id=None, draft=False, branch=f"job/{JOB}",
            base_sha=self.main, head_sha=head, title="t", body="b", risk="R2", labels=(), taint=taint, state="OPEN",
            merged_sha="", action_id=None, checks=(), checked_sha="", rounds=0, wanted="", dormant=False, reason="",
            opened_at="", updated_at="", deployed_at=None,
        )  # fmt: skip

    async def checked(self, changes, *, taint=(), own=True, more=()):
        """Every check by name, for a pull request with these changes."""
        head = self.head_of(changes, own=own, more=more)
        merged = self.repository.merge(self.main, head)
        assert not merged.conflicts
        checks = await run_checks(self.app, self.pull(head, taint), self.main, merged.tree)
        return {check.name: check for check in checks}

    async def failed(self, changes, **more):
        """The checks that failed, each with all that it said."""
        checks = await self.checked(changes, **more)
        return {name: " ".join((check.summary, *check.details)) for name, check in checks.items() if not check.passed}

    def raw_commit(self, *lines):
        """A commit as only git's own plumbing makes it: any name and any mode."""
        stream = [
            f"commit refs/raw\ncommitter x <x@x> 1800000000 +0000\ndata 1\nx\nfrom {self.main}\n",
            *lines,
            "done\n",
        ]
        self._git("fast-import", "--quiet", "--done", "--date-format=raw", "--force", given="".join(stream))
        return self.repository.resolve("refs/raw")

    def tree_of(self, commit):
        """The files of a commit: what merging it gives while main has not moved."""
        return self._git("rev-parse", f"{commit}^{{tree}}").decode().strip()

    def _git(self, *args, given=""):
        run = subprocess.run(
            ["git", *args], cwd=self.app.workspace, input=given.encode(), check=True, capture_output=True
        )
        return run.stdout
