"""Passkeys, challenges and assertions as rows."""

import msgspec
import pytest

from coilclaw.packets.ids import stamp
from coilclaw.store.passkeys import (
    AssertionRow,
    Challenge,
    add_assertion,
    add_challenge,
    add_passkey,
    any_passkey,
    assertion_hash,
    assertions_of,
    list_passkeys,
    load_challenge,
    load_passkey,
    paired_at,
    remove_passkey,
    rename_passkey,
    use_challenge,
    use_passkey,
)
from coilclaw.store.threads import ensure_owner
from tests.soft_passkey import SoftPasskey


def register(db, clock, **more):
    passkey = SoftPasskey().row(clock, **more)
    db.write_now(lambda tx: (ensure_owner(tx, clock), add_passkey(tx, passkey)))
    return passkey


def test_a_passkey_is_kept_and_listed(db, clock):
    assert not any_passkey(db.reader)
    passkey = register(db, clock, name="phone")
    assert any_passkey(db.reader)
    assert list_passkeys(db.reader) == [passkey] == [load_passkey(db.reader, passkey.credential_id)]


def test_an_id_is_taken_once_even_when_removed(db, clock):
    passkey = register(db, clock)
    assert db.write_now(lambda tx: remove_passkey(tx, clock, passkey.credential_id))
    assert not db.write_now(lambda tx: remove_passkey(tx, clock, passkey.credential_id))
    assert not db.write_now(lambda tx: add_passkey(tx, passkey))
    assert (list_passkeys(db.reader), any_passkey(db.reader)) == ([], False)
    assert load_passkey(db.reader, passkey.credential_id).removed_at is not None


def test_a_passkey_is_used_from_the_count_that_was_seen(db, clock):
    passkey = register(db, clock)
    assert db.write_now(lambda tx: use_passkey(tx, clock, passkey, 5, backed_up=True))
    assert not db.write_now(lambda tx: use_passkey(tx, clock, passkey, 6, backed_up=True))
    now = load_passkey(db.reader, passkey.credential_id)
    assert (now.sign_count, now.backed_up, now.last_used_at is not None) == (5, True, True)
    db.write_now(lambda tx: remove_passkey(tx, clock, passkey.credential_id))
    assert not db.write_now(lambda tx: use_passkey(tx, clock, now, 7, backed_up=True))


def test_only_what_is_there_is_renamed(db, clock):
    passkey = register(db, clock)
    assert db.write_now(lambda tx: rename_passkey(tx, passkey.credential_id, "new"))
    assert load_passkey(db.reader, passkey.credential_id).name == "new"
    assert not db.write_now(lambda tx: rename_passkey(tx, "none", "new"))


def challenge(clock, challenge_id="chl_1"):
    now = stamp(clock())
    return Challenge(
        challenge_id=challenge_id,
        purpose="approve",
        subject="act_1",
        digest="d",
        valid_until=now,
        nonce="n",
        device_id="dev_1",
        expires_at=now,
        created_at=now,
    )


def test_a_challenge_is_answered_once(db, clock):
    db.write_now(lambda tx: add_challenge(tx, clock, challenge(clock)))
    assert load_challenge(db.reader, "chl_1").used_at is None
    assert db.write_now(lambda tx: use_challenge(tx, clock, "chl_1"))
    assert not db.write_now(lambda tx: use_challenge(tx, clock, "chl_1"))
    assert load_challenge(db.reader, "chl_1").used_at is not None
    assert load_challenge(db.reader, "chl_2") is None


def test_challenges_of_long_ago_are_forgotten(db, clock):
    db.write_now(lambda tx: add_challenge(tx, clock, challenge(clock)))
    clock.advance(hours=2)
    db.write_now(lambda tx: add_challenge(tx, clock, challenge(clock, "chl_2")))
    assert load_challenge(db.reader, "chl_1") is None
    assert load_challenge(db.reader, "chl_2") is not None


def assertion(**more):
    told = {name: name for name in AssertionRow.__struct_fields__}
    for name in ("public_key", "authenticator_data", "client_data", "signature"):
        told[name] = name.encode()
    return AssertionRow(**{**told, **more})


def test_an_assertion_is_kept_whole(db):
    db.write_now(lambda tx: add_assertion(tx, assertion()))
    assert assertions_of(db.reader, "subject") == [assertion()]
    assert assertions_of(db.reader, "another") == []


@pytest.mark.parametrize("name", AssertionRow.__struct_fields__)
def test_the_hash_of_an_assertion_covers_all_of_it(name):
    value = b"other" if isinstance(getattr(assertion(), name), bytes) else "other"
    assert assertion_hash(assertion()) != assertion_hash(msgspec.structs.replace(assertion(), **{name: value}))


def test_only_a_device_that_the_terminal_let_in_and_that_is_not_revoked_counts_as_paired(db, clock):
    def write(tx):
        ensure_owner(tx, clock)
        for name, revoked, by in (("dev_1", None, "terminal"), ("dev_2", "x", "terminal"), ("dev_3", None, "device:x")):
            tx.execute(
                "INSERT INTO devices (device_id, user_id, revoked_at, created_at, paired_by)"
                " VALUES (?, 'owner', ?, 'when', ?)",
                (name, revoked, by),
            )

    db.write_now(write)
    assert [paired_at(db.reader, f"dev_{number}") for number in (1, 2, 3, 4)] == ["when", None, None, None]
