"""The forge beside bare git: a job's tree, its pull request, the difference by file, and a merge that is deployed."""

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from bench.gate import BareCommits
from bench.home import BenchHome
from bench.rounds import Timing, timed, timings
from bench.row import Plan, Row, beside
from coilclaw.features.forge.deployment import put_in_place
from coilclaw.features.forge.forge import LocalForge
from coilclaw.features.forge.store import new_pull
from coilclaw.features.forge.views import file_diffs
from coilclaw.features.jobs.record import create
from coilclaw.packets.forge import MAIN, PullRequest
from coilclaw.packets.job import JobSpec
from coilclaw.sandbox.bot_repository import BOT, Written
from coilclaw.store.jobs import JobBudget, JobRow

GROUP = "forge"
FILES = 10
DURABLE = ("-c", "core.fsync=committed,reference", "-c", "core.fsyncMethod=batch")
"""Bare git does not sync what it writes; what is measured has to, so both do."""


def measure(plan: Plan) -> Iterator[Row]:
    """Each against the git commands that it cannot do without."""
    folder = plan.folder / GROUP
    folder.mkdir()
    home = BenchHome(folder)
    bench = _Bench(home, folder)
    try:
        yield bench.tree(plan, plan.size(10_000, 100))
        yield bench.opened(plan)
        yield bench.difference(plan, plan.size(1000, 50))
        yield bench.merged(plan)
    finally:
        bench.bare.close()
        home.close()


class _Bench:
    """A bot, and its repository seen by bare git."""

    def __init__(self, home: BenchHome, folder: Path) -> None:
        self.app = home.app
        budgets = msgspec.structs.replace(self.app.config.budgets, prs_per_day=10_000)
        self.app.config = msgspec.structs.replace(self.app.config, budgets=budgets)
        self.forge = LocalForge(self.app)
        self.folder = folder
        self.bare = BareCommits(home.database.with_name("bare.sqlite"))
        self.when = int(self.app.clock().timestamp())
        self.count = 0

    def git(self, *args: str, given: bytes = b"", **more: str) -> bytes:
        """One git command in the workspace."""
        environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", **more}
        command = ["git", *DURABLE, "-C", str(self.app.workspace), *args]
        return subprocess.run(command, env=environ, input=given, check=True, capture_output=True).stdout

    def put_on_main(self, files: Mapping[str, bytes | None]) -> str:
        """A commit on main that the workspace holds too."""
        main = self.forge.bot.settle("before")
        written = [Written(path, data) for path, data in files.items()]
        new = self.forge.repository.commit(main, written, "more", BOT, self.when)
        self.forge.repository.move(MAIN, new, main)
        return self.forge.bot.settle("after")

    def job(self) -> JobRow:
        """A job that is being worked on."""
        self.count += 1
        name = f"job_bench{self.count:08}"
        row = JobRow(
            job_id=name,
            thread_id=f"conv_{name}",
            goal="write",
            state="RECEIVED",
            spec=JobSpec(job_id=name, intent="write"),
            budget=JobBudget(tokens=1000, steps=10),
        )
        return self.app.db.write_now(lambda tx: create(tx, self.app.clock, row, "cli"))

    # Rows

    def tree(self, plan: Plan, count: int) -> Row:
        """The tree of a job, beside the files alone."""
        main = self.put_on_main({f"many/{n % 100}/{n}.txt": f"file {n}\n".encode() * 20 for n in range(count)})
        place = self.folder / "plain"

        def plain() -> float:
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            index = {"GIT_INDEX_FILE": str(self.folder / "index")}
            start = time.perf_counter()
            self.git("read-tree", main, **index)
            self.git("checkout-index", "--all", f"--prefix={place}/", **index)
            return time.perf_counter() - start

        def made() -> float:
            job = self.job()
            start = time.perf_counter()
            self.forge.trees.put(job.job_id, main, main)
            spent = time.perf_counter() - start
            self.forge.trees.remove(job.job_id)
            return spent

        found = timings({"plain": plain, "made": made}, plan.rounds)
        shutil.rmtree(place)
        self.put_on_main({f"many/{n % 100}/{n}.txt": None for n in range(count)})
        what = f"tree of {count} files"
        return _row(what, found["made"], "git read-tree, checkout-index", found["plain"], 1.5)

    def opened(self, plan: Plan) -> Row:
        """A pull request of some files, from the tree to the row."""
        main = self.forge.bot.settle("before")

        def made() -> float:
            job = self.job()
            tree = self.forge.trees.put(job.job_id, main, main)
            for number in range(FILES):
                Path(tree.folder, f"new{number}.md").write_text(f"{job.job_id} {number}\n")
            start = time.perf_counter()
            self.forge.publish(job)
            spent = time.perf_counter() - start
            self.forge.trees.remove(job.job_id)
            return spent

        made()  # what it holds is what bare git is given
        pull = self.forge.find(1)
        changes = self.forge.changes(pull)
        blobs = self.forge.repository.blobs(each.new_blob for each in changes)

        def plain() -> float:
            self.count += 1
            old, new = (str(pull.job_id).encode(), f"job_plain{self.count:08}".encode())
            lines = [f"commit refs/heads/bare{self.count}\ncommitter x <x@x> {self.when} +0000\ndata 1\nx\n".encode()]
            lines.append(f"from {main}\n".encode())
            for each in changes:
                data = blobs[each.new_blob].replace(old, new)
                path = each.path.encode().replace(old, new)
                lines += [b"M 100644 inline %s\ndata %d\n" % (path, len(data)), data, b"\n"]
            start = time.perf_counter()
            self.git("fast-import", "--quiet", "--date-format=raw", given=b"".join(lines))
            self.bare.commit("x" * 2000)
            return time.perf_counter() - start

        found = timings({"plain": plain, "made": made}, plan.rounds)
        return _row(
            f"pull request of {FILES} files", found["made"], "durable git fast-import, 1 commit", found["plain"], 2
        )

    def difference(self, plan: Plan, count: int) -> Row:
        """What it changes, file by file as it is shown."""
        main = self.forge.bot.settle("before")
        written = [Written(f"wide/{n}.md", f"line {n}\n".encode() * 10) for n in range(count)]
        head = self.forge.repository.commit(main, written, "wide", BOT, self.when)
        pull = self._pull(main, head)
        changes = self.forge.changes(pull)
        found = timings(
            {
                "plain": timed(lambda: self.git("diff-tree", "-r", "-p", main, head)),
                "made": timed(lambda: file_diffs(self.forge, pull, changes, lambda text: text, whole=True)),
            },
            plan.rounds,
        )
        return _row(f"difference of {count} files, by file", found["made"], "git diff-tree -p", found["plain"], 1.5)

    def merged(self, plan: Plan) -> Row:
        """A merge, and its files put in place."""
        with asyncio.Runner() as loop:

            def made() -> float:
                self.count += 1
                written = [Written(f"merge{n}.md", f"{self.count}\n".encode()) for n in range(FILES)]
                pull = self.forge.open_plain(f"bench/{self.count}", written, "t", "b")
                assert pull is not None
                pull = loop.run(self.forge.check(pull))
                args = self.forge.merge_args(pull)
                start = time.perf_counter()
                done = loop.run(
                    self.forge.merge(pull.number, str(args["head"]), str(args["diff"]), str(args["checks"]))
                )
                loop.run(put_in_place(self.app, self.forge, done))
                return time.perf_counter() - start

            def plain() -> float:
                self.count += 1
                main = self.forge.bot.settle("before")
                written = [Written(f"merge{n}.md", f"{self.count}\n".encode()) for n in range(FILES)]
                head = self.forge.repository.commit(main, written, "x", BOT, self.when)
                self.git("update-index", "-q", "--refresh")
                start = time.perf_counter()
                tree = self.git("merge-tree", "--write-tree", main, head).decode().strip()
                who = {f"GIT_{role}_{part}": "x" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
                commit = self.git("commit-tree", tree, "-p", main, "-p", head, "-m", "x", **who).decode().strip()
                self.git("update-ref", MAIN, commit, main)
                self.git("read-tree", "-m", "-u", main, commit)
                return time.perf_counter() - start

            found = timings({"plain": plain, "made": made}, plan.rounds)
        against = "durable git merge-tree, commit-tree, update-ref, read-tree -u"
        return _row(f"merge and deployment of {FILES} files", found["made"], against, found["plain"], 2)

    def _pull(self, base: str, head: str) -> PullRequest:
        made = new_pull(branch="bench", base_sha=base, head_sha=head, title="t", body="b", risk="R2", labels=())
        return msgspec.structs.replace(made, number=1)


def _row(what: str, measured: Timing, against_what: str, against: Timing, goal: float) -> Row:
    return beside(GROUP, what, "ms", measured.scaled(1e3), against_what, against.scaled(1e3), at_most=goal)
