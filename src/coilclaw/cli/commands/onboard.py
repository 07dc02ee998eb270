"""coilclaw onboard."""

import asyncio
import os
import sys
from typing import TYPE_CHECKING, cast

import click
import msgspec

from coilclaw.cli.commands.init import make_home, make_parts, make_workspace
from coilclaw.cli.open_home import here, opened
from coilclaw.cli.output import print_wrapped, tell
from coilclaw.config import Home, load
from coilclaw.packets.errors import CoilclawError, ConfigError, StorageError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tomlkit.items import Table


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that could be configured."""

    name: str
    base_url: str
    model: str
    api_key_env: str
    why: str
    light: str = ""
    """A light model of the same provider, for short choices and summaries; empty where none is known."""
    models: tuple[str, ...] = ()
    """What a server said it has, as far as it was asked."""


HOSTED = tuple(
    Choice(name=name, base_url=base_url, model=model, light=light, api_key_env=key, why="")
    for name, base_url, model, light, key in (
        ("openai", "https://api.openai.com/v1", "gpt-5", "gpt-5-mini", "OPENAI_API_KEY"),
        ("openrouter", "https://openrouter.ai/api/v1", "openrouter/auto", "", "OPENROUTER_API_KEY"),
        ("openrouter", "https://openrouter.ai/api/v1", "openrouter/auto", "", "COILCLAW_OPENROUTER_API_KEY"),
        ("groq", "https://api.groq.com/openai/v1", "openai/gpt-oss-120b", "openai/gpt-oss-20b", "GROQ_API_KEY"),
        ("mistral", "https://api.mistral.ai/v1", "mistral-large-latest", "mistral-small-latest", "MISTRAL_API_KEY"),
        ("deepseek", "https://api.deepseek.com/v1", "deepseek-chat", "", "DEEPSEEK_API_KEY"),
    )
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
    model: str | None,
    light_model: str | None,
    api_key_env: str | None,
    autonomy: str | None,
    google_client_id: str,
    non_interactive: bool,
    no_test: bool,
) -> int:
    """Set things up: find keys in the environment and model servers on this machine, choose, write, test."""
    home = here()
    interactive = not non_interactive and sys.stdin.isatty()
    _prepare(home)
    found = find_providers(os.environ, asyncio.run(find_local()))
    choice = _from_flags(name, base_url, model, api_key_env, found)
    if choice is None and name != "mock":
        choice = _ask(found) if interactive else next(iter(found), None)
    if interactive and choice is not None and model is None:
        choice = msgspec.structs.replace(choice, model=_ask_model(choice))
    if choice is not None:
        choice = msgspec.structs.replace(choice, light=_light(choice, light_model, interactive=interactive))
    if interactive and autonomy is None:
        autonomy = _ask_autonomy()
    _write(home, choice, autonomy, google_client_id)
    tell(f"Wrote {home.config_file}: provider {choice.name if choice else 'local (mock)'}.")
    if google_client_id or interactive:
        _tell_google(google_client_id)
    return 0 if no_test else _test()


def _tell_google(client_id: str) -> None:
    """How mail and calendar go on from here, or how they could be had."""
    if not client_id:
        tell("Mail and calendar at Google: docs/google.md, then `coilclaw onboard --google-client-id ID`.")
        return
    tell(f"Mail and calendar: store the client's secret with `coilclaw secret set {GOOGLE_SECRET}`, then connect your")
    tell("account with `coilclaw google connect --identity user`, and the bot's with `--identity bot`.")


def _light(choice: Choice, asked: str | None, *, interactive: bool) -> str:
    """The light model to use beside the strong one; empty for none. Nobody is asked where none is known."""
    if asked is None and interactive and choice.light:
        words = f"Light model for short choices and summaries ({NO_LIGHT}: the same)"
        asked = click.prompt(words, default=choice.light, err=True)
    return "" if not asked or asked in (NO_LIGHT, choice.model) else asked


def _prepare(home: Home) -> None:
    try:
        make_home(home)
        config = load(home, os.environ).config
        make_parts(home, config)
        make_workspace(home, config.workspace_dir)
    except OSError as error:
        raise StorageError(f"{error.filename or home.root} cannot be written ({error.strerror}).") from error


async def find_local() -> list[Choice]:
    """Model servers that answer on loopback."""
    urls = {f"http://127.0.0.1:{port}/v1": name for port, name in LOCAL_PORTS.items()}
    asked = await asyncio.gather(*(models_at(url) for url in urls))
    return [
        Choice(name=name, base_url=url, model=models[0], api_key_env="", why=f"answers at {url}", models=models)
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


def find_providers(environ: "Mapping[str, str]", local: list[Choice]) -> list[Choice]:
    """What could be used here, local servers first."""
    hosted = [
        msgspec.structs.replace(choice, why=f"{choice.api_key_env} is set")
        for choice in HOSTED
        if environ.get(choice.api_key_env)
    ]
    return [*local, *hosted]


def _from_flags(
    name: str | None, base_url: str | None, model: str | None, api_key_env: str | None, found: list[Choice]
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
    return Choice(
        name=name or "model",
        base_url=base_url or (known.base_url if known else ""),
        model=model or (known.model if known else ""),
        api_key_env=api_key_env if api_key_env is not None else (known.api_key_env if known else ""),
        why="from the flags",
    )


def _ask(found: list[Choice]) -> Choice | None:
    tell("Which model should answer?", err=True)
    for number, choice in enumerate(found, start=1):
        _tell_option(number, f"{choice.name}: {choice.model} ({choice.why})")
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
    return Choice(name=name, base_url=url, model=model, api_key_env=key.strip(), why="typed in", models=models)


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


def _ask_autonomy() -> str:
    tell("How much may run without asking you?", err=True)
    for number, (level, meaning) in enumerate(AUTONOMY.items(), start=1):
        _tell_option(number, f"{level}: {meaning}")
    while True:
        answer = _numbered(click.prompt("Autonomy (number or name)", default="supervised", err=True), tuple(AUTONOMY))
        if answer in AUTONOMY:
            return answer
        tell(f"Type 1 to {len(AUTONOMY)}, or one of the names.", err=True)


def _numbered(answer: str, listed: tuple[str, ...]) -> str:
    """What stands at the number that was typed; anything else is a name."""
    number = int(answer) if answer.isascii() and answer.isdigit() and len(answer) < 4 else 0
    return listed[number - 1] if 0 < number <= len(listed) else answer.strip()


def _write(home: Home, choice: Choice | None, autonomy: str | None, google_client_id: str = "") -> None:
    """Edit config.toml, keeping everything the owner wrote, comments too."""
    import tomlkit

    try:
        document = tomlkit.parse(home.config_file.read_text(encoding="utf-8"))
        providers = document.setdefault("providers", tomlkit.table(is_super_table=True))
        models = cast("Table", providers.setdefault("models", tomlkit.table(is_super_table=True)))
        name = choice.name if choice is not None else "local"
        if choice is not None:
            models[name] = _entry(choice)
            name = _add_light(models, choice) if choice.light else name
        elif name not in models:
            models[name] = {"kind": "mock"}
        document["default_provider"] = name
        if autonomy is not None:
            document.setdefault("security", tomlkit.table())["autonomy"] = autonomy
        if google_client_id:
            google = document.setdefault("google", tomlkit.table())
            google["client_id"], google["client_secret_env"] = google_client_id, GOOGLE_SECRET
        text = tomlkit.dumps(document)
        load(home, os.environ, text.encode())  # what is written must hold
        partial = home.config_file.with_suffix(".new")
        partial.write_text(text, encoding="utf-8")
        partial.chmod(0o600)
        partial.replace(home.config_file)
    except ConfigError as error:
        raise ConfigError(error.problems, remedy=f"Nothing was written to {home.config_file}.") from error
    except OSError as error:
        raise StorageError(f"{home.config_file} cannot be written ({error.strerror}).") from error


def _add_light(models: "Table", choice: Choice) -> str:
    """Put a light model beside the strong one and a router before both; its name."""
    import tomlkit

    strong, light, name = choice.name, f"{choice.name}_light", f"{choice.name}_by_task"
    models[light] = _entry(msgspec.structs.replace(choice, model=choice.light))
    router, routes = tomlkit.table(), tomlkit.inline_table()
    for hint in (*LIGHT_HINTS, *STRONG_HINTS):
        routes[hint] = light if hint in LIGHT_HINTS else strong
    router["kind"], router["default"], router["routes"] = "router", strong, routes
    models[name] = router
    return name


def _entry(choice: Choice) -> "Table":
    import tomlkit

    entry = tomlkit.table()
    entry["kind"] = "openai-compatible"
    entry["base_url"] = choice.base_url
    entry["model"] = choice.model
    if choice.api_key_env:
        entry["api_key_env"] = choice.api_key_env
    return entry


def _test() -> int:
    from coilclaw.runtime.provider_test import try_provider

    with opened() as app:
        name = app.config.default_provider
        tell(f"Asking {name} for one word …", err=True)
        try:
            tried = asyncio.run(try_provider(app, name))
        except CoilclawError as error:
            tell(f"coilclaw: {name} did not answer: {error}", err=True)
            tell("The configuration was written; try again with `coilclaw provider test`.", err=True)
            return error.exit_code
    tell(f"{name} answers ({tried.model}): {tried.text[:200]}")
    tell("Next: `coilclaw agent`.")
    return 0
