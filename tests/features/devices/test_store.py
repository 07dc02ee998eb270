"""Pairing codes as rows: one good code, five tries, whoever counts."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coilclaw.features.devices.store import TRIES, CodeRow, add_code, any_good_code, close_code, take_try
from coilclaw.packets.ids import stamp
from coilclaw.store.database import Database

LIFE = timedelta(minutes=5)


def add(db, clock, name="pair_1", **more):
    row = {"code_hash": "h", "issued_by": "terminal", "mode": "add", "vouched": False, "tries": 0, **more}
    code = CodeRow(code_id=name, expires_at=stamp(clock() + LIFE), **row)
    db.write_now(lambda tx: add_code(tx, clock, code))


def guess(db, clock):
    now = clock()
    return db.write_now(lambda tx: take_try(tx, now=stamp(now), latest=stamp(now + LIFE)))


def good(db, clock):
    now = clock()
    return any_good_code(db.reader, now=stamp(now), latest=stamp(now + LIFE))


def rows(db):
    return db.reader.execute("SELECT code_id, tries, closed_why FROM pairing_codes ORDER BY code_id").fetchall()


def test_every_guess_counts_and_the_sixth_gets_nothing(db, clock):
    add(db, clock)
    assert [getattr(guess(db, clock), "tries", None) for _ in range(7)] == [1, 2, 3, 4, 5, None, None]
    assert not good(db, clock)
    assert rows(db) == [("pair_1", TRIES, None)]


def test_a_new_code_closes_the_one_before_and_guesses_count_against_it_alone(db, clock):
    add(db, clock, "pair_1")
    guess(db, clock)
    add(db, clock, "pair_2", mode="replace", vouched=True)
    found = guess(db, clock)
    assert (found.code_id, found.mode, found.vouched, found.tries) == ("pair_2", "replace", True, 1)
    assert rows(db) == [("pair_1", 1, "superseded"), ("pair_2", 1, None)]


@pytest.mark.parametrize("why", ["used", "burned", "superseded"])
def test_a_closed_code_stays_closed(db, clock, why):
    add(db, clock)
    db.write_now(lambda tx: close_code(tx, "pair_1", stamp(clock()), why))
    db.write_now(lambda tx: close_code(tx, "pair_1", stamp(clock()), "used"))
    assert guess(db, clock) is None
    assert rows(db) == [("pair_1", 0, why)]


def test_a_code_that_is_over_or_from_the_future_is_not_good(db, clock):
    add(db, clock)
    assert good(db, clock)
    clock.advance(minutes=6)
    assert (good(db, clock), guess(db, clock)) == (False, None)
    clock.advance(days=-3)
    assert (good(db, clock), guess(db, clock)) == (False, None)


def test_two_processes_count_together(db, clock):
    add(db, clock)
    other = Database(db.path, db.path.parent / "locks")
    found = [guess(each, clock) for _ in range(4) for each in (db, other)]
    other.close()
    assert [each is not None for each in found] == [True] * 5 + [False] * 3


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=st.lists(st.sampled_from(["guess", "issue", "wait", "close"]), max_size=40))
def test_no_code_ever_stands_more_than_five_tries_and_one_is_open_at_most(tmp_path_factory, clock, steps):
    folder = tmp_path_factory.mktemp("db")
    db = Database(folder / "m", folder / "locks")
    for number, step in enumerate(steps):
        if step == "issue":
            add(db, clock, f"pair_{number}")
        elif step == "guess":
            guess(db, clock)
        elif step == "wait":
            clock.advance(minutes=3)
        else:
            last = db.reader.execute("SELECT max(code_id) FROM pairing_codes").fetchone()[0]
            db.write_now(lambda tx, last=last: close_code(tx, last or "", stamp(clock()), "used"))
    assert all(tries <= TRIES for _, tries, _ in rows(db))
    assert sum(why is None for _, _, why in rows(db)) <= 1
    db.close()
