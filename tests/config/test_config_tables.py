"""Named tables: webhooks and prices are checked, overridden, shown and documented like every other key."""

import json
import tomllib
from pathlib import Path
from typing import get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.config import (
    Config,
    Home,
    Price,
    Webhook,
    default_toml,
    docs_markdown,
    load,
    policy_inputs,
    secret_variables,
    show_config,
)
from coilclaw.config.options import is_section, table_options
from coilclaw.config.tables import TABLES
from coilclaw.config.webhooks import TAKEN, webhook_url_fault
from coilclaw.packets.canonical import canonical_bytes
from coilclaw.packets.errors import ConfigError

ENVIRON = {"HOME": "/home/owner"}
TEAM = '[webhooks.team]\nurl = "https://example.com/hook"\n'


@pytest.fixture
def home(tmp_path: Path) -> Home:
    root = tmp_path / "home"
    root.mkdir()
    return Home(root)


def problems_of(home: Home, text: str, environ: dict[str, str] | None = None) -> list[str]:
    home.config_file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(home, ENVIRON | (environ or {})).config
    return caught.value.problems


def warnings_of(home: Home, text: str, environ: dict[str, str] | None = None) -> tuple[str, ...]:
    home.config_file.write_text(text)
    return load(home, ENVIRON | (environ or {})).warnings


def test_every_field_that_holds_named_tables_is_known_as_one() -> None:
    def dictionaries(shape: type, path: tuple[str, ...]) -> set[tuple[str, ...]]:
        import msgspec

        found: set[tuple[str, ...]] = set()
        for field in msgspec.structs.fields(shape):
            here = (*path, field.name)
            if is_section(field.type):
                found |= dictionaries(field.type, here)
            elif get_origin(field.type) is dict and get_args(field.type)[1] is not str:
                found.add(here)
        return found

    assert dictionaries(Config, ()) == set(TABLES)


def test_webhooks_and_prices_are_read_into_their_structs(home: Home) -> None:
    home.config_file.write_text("""
[webhooks.team]
url = "https://example.com/hook"
secret_env = "TEAM_HOOK"
deduplicates = true
[webhooks."on.call-2"]
url = "http://127.0.0.1:9/x?y=1"
lookup_url = "http://127.0.0.1:9/x/{key}"
timeout_seconds = 5
[prices."openai/gpt-4o:free"]
[prices."gpt-4.1"]
input_per_million = 2.5
cached_per_million = 1.25
output_per_million = 10
""")
    loaded = load(home, ENVIRON)
    assert loaded.config.webhooks == {
        "team": Webhook(url="https://example.com/hook", secret_env="TEAM_HOOK", deduplicates=True),
        "on.call-2": Webhook(
            url="http://127.0.0.1:9/x?y=1", lookup_url="http://127.0.0.1:9/x/{key}", timeout_seconds=5.0
        ),
    }
    assert loaded.config.prices == {
        "openai/gpt-4o:free": Price(),
        "gpt-4.1": Price(input_per_million=2.5, cached_per_million=1.25, output_per_million=10.0),
    }
    assert loaded.warnings == ()
    assert loaded.origins["webhooks.team.url"] == "file"
    assert loaded.origins["webhooks.team.header"] == "default"
    assert loaded.origins["prices.gpt-4.1.input_per_million"] == "file"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("webhooks = 1", "webhooks: needs tables, each written [webhooks.NAME]"),
        ("[webhooks]\nteam = 1", "webhooks.team: needs a table, written [webhooks.team]"),
        ('[webhooks."a/b"]\nurl = "https://h"', "a webhook's name is letters, digits, '.', '_' and '-'"),
        ('[prices."a b"]', "a price's name is letters, digits, '.', '_', '-', '/', ':', '@' and '+'"),
        (TEAM + "secret = 1", "webhooks.team.secret: no such key; did you mean secret_env?"),
        (TEAM + 'kind = "x"', "webhooks.team.kind: no such key"),
        (TEAM + "timeout_seconds = 0", "webhooks.team.timeout_seconds: needs a number from 0.05 to 3600"),
        (TEAM + 'header = "X Y"', "webhooks.team.header: needs the name of a header"),
        (TEAM + 'secret_env = "sk-secret"', "webhooks.team.secret_env: needs the NAME of an environment variable"),
        ("[prices.x]\ninput_per_million = -1", "prices.x.input_per_million: needs a number from 0"),
        ("[prices.x]\ninput_per_milion = 1", "prices.x.input_per_milion: no such key; did you mean input_per_million?"),
        ("[webhook.x]\nurl = 1", "webhook: no such key; did you mean webhooks?"),
        ("[webhooks.team]", "webhooks.team.url: is missing; give the address to send to"),
        ('[webhooks.team]\nurl = "ftp://h/x"', "webhooks.team.url: needs an http:// or https:// address"),
        ('[webhooks.team]\nurl = "https:///x"', "webhooks.team.url: needs an http:// or https:// address"),
        ('[webhooks.team]\nurl = "https://h:99999/x"', "webhooks.team.url: needs an http:// or https:// address"),
        ('[webhooks.team]\nurl = "https://h/a b"', "webhooks.team.url: needs an http:// or https:// address"),
        ('[webhooks.team]\nurl = "https://me:hunter2@h/x"', "webhooks.team.url: contains a user name or password"),
        ('[webhooks.team]\nurl = "https://h/x#y"', "webhooks.team.url: must not contain a #"),
        (TEAM + 'lookup_url = "https://example.com/x"', "webhooks.team.lookup_url: needs {key} where"),
        (TEAM + 'lookup_url = "https://{key}.example.com/x"', "webhooks.team.lookup_url: needs an http"),
        (TEAM + 'lookup_url = "https://me@h/{key}"', "webhooks.team.lookup_url: contains a user name or password"),
        (TEAM + 'header = "host"', "webhooks.team.header: host is set by the request itself"),
        (TEAM + 'key_header = "Content-Length"', "webhooks.team.key_header: Content-Length is set by"),
        (TEAM + 'key_header = "Proxy-Authorization"', "webhooks.team.key_header: Proxy-Authorization is set by"),
        (TEAM + 'key_header = "authorization"', "webhooks.team.key_header: is also the header of the secret"),
    ],
)
def test_a_fault_in_a_named_table_says_where_and_what(home: Home, text: str, expected: str) -> None:
    (problem,) = problems_of(home, text)
    assert expected in problem
    assert "hunter2" not in problem
    assert "sk-secret" not in problem


def test_plain_http_is_warned_of_unless_it_stays_on_this_machine(home: Home) -> None:
    (warning,) = warnings_of(home, '[webhooks.a]\nurl = "http://example.com/x"')
    assert "webhooks.a.url: is not encrypted" in warning
    for host in ("localhost", "127.0.0.1:8080", "[::1]:9", "x.localhost"):
        assert warnings_of(home, f'[webhooks.a]\nurl = "http://{host}/x"') == ()


def test_a_secret_that_a_second_place_would_see_is_warned_of(home: Home) -> None:
    elsewhere = TEAM + 'lookup_url = "https://status.example.com/{key}"\n'
    assert warnings_of(home, elsewhere) == ()
    (warning,) = warnings_of(home, elsewhere + 'secret_env = "S"')
    assert "webhooks.team.lookup_url: points to a different origin than url" in warning
    same = TEAM + 'lookup_url = "https://example.com:443/{key}"\nsecret_env = "S"'
    assert warnings_of(home, same) == ()


def test_webhooks_are_changed_and_made_by_variables(home: Home) -> None:
    home.config_file.write_text(TEAM)
    environ = ENVIRON | {
        "COILCLAW_WEBHOOKS_TEAM_URL": "https://other.example.com/",
        "COILCLAW_WEBHOOKS_TEAM_LOOKUP_URL": "https://other.example.com/{key}",
        "COILCLAW_WEBHOOKS_TEAM_KEY_HEADER": "X-Key",
        "COILCLAW_WEBHOOKS_ON_CALL_URL": "https://example.org",
        "COILCLAW_WEBHOOKS_ON_CALL_DEDUPLICATES": "yes",
    }
    loaded = load(home, environ)
    assert loaded.config.webhooks == {
        "team": Webhook(
            url="https://other.example.com/", lookup_url="https://other.example.com/{key}", key_header="X-Key"
        ),
        "on_call": Webhook(url="https://example.org", deduplicates=True),
    }
    assert loaded.origins["webhooks.team.url"] == "environment"
    assert loaded.origins["webhooks.on_call.url"] == "environment"


def test_a_name_in_the_file_decides_how_a_variable_is_split(home: Home) -> None:
    home.config_file.write_text('[webhooks.a-lookup]\nurl = "https://h/1"\n')
    made = load(home, ENVIRON | {"COILCLAW_WEBHOOKS_A_LOOKUP_URL": "https://h/2"}).config.webhooks
    assert made == {"a-lookup": Webhook(url="https://h/2")}


def test_a_variable_that_fits_two_webhooks_is_refused(home: Home) -> None:
    text = '[webhooks.a]\nurl = "https://h/1"\n[webhooks.a_lookup]\nurl = "https://h/2"\n'
    (problem,) = problems_of(home, text, {"COILCLAW_WEBHOOKS_A_LOOKUP_URL": "https://h/{key}"})
    assert "matches the webhooks a and a_lookup; rename one of them" in problem


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("COILCLAW_WEBHOOKS_TEAM_SECRET", "matches no key of a webhook; did you mean ..._SECRET_ENV?"),
        ("COILCLAW_WEBHOOKS_URL", "matches no key of a webhook"),
        ("COILCLAW_PRICES_X_INPUT_PER_MILLION", "a price can only be set in the file, as [prices.NAME]"),
        ("COILCLAW_WEBHOOKS_A_TIMEOUT_SECONDS", "COILCLAW_WEBHOOKS_A_TIMEOUT_SECONDS: needs a number"),
    ],
)
def test_a_variable_of_a_named_table_that_does_not_fit_is_named(home: Home, name: str, expected: str) -> None:
    problems = problems_of(home, "", {name: "hunter2"})
    assert any(expected in problem for problem in problems)
    assert "hunter2" not in "".join(problems)


def test_what_a_webhook_reads_its_secret_from_is_a_secret_and_no_stranger(home: Home) -> None:
    home.config_file.write_text(TEAM + 'secret_env = "COILCLAW_TEAM_TOKEN"')
    loaded = load(home, ENVIRON | {"COILCLAW_TEAM_TOKEN": "hunter2"})
    assert loaded.warnings == ()
    assert "COILCLAW_TEAM_TOKEN" in secret_variables(loaded.config)
    assert "hunter2" not in json.dumps(show_config(loaded.config, loaded.origins))


def test_a_password_in_an_address_is_masked_wherever_it_came_from() -> None:
    hook = Webhook(url="https://me:hunter2@h/x", lookup_url="https://me:hunter2@h/{key}")
    shown = show_config(Config(webhooks={"a": hook}))
    assert "hunter2" not in json.dumps(shown)
    assert "https://***@h/{key}" in json.dumps(shown)


def test_policy_depends_on_webhooks_jobs_and_executor_but_not_on_prices(home: Home) -> None:
    def hashed(text: str) -> bytes:
        home.config_file.write_text(text)
        return canonical_bytes(policy_inputs(load(home, ENVIRON).config))

    plain = hashed("")
    assert plain == hashed("[prices.x]\ninput_per_million = 1")
    assert len({plain, hashed(TEAM), hashed("[jobs]\nmax_steps = 7"), hashed("[executor]\nmax_attempts = 7")}) == 4


def test_every_key_of_a_named_table_is_documented() -> None:
    docs = docs_markdown()
    for table in TABLES.values():
        for kind in table.shapes:
            for option in table_options(table, kind):
                assert f"| `{option.path[-1]}`" in docs
    assert "## `[webhooks.NAME]`" in docs
    assert '## `[prices."NAME"]`' in docs


def test_the_examples_in_the_template_hold_when_uncommented(home: Home) -> None:
    lines = default_toml(home).splitlines()
    start = lines.index("# [webhooks.team]")
    end = start + lines[start:].index("")
    more = lines.index('# [prices."openai/gpt-4o"]')
    example = lines[start:end] + lines[more : more + lines[more:].index("")]
    home.config_file.write_text("\n".join(line.removeprefix("# ") for line in example))
    config = load(home, ENVIRON).config
    assert config.webhooks["team"].secret_env == "TEAM_HOOK"
    assert config.prices["openai/gpt-4o"].output_per_million == 10
    table = tomllib.loads(home.config_file.read_text())
    assert set(table["webhooks"]["team"]) == set(Webhook.__struct_fields__)


@given(st.text(max_size=60) | st.from_regex(r"https?://[\w@:#{}\[\].\\/ -]{0,40}"))
def test_an_address_is_judged_and_never_repeated(url: str) -> None:
    fault = webhook_url_fault(url)
    if not fault:
        assert url.lower().startswith(("http://", "https://"))
        assert "#" not in url
        assert "@" not in url.split("/")[2]
    elif len(url) > 12:
        assert url not in fault


def test_headers_that_carry_the_request_are_taken() -> None:
    assert {"host", "content-length", "transfer-encoding", "connection", "content-type"} <= TAKEN
