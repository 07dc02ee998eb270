"""Anchored heads by themselves: what is wrong with lines or keys of a branch is named, and nothing is raised."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.ledger.anchors import HEADS, MOST_FAULTS, anchored, key_file, size_limit
from coilclaw.ledger.cover import hash_of_heads
from coilclaw.ledger.heads import SigningKey
from coilclaw.packets.receipt import GENESIS, Covered


class Branch:
    """Heads as a home signs them."""

    def __init__(self, folder):
        self.key = SigningKey(folder)
        self.key.create()
        self.lines = []
        self.before = []

    def sign(self, size, *, key=None, audit=None, chained=True, previous=None):
        cover = Covered(
            audit=size * 2 if audit is None else audit,
            audit_hash=f"{size:064x}",
            log=size,
            heads=0,
            previous=previous or hash_of_heads(self.before),
        )
        head = (key or self.key).sign(size, f"{size:064x}", "2026-03-01T12:00:00.000Z", cover if chained else None)
        self.lines.append(head.line())
        self.before = [head.line()] if chained else [*self.before, head.line()]
        return head

    def files(self, lines=None):
        data = b"".join(line + b"\n" for line in (self.lines if lines is None else lines))
        return {HEADS: data, key_file(self.key.name()): self.key.public().hex().encode() + b"\n"}


@pytest.fixture
def branch(tmp_path):
    made = Branch(tmp_path / "keys")
    for size in (3, 8, 64, 70):
        made.sign(size)
    return made


def kinds(files):
    return [(fault.size, fault.kind) for fault in anchored(files).faults]


def test_what_a_home_signed_holds(branch):
    found = anchored(branch.files())
    assert [head.size for head in found.heads] == [3, 8, 64, 70]
    assert found.faults == ()
    assert found.keys == (branch.key.name(),)


def test_heads_of_an_earlier_version_are_continued_by_chained_ones(tmp_path):
    made = Branch(tmp_path / "keys")
    made.sign(2, chained=False)
    made.sign(5, chained=False)
    made.sign(9)
    made.sign(12)
    assert kinds(made.files()) == []
    made.sign(20, chained=False)
    assert kinds(made.files()) == [(20, "forged")]


def edited(line, **fields):
    return json.dumps({**json.loads(line), **fields}, separators=(",", ":")).encode()


CHANGES = {
    "a line left out": (lambda lines: [lines[0], *lines[2:]], (64, "dropped")),
    "two lines swapped": (lambda lines: [lines[0], lines[2], lines[1], lines[3]], (64, "dropped")),
    "a line twice": (lambda lines: [*lines[:2], lines[1], *lines[2:]], (8, "reordered")),
    "a hash changed": (lambda lines: [lines[0], edited(lines[1], hash="f" * 64), *lines[2:]], (8, "forged")),
    "a size changed": (lambda lines: [lines[0], edited(lines[1], size=9), *lines[2:]], (9, "forged")),
    "a time changed": (lambda lines: [edited(lines[0], time="2025"), *lines[1:]], (3, "forged")),
    "a signature emptied": (lambda lines: [edited(lines[0], signature=""), *lines[1:]], (3, "forged")),
    "a signature that is no number": (lambda lines: [edited(lines[0], signature="zz"), *lines[1:]], (3, "forged")),
    "the last one's key renamed": (lambda lines: [*lines[:3], edited(lines[3], key="0" * 16)], (70, "forged")),
    "nonsense": (lambda lines: [*lines[:2], b"hello", *lines[2:]], (0, "damaged")),
    "bytes that are no text": (lambda lines: [b"\xff\xfe\x00", *lines], (0, "damaged")),
    "an empty line": (lambda lines: [*lines, b""], (0, "damaged")),
    "spaces": (lambda lines: [lines[0].replace(b":", b": "), *lines[1:]], (0, "damaged")),
    "deep nesting": (lambda lines: [b"[" * 100_000, *lines], (0, "damaged")),
    "a number beyond any": (lambda lines: [b'{"size":' + b"9" * 5000 + b"}", *lines], (0, "damaged")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_file_is_named(branch, name):
    change, wanted = CHANGES[name]
    assert kinds(branch.files(change(branch.lines)))[0] == wanted


def test_a_size_with_two_versions_is_a_fork(branch):
    branch.sign(70, audit=500)
    assert kinds(branch.files())[0] == (70, "forked")


def test_another_history_that_the_same_key_signed_is_found(branch):
    branch.before = []
    branch.sign(90, previous=GENESIS)
    assert kinds(branch.files()) == [(90, "dropped")]
    branch.sign(91, audit=1)
    assert kinds(branch.files()) == [(90, "dropped"), (91, "forked")]


def test_a_head_signed_by_another_key_is_found_even_if_that_key_stands_in_the_branch(branch, tmp_path):
    other = SigningKey(tmp_path / "other")
    other.create()
    branch.sign(99, key=other)
    files = branch.files()
    assert kinds(files) == [(99, "forged")]
    files[key_file(other.name())] = other.public().hex().encode() + b"\n"
    assert kinds(files) == [(99, "forged")]


def test_keys_that_are_not_what_their_names_say_are_found(branch):
    files = branch.files()
    name = next(path for path in files if path.startswith("keys/"))
    for data in (b"", b"\xff" * 65, b"0" * 64 + b"\n", b"0" * 64):
        found = kinds({**files, name: data})
        assert found[0] == (0, "damaged")
        assert {kind for _, kind in found[1:]} == {"forged"}
    del files[name]
    assert {kind for _, kind in kinds(files)} == {"forged"}


def test_no_file_or_an_unfinished_line_is_found(branch):
    assert kinds({}) == [(0, "damaged")]
    files = branch.files()
    assert kinds({**files, HEADS: files[HEADS][:-1]}) == [(0, "damaged")]
    assert anchored({**files, HEADS: b""}).faults == ()


def test_only_so_many_faults_are_reported(branch):
    files = branch.files([b"x"] * 5000)
    assert len(anchored(files).faults) == MOST_FAULTS


def test_what_is_not_part_of_the_branch_is_not_read():
    assert size_limit("README.md") == 0
    assert size_limit("keys/x.pub") < 10_000 < size_limit(HEADS) < 100 << 20


@given(st.binary(max_size=300))
def test_any_bytes_are_named_and_never_raised(data):
    found = anchored({HEADS: data, "keys/x.pub": data})
    assert found.heads == ()
    assert found.faults


@given(st.data())
def test_one_flipped_bit_anywhere_is_found(tmp_path_factory, data):
    branch = Branch(tmp_path_factory.mktemp("b") / os.urandom(4).hex())
    for size in (1, 2, 3):
        branch.sign(size)
    files = branch.files()
    text = bytearray(files[HEADS])
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] ^= 1 << data.draw(st.integers(0, 7))
    assert anchored({**files, HEADS: bytes(text)}).faults
