"""The state of an action's row: states that were noted by earlier versions must stay what they are."""

import hashlib

from coilclaw.store.actions import STATE, state_of

WIDTH = len(STATE.split(","))


def test_state_is_the_hash_of_every_typed_column() -> None:
    row = ["a", "é", "\udcff", b"\x00\x01", 7, None, 1.5] + [None] * (WIDTH - 8) + [None]
    told = b"t1:at2:\xc3\xa9t1:\xffb2:\x00\x01i1:7n0:i3:1.5" + b"n0:" * (33 - 7)
    assert state_of(row) == hashlib.sha256(told).digest()


def test_later_column_counts_only_where_it_holds_something() -> None:
    earlier = ["x"] * 33
    assert state_of([*earlier, None]) == state_of(earlier)
    assert state_of([*earlier, "[]"]) != state_of(earlier)
