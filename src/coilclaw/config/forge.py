"""The section `[forge]`: where jobs work, how pull requests are checked, and which of them merge without a question."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from coilclaw.config.notify import EnvName


class ForgeCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Your own command that must succeed before a pull request can be merged."""

    command: Annotated[str, Meta(max_length=4096)] = ""
    """The command, run in a box without network on the merge result."""
    timeout_seconds: Annotated[float, Meta(gt=0, le=3600)] = 300.0
    """Its timeout; a longer run has failed."""


class GitHubForge(msgspec.Struct, frozen=True, kw_only=True):
    """The repository on GitHub that shows the bot's pull requests, and how to sign in there."""

    repository: Annotated[str, Meta(max_length=140, pattern=r"^([A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+)?$")] = ""
    """The repository, as `owner/name`. It must be private and belong to the bot alone."""
    owner_id: Annotated[int, Meta(ge=0)] = 0
    """Your account's number there (`id` at https://api.github.com/users/NAME). Only its reviews count."""
    app_id: Annotated[int, Meta(ge=0)] = 0
    """The GitHub App that the bot signs in as; with `installation_id` and `private_key_env`."""
    installation_id: Annotated[int, Meta(ge=0)] = 0
    """The number of the App's installation on the repository."""
    private_key_env: str = ""
    """The variable or stored secret with the App's private key: the PEM text, or that text in base64."""
    token_env: str = ""
    """Instead of an App: the variable or stored secret with a fine-grained token of a second account."""
    api_url: str = "https://api.github.com"
    """The address of the API, over https; http on this machine alone."""
    reads: tuple[Annotated[str, Meta(max_length=140, pattern=r"^[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+$")], ...] = ()
    """Further repositories whose issues, pull requests and comments `forge_read` may read. It trusts none of it."""
    webhook_secret_env: EnvName = ""
    """The name of the secret that signs webhooks to `/v1/forge/webhook`, which only bring the next look forward. Empty:
    none is accepted."""
    sign_in_client_id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{0,100}$")] = ""
    """The client id of the App or of an OAuth app of yours, with `sign_in_secret_env`: then your account can pair
    a device, which your passkey has to confirm. Empty: it cannot."""
    sign_in_secret_env: EnvName = ""
    """The name of the secret that belongs to `sign_in_client_id`."""
    execute: Literal["local", "actions"] = "local"
    """local: schedules run on this machine. actions: they run in GitHub Actions, as do jobs that are created with
    `--on actions`; see docs/github.md."""
    image: Annotated[str, Meta(max_length=300, pattern=r"^([a-z0-9][a-z0-9./:_-]*@sha256:[0-9a-f]{64})?$")] = ""
    """The container image, by its digest, in which Actions run tests and analyses: without network and secrets."""

    @property
    def site(self) -> str:
        """The site for people that the API belongs to."""
        return self.api_url.rstrip("/").removesuffix("/api/v3").replace("https://api.github.com", "https://github.com")


class Forge(msgspec.Struct, frozen=True, kw_only=True):
    """Pull requests: how the changes of jobs are reviewed and merged."""

    enabled: bool = True
    """Jobs work in a copy of the workspace and end in a pull request. Off: they write the workspace and ask for each
    write, as conversations do."""
    trees_dir: Path | None = None
    """The folder of the copies that jobs work in. By default next to the workspace, with its name
    and `-trees`."""
    merge_mode: Literal["strict", "whitelist"] = "strict"
    """strict: you approve every merge. whitelist: a change of only `merge_allow` merges automatically if its checks
    pass. A third mode, yolo, can only be set for some hours: `coilclaw bot mode yolo --for 8h`."""
    merge_allow: tuple[Annotated[str, Meta(min_length=1, max_length=200)], ...] = ("intel/**", "memory/**")
    """Paths that the whitelist merges, as patterns: `*` within a name, `**` for any number of folders. Paths that
    govern the agent cannot be listed."""
    pr_days: Annotated[int, Meta(ge=1, le=365)] = 14
    """Days after which an unanswered pull request is closed and its job cancelled."""
    checks: dict[str, ForgeCheck] = {}
    """Your own required checks, each a table `[forge.checks.NAME]`."""
    kind: Literal["local", "github"] = "local"
    """local: pull requests are on this machine alone. github: they also stand on GitHub and are merged there; see
    docs/github.md."""
    github: GitHubForge = GitHubForge()
    """The repository on GitHub."""
