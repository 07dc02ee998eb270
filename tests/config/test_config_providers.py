"""Providers: each kind has its keys, and names lead somewhere."""

from pathlib import Path

import pytest

from coilclaw.config import Home, MockModel, OpenAIModel, ReliableModel, RouterModel, load
from coilclaw.packets.errors import ConfigError

ENVIRON = {"HOME": "/home/owner"}
LOCAL = '[providers.models.local]\nkind = "mock"\n'


@pytest.fixture
def home(tmp_path: Path) -> Home:
    root = tmp_path / "home"
    root.mkdir()
    return Home(root)


def problems_of(home: Home, text: str) -> list[str]:
    home.config_file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(home, ENVIRON).config
    return caught.value.problems


def test_every_kind_is_read_into_its_own_struct(home: Home) -> None:
    home.config_file.write_text("""
default_provider = "steady"
[providers.models.local]
kind = "mock"
script = "/tmp/s.json"
[providers.models.openai_compatible]
kind = "openai-compatible"
base_url = "http://localhost:1234/v1"
model = "local-model"
api_key_env = "OPENAI_API_KEY"
timeout_seconds = 5
temperature = 0
max_output_tokens = 100
[providers.models.steady]
kind = "reliable"
providers = ["openai_compatible", "local"]
[providers.models."by.hint"]
kind = "router"
routes = {fast = "local", strong = "steady"}
default = "local"
""")
    models = load(home, ENVIRON).config.providers.models
    assert models["local"] == MockModel(script=Path("/tmp/s.json"))
    assert models["openai_compatible"] == OpenAIModel(
        model="local-model",
        base_url="http://localhost:1234/v1",
        api_key_env="OPENAI_API_KEY",
        timeout_seconds=5.0,
        temperature=0.0,
        max_output_tokens=100,
    )
    assert models["steady"] == ReliableModel(providers=("openai_compatible", "local"))
    assert models["by.hint"] == RouterModel(routes={"fast": "local", "strong": "steady"}, default="local")


def test_no_table_or_an_empty_one_means_the_local_mock(home: Home) -> None:
    for text in ("", "[providers]", "[providers.models]"):
        home.config_file.write_text(text)
        assert load(home, ENVIRON).config.providers.models == {"local": MockModel()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[providers.models.local]", "kind: is missing; needs one of"),
        ('[providers.models.local]\nkind = "openai-compatibel"', 'did you mean "openai-compatible"?'),
        (
            "[providers.models.local]\nkind = 3",
            'needs one of "mock", "openai-compatible", "anthropic", "openai-responses", "google", "reliable", "router"',
        ),
        ("[providers]\nmodels = 3", "needs tables, each written [providers.models.NAME]"),
        ("[providers.models]\nlocal = 3", "needs a table, written [providers.models.local]"),
        ("[providers]\nmodells = {}", "did you mean models?"),
        (
            LOCAL + 'base_url = "http://x"',
            "belongs to kind openai-compatible, anthropic, openai-responses, google only; this kind has kind",
        ),
        (LOCAL + "max_retrys = 1", "no such key"),
        (LOCAL + "script = 3", "needs a path, not 3"),
        (LOCAL + '[providers.models."a b"]\nkind = "mock"', "a provider's name is letters"),
        (LOCAL + '[providers.models.a]\nkind = "reliable"', "needs the name of at least one other provider"),
        (LOCAL + '[providers.models.a]\nkind = "reliable"\nproviders = ["locl"]', 'did you mean "local"?'),
        (LOCAL + '[providers.models.a]\nkind = "reliable"\nproviders = ["a"]', "in a cycle: a -> a"),
        (LOCAL + '[providers.models.a]\nkind = "router"', "default: is missing"),
        (LOCAL + '[providers.models.a]\nkind = "router"\ndefault = "zzz"', 'no provider "zzz"; configured: a, local'),
        (
            LOCAL + '[providers.models.a]\nkind = "router"\ndefault = "local"\nroutes = {x = "zzz"}',
            "a.routes: there is",
        ),
        (LOCAL + '[providers.models.a]\nkind = "router"\ndefault = "local"\nroutes = {x = 1}', "needs a table of str"),
        ('[providers.models.remote]\nkind = "mock"', 'there is no provider "local"; configured: remote'),
        ('default_provider = "locla"', '1: default_provider: there is no provider "locla"; did you mean "local"?'),
    ],
)
def test_a_provider_fault_says_what_is_needed(home: Home, text: str, expected: str) -> None:
    problems = problems_of(home, text)
    assert len(problems) == 1
    assert expected in problems[0]


def test_providers_that_name_each_other_in_a_circle_are_refused(home: Home) -> None:
    problems = problems_of(
        home,
        LOCAL
        + '[providers.models.a]\nkind = "reliable"\nproviders = ["local", "b"]\n'
        + '[providers.models.b]\nkind = "router"\ndefault = "local"\nroutes = {x = "a"}\n',
    )
    assert len(problems) == 1
    assert "cycle" in problems[0]


def test_a_long_chain_of_providers_is_not_a_circle(home: Home) -> None:
    names = [f"p{number}" for number in range(3000)]
    chain = "".join(
        f'[providers.models.{name}]\nkind = "reliable"\nproviders = ["{following}"]\n'
        for name, following in zip(names, [*names[1:], "local"], strict=True)
    )
    home.config_file.write_text(LOCAL + chain)
    assert len(load(home, ENVIRON).config.providers.models) == 3001


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:1234",
        "ftp://host",
        "http://",
        "http://host:99999",
        "http://[::1",
        "http://ho st",
        "http://h/v1?k=v",
    ],
)
def test_a_base_url_that_cannot_be_used_is_refused(home: Home, url: str) -> None:
    problems = problems_of(
        home, LOCAL + f'[providers.models.a]\nkind = "openai-compatible"\nmodel = "m"\nbase_url = "{url}"'
    )
    assert len(problems) == 1
    assert "providers.models.a.base_url" in problems[0]


@pytest.mark.parametrize("name", ["sk-live", "lowercase", "WITH SPACE", "1ABC", "A-B"])
def test_api_key_env_must_look_like_a_variable(home: Home, name: str) -> None:
    text = (
        f'[providers.models.a]\nkind = "openai-compatible"\nmodel = "m"\nbase_url = "http://h"\napi_key_env = "{name}"'
    )
    problems = problems_of(home, LOCAL + text)
    assert len(problems) == 1
    assert "the NAME of an environment variable" in problems[0]
    assert name not in problems[0].replace("providers.models.a", "")


def test_a_password_in_an_address_is_warned_of(home: Home) -> None:
    text = '[providers.models.a]\nkind = "openai-compatible"\nmodel = "m"\nbase_url = "http://me:hunter2@h/v1"'
    home.config_file.write_text(LOCAL + text)
    (warning,) = load(home, ENVIRON).warnings
    assert "api_key_env" in warning
    assert "hunter2" not in warning


def test_a_broken_provider_is_not_also_reported_as_missing(home: Home) -> None:
    problems = problems_of(home, 'default_provider = "a"\n[providers.models.a]\nkind = "oracle"')
    assert len(problems) == 1
