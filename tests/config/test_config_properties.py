"""Whatever stands in the file or the environment, loading ends in a Config or in a ConfigError."""

import json
import string
import tempfile
from datetime import date
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from coilclaw.config import Home, load, policy_inputs, show_config
from coilclaw.config.environment import ALIASES, SECRETS, variable_for
from coilclaw.config.models import MODEL_KINDS
from coilclaw.config.options import options_of
from coilclaw.config.tables import PRICES, TABLES, WEBHOOKS
from coilclaw.packets.canonical import canonical_bytes
from coilclaw.packets.errors import ConfigError

NAMES = sorted({name for option in options_of() for name in option.path} | {"models", "local", "kind", "base_url"})
WORDS = ["", "full", "local", "mock", "~", "$HOME", "$NO", "http://h", "rm", "/", "..", "\x00", *MODEL_KINDS]
VARIABLES = [*(variable_for(option.path) for option in options_of()), *ALIASES, *SECRETS]
MODEL_VARIABLES = [f"COILCLAW_PROVIDERS_MODELS_{name}" for name in ("LOCAL_KIND", "X_ROUTES", "_", "A_B_PROVIDERS", "")]
MODEL_VARIABLES += [f"COILCLAW_WEBHOOKS_{name}" for name in ("A_URL", "A_LOOKUP_URL", "URL", "_", "")]

text = st.sampled_from(WORDS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
key = st.sampled_from(NAMES) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalar = st.booleans() | st.integers() | st.floats() | text | st.dates()
value = st.recursive(
    scalar, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(key, inner, max_size=4), max_leaves=12
)
sections = {
    name: st.dictionaries(st.sampled_from([option.path[-1] for option in options_of() if name in option.path]), value)
    for name in ("security", "memory", "receipts", "agent", "server")
}
model = st.dictionaries(
    st.sampled_from(["kind", "model", "providers", "routes", "default", "base_url", "script"]), value
)
named = {
    path[0]: st.dictionaries(
        key, st.dictionaries(st.sampled_from(TABLES[path].shapes[""].__struct_fields__), value), max_size=3
    )
    for path in (WEBHOOKS, PRICES)
}
shaped = st.fixed_dictionaries(
    {},
    optional={
        **sections,
        **named,
        "providers": st.fixed_dictionaries({"models": st.dictionaries(key, model, max_size=3)}),
    },
)


def as_toml(item: object) -> str:
    if isinstance(item, dict):
        return "{" + ", ".join(f"{as_toml(name)} = {as_toml(inner)}" for name, inner in item.items()) + "}"
    if isinstance(item, list):
        return "[" + ", ".join(as_toml(inner) for inner in item) + "]"
    if isinstance(item, str):
        return json.dumps(item, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(item, bool):
        return str(item).lower()
    return item.isoformat() if isinstance(item, date) else repr(item)


def loads_or_says_why(data: bytes, environ: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        home = Home(Path(place) / "home")
        home.root.mkdir()
        home.config_file.write_bytes(data)
        problems: list[str] = []
        loaded = None
        try:
            loaded = load(home, {"HOME": "/home/owner"} | environ)
        except ConfigError as error:
            problems = error.problems
    assert (loaded is None) == bool(problems)
    for problem in problems:
        problem.encode("utf-8")
        assert problem.isprintable()
    if loaded is not None:
        assert loaded.config.workspace_dir.is_absolute()
        json.dumps(show_config(loaded.config, loaded.origins))
        canonical_bytes(policy_inputs(loaded.config))


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(key, value, max_size=5))
def test_any_tables_load_or_end_in_a_config_error(table: dict[str, object]) -> None:
    loads_or_says_why("".join(f"{as_toml(name)} = {as_toml(item)}\n" for name, item in table.items()).encode(), {})


@settings(deadline=None, max_examples=60)
@given(shaped)
def test_tables_with_the_right_names_load_or_end_in_a_config_error(table: dict[str, object]) -> None:
    loads_or_says_why("".join(f"{as_toml(name)} = {as_toml(item)}\n" for name, item in table.items()).encode(), {})


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=200) | st.text(string.printable, max_size=200).map(str.encode))
def test_any_bytes_load_or_end_in_a_config_error(data: bytes) -> None:
    loads_or_says_why(data, {})


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.sampled_from([*VARIABLES, *MODEL_VARIABLES]), text | value.map(as_toml), max_size=4))
def test_any_environment_loads_or_ends_in_a_config_error(environ: dict[str, str]) -> None:
    loads_or_says_why(b"", environ)
