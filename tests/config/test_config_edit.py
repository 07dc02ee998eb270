"""Changing keys of config.toml as a text: what was there stays, and the outcome holds exactly what was asked for."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.config import Home, default_toml
from coilclaw.config.edit import edit_text, find_key, key_names, typed_value
from coilclaw.config.options import options_of
from coilclaw.packets.errors import UsageError
from coilclaw.packets.settings import SettingChange

FRESH = default_toml(Home(Path("/home/owner/.coilclaw")))
OWN = """\
# mine
[security]  # what it may do
autonomy = 'readonly'   # for now
allowed_domains = [
  "one.example",   # the first
  "two.example",   # the second
]

[webhooks.door]
url = "https://door.example/open"

# between two tables

[budgets]
daily_tokens = 5
"""


def changed(text, key, value=None, op="set"):
    return edit_text(text, [SettingChange(key=key, op=op, value=value)])


def added(before, after):
    """The lines that are new, and those that are gone."""
    old, new = before.splitlines(), after.splitlines()
    return [line for line in new if line not in old], [line for line in old if line not in new]


def test_a_value_is_replaced_and_everything_else_stays():
    assert changed(OWN, "security.autonomy", "full") == OWN.replace("'readonly'", '"full"')


def test_a_new_key_stands_below_the_comment_that_shows_its_default():
    text = changed(FRESH, "budgets.daily_tokens", 7)
    assert "# daily_tokens = 15000000\ndaily_tokens = 7\n" in text
    assert added(FRESH, text) == (["daily_tokens = 7"], [])


def test_a_table_that_is_not_there_yet_is_made_at_the_end():
    text = changed(OWN, "jobs.max_steps", 3)
    assert text == f"{OWN}\n[jobs]\nmax_steps = 3\n"


def test_an_item_is_added_and_removed_without_touching_the_others():
    text = changed(OWN, "security.allowed_domains", "three.example", "add")
    assert added(OWN, text) == (['  "three.example",'], [])
    assert added(OWN, changed(OWN, "security.allowed_domains", "one.example", "remove"))[0] == []


def test_a_list_that_is_not_in_the_file_begins_with_its_default():
    text = changed(FRESH, "security.allowed_commands", "zig", "add")
    listed = tomllib.loads(text)["security"]["allowed_commands"]
    assert listed[0] == "ls"
    assert listed[-1] == "zig"
    assert max(map(len, added(FRESH, text)[0])) <= 100


def test_a_named_table_goes_and_what_is_said_below_it_stays():
    text = changed(OWN, "webhooks.door", op="unset")
    assert added(OWN, text) == ([], ["[webhooks.door]", 'url = "https://door.example/open"'])


@pytest.mark.parametrize("key", ["providers.models.gpt-4.1.model", 'providers.models."gpt-4.1".model'])
def test_the_name_of_a_table_may_hold_dots(key):
    assert tomllib.loads(changed("", key, "x"))["providers"]["models"] == {"gpt-4.1": {"model": "x"}}


@pytest.mark.parametrize(("key", "meant"), [
    ("security.autonmy", "security.autonomy"), ("autonomy", "security.autonomy"),
    ("providers.models.local.modl", "providers.models.local.model"),
])  # fmt: skip
def test_an_unknown_key_is_reported_with_the_one_that_was_meant(key, meant):
    with pytest.raises(UsageError, match=f"Did you mean {meant}"):
        find_key(key)


@pytest.mark.parametrize(("key", "op", "value", "why"), [
    ("security.autonomy", "add", "x", "not a list"), ("security.allowed_domains", "remove", "x", "does not have"),
    ("webhooks.door", "set", "x", "is a table"), ("security.autonomy", "set", None, "needs a value"),
])  # fmt: skip
def test_what_cannot_be_changed_says_why(key, op, value, why):
    with pytest.raises(UsageError, match=why):
        changed(OWN, key, value, op)


def test_a_file_that_is_not_toml_is_not_touched():
    with pytest.raises(UsageError, match="not valid TOML"):
        changed("autonomy = = 1", "security.autonomy", "full")


def test_line_ends_and_a_byte_order_mark_stay():
    text = changed("\ufeff" + FRESH.replace("\n", "\r\n"), "budgets.daily_tokens", 7)
    assert text.startswith("\ufeff#")
    assert text.count("\n") == text.count("\r\n")


def test_a_word_of_the_command_line_becomes_what_its_key_holds():
    assert typed_value(find_key("budgets.daily_tokens"), "7") == 7
    assert typed_value(find_key("security.workspace_only"), "off") is False
    assert typed_value(find_key("security.allowed_domains"), "a.example, b.example") == ["a.example", "b.example"]


def test_every_key_can_be_set_and_taken_back():
    for option in options_of():
        text = changed(FRESH, option.key, "word")
        assert changed(text, option.key, op="unset") in (FRESH, changed(FRESH, option.key, op="unset"))
    assert "webhooks.NAME.url" in key_names()


@given(st.text(max_size=40), st.sampled_from(["default_model", "webhooks.a.url", "server.public_url"]))
def test_any_text_is_written_so_that_it_reads_back_the_same(value, key):
    path = key.split(".")
    found = tomllib.loads(changed(OWN, key, value))
    for name in path:
        found = found[name]
    assert found == value
