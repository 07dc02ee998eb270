"""coilclaw provider."""

import asyncio

import click

from coilclaw.cli import completion
from coilclaw.cli.open_home import opened
from coilclaw.cli.output import json_option, print_json, print_rows, tell


@click.group()
def provider() -> None:
    """List or test model providers."""


@provider.command("list")
@json_option
def list_all(as_json: bool) -> None:
    """List the configured providers."""
    from coilclaw.runtime.provider_test import listed_providers

    with opened() as app:
        listed = listed_providers(app)
    rows: list[dict[str, str | bool]] = [
        {
            "name": each.name,
            "kind": each.kind,
            "model": each.model,
            "base_url": each.base_url,
            "key": f"{each.key_name} ({'set' if each.key_set else 'not set'})" if each.key_name else "",
            "default": each.default,
        }
        for each in listed
    ]
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
@click.argument("name", required=False, shell_complete=completion.providers)
@json_option
def test(name: str | None, as_json: bool) -> int:
    """Ask a provider for one short answer and say how it went."""
    from coilclaw.runtime.provider_test import try_provider

    with opened() as app:
        chosen = name or app.config.default_provider
        tried = asyncio.run(try_provider(app, chosen))
    if as_json:
        print_json({"name": chosen, "ok": True, "model": tried.model, "seconds": tried.seconds, "text": tried.text})
    else:
        tell(f"{chosen} answers ({tried.model}, {tried.seconds:.1f} s): {tried.text[:200]}")
    return 0
