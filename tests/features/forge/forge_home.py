"""What tests of the forge share: heads in a home, files on a branch, and a clone that somebody rewrites."""

import asyncio
import json
import subprocess

from coilclaw.features.forge.export import export_files
from coilclaw.features.forge.heads import anchor_heads
from coilclaw.features.forge.job_file import commit_message, ledger_head, runtime_files
from coilclaw.ledger.audit import add_event
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.forge import MAIN
from coilclaw.sandbox.bot_repository import BOT, BotRepository, Written
from tests.conftest import TestClock
from tests.features.forge.forge_world import add_job, file_facts
from tests.home import Sample


async def add_heads(home, count):
    """Actions of a home whose `receipts.head_every` is 1: each leaves a receipt and a signed head."""
    before = len(home.receipts())
    for number in range(before, before + count):
        await home.call("file_list", path=".", key=f"head-{number}")
        await home.app.ledger.seal_if_due()


def git(folder, *arguments):
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def files_on(folder, name):
    """Every file of a branch or commit, by path."""
    repository = BotRepository(folder)
    entries = repository.entries(repository.resolve(name))
    blobs = repository.blobs(entry.blob for entry in entries.values())
    return {path: blobs[entry.blob] for path, entry in entries.items()}


class Bot:
    """A home whose jobs were merged, whose days were exported and whose heads were anchored, by the real pieces."""

    def __init__(self, folder):
        self.home = Sample(folder, receipts__head_every=1)
        self.app = self.home.app
        self.clock = TestClock()
        self.app.clock = self.clock
        self.workspace = self.home.workspace
        self.repository = BotRepository(self.workspace)

    def now(self):
        return int(self.clock.now.timestamp())

    def put(self, files, message="Changes", parent=""):
        """A commit straight onto main."""
        main = self.repository.resolve(MAIN)
        self.repository.move(MAIN, self.repository.commit(parent or main, files, message, BOT, self.now()), main)

    def job(self, number, *written):
        """A job that changed these files, merged."""
        job_id = f"job_01kx3v9t2c8m4q7r{number:02}"
        job = add_job(self.home, f"Do number {number}.", job_id=job_id)
        asyncio.run(add_heads(self.home, 2))
        db, base = self.app.db.reader, self.repository.resolve(MAIN)
        files = {each.path: None if each.data is None else sha256_hex(each.data) for each in written}
        facts = file_facts(branch=f"job/{job_id}", base=base, pr=number, files=files)
        own = runtime_files(db, self.clock, job, facts)
        evidence = json.loads(own[2].data)["manifest_hash"]
        message = commit_message(f"Do number {number}", job_id, evidence, "a" * 64, ledger_head(db))
        head = self.repository.commit(base, (*written, *own), message, BOT, self.now())
        tree = self.repository.merge(base, head).tree
        action = f"act_01kx3v9t2c8m4q7r{number:02}"
        text = f"Merge #{number}: it\n\nPull-Request: {number}\nJob: {job_id}\nAction: {action}\nApproved-By: terminal"
        text += f"\nPolicy-Hash: {'a' * 64}\nLedger-Head: {ledger_head(db)}"
        merge = self.repository.commit_tree(tree, [base, head], text, BOT, self.now())
        self.repository.move(MAIN, merge, base)
        self.note("tool_requested", action, tool="pr_merge")
        self.note("tool_approved", action, by="terminal")
        self.note("pr_merged", f"pr_{number}", number=number, head=head, commit=merge, action=action)
        self.note("tool_completed", action, code="APPROVED")
        return job_id

    def note(self, kind, entity, **payload):
        self.app.db.write_now(lambda tx: add_event(tx, self.clock, kind, entity, payload))

    def export(self):
        self.clock.advance(days=1)
        files = export_files(self.app, "2099-01-01", lambda job_id: [])
        self.put(files, f"Audit\n\nLedger-Head: {ledger_head(self.app.db.reader)}")

    def clone(self, folder, *options):
        subprocess.run(["git", "clone", "-q", "--no-local", *options, str(self.workspace), str(folder)], check=True)
        return folder


def make_bot(folder):
    """Three jobs over several days, all of it in order."""
    bot = Bot(folder)
    bot.job(1, Written("notes/a.md", b"one\n"), Written("notes/b.md", b"two\n"))
    bot.export()
    bot.job(2, Written("notes/a.md", b"other\n"), Written("notes/b.md", None))
    bot.clock.advance(days=3)
    bot.job(3, Written("intel/2026-03/x.md", "ünïcode 🦀\n".encode()))
    bot.export()
    asyncio.run(add_heads(bot.home, 1))
    anchor_heads(bot.app)
    return bot


class Copy:
    """A bare clone whose history somebody rewrites."""

    def __init__(self, folder, git_dir=None):
        self.folder = folder
        self.repository = BotRepository(folder, git_dir=git_dir or folder)

    @property
    def main(self):
        return self.repository.resolve(MAIN)

    def paths(self, prefix="", suffix=""):
        return sorted(p for p in self.repository.entries(self.main) if p.startswith(prefix) and p.endswith(suffix))

    def read(self, path, name=MAIN):
        return self.repository.read(self.repository.resolve(name), path)

    def merges(self):
        return [each for each in reversed(self.repository.log(MAIN, 1000)) if "\nJob: " in f"\n{each.body}"]

    def put(self, *files, name=MAIN, message="change", when=1772700000):
        tip = self.repository.resolve(name)
        self.repository.move(name, self.repository.commit(tip, files, message, BOT, when), tip)

    def edit(self, path, change, name=MAIN, **more):
        self.put(Written(path, change(self.read(path, name))), name=name, **more)

    def remake(self, number, *files, change=lambda message: message, branch=lambda message: message):
        """Write the merge of a job anew, with other files or words, and everything after it on top."""
        merge = self.merges()[number]
        base, head = merge.parents
        after = list(reversed(self.repository.log(MAIN, 1000)))
        after = after[[each.sha for each in after].index(merge.sha) + 1 :]
        (old,) = self.repository.log(head, 1)
        tip = self.repository.commit(old.parents[0], files, branch(words(old)), BOT, 1772000000, base=head)
        tree = self.repository.merge(base, tip).tree
        new = self.repository.commit_tree(tree, [base, tip], change(words(merge)), BOT, 1772000000)
        for each in after:
            if len(each.parents) > 1:
                merged = self.repository.merge(new, each.parents[1]).tree
                new = self.repository.commit_tree(merged, [new, each.parents[1]], words(each), BOT, 1772000000)
            else:
                differing = self.repository.changes(each.parents[0], each.sha)
                kept = [Written(d.path, self.repository.read(each.sha, d.path)) for d in differing]
                new = self.repository.commit(new, kept, words(each), BOT, 1772700000)
        self.repository.move(MAIN, new, self.main)


def words(commit):
    return f"{commit.subject}\n\n{commit.body}"
