"""Nothing of a commit leaves unread: what a log does not print is read too."""

from pathlib import Path

import msgspec
import pytest

from coilclaw.features.runner.leaving import read_leaving
from coilclaw.features.runner.repo_choice import find_source
from coilclaw.packets.errors import ToolError
from tests.features.runner.repo_world import git
from tests.features.runner.session_world import SessionWorld
from tests.features.runner.test_desk import row_of

SECRET = "sekrit-value-8fJ2kQ0x7LmZ"
pytestmark = pytest.mark.slow


def put(folder, text):
    """A commit, word for word, as the last one of the branch."""
    made = git(folder, "hash-object", "-t", "commit", "-w", "--literally", "--stdin", given=text)
    git(folder, "update-ref", "HEAD", made)


def header(folder):
    head, _, rest = git(folder, "cat-file", "commit", "HEAD").encode().partition(b"\n\n")
    put(folder, head + f"\ngpgsig first\n {SECRET}\n\n".encode() + rest + b"\n")


def note(folder):
    head, _, rest = git(folder, "cat-file", "commit", "HEAD").encode().partition(b"\n\n")
    put(folder, head + f"\nseen-by {SECRET}\n\n".encode() + rest + b"\n")


def nul(folder):
    put(folder, git(folder, "cat-file", "commit", "HEAD").encode() + f"\n\0{SECRET}\n".encode())


def author(folder):
    git(folder, "commit", "-q", "--amend", "--author", f"{SECRET} <a@localhost>", "-m", "one")


def name(folder):
    (folder / SECRET).write_text("x")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "two")


def link(folder):
    (folder / "link").symlink_to(SECRET)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "two")


def binary(folder):
    (folder / ".gitattributes").write_text("* -diff binary\n")
    (folder / "blob").write_bytes(b"\0\1" + SECRET.encode() + b"\0")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "two")


def octopus(folder):
    begin = git(folder, "rev-parse", "HEAD")
    git(folder, "checkout", "-q", "--orphan", "other")
    (folder / "other").write_text(SECRET)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "root")
    root = git(folder, "rev-parse", "HEAD")
    tree = git(folder, "rev-parse", f"{begin}^{{tree}}")
    made = git(folder, "commit-tree", tree, "-p", begin, "-p", root, "-p", f"{begin}^", "-m", "all")
    git(folder, "checkout", "-q", "-f", "kept")
    git(folder, "update-ref", "HEAD", made)


def evil_merge(folder):
    begin = git(folder, "rev-parse", "HEAD")
    (folder / "evil").write_text(SECRET)
    git(folder, "add", ".")
    tree = git(folder, "write-tree")
    made = git(folder, "commit-tree", tree, "-p", f"{begin}^", "-p", begin, "-m", "all")
    git(folder, "update-ref", "HEAD", made)
    git(folder, "rm", "-qf", "evil")
    git(folder, "commit", "-qm", "gone")


def utf16(folder):
    (folder / "wide").write_bytes(SECRET.encode("utf-16-le"))
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "two")


def encoded(folder):
    git(folder, "-c", "i18n.commitEncoding=UTF-16LE", "commit", "-q", "--allow-empty", "-m", SECRET)


PLACES = (header, note, nul, author, name, link, binary, octopus, evil_merge, utf16, encoded)


@pytest.mark.parametrize("hide", PLACES, ids=lambda each: each.__name__)
async def test_known_secret_in_any_part_of_a_commit_stops_it(sample, hide):
    world = SessionWorld(sample)
    row = row_of(world)
    checkouts = world.sessions.checkouts
    checkout = await checkouts.prepare(row.session_id, find_source(world.app, row.spec.repo), "", "branch", "write")
    folder = Path(checkout.path)
    # the checkout of a box borrows objects from a place that only the box has
    (folder / ".git/objects/info/alternates").write_text(f"{world.folder}/.git/objects\n")
    git(folder, "branch", "-f", "kept")
    (folder / "made.txt").write_text("text\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    git(folder, "branch", "-f", "kept")
    world.app.redactor.register("KEY", SECRET)
    branch = git(folder, "symbolic-ref", "HEAD")
    hide(folder)
    git(folder, "update-ref", branch, "HEAD")
    git(folder, "symbolic-ref", "HEAD", branch)
    row = msgspec.structs.replace(row, checkout=checkout)
    with pytest.raises(ToolError) as refused:
        await read_leaving(world.app, world.sessions, row)
    assert refused.value.code == ("CLONE_FAILED" if hide is nul else "SECRET_LEAVES")  # git takes no such text over
