"""A configuration as plain values: for people, without secrets; for the policy hash, only what affects decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import msgspec

from coilclaw.config.environment import SECRETS
from coilclaw.config.faults import display
from coilclaw.config.models import ServerModel
from coilclaw.config.options import Origin
from coilclaw.config.schema import Config

if TYPE_CHECKING:  # only for type checking: loading a configuration needs neither hashing nor JSON
    from coilclaw.packets.canonical import Json, JsonObject


def show_config(config: Config, origins: Mapping[str, Origin] | None = None) -> JsonObject:
    """Every value by section, ready for JSON, optionally with its origin. Contains no secret."""
    shown = _plain(config)
    models = cast("dict[str, Json]", shown["providers"])["models"]
    notify = cast("dict[str, Json]", shown["notify"])
    for table in (*_tables(models), *_tables(shown["webhooks"]), notify):
        for key in ("base_url", "url", "lookup_url"):
            if table.get(key):
                table[key] = _masked(str(table[key]))
    if origins is not None:
        shown["origins"] = dict(origins)
    return shown


def policy_inputs(config: Config) -> JsonObject:
    """What decisions depend on, ready for canonical JSON; lists are sorted, because their order is irrelevant."""
    parts = _plain(config)
    chosen = (
        "workspace_dir", "security", "channels", "agent", "approvals", "budgets", "jobs", "executor", "webhooks",
        "forge", "mcp", "runner", "repos", "orgs", "plans", "google",
    )  # fmt: skip
    return {name: _ordered(parts[name]) for name in chosen}


def secret_variables(config: Config) -> tuple[str, ...]:
    """The variables whose values are secrets, for redaction."""
    return tuple(dict.fromkeys((*SECRETS, *named_secrets(config))))


def named_secrets(config: Config) -> tuple[str, ...]:
    """The variables that the configuration expects secrets in."""
    models = config.providers.models.values()
    named = [model.api_key_env for model in models if isinstance(model, ServerModel)]
    named += [config.web_search.api_key_env, *(webhook.secret_env for webhook in config.webhooks.values())]
    named += [config.google.client_secret_env] if config.google.configured else []
    named += [config.notify.token_env, config.notify.smtp.password_env]
    named += [name for server in config.mcp.servers.values() for name in (*server.env, *server.headers.values())]
    named += [name for repo in config.repos.values() for name in (repo.token_env, repo.webhook_secret_env)]
    github = config.forge.github
    named += [github.private_key_env, github.token_env, github.webhook_secret_env, github.sign_in_secret_env]
    named += [name for org in config.orgs.values() for name in org.secrets]
    return tuple(dict.fromkeys(filter(None, named)))


def _plain(config: Config) -> dict[str, Json]:
    return cast("dict[str, Json]", msgspec.json.decode(msgspec.json.encode(config, enc_hook=display)))


def _tables(value: Json) -> list[dict[str, Json]]:
    return list(cast("dict[str, dict[str, Json]]", value).values())


def _ordered(value: Json) -> Json:
    if isinstance(value, Mapping):
        return {key: _ordered(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(str(item) for item in value)
    return value


def _masked(url: str) -> str:
    """The address without its user and password."""
    from urllib.parse import urlsplit, urlunsplit

    try:
        parts = urlsplit(url)
    except ValueError:
        return "***"
    host = parts.netloc.rpartition("@")[2]
    return url if host == parts.netloc else urlunsplit(parts._replace(netloc=f"***@{host}"))
