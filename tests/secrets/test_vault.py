"""The vault: what is sealed opens in its own row and nowhere else, and a rotation that is killed loses nothing."""

import base64
import os
import signal
import stat
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.packets.errors import StorageError, UsageError
from coilclaw.runtime.keyring import forget_secret, rotate_keys, set_secret
from coilclaw.secrets.vault import NEW_VARIABLE, VARIABLE, UnknownKey, Vault, sealed_with
from coilclaw.store.oauth import get_token, put_token
from coilclaw.store.sealed import COLUMNS, key_in_force
from coilclaw.store.stored_secrets import get_secret, sealed_secret


def key(seed=7):
    return base64.b64encode(bytes([seed]) * 32).decode()


@pytest.fixture
def vault(tmp_path):
    return Vault(tmp_path / "keys", {})


def test_what_is_sealed_opens_again(vault):
    sealed = vault.seal(vault.current(), "t", "1", b"refresh-token")
    assert vault.open("t", "1", sealed) == b"refresh-token"
    assert b"refresh-token" not in sealed
    assert sealed.startswith(b"CCV1")
    assert sealed_with(sealed) == vault.current()


def test_the_same_value_is_never_sealed_the_same(vault):
    key_id = vault.current()
    assert len({vault.seal(key_id, "t", "1", b"x") for _ in range(100)}) == 100


@pytest.mark.parametrize(("table", "row"), [("t", "2"), ("u", "1"), ("t\0", "1"), ("", "t\x001")])
def test_a_value_moved_elsewhere_does_not_open(vault, table, row):
    sealed = vault.seal(vault.current(), "t", "1", b"x")
    with pytest.raises(StorageError, match="another row"):
        vault.open(table, row, sealed)


def test_any_changed_bit_shows(vault):
    sealed = bytearray(vault.seal(vault.current(), "t", "1", b"x"))
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(StorageError):
            vault.open("t", "1", bytes(changed))


@given(st.binary(max_size=60))
def test_garbage_is_an_error_of_ours(tmp_path_factory, data):
    vault = Vault(tmp_path_factory.getbasetemp() / "garbage", {VARIABLE: key()})
    with pytest.raises(StorageError):
        vault.open("t", "1", data)
    with pytest.raises(StorageError):
        vault.open("t", "1", b"CCV1" + bytes.fromhex(vault.current()) + data)


def test_the_key_file_is_made_once_for_the_owner_alone(vault):
    first = vault.current()
    assert stat.S_IMODE(vault.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(vault.file.parent.stat().st_mode) & 0o077 == 0
    assert Vault(vault.file.parent, {}).current() == first
    assert [each.name for each in vault.file.parent.iterdir()] == ["encryption.key"]


def test_the_key_of_the_environment_comes_first_and_makes_no_file(tmp_path):
    vault = Vault(tmp_path / "keys", {VARIABLE: key()})
    assert vault.open("t", "1", vault.seal(vault.current(), "t", "1", b"x")) == b"x"
    assert not vault.file.exists()


@pytest.mark.parametrize("text", ["c2hvcnQ=", "not base64", "=" * 44, base64.b64encode(bytes(33)).decode()])
def test_what_is_not_a_key_is_reported_without_being_shown(tmp_path, text):
    with pytest.raises(StorageError, match="exactly 32 bytes") as caught:
        Vault(tmp_path, {VARIABLE: text}).current()
    assert text not in str(caught.value)
    (tmp_path / "encryption.key").write_text(text)
    with pytest.raises(StorageError, match="exactly 32 bytes"):
        Vault(tmp_path, {}).current()


def test_another_key_is_named_and_not_tried(tmp_path):
    sealed = Vault(tmp_path, {VARIABLE: key(1)}).seal(Vault(tmp_path, {VARIABLE: key(1)}).current(), "t", "1", b"x")
    with pytest.raises(UnknownKey, match=sealed_with(sealed)):
        Vault(tmp_path, {VARIABLE: key(2)}).open("t", "1", sealed)


# In a home


def fill(home):
    set_secret(home.app, "ONE_KEY", "value-of-one")
    set_secret(home.app, "TWO_KEY", "value-of-two")
    return home.app.db.write_now(
        lambda tx: put_token(
            tx,
            home.app.clock,
            home.app.vault,
            provider="mail",
            identity="user",
            refresh_token="refresh-me",
            scopes=("read", "send"),
        )
    )


def opens(app, token_id):
    return (
        get_secret(app.db.reader, app.vault, "ONE_KEY"),
        get_secret(app.db.reader, app.vault, "TWO_KEY"),
        get_token(app.db.reader, app.vault, token_id),
    ) == ("value-of-one", "value-of-two", "refresh-me")


def test_a_rotation_seals_everything_again_and_the_old_key_goes(sample):
    home = sample()
    token_id = fill(home)
    before = sealed_secret(home.app.db.reader, "ONE_KEY")
    old = home.app.vault.current()
    key_id, count = rotate_keys(home.app)
    assert (count, key_id == old) == (3, False)
    assert opens(home.app, token_id)
    assert sealed_with(sealed_secret(home.app.db.reader, "ONE_KEY")) == key_id == key_in_force(home.app.db.reader)
    assert not home.app.vault.unfinished
    with pytest.raises(UnknownKey):
        home.app.vault.open("stored_secrets", "ONE_KEY", before)
    assert rotate_keys(home.app)[0] != key_id
    assert opens(home.app, token_id)
    assert sorted(each.name for each in home.home.keys_dir.glob("encryption*")) == ["encryption.key"]


def test_every_sealed_column_is_known_to_the_rotation(sample):
    """A new one must be in the list, or its values would be lost with the key."""
    named = {(table, column) for table, _, column in COLUMNS}
    rows = (
        sample()
        .app.db.reader.execute(
            "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'"
            " AND (c.name LIKE '%sealed%' OR c.name LIKE '%encrypted%')"
        )
        .fetchall()
    )
    assert set(rows) == named


def test_a_key_of_the_environment_is_followed_by_the_one_named_for_that(sample):
    home = sample(environ={VARIABLE: key(1)})
    token_id = fill(home)
    with pytest.raises(UsageError, match="the next one must come from the environment too"):
        rotate_keys(home.app)
    home.environ[NEW_VARIABLE] = key(2)
    key_id, count = rotate_keys(home.app)
    assert count == 3
    assert opens(home.app, token_id)  # both are still there
    home.environ[VARIABLE] = home.environ.pop(NEW_VARIABLE)
    assert opens(home.app, token_id)
    assert home.app.vault.current() == key_id
    assert list(home.home.keys_dir.glob("encryption*")) == []


def test_a_service_with_the_old_key_seals_nothing_that_would_be_lost(sample):
    home = sample(environ={VARIABLE: key(1)})
    fill(home)
    home.environ[NEW_VARIABLE] = key(2)
    rotate_keys(home.app)
    del home.environ[NEW_VARIABLE]
    with pytest.raises(UnknownKey):
        set_secret(home.app, "THREE_KEY", "value-of-three")


def test_a_key_file_gives_way_to_a_key_of_the_environment(sample):
    home = sample()
    token_id = fill(home)
    home.environ[VARIABLE] = key(3)
    assert opens(home.app, token_id)
    key_id, _ = rotate_keys(home.app)
    assert key_id == home.app.vault.current()
    home.app.vault.file.unlink()
    assert opens(home.app, token_id)


def test_a_key_offered_to_a_key_file_becomes_the_key_file(sample):
    home = sample(environ={NEW_VARIABLE: key(4)})
    token_id = fill(home)
    rotate_keys(home.app)
    assert home.app.vault.file.read_text().strip() == key(4)
    del home.environ[NEW_VARIABLE]
    assert opens(home.app, token_id)


def test_a_key_that_is_gone_is_reported_and_nothing_is_sealed_with_another(sample):
    home = sample()
    token_id = fill(home)
    home.app.vault.file.unlink()
    with pytest.raises(UnknownKey, match=r"restore keys/encryption\.key"):
        get_token(home.app.db.reader, home.app.vault, token_id)
    with pytest.raises(UnknownKey):
        set_secret(home.app, "THREE_KEY", "value-of-three")
    with pytest.raises(UnknownKey):
        rotate_keys(home.app)


KILLED = """
import os, signal, sys
from pathlib import Path
from coilclaw.runtime import Runtime
from coilclaw.runtime.keyring import rotate_keys
from coilclaw.config import Home, load

home, at, times = Home(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])

def reached(name):
    global times
    if name == at:
        times -= 1
        if not times:
            os.kill(os.getpid(), signal.SIGKILL)

if at.startswith("os."):
    name = at.removeprefix("os.")
    real = getattr(os, name)
    def counted(*args, **more):
        global times
        times -= 1
        if not times:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **more)
    setattr(os, name, counted)
config = load(home, {"HOME": str(home.root)}).config
app = Runtime(home, config, {"HOME": str(home.root)}, lambda *_: None, reached=reached)
rotate_keys(app)
"""
POINTS = [
    *((name, 1) for name in ("key_made", "sealing_anew", "sealed_anew", "os.link", "os.replace", "os.unlink")),
    *(("os.fsync", number) for number in (1, 2, 3, 4)),
]
"""Where it is killed: a boundary, or the so-manieth call to the system."""


@pytest.mark.slow
@pytest.mark.parametrize(("at", "times"), POINTS)
def test_a_rotation_killed_anywhere_leaves_everything_readable_and_is_finished_by_the_next(sample, at, times):
    home = sample()
    token_id = fill(home)
    environ = {"PATH": os.environ["PATH"], "HOME": str(home.folder)}
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(home.home.root), at, str(times)]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=280)
    assert ran.returncode == -signal.SIGKILL, ran
    assert opens(home.app, token_id)
    set_secret(home.app, "THREE_KEY", "value-of-three")  # stored in the middle of it
    assert opens(home.app, token_id)
    rotate_keys(home.app)
    assert opens(home.app, token_id)
    assert get_secret(home.app.db.reader, home.app.vault, "THREE_KEY") == "value-of-three"
    assert sorted(each.name for each in home.home.keys_dir.glob("encryption*")) == ["encryption.key"]


def test_what_is_forgotten_is_gone(sample):
    home = sample()
    fill(home)
    assert forget_secret(home.app, "ONE_KEY")
    assert not forget_secret(home.app, "ONE_KEY")
    assert get_secret(home.app.db.reader, home.app.vault, "ONE_KEY") is None


@pytest.mark.parametrize("value", ["", "a\nb", "a\0b", "x" * 70_000])
def test_what_is_not_a_secret_is_refused(sample, value):
    with pytest.raises(UsageError, match="one non-empty line"):
        set_secret(sample().app, "ONE_KEY", value)


@pytest.mark.parametrize("name", [VARIABLE, NEW_VARIABLE])
def test_what_opens_the_vault_is_not_kept_in_it(sample, name):
    with pytest.raises(UsageError, match="unlocks the vault"):
        set_secret(sample().app, name, key())
