"""Devices and tokens as rows: what makes one active, and what no late write can bring back."""

from datetime import timedelta

import pytest

from coilclaw.packets.ids import stamp
from coilclaw.store.devices import (
    active_devices,
    add_device,
    add_token,
    confirm_device,
    count_passkeys,
    devices_with_key,
    find_token,
    list_devices,
    load_device,
    rename_device,
    renew_token,
    revoke_device,
    settle_tokens,
    token_holds,
)


@pytest.fixture
def device(db, clock):
    def make(name, *, days=30, confirmed=True, key="key"):
        def write(tx):
            add_device(
                tx,
                clock,
                device_id=f"dev_{name}",
                name=name,
                public_key=key,
                confirmed=confirmed,
                paired_by="terminal",
            )
            add_token(
                tx,
                clock,
                token_id=f"tok_{name}",
                device_id=f"dev_{name}",
                token_hash=f"hash of {name}",
                way="bearer",
                expires_at=stamp(clock() + timedelta(days=days)),
            )

        db.write_now(write)
        return f"dev_{name}"

    return make


def names(rows):
    return [row.name for row in rows]


def test_a_device_is_active_while_it_has_a_token_and_is_not_revoked(db, clock, device):
    device("short", days=1)
    device("long", days=30)
    lost = device("lost")
    db.write_now(lambda tx: revoke_device(tx, lost, stamp(clock())))
    assert names(active_devices(db.reader, stamp(clock()))) == ["short", "long"]
    clock.advance(days=2)
    assert names(active_devices(db.reader, stamp(clock()))) == ["long"]
    assert names(list_devices(db.reader, limit=10)) == ["lost", "long", "short"]


def test_pages_follow_each_other_without_a_gap(db, device):
    for number in range(7):
        device(f"n{number}")
    first = list_devices(db.reader, limit=3)
    second = list_devices(db.reader, limit=10, before=(first[-1].created_at, first[-1].device_id))
    assert names([*first, *second]) == [f"n{number}" for number in reversed(range(7))]


def test_revoking_takes_the_tokens_along_and_counts_once(db, clock, device):
    lost = device("lost")
    assert token_holds(db.reader, "tok_lost", stamp(clock()))
    assert db.write_now(lambda tx: revoke_device(tx, lost, stamp(clock())))
    assert not db.write_now(lambda tx: revoke_device(tx, lost, stamp(clock())))
    assert find_token(db.reader, "hash of lost") is None
    assert not token_holds(db.reader, "tok_lost", stamp(clock()))
    assert not db.write_now(lambda tx: revoke_device(tx, "dev_nobody", stamp(clock())))


def test_a_token_that_is_over_is_not_renewed(db, clock, device):
    device("late", days=1)
    device("good", days=30)
    clock.advance(days=2)
    later = stamp(clock() + timedelta(days=30))
    for token in ("tok_late", "tok_good"):
        db.write_now(lambda tx, token=token: renew_token(tx, token, now=stamp(clock()), expires_at=later))
    assert find_token(db.reader, "hash of late").expires_at < stamp(clock())
    assert find_token(db.reader, "hash of good").expires_at == later
    assert load_device(db.reader, "dev_good").last_seen_at > load_device(db.reader, "dev_late").last_seen_at


def test_settling_deletes_what_is_over_and_cuts_what_is_too_long(db, clock, device):
    device("over", days=1)
    device("long", days=4000)
    device("good", days=20)
    clock.advance(days=2)
    before = find_token(db.reader, "hash of good")
    now, latest = stamp(clock()), stamp(clock() + timedelta(days=30))
    assert db.write_now(lambda tx: settle_tokens(tx, now=now, latest=latest)) == 2
    assert find_token(db.reader, "hash of over") is None
    assert find_token(db.reader, "hash of long").expires_at == latest
    assert find_token(db.reader, "hash of good") == before
    assert db.write_now(lambda tx: settle_tokens(tx, now=now, latest=latest)) == 0


def test_confirming_and_naming_say_whether_they_did_something(db, clock, device):
    new = device("new", confirmed=False)
    assert not find_token(db.reader, "hash of new").confirmed
    assert db.write_now(lambda tx: confirm_device(tx, new, stamp(clock())))
    assert not db.write_now(lambda tx: confirm_device(tx, new, stamp(clock())))
    assert find_token(db.reader, "hash of new").confirmed
    assert db.write_now(lambda tx: rename_device(tx, new, "other"))
    assert not db.write_now(lambda tx: rename_device(tx, "dev_nobody", "other"))
    assert load_device(db.reader, new).name == "other"
    assert load_device(db.reader, "dev_nobody") is None


def test_a_revoked_device_is_not_confirmed(db, clock, device):
    new = device("new", confirmed=False)
    db.write_now(lambda tx: revoke_device(tx, new, stamp(clock())))
    assert not db.write_now(lambda tx: confirm_device(tx, new, stamp(clock())))


def test_devices_are_found_by_their_key(db, clock, device):
    device("a", key="k1")
    gone = device("b", key="k1")
    device("c", key="k2")
    db.write_now(lambda tx: revoke_device(tx, gone, stamp(clock())))
    assert devices_with_key(db.reader, "k1") == ["dev_a"]
    assert count_passkeys(db.reader) == 0
