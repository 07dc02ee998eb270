"""Renders the options as docs/config.md, and as the commented config.toml that `init` writes."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import cast

import msgspec

from coilclaw.config import evolve, forge, google, mcp, models, notify, prices, runner, schema, web_search
from coilclaw.config.environment import ALIASES, OTHERS, variable_for
from coilclaw.config.faults import display
from coilclaw.config.options import Option, allowed, is_section, options_of, table_options
from coilclaw.config.paths import Home
from coilclaw.config.schema import Config
from coilclaw.config.tables import (
    CHECKS,
    MCP_SERVERS,
    MODELS,
    ORGS,
    PRICES,
    REPOS,
    TABLES,
    WEBHOOKS,
    KeyPath,
    Table,
    table_at,
)

ACTIVE = (
    "default_provider",
    "security.autonomy",
    "security.workspace_only",
    "security.forbidden_paths",
    "security.forbidden_commands",
)
"""Keys that are uncommented in a new file: what an owner looks at first. Paths are not among them,
so that a home can be moved with everything in it."""


def docs_markdown() -> str:
    """Every option with its type, default and variable, as Markdown."""
    told = option_texts()
    lines = [_INTRODUCTION]
    for section, options in _sections():
        if isinstance(section, Table):
            lines += _table_docs(section, told)
            continue
        heading = f"`[{section}]`" if section else "Top of the file"
        about = options[0].owner.__doc__ if section else "Keys outside any section."
        lines += [f"## {heading}", "", f"{about}", "", *_table(options, told), ""]
    lines += ["## Variables", "", "| variable | what it does |", "|---|---|"]
    lines += [f"| `{name}` | The same as `{variable_for(path)}`. |" for name, path in ALIASES.items()]
    lines += [f"| `{name}` | {text} |" for name, text in OTHERS.items()]
    return "\n".join(lines) + "\n"


def default_toml(home: Home) -> str:
    """The file that `init` writes: it loads to the defaults and contains every option."""
    told = option_texts()
    where = display(home.root).replace("\n", "?")
    lines = [
        "# CoilClaw's configuration. Lines that start with # show the defaults: remove the # to change one.",
        f"# Relative paths are relative to the home, {where}; ~ and $VARIABLES are expanded.",
        "# Check what you wrote with `coilclaw config validate`; docs/config.md explains every key.",
        "",
    ]
    for section, options in _sections():
        if isinstance(section, Table):
            lines += [*_TEMPLATES[section.path].splitlines(), ""]
            continue
        if section:
            lines += [f"[{section}]"]
        for option in options:
            lines += _wrapped(told[option.owner.__name__, option.path[-1]], "# ")
            lines += _assignment(option)
        lines += [""]
    return "\n".join(lines).rstrip("\n") + "\n"


def toml_value(value: object) -> str:
    """A value in TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(int(value)) if float(value).is_integer() else str(value)
    if isinstance(value, tuple):
        return "[" + ", ".join(toml_value(item) for item in cast("tuple[object, ...]", value)) + "]"
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return "{" + ", ".join(f"{key} = {toml_value(item)}" for key, item in items) + "}"
    text = str(value) if isinstance(value, Path) else value
    return msgspec.json.encode(text).decode()


def _sections() -> list[tuple[str | Table, list[Option]]]:
    """Sections in the order of the schema, each with its options; named tables in between have none."""
    found: dict[str, list[Option]] = {}
    for option in options_of():
        found.setdefault(".".join(option.path[:-1]), []).append(option)
    ordered: list[tuple[str | Table, list[Option]]] = [("", found.pop(""))]
    for field in msgspec.structs.fields(Config):
        if is_section(field.type):
            ordered += [(name, options) for name, options in found.items() if name.split(".")[0] == field.name]
        ordered += [(table, []) for path, table in TABLES.items() if path[0] == field.name]
    return ordered


@cache
def option_texts() -> Mapping[tuple[str, str], str]:
    """The docstring of each field by struct and name, parsed from the source, because Python discards it."""
    import ast
    import inspect

    told: dict[tuple[str, str], str] = {}
    parts = (evolve, forge, google, mcp, models, notify, prices, runner, schema, web_search)
    for node in (node for part in parts for node in ast.parse(inspect.getsource(part)).body):
        if not isinstance(node, ast.ClassDef):
            continue
        extended = {base.id for base in node.bases if isinstance(base, ast.Name)}
        told |= {(node.name, field): text for (owner, field), text in told.items() if owner in extended}
        for field, below in zip(node.body, node.body[1:], strict=False):
            is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
                text = cast("ast.Constant", cast("ast.Expr", below).value).value
                told[node.name, field.target.id.rstrip("_")] = " ".join(str(text).split())
    return told


def _table(options: Iterable[Option], told: Mapping[tuple[str, str], str]) -> list[str]:
    rows = ["| key | allowed | default | what it does |", "|---|---|---|---|"]
    for option in options:
        default = "not set" if option.default is None else f"`{toml_value(option.default)}`"
        text = told[option.owner.__name__, option.path[-1]]
        variable = "" if table_at(option.path) else f"<br>`{variable_for(option.path)}`"
        rows.append(f"| `{option.path[-1]}`{variable} | {allowed(option.type)} | {default} | {text} |")
    return rows


def _table_docs(table: Table, told: Mapping[tuple[str, str], str]) -> list[str]:
    about = schema.Providers.__doc__ if table.has_kinds else table.shapes[""].__doc__
    name = "NAME" if table.variables else '"NAME"'
    lines = [f"## `[{table.key}.{name}]`", "", f"{about}", "", _ABOUT[table.path], ""]
    for kind, shape in table.shapes.items():
        if kind:
            lines += [f'### `kind = "{kind}"`', "", f"{shape.__doc__}", ""]
        lines += [*_table(table_options(table, kind), told), ""]
    return lines


def _assignment(option: Option) -> list[str]:
    line = f"{option.path[-1]} = {toml_value(option.default)}"
    if option.key in ACTIVE:
        return [line]
    return _wrapped(line, "# ", "#     ")


def _wrapped(text: str, first: str, later: str = "# ") -> list[str]:
    import textwrap

    return textwrap.wrap(text, 110, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)


_INTRODUCTION = """\
# Configuration

<!-- Generated from src/coilclaw/config/schema.py by coilclaw.config.docs_markdown(); a test compares them. -->

CoilClaw reads `config.toml` in its home, `~/.coilclaw` or where `COILCLAW_HOME` says. A missing file or key means the
default. An unknown key, a wrong type or a value out of bounds is an error; `coilclaw config validate` lists all of them
at once, and `coilclaw config show --json` says where each value came from.

- A variable overrides its key: `COILCLAW_<SECTION>_<KEY>`. An empty variable counts as not set. Switches take `true`,
  `yes`, `on`, `1` and their opposites; lists take `a, b` or `["a", "b"]` (`[]` for none); tables `a=b, c=d` or JSON.
- Two variables for one key must agree. A variable that starts like a section but names no key is an error; any other
  unknown `COILCLAW_` variable is a warning.
- Paths expand `~`, `$NAME` and `${NAME}`; a variable that is not set is an error. `..` is kept as written.
- Secrets never belong in this file: `api_key_env` names a provider's key, which is read from the environment.

## Changing it

Edit the file, or let CoilClaw do it: `coilclaw config set KEY VALUE`, `config set --add security.allowed_domains HOST`,
`config unset KEY`, or the panel's settings. The whole new file is checked, you see the diff and approve it like
everything that governs the agent (lane C); comments, order and layout stay. An approval covers the file shown: if
it was edited meanwhile, nothing is written. A value that looks like a secret is refused; store it with
`coilclaw secret set NAME` and write the name.

Running processes load a changed file within a second, even if you edited it by hand. Only `workspace_dir`,
`memory.path`, `memory.backend`, `[receipts]`, `[server]` and `[log]` need a restart. While the file is invalid, empty
or missing, the last valid configuration stays in force; `doctor`, `/health` and a warning say so.
"""

_ABOUT: Mapping[KeyPath, str] = {
    MODELS: """\
Without any such table there is one provider, `local`, of kind `mock`. Each key can be overridden by
`COILCLAW_PROVIDERS_MODELS_<NAME>_<KEY>`, the name in capitals with `_` for any other character; a name that is not in
the file creates a new provider, in lower case.""",
    WEBHOOKS: """\
Each key can be overridden by `COILCLAW_WEBHOOKS_<NAME>_<KEY>`, as with providers; a name not in the file creates a
new webhook. An address must not contain a user, a password or a `#`; plain `http` causes a warning unless it stays on
this machine. Cards and `config show` show addresses: secrets belong in the variable that `secret_env`
names.""",
    PRICES: """\
Names such as `openai/gpt-4o:free` need quotes: `coilclaw config set 'prices."openai/gpt-4o:free".input_per_million'
3`. There are no variables for prices, since a variable's name cannot represent such names.""",
    CHECKS: """\
Every check runs on the merge result, in a box without network; a pull request merges only if all of them
succeed. A pull request cannot change them: they are only in this file.""",
    MCP_SERVERS: """\
`coilclaw mcp add` writes such a table after you approved the server. A table that was written by hand, or changed,
does nothing until you approve it: `coilclaw mcp approve NAME`. See [guests.md](guests.md).""",
    REPOS: """\
`coilclaw repo add` writes such a table. Your projects can be worked on without one. See [runner.md](runner.md).""",
    ORGS: """\
Its sessions have the repositories, providers and secrets that its table names, and nothing else. `self` is you: it is
always there, on the plan `enterprise`, with all repositories and providers unless its table names some.""",
}

_TEMPLATES: Mapping[KeyPath, str] = {
    MODELS: """\
[providers.models.local]
kind = "mock"
model = "mock"

# Your own model server, or a remote one; set default_provider to its name.
# [providers.models.server]
# kind = "openai-compatible"
# base_url = "http://localhost:1234/v1"
# model = "local-model"
# api_key_env = "OPENAI_API_KEY"  # the variable with the key, never the key itself

# Tries others in order until one answers.
# [providers.models.steady]
# kind = "reliable"
# providers = ["server", "local"]
""",
    WEBHOOKS: """\
# A target for webhook_send; you approve each message.
# [webhooks.team]
# url = "https://example.com/hook"
# header = "Authorization"
# secret_env = "TEAM_HOOK"  # the variable with the header's whole value, never the value itself
# key_header = "Idempotency-Key"
# deduplicates = false  # true: the receiver ignores a key that it has seen before
# lookup_url = "https://example.com/hook/{key}"  # 200: the key was received, 404: it was not
# timeout_seconds = 20
""",
    PRICES: """\
# What a model costs, for `coilclaw usage`; the name is the one in the model's answers.
# [prices."openai/gpt-4o"]
# input_per_million = 2.5
# cached_per_million = 1.25  # what the provider read from its own cache
# output_per_million = 10
""",
    CHECKS: """\
# A command that must succeed, in the files as a merge would leave them, before a pull request can be merged.
# [forge.checks.tests]
# command = "python3 -m pytest -q"
# timeout_seconds = 300
""",
    MCP_SERVERS: """\
# An MCP server, run in a box without network. Nothing of it is used before `coilclaw mcp approve notes`.
# [mcp.servers.notes]
# kind = "stdio"
# command = ["notes-server", "--quiet"]
""",
    REPOS: """\
# A repository that coding sessions work on: a folder of yours, or one on GitHub.
# [repos.website]
# path = "~/src/website"
# copy = [".env"]
# setup = "npm ci --offline"
""",
    ORGS: """\
# Somebody that sessions are run for, with their limits; you are "self".
# [orgs.example]
# plan = "team"
# repos = ["website"]
# providers = ["shell"]
# secrets = ["WEBSITE_TOKEN"]
""",
}
