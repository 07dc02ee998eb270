"""Signed heads leave the home for the branch `ledger`: each once, in order, whoever else is at it."""

import asyncio
import json
import subprocess
import threading

import pytest

from coilclaw.features.forge.heads import anchor_heads
from coilclaw.ledger.anchors import HEADS, anchored, anchored_at
from coilclaw.packets.errors import LedgerBroken
from coilclaw.packets.forge import LEDGER
from coilclaw.sandbox.bot_repository import BOT, BotRepository, ForgeRefused, Written
from tests.features.forge.forge_home import add_heads, files_on, git


def stored(app):
    return [row[0].encode() for row in app.db.reader.execute("SELECT line FROM ledger_heads ORDER BY size")]


@pytest.fixture
def home(sample):
    made = sample(receipts__head_every=1)
    asyncio.run(add_heads(made, 3))
    return made


def test_every_head_is_appended_once_with_the_key_it_names(home):
    app, repository = home.app, BotRepository(home.workspace)
    assert anchor_heads(app) == 3
    first = repository.resolve(LEDGER)
    assert anchor_heads(app) == 0
    assert repository.resolve(LEDGER) == first
    files = files_on(home.workspace, LEDGER)
    assert files[HEADS] == b"".join(line + b"\n" for line in stored(app))
    assert set(files) == {HEADS, f"keys/{app.signing_key.name()}.pub"}
    assert len(anchored(files).heads) == 3
    assert anchored(files).faults == ()


def test_the_branch_begins_by_itself_and_only_grows(home):
    anchor_heads(home.app)
    repository = BotRepository(home.workspace)
    first = repository.resolve(LEDGER)
    asyncio.run(add_heads(home, 2))
    assert anchor_heads(home.app) == 2
    (newest, oldest) = repository.log(LEDGER, 10)
    assert (newest.parents, oldest.sha, oldest.parents) == ((first,), first, ())
    size = json.loads(stored(home.app)[-1])["size"]
    assert f"Ledger-Head: {size}:" in newest.body
    assert files_on(home.workspace, LEDGER)[HEADS].startswith(files_on(home.workspace, first)[HEADS])


def test_without_heads_or_a_repository_nothing_is_done(home, sample):
    assert anchor_heads(sample().app) == 0
    (home.workspace / ".git").rename(home.workspace.parent / "elsewhere")
    assert anchor_heads(home.app) == 0


def test_of_several_at_once_each_head_is_added_by_one(home):
    asyncio.run(add_heads(home, 3))
    counts, start = [], threading.Barrier(4)

    def run():
        start.wait()
        counts.append(anchor_heads(home.app))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sum(counts) == 6
    assert anchored(files_on(home.workspace, LEDGER)).faults == ()


class MadeMeanwhile(BotRepository):
    """A repository whose branch somebody else makes just after it was looked for."""

    def resolve(self, name: str) -> str:
        found = super().resolve(name)
        if name == LEDGER and not found:
            git(self.folder, "update-ref", LEDGER, super().resolve("refs/heads/main"))
        return found


def test_a_branch_made_while_it_is_looked_for_is_no_damaged_one(home):
    repository = MadeMeanwhile(home.workspace)
    assert repository.tip(LEDGER) == repository.resolve("refs/heads/main")


def test_a_branch_that_was_deleted_or_set_back_gets_its_heads_again_and_it_is_said(home):
    anchor_heads(home.app)
    first = BotRepository(home.workspace).resolve(LEDGER)
    asyncio.run(add_heads(home, 2))
    anchor_heads(home.app)
    git(home.workspace, "update-ref", LEDGER, first)
    assert anchor_heads(home.app) == 2
    git(home.workspace, "update-ref", "-d", LEDGER)
    assert anchor_heads(home.app) == 5
    assert len([fields for _, fields in home.events if "had lost heads" in fields.get("message", "")]) == 2
    assert anchored_at(home.app.db.reader)[1] == BotRepository(home.workspace).resolve(LEDGER)


def test_a_commit_that_was_not_noted_down_is_found(home):
    anchor_heads(home.app)
    home.app.db.write_now(lambda tx: tx.execute("DELETE FROM meta WHERE key = 'ledger_anchored'"))
    tip = BotRepository(home.workspace).resolve(LEDGER)
    assert anchor_heads(home.app) == 0
    assert BotRepository(home.workspace).resolve(LEDGER) == tip
    assert anchored_at(home.app.db.reader)[1] == tip


@pytest.mark.parametrize(
    "data", [b"", b"nonsense\n", b"\xff\xfe\n", None], ids=["emptied", "nonsense", "not text", "cut within a line"]
)
def test_a_branch_with_other_heads_is_left_as_it_is(home, data):
    anchor_heads(home.app)
    repository = BotRepository(home.workspace)
    tip = repository.resolve(LEDGER)
    data = (repository.read(tip, HEADS)[:-30] + b"x") if data is None else data
    repository.move(LEDGER, repository.commit(tip, [Written(HEADS, data)], "change", BOT, 1), tip)
    if data:
        with pytest.raises(LedgerBroken, match="holds other heads"):
            anchor_heads(home.app)
        assert repository.read(repository.resolve(LEDGER), HEADS) == data
    else:
        assert anchor_heads(home.app) == 3


def test_a_key_that_was_taken_away_is_put_back(home):
    anchor_heads(home.app)
    repository = BotRepository(home.workspace)
    tip, key = repository.resolve(LEDGER), f"keys/{home.app.signing_key.name()}.pub"
    repository.move(LEDGER, repository.commit(tip, [Written(key, None)], "change", BOT, 1), tip)
    assert anchor_heads(home.app) == 0
    assert anchored(files_on(home.workspace, LEDGER)).faults == ()


def test_a_file_of_a_hundred_megabytes_is_not_read(home):
    anchor_heads(home.app)
    repository = BotRepository(home.workspace)
    tip = repository.resolve(LEDGER)
    repository.move(LEDGER, repository.commit(tip, [Written(HEADS, bytes(100 << 20))], "big", BOT, 1), tip)
    with pytest.raises(ForgeRefused, match="too large"):
        anchor_heads(home.app)


def test_a_broken_object_is_said(home):
    anchor_heads(home.app)
    asyncio.run(add_heads(home, 1))
    folder = home.workspace / ".git" / "objects"
    git(home.workspace, "update-ref", "refs/heads/x", "main")
    for pack in folder.glob("pack/*"):
        data = pack.read_bytes()
        pack.unlink()
        if pack.suffix == ".pack":
            subprocess.run(["git", "unpack-objects", "-q"], input=data, cwd=home.workspace, check=True)
    blob = git(home.workspace, "rev-parse", f"{LEDGER}:{HEADS}").strip()
    (folder / blob[:2] / blob[2:]).unlink()
    with pytest.raises(ForgeRefused, match="missing or damaged"):
        anchor_heads(home.app)
    commit = git(home.workspace, "rev-parse", LEDGER).strip()
    (folder / commit[:2] / commit[2:]).unlink()
    with pytest.raises(ForgeRefused, match="leads to no commit"):
        anchor_heads(home.app)
