"""coilclaw onboard."""

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import click
import msgspec

from coilclaw.cli.commands.init import make_home, make_parts, make_workspace
from coilclaw.cli.open_home import here, opened
from coilclaw.cli.output import print_wrapped, tell
from coilclaw.config import Config, Home, load
from coilclaw.packets.errors import CoilclawError, StorageError, UsageError
from coilclaw.packets.settings import ConfigEdit, SettingChange, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coilclaw.runtime import Runtime


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that could be configured."""

    name: str
    kind: str
    base_url: str
    model: str
    api_key_env: str
    why: str
    light: str = ""
    """A light model of the same provider, for short choices and summaries; empty where none is known."""
    models: tuple[str, ...] = ()
    """What a server said it has, as far as it was asked."""
    kept: bool = False
    """It answers already, and nothing about it is changed."""


COMPATIBLE = "openai-compatible"
KINDS = ("anthropic", "openai-responses", COMPATIBLE)


def _hosted(name: str, key: str, base_url: str, model: str, light: str = "", kind: str = COMPATIBLE) -> Choice:
    return Choice(name=name, kind=kind, base_url=base_url, model=model, light=light, api_key_env=key, why="")


ROUTER = ("https://openrouter.ai/api/v1", "openrouter/auto")
HOSTED = (
    _hosted(
        "anthropic",
        "ANTHROPIC_API_KEY",
        "https://api.anthropic.com/v1",
        "claude-opus-5",
        "claude-haiku-4-5",
        kind="anthropic",
    ),
    _hosted("openai", "OPENAI_API_KEY", "https://api.openai.com/v1", "gpt-5", "gpt-5-mini", kind="openai-responses"),
    _hosted("openrouter", "OPENROUTER_API_KEY", *ROUTER),
    _hosted("openrouter", "COILCLAW_OPENROUTER_API_KEY", *ROUTER),
    _hosted("groq", "GROQ_API_KEY", "https://api.groq.com/openai/v1", "openai/gpt-oss-120b", "openai/gpt-oss-20b"),
    _hosted("mistral", "MISTRAL_API_KEY", "https://api.mistral.ai/v1", "mistral-large-latest", "mistral-small-latest"),
    _hosted("deepseek", "DEEPSEEK_API_KEY", "https://api.deepseek.com/v1", "deepseek-chat"),
)
LIGHT_HINTS = ("route", "summarise")
STRONG_HINTS = ("chat", "plan", "job", "author")
NO_LIGHT = "none"
GOOGLE_SECRET = "GOOGLE_CLIENT_SECRET"  # noqa: S105 - the name of a variable
AUTONOMY = {
    "readonly": "it reads and answers, and changes nothing",
    "supervised": "it reads and keeps notes by itself; other files and commands that may change something ask",
    "full": "files and allowed commands too; what leaves this machine, or governs the agent, still asks",
}
"""What each level means, in a line."""
MOST_MODELS = 30
LOCAL_PORTS = {11434: "ollama", 1234: "lmstudio", 8080: "llamacpp", 8000: "vllm"}


@click.command()
@click.option("--provider", "name", help="A name for the provider, or mock to keep the built-in one.")
@click.option("--base-url", help="The server's base URL, such as http://localhost:1234/v1.")
@click.option("--kind", type=click.Choice(KINDS), help="How the server is spoken to; known for the providers found.")
@click.option("--model", help="The model to ask for.")
@click.option("--light-model", help="A light model of the same server for short choices and summaries.")
@click.option("--api-key-env", help="The NAME of the environment variable that holds the key; never the key itself.")
@click.option(
    "--autonomy", type=click.Choice(["readonly", "supervised", "full"]), help="How much runs without asking you."
)
@click.option(
    "--google-client-id", default="", help="Your OAuth client at Google, for mail and calendar (docs/google.md)."
)
@click.option("--non-interactive", is_flag=True, help="Do not prompt; use the flags and what is found.")
@click.option("--no-test", is_flag=True, help="Do not test the provider.")
def onboard(
    name: str | None,
    base_url: str | None,
    kind: str | None,
    model: str | None,
    light_model: str | None,
    api_key_env: str | None,
    autonomy: str | None,
    google_client_id: str,
    non_interactive: bool,
    no_test: bool,
) -> int:
    """Set things up: find keys in the environment and model servers on this machine, choose, write, test.

    A home that was set up before shows the difference and asks first, as `coilclaw config set` does.

    Exit code: 0 done, 1 no answer, 2 cannot be set, 3 denied, 4 approval needed or rejected, 5 ESTOP.
    """
    home = here()
    interactive = not non_interactive and sys.stdin.isatty()
    config = _prepare(home)
    found = find_providers(os.environ, asyncio.run(find_local()), _stored_keys())
    choice = _from_flags(name, kind, base_url, model, api_key_env, found)
    if choice is None and name != "mock":
        choice = _ask([*_in_force(config), *found]) if interactive else next(iter(found), None)
    asks = interactive and not (choice and choice.kept)
    if asks and choice is not None and model is None:
        choice = msgspec.structs.replace(choice, model=_ask_model(choice))
    if choice is not None and not choice.kept:
        choice = msgspec.structs.replace(choice, light=_light(choice, light_model, interactive=interactive))
    if interactive and autonomy is None:
        autonomy = _ask_autonomy(config.security.autonomy)
    code = _write(choice, autonomy, google_client_id)
    if code:
        return code
    if google_client_id or interactive:
        _tell_google(google_client_id)
    return 0 if no_test else _test()


def _tell_google(client_id: str) -> None:
    """How mail and calendar go on from here, or how they could be had."""
    if not client_id:
        print_wrapped("Mail and calendar at Google: `coilclaw docs google` leads through it.")
        return
    print_wrapped(
        f"Mail and calendar: store the client's secret with `coilclaw secret set {GOOGLE_SECRET}`, then connect your"
        " account with `coilclaw google connect --identity user`, and the bot's with `--identity bot`."
    )


def _light(choice: Choice, asked: str | None, *, interactive: bool) -> str:
    """The light model to use beside the strong one; empty for none. Nobody is asked where none is known."""
    if asked is None and interactive and choice.light:
        words = f"Light model for short choices and summaries ({NO_LIGHT}: the same)"
        asked = click.prompt(words, default=choice.light, err=True)
    return "" if not asked or asked in (NO_LIGHT, choice.model) else asked


def _prepare(home: Home) -> Config:
    try:
        make_home(home)
        config = load(home, os.environ).config
        make_parts(home, config)
        make_workspace(home, config.workspace_dir)
    except OSError as error:
        raise StorageError(f"{error.filename or home.root} cannot be written ({error.strerror}).") from error
    return config


async def find_local() -> list[Choice]:
    """Model servers that answer on loopback."""
    urls = {f"http://127.0.0.1:{port}/v1": name for port, name in LOCAL_PORTS.items()}
    asked = await asyncio.gather(*(models_at(url) for url in urls))
    return [
        Choice(
            name=name,
            kind=COMPATIBLE,
            base_url=url,
            model=models[0],
            api_key_env="",
            why=f"answers at {url}",
            models=models,
        )
        for (url, name), models in zip(urls.items(), asked, strict=True)
        if models
    ]


async def models_at(url: str) -> tuple[str, ...]:
    """What a server says it has, asked through the airlock like any provider; nothing when it does not say."""
    from coilclaw.airlock import Listing
    from coilclaw.airlock.transport import Airlock
    from coilclaw.packets.errors import EgressRefused, TransportError
    from coilclaw.packets.http import HttpRequest
    from coilclaw.packets.ids import utc_now

    airlock = Airlock(Listing.build(providers=[url]), log=lambda _: None, clock=utc_now)
    request = HttpRequest(principal="provider", method="GET", url=f"{url.rstrip('/')}/models", timeout_seconds=1.5)
    try:
        response = await airlock.send(request)
        found = msgspec.json.decode(response.body, type=_Models) if response.status == 200 else _Models(data=[])
    except (TransportError, EgressRefused, msgspec.DecodeError):
        return ()
    return tuple(each.id for each in found.data)


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


def _stored_keys() -> frozenset[str]:
    from coilclaw.store.stored_secrets import list_secrets

    with opened() as app:
        return frozenset(each.name for each in list_secrets(app.db.reader))


def _in_force(config: Config) -> list[Choice]:
    """The model that answers now, unless it is the script that every home begins with."""
    from coilclaw.config.models import ReliableModel, RouterModel

    name = config.default_provider
    known = config.providers.models.get(name)
    if known is None or known.kind == "mock":
        return []
    if isinstance(known, RouterModel | ReliableModel):
        others = known.routes.values() if isinstance(known, RouterModel) else known.providers
        model = ", ".join(dict.fromkeys(others))
    else:
        model = known.model
    kept = Choice(name=name, kind=known.kind, base_url="", model=model, api_key_env="", why="as it is now", kept=True)
    return [kept]


def find_providers(
    environ: "Mapping[str, str]", local: list[Choice], stored: frozenset[str] = frozenset()
) -> list[Choice]:
    """What could be used here, local servers first; keys are in the environment, or stored with `coilclaw secret`."""
    hosted = [
        msgspec.structs.replace(choice, why=f"{choice.api_key_env} is {'set' if here else 'stored'}")
        for choice in HOSTED
        if (here := bool(environ.get(choice.api_key_env))) or choice.api_key_env in stored
    ]
    return [*local, *hosted]


def _from_flags(
    name: str | None,
    kind: str | None,
    base_url: str | None,
    model: str | None,
    api_key_env: str | None,
    found: list[Choice],
) -> Choice | None:
    if name == "mock" or (name is None and base_url is None):
        return None
    known = next((choice for choice in (*found, *HOSTED) if choice.name == name), None)
    if base_url is None and known is None:
        names = sorted({choice.name for choice in (*found, *HOSTED)})
        raise UsageError(
            f"--provider {name} needs --base-url and --model.", remedy=f"These need neither: {', '.join(names)}."
        )
    if base_url is not None and not model and known is None:
        raise UsageError("--base-url needs --model.", remedy="Name the model the server should use.")
    known = known or Choice(name="model", kind=COMPATIBLE, base_url="", model="", api_key_env="", why="")
    return Choice(
        name=name or known.name,
        kind=kind or known.kind,
        base_url=base_url or known.base_url,
        model=model or known.model,
        api_key_env=api_key_env if api_key_env is not None else known.api_key_env,
        light=known.light,
        why="from the flags",
    )


def _ask(found: list[Choice]) -> Choice | None:
    tell("Which model should answer?", err=True)
    for number, choice in enumerate(found, start=1):
        _tell_option(number, f"{choice.name}: {choice.model} ({choice.why})")
    if not any(choice.api_key_env for choice in found):
        names = list(dict.fromkeys(choice.api_key_env for choice in HOSTED))[:3]
        keys = f"{', '.join(names[:-1])} or {names[-1]}, or store it: `coilclaw secret set NAME`"
        print_wrapped(f"For a hosted one, set {keys}. Then start again.", err=True)
    other = "another server" if found else "a model server at an address you type in"
    _tell_option(len(found) + 1, f"{other} (any OpenAI-compatible one)")
    _tell_option(len(found) + 2, "none yet: use the built-in mock")
    default = 1 if found else 2
    picked = click.prompt("Number", default=default, type=click.IntRange(1, len(found) + 2), err=True)
    if picked <= len(found):
        return found[picked - 1]
    return None if picked == len(found) + 2 else _ask_server()


def _ask_server() -> Choice:
    """A server that was not found by itself; which of its models is asked next."""
    from coilclaw.config.checks import url_fault
    from coilclaw.config.tables import MODELS, TABLES

    while fault := url_fault(url := click.prompt("Its address", default="http://localhost:1234/v1", err=True).strip()):
        print_wrapped(f"The address {fault}.", err=True)
    models = asyncio.run(models_at(url))
    key = click.prompt("Variable that holds its key (empty: none)", default="", show_default=False, err=True)
    naming = TABLES[MODELS]
    while not naming.names(name := click.prompt("A name for it", default="model", err=True).strip()):
        print_wrapped(f"That does not work: {naming.naming()}.", err=True)
    model = next(iter(models), "")
    return Choice(
        name=name, kind=COMPATIBLE, base_url=url, model=model, api_key_env=key.strip(), why="typed in", models=models
    )


def _tell_option(number: int, text: str) -> None:
    print_wrapped(f"  {number}) {text}", err=True, indent="     ")


def _ask_model(choice: Choice) -> str:
    """The model, by the number it is listed with or by its name."""
    from coilclaw.packets.text import one_line

    listed = choice.models[:MOST_MODELS] if len(choice.models) > 1 else ()
    for number, model in enumerate(listed, start=1):
        _tell_option(number, one_line(model))
    words = "Model (number or name)" if listed else "Model"
    answer: str = click.prompt(words, default=choice.model or None, err=True)
    return _numbered(answer, listed)


def _ask_autonomy(now: str = "supervised") -> str:
    tell("How much may run without asking you?", err=True)
    for number, (level, meaning) in enumerate(AUTONOMY.items(), start=1):
        _tell_option(number, f"{level}: {meaning}")
    while True:
        answer = _numbered(click.prompt("Autonomy (number or name)", default=now, err=True), tuple(AUTONOMY))
        if answer in AUTONOMY:
            return answer
        tell(f"Type 1 to {len(AUTONOMY)}, or one of the names.", err=True)


def _numbered(answer: str, listed: tuple[str, ...]) -> str:
    """What stands at the number that was typed; anything else is a name."""
    number = int(answer) if answer.isascii() and answer.isdigit() and len(answer) < 4 else 0
    return listed[number - 1] if 0 < number <= len(listed) else answer.strip()


def _write(choice: Choice | None, autonomy: str | None, google_client_id: str) -> int:
    """Change config.toml through the gate; only the first choice in a home that nobody has set up is written at once.

    The exit code: 0 when config.toml says what was chosen.
    """
    from coilclaw.cli.commands.config import propose
    from coilclaw.runtime.settings import NothingChanges, proposal

    with opened() as app:
        changes = tuple(_changes(app.config, choice, autonomy, google_client_id))
        if not changes:
            return 0
        try:
            call = proposal(app, changes)
        except NothingChanges as error:
            tell(str(error))
            return 0
        if not _is_new(app):
            return propose(app, call, changes)
        asyncio.run(_write_first(app, msgspec.json.decode(call.args_bytes, type=ConfigEdit)))
        print_wrapped(f"Wrote {app.home.config_file}: provider {choice.name if choice else 'local (mock)'}.")
        return 0


async def _write_first(app: "Runtime", edit: ConfigEdit) -> None:
    from coilclaw.runtime.settings import config_writer

    await config_writer(app).write(edit)


def _is_new(app: "Runtime") -> bool:
    """Whether config.toml is as `init` made it and nobody has a passkey: then this is part of making the home."""
    from coilclaw.config import default_toml

    untouched = app.home.config_file.read_bytes() == default_toml(app.home).encode()
    return untouched and not app.owner_proof.registered(app.db.reader)


def _changes(config: Config, choice: Choice | None, autonomy: str | None, google_client_id: str) -> list[SettingChange]:
    """What was chosen, as changes of config.toml."""
    changes = [] if choice is not None and choice.kept else _provider_changes(config, choice)
    if autonomy is not None:
        changes.append(SettingChange(key="security.autonomy", value=autonomy))
    if google_client_id:
        changes.append(SettingChange(key="google.client_id", value=google_client_id))
        changes.append(SettingChange(key="google.client_secret_env", value=GOOGLE_SECRET))
    return changes


def _provider_changes(config: Config, choice: Choice | None) -> list[SettingChange]:
    changes: list[SettingChange] = []
    if choice is not None:
        changes += _entry(config, choice.name, choice)
    elif "local" not in config.providers.models:
        changes.append(SettingChange(key="providers.models.local.kind", value="mock"))
    default = choice.name if choice is not None else "local"
    if choice is not None and choice.light:
        default = f"{choice.name}_by_task"
        changes += _light_entries(config, choice, default)
    return [*changes, SettingChange(key="default_provider", value=default)]


def _light_entries(config: Config, choice: Choice, router: str) -> list[SettingChange]:
    """A light model beside the strong one, and a router before both."""
    light = f"{choice.name}_light"
    routes: dict[str, str] = {**dict.fromkeys(LIGHT_HINTS, light), **dict.fromkeys(STRONG_HINTS, choice.name)}
    keys: dict[str, Value] = {"kind": "router", "default": choice.name, "routes": routes}
    return [*_entry(config, light, msgspec.structs.replace(choice, model=choice.light)), *_table(config, router, keys)]


def _entry(config: Config, name: str, choice: Choice) -> list[SettingChange]:
    keys: dict[str, Value] = {"kind": choice.kind, "base_url": choice.base_url, "model": choice.model}
    return _table(config, name, keys | ({"api_key_env": choice.api_key_env} if choice.api_key_env else {}))


def _table(config: Config, name: str, keys: dict[str, Value]) -> list[SettingChange]:
    """A provider with these keys. What else the owner wrote in its table stays, unless it is of another kind now."""
    table = f"providers.models.{name}"
    known = config.providers.models.get(name)
    gone = [] if known is None else [table] if known.kind != keys["kind"] else []
    if known is not None and not gone and "api_key_env" not in keys and getattr(known, "api_key_env", None):
        gone = [f"{table}.api_key_env"]
    return [
        *(SettingChange(key=key, op="unset") for key in gone),
        *(SettingChange(key=f"{table}.{key}", value=value) for key, value in keys.items()),
    ]


def _test() -> int:
    from coilclaw.runtime.provider_test import try_provider

    with opened() as app:
        name = app.config.default_provider
        tell(f"Asking {name} for one word …", err=True)
        try:
            tried = asyncio.run(try_provider(app, name))
        except CoilclawError as error:
            print_wrapped(f"coilclaw: {name} did not answer: {error}", err=True)
            print_wrapped("The configuration was written; try again with `coilclaw provider test`.", err=True)
            return error.exit_code
    print_wrapped(f"{name} answers ({tried.model}): {tried.text[:200]}")
    tell("Next: `coilclaw agent`.")
    return 0
