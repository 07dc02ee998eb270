"""OAuth tokens and named secrets: sealed at rest, listed without themselves, one for each identity."""

from coilclaw.secrets.vault import Vault
from coilclaw.store.oauth import find_token, get_token, list_tokens, mark_reconnect, put_token, remove_token
from coilclaw.store.sealed import key_in_force
from coilclaw.store.stored_secrets import get_secret, list_secrets, put_secret, remove_secret, sealed_secret


def put(db, clock, vault, token, **more):
    told = {"provider": "mail", "identity": "user", "scopes": ("read", "send"), **more}
    return db.write_now(lambda tx: put_token(tx, clock, vault, refresh_token=token, **told))


def test_a_token_is_kept_sealed_and_given_back(db, clock, tmp_path):
    vault = Vault(tmp_path / "keys", {})
    token_id = put(db, clock, vault, "refresh-token-1")
    assert get_token(db.reader, vault, token_id) == "refresh-token-1"
    assert "refresh-token-1" not in "\n".join(db.reader.iterdump())
    assert b"refresh-token-1" not in db.path.read_bytes() + db.path.with_name(f"{db.path.name}-wal").read_bytes()
    (told,) = list_tokens(db.reader)
    assert (told.token_id, told.provider, told.identity, told.scopes) == (token_id, "mail", "user", ("read", "send"))


def test_an_identity_has_one_token_at_a_provider(db, clock, tmp_path):
    vault = Vault(tmp_path / "keys", {})
    first = put(db, clock, vault, "one")
    assert put(db, clock, vault, "two", scopes=("read",)) == first
    bot = put(db, clock, vault, "three", identity="bot")
    assert [get_token(db.reader, vault, each) for each in (first, bot)] == ["two", "three"]
    assert [each.scopes for each in list_tokens(db.reader) if each.identity == "user"] == [("read",)]


def test_a_removed_token_is_gone(db, clock, tmp_path):
    vault = Vault(tmp_path / "keys", {})
    token_id = put(db, clock, vault, "one")
    assert db.write_now(lambda tx: remove_token(tx, token_id))
    assert not db.write_now(lambda tx: remove_token(tx, token_id))
    assert get_token(db.reader, vault, token_id) is None


def test_the_key_in_force_is_noted_when_something_is_sealed_first(db, clock, tmp_path):
    vault = Vault(tmp_path / "keys", {})
    assert key_in_force(db.reader) is None
    put(db, clock, vault, "one")
    assert key_in_force(db.reader) == vault.current()


def test_a_named_secret_is_replaced_listed_and_removed(db, clock, tmp_path):
    vault = Vault(tmp_path / "keys", {})
    for value in ("first", "second"):
        db.write_now(lambda tx, value=value: put_secret(tx, clock, vault, "A_KEY", value))
    assert get_secret(db.reader, vault, "A_KEY") == "second"
    (told,) = list_secrets(db.reader)
    assert (told.name, told.created_at < told.updated_at) == ("A_KEY", True)
    assert db.write_now(lambda tx: remove_secret(tx, "A_KEY"))
    assert sealed_secret(db.reader, "A_KEY") is None
    assert get_secret(db.reader, vault, "A_KEY") is None


def test_a_token_that_is_no_longer_accepted_is_marked_once_until_it_is_removed(db, clock, tmp_path):
    vault = Vault(tmp_path / "keys", {})
    token_id = put(db, clock, vault, "one", provider="mcp:files")
    assert find_token(db.reader, "mcp:files", "user").reconnect_since == ""
    assert db.write_now(lambda tx: mark_reconnect(tx, clock, token_id))
    assert not db.write_now(lambda tx: mark_reconnect(tx, clock, token_id))
    assert not db.write_now(lambda tx: mark_reconnect(tx, clock, "oauth_unknown"))
    assert find_token(db.reader, "mcp:files", "user").reconnect_since
    assert find_token(db.reader, "mcp:files", "bot") is None
    db.write_now(lambda tx: remove_token(tx, token_id))
    assert put(db, clock, vault, "two", provider="mcp:files") != token_id
    assert find_token(db.reader, "mcp:files", "user").reconnect_since == ""
    assert "oauth_reconnect" not in "\n".join(db.reader.iterdump())
