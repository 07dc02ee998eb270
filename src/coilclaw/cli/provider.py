"""coilclaw provider."""

import asyncio
import time
from typing import TYPE_CHECKING

import click

from coilclaw.cli.output import json_option, print_json, print_rows
from coilclaw.cli.session import opened

if TYPE_CHECKING:
    from coilclaw.app import App


@click.group()
def provider() -> None:
    """List or test model providers."""


@provider.command("list")
@json_option
def list_all(as_json: bool) -> None:
    """List the configured providers."""
    from coilclaw.config import MockModel, OpenAIModel

    with opened() as app:
        rows: list[dict[str, str | bool]] = []
        for name, model in app.config.providers.models.items():
            key = model.api_key_env if isinstance(model, OpenAIModel) else ""
            rows.append(
                {
                    "name": name,
                    "kind": model.kind,
                    "model": model.model if isinstance(model, MockModel | OpenAIModel) else "",
                    "base_url": model.base_url.rpartition("@")[2] if isinstance(model, OpenAIModel) else "",
                    "key": f"{key} ({'set' if app.environ.get(key) else 'not set'})" if key else "",
                    "default": name == app.config.default_provider,
                }
            )
    if as_json:
        print_json(rows)
        return
    shown = [
        (f"{row['name']}{' *' if row['default'] else ''}", str(row["kind"]), str(row["model"]), str(row["base_url"]),
         str(row["key"]))
        for row in rows
    ]  # fmt: skip
    print_rows(shown, ("provider", "kind", "model", "address", "key"), empty="No provider is configured.")


@provider.command()
@click.argument("name", required=False)
@json_option
def test(name: str | None, as_json: bool) -> int:
    """Ask a provider for one short answer and say how it went."""
    with opened() as app:
        chosen = name or app.config.default_provider
        started = time.monotonic()
        text, model = asyncio.run(try_provider(app, chosen))
        seconds = time.monotonic() - started
    if as_json:
        print_json({"name": chosen, "ok": True, "model": model, "seconds": round(seconds, 3), "text": text})
    else:
        click.echo(f"{chosen} answers ({model}, {seconds:.1f} s): {text[:200]}")
    return 0


async def try_provider(app: "App", name: str) -> tuple[str, str]:
    """One short answer, or the provider's error."""
    from coilclaw.packets.chat import ChatMessage, ChatRequest

    asked = app.provider(name)
    request = ChatRequest(
        system_prompt="Answer in one short sentence.",
        messages=(ChatMessage(role="user", content="Say hello."),),
        tools=(),
        model=app.config.default_model,
    )
    response = await asked.chat(request)
    return app.redactor.text(response.final_text.strip()), response.model
