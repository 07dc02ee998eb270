"""Checks across values: overlapping paths, references between sections, and switches that do not exist."""

from collections.abc import Collection, Mapping, Set
from pathlib import Path

from msgspec.structs import replace

from coilclaw.config.faults import Faults, display, safe_text
from coilclaw.config.forge import GitHubForge
from coilclaw.config.google import google_faults
from coilclaw.config.mcp import NEVER_OFFERED
from coilclaw.config.models import MockModel, ProviderModel, ReliableModel, RouterModel, ServerModel
from coilclaw.config.options import nearest
from coilclaw.config.paths import BadPath, Home, absolute, resolved, stands_as
from coilclaw.config.schema import Config, Server
from coilclaw.config.tables import CHECKS, MCP_SERVERS, MODELS, ORGS, REPOS, WEBHOOKS, KeyPath


def settle_paths(config: Config, home: Home, environ: Mapping[str, str], faults: Faults) -> Config:
    """Make every path absolute, and resolve links in forbidden ones."""

    def at(path: KeyPath, written: Path, start: Path) -> Path:
        try:
            return absolute(str(written), start, environ)
        except BadPath as error:
            faults.note(path, f"the path {error}")
            return start.parent / f".{'.'.join(path)}"  # a harmless placeholder, so that the checks continue

    workspace = at(("workspace_dir",), config.workspace_dir, home.root)
    forbidden = [
        resolved(at(("security", "forbidden_paths"), path, workspace)) for path in config.security.forbidden_paths
    ]
    toolchains = [resolved(at(("security", "toolchains"), path, home.root)) for path in config.security.toolchains]
    models: dict[str, ProviderModel] = {}
    for name, model in config.providers.models.items():
        if isinstance(model, MockModel) and model.script is not None:
            models[name] = replace(model, script=at((*MODELS, name, "script"), model.script, home.root))
        else:
            models[name] = model
    tls = {
        name: None if path is None else at(("server", name), path, home.root)
        for name, path in (
            ("tls_cert", config.server.tls_cert),
            ("tls_key", config.server.tls_key),
            ("tls_client_ca", config.server.tls_client_ca),
        )
    }
    trees = config.forge.trees_dir
    trees = None if trees is None else at(("forge", "trees_dir"), trees, home.root)
    sessions = config.runner.sessions_dir
    sessions = None if sessions is None else at(("runner", "sessions_dir"), sessions, home.root)
    repos = {
        name: repo if repo.path is None else replace(repo, path=at((*REPOS, name, "path"), repo.path, home.root))
        for name, repo in config.repos.items()
    }
    return replace(
        config,
        workspace_dir=workspace,
        forge=replace(config.forge, trees_dir=trees),
        runner=replace(config.runner, sessions_dir=sessions),
        repos=repos,
        security=replace(
            config.security,
            forbidden_paths=tuple(dict.fromkeys(forbidden)),
            toolchains=tuple(dict.fromkeys(toolchains)),
        ),
        providers=replace(config.providers, models=models),
        server=replace(config.server, **tls),
        memory=replace(config.memory, path=at(("memory", "path"), config.memory.path, home.root)),
        receipts=replace(config.receipts, path=at(("receipts", "path"), config.receipts.path, home.root)),
    )


def check(config: Config, home: Home, declared: Set[str], faults: Faults) -> None:
    """Record every fault that involves several values."""
    if _check_workspace(config, home, faults):
        _check_files(config, home, faults)
        _check_folders(config, home, faults)
    _check_switches(config, faults)
    _check_providers(config, declared, faults)
    _check_webhooks(config, faults)
    _check_notify(config, faults)
    _check_forge(config, faults)
    _check_mcp(config, faults)
    _check_google(config, faults)
    _check_runner(config, faults)
    _check_listening(config, faults)


def _check_workspace(config: Config, home: Home, faults: Faults) -> bool:
    """Check that the workspace and the home do not overlap."""
    key = ("workspace_dir",)
    shown = display(config.workspace_dir)
    workspace, root = resolved(config.workspace_dir), resolved(home.root)
    if workspace == root:
        faults.note(key, f"the workspace {shown} is the home itself; the agent must not reach its own keys")
    elif root.is_relative_to(workspace):
        faults.note(key, f"the workspace {shown} contains the home {display(home.root)}; choose a folder next to it")
    elif workspace.is_relative_to(root):
        faults.note(key, f"the workspace {shown} is inside the home {display(home.root)}; choose a folder next to it")
    elif stands_as(workspace) == "other":
        faults.note(key, f"{shown} is not a directory")
    for path in config.security.forbidden_paths:
        if workspace.is_relative_to(path):
            text = f"{display(path)} contains the workspace, so nothing in the workspace could be read or written"
            faults.warn(("security", "forbidden_paths"), text)
    return not (root.is_relative_to(workspace) or workspace.is_relative_to(root))


def _check_files(config: Config, home: Home, faults: Faults) -> None:
    workspace = resolved(config.workspace_dir)
    reserved = {resolved(home.config_file): "config.toml", resolved(home.estop_file): "the ESTOP file"}
    for key, path in (("memory", config.memory.path), ("receipts", config.receipts.path)):
        real = resolved(path)
        if real.is_relative_to(workspace):
            text = f"{display(path)} is inside the workspace, where the agent could change it; put it in the home"
            faults.note((key, "path"), text)
        elif stands_as(real) == "directory":
            faults.note((key, "path"), f"{display(path)} is a directory; name a file")
        elif real in reserved:
            faults.note((key, "path"), f"{display(path)} is already {reserved[real]}; name another file")
        reserved[real] = f"{key}.path"


def _check_switches(config: Config, faults: Faults) -> None:
    if not config.security.audit_log:
        text = "the audit trail cannot be switched off: it is the record of what the agent did; remove the key"
        faults.note(("security", "audit_log"), text)
    if not config.receipts.enabled:
        text = "receipts cannot be switched off: every outcome has one; remove the key"
        faults.note(("receipts", "enabled"), text)


def _check_providers(config: Config, declared: Set[str], faults: Faults) -> None:
    _check_name(config.default_provider, ("default_provider",), declared, faults)
    models = config.providers.models
    for name, model in models.items():
        path = (*MODELS, name)
        if isinstance(model, ServerModel):
            _check_server(model, path, faults)
        elif isinstance(model, ReliableModel):
            if not model.providers:
                faults.note((*path, "providers"), "needs the name of at least one other provider")
            for other in model.providers:
                _check_name(other, (*path, "providers"), declared, faults)
        elif isinstance(model, RouterModel):
            for other in model.routes.values():
                _check_name(other, (*path, "routes"), declared, faults)
            if not model.default:
                faults.note((*path, "default"), "is missing; name the provider for requests that match no route")
            else:
                _check_name(model.default, (*path, "default"), declared, faults)
    _check_cycles(models, faults)


def _check_webhooks(config: Config, faults: Faults) -> None:
    if not config.webhooks:
        return
    from coilclaw.config.webhooks import check_webhook

    for name, webhook in config.webhooks.items():
        check_webhook(webhook, (*WEBHOOKS, name), faults)


def _check_forge(config: Config, faults: Faults) -> None:
    from coilclaw.packets.workspace import GOVERNING, RUNTIME_ONLY, path_matches

    forge = config.forge
    for pattern in forge.merge_allow:
        top = pattern.casefold().split("/")[0]
        covered = [name for name in (*GOVERNING, *RUNTIME_ONLY) if top == "**" or path_matches(top, name.casefold())]
        if covered:
            text = f'"{safe_text(pattern)}" covers {covered[0]}, which never merges by itself; name other folders'
            faults.note(("forge", "merge_allow"), text)
    if forge.kind == "github":
        _check_github(forge.github, faults)
    for name, each in forge.checks.items():
        if not each.command.strip():
            faults.note((*CHECKS, name, "command"), "is missing; name the command that must succeed")


def _check_github(github: GitHubForge, faults: Faults) -> None:
    place = ("forge", "github")
    if not github.repository:
        faults.note((*place, "repository"), "is missing; name the bot's own repository, such as name/bot")
    if not github.owner_id:
        faults.note((*place, "owner_id"), "is missing; only reviews of that account count, by its number")
    app = (github.app_id, github.installation_id, github.private_key_env)
    if bool(github.token_env) == any(app) or (any(app) and not all(app)):
        faults.note(place, "needs app_id, installation_id and private_key_env, or token_env alone")
    if bool(github.sign_in_client_id) != bool(github.sign_in_secret_env):
        faults.note(place, "needs sign_in_client_id and sign_in_secret_env together, or neither")
    if url_fault(github.api_url):
        faults.note((*place, "api_url"), "needs the https:// address of the API, such as https://api.github.com")
    elif not (github.api_url.startswith("https://") or _is_this_machine(github.api_url)):
        faults.note((*place, "api_url"), "must begin with https://: the bot's token goes there")


def _is_this_machine(url: str) -> bool:
    from urllib.parse import urlsplit

    return urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")


def _check_mcp(config: Config, faults: Faults) -> None:
    for name, server in config.mcp.servers.items():
        from coilclaw.config.mcp import server_faults

        for key, text in server_faults(name, server):
            faults.note((*MCP_SERVERS, name, *([key] if key else ())), text)
    for name in config.mcp.serve.tools:
        if name in NEVER_OFFERED:
            text = f"{name} can never be offered: it is for you alone, or for the runtime; leave it out"
            faults.note(("mcp", "serve", "tools"), text)


def _check_google(config: Config, faults: Faults) -> None:
    for key, text in google_faults(config.google):
        faults.note(("google", key), text)


def _check_runner(config: Config, faults: Faults) -> None:
    from coilclaw.config.runner import EVERY, SELF, repo_faults

    for name, repo in config.repos.items():
        for key, text in repo_faults(repo):
            faults.note((*REPOS, name, *([key] if key else ())), text)
    for name, org in config.orgs.items():
        if not org.repos and name != SELF:
            faults.warn((*ORGS, name, "repos"), f'names none, so no session can run for it; "{EVERY}" means all')


def _check_folders(config: Config, home: Home, faults: Faults) -> None:
    """The folders that boxes work in lie apart from the workspace, the home and one another."""
    apart = {resolved(config.workspace_dir): "the workspace", resolved(home.root): "the home"}
    for key, folder in ((("forge", "trees_dir"), config.trees_dir), (("runner", "sessions_dir"), config.sessions_dir)):
        real = resolved(folder)
        for other, what in apart.items():
            if real.is_relative_to(other) or other.is_relative_to(real):
                faults.note(key, f"{display(real)} and {what} lie in one another; choose a folder apart")
        apart[real] = ".".join(key)
    apart |= {path: f"the forbidden path {display(path)}" for path in config.security.forbidden_paths}
    apart |= {Path(path): path for path in ("/usr", "/etc", "/proc", "/sys", "/dev", "/run", "/tmp")}  # noqa: S108
    for folder in config.security.toolchains:
        for other, what in apart.items():
            if folder.is_relative_to(other) or other.is_relative_to(folder):
                text = f"{display(folder)} and {what} lie in one another, so it cannot be lent to boxes"
                faults.note(("security", "toolchains"), text)


def _check_notify(config: Config, faults: Faults) -> None:
    notify, smtp = config.notify, config.notify.smtp
    if notify.url:
        from coilclaw.config.webhooks import webhook_url_fault

        fault = webhook_url_fault(notify.url)
        if fault:
            faults.note(("notify", "url"), fault.replace("secret_env", "token_env"))
    for name, value in (("from", smtp.from_), ("to", smtp.to)):
        if smtp.host and not value:
            faults.note(("notify", "smtp", name), "is missing; a mail needs it, such as owner@example.com")
    if notify.timezone:
        from zoneinfo import ZoneInfo

        try:
            ZoneInfo(notify.timezone)
        except (KeyError, ValueError, OSError):
            faults.note(("notify", "timezone"), f'there is no time zone "{safe_text(notify.timezone)}"')


def _check_listening(config: Config, faults: Faults) -> None:
    fault = address_fault(config.server.http_addr)
    if fault:
        faults.note(("server", "http_addr"), fault)
    if config.server == Server():
        return
    from coilclaw.config.listening import check_server

    check_server(config.server, faults, address_holds=not fault)


def _check_name(name: str, path: KeyPath, declared: Set[str], faults: Faults) -> None:
    if name in declared or faults.full:
        return
    close = nearest(name, declared)
    hint = f'did you mean "{safe_text(close)}"?' if close else f"configured: {_some(declared)}"
    faults.note(path, f'there is no provider "{safe_text(name)}"; {hint}')


def _some(names: Collection[str]) -> str:
    ordered = sorted(names)
    return ", ".join(safe_text(name) for name in ordered[:10]) + (", ..." if len(ordered) > 10 else "") or "none"


def _check_cycles(models: Mapping[str, ProviderModel], faults: Faults) -> None:
    graph: dict[str, tuple[str, ...]] = {}
    for name, model in models.items():
        if isinstance(model, ReliableModel):
            graph[name] = model.providers
        elif isinstance(model, RouterModel):
            graph[name] = (*model.routes.values(), model.default)
    if not graph:
        return
    import graphlib

    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        ring: list[str] = error.args[1]
        around = " -> ".join(reversed(ring[:10]))
        faults.note((*MODELS, ring[0]), f"providers refer to each other in a cycle: {around}; remove one")


def _check_server(model: ServerModel, path: KeyPath, faults: Faults) -> None:
    if not model.model:
        faults.note((*path, "model"), "is missing; name the model to use")
    fault = url_fault(model.base_url)
    if fault:
        faults.note((*path, "base_url"), fault)
    elif "@" in model.base_url:
        faults.warn(
            (*path, "base_url"), "contains a user name or password; keep it in the variable that api_key_env names"
        )


def url_fault(url: str) -> str:
    """Why a base_url is invalid, or nothing. The address is never repeated: it may contain a password."""
    if not url:
        return "is missing; give the server's base URL, such as http://localhost:1234/v1"
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or any(char.isspace() for char in url):
        return "needs an http:// or https:// address with a host, such as http://localhost:1234/v1"
    if "?" in url or "#" in url:
        return "must end with its path; remove the ? or # and what follows it"
    return ""


def address_fault(address: str) -> str:
    """Why an address is not valid to listen on, or nothing."""
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not host.strip("[]") or (":" in host and not bracketed) or any(char.isspace() for char in address):
        return 'needs an address and a port, such as "127.0.0.1:8377" or "[::1]:8377"'
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65_535):
        return "the port needs a whole number from 0 to 65535 (0: any free one)"
    return ""
