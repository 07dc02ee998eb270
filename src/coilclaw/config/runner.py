"""The sections of coding sessions: `[runner]`, `[repos]`, `[orgs]` and `[plans]`."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from coilclaw.config.notify import EnvName

PlanName: TypeAlias = Literal["free", "team", "enterprise"]
PatrolKind: TypeAlias = Literal["lint", "test", "build", "deps", "security", "suggest"]
PatrolCommand = Annotated[str, Meta(min_length=1, max_length=4096)]
OFF = "off"
"""The command of a patrol that must not run although it would be found."""
_PROGRAMS = ("codex", "claude", "gemini", "fake")
SELF = "self"
"""The owner's own organization, which is always there."""
EVERY = "*"
_GITHUB = r"^([A-Za-z0-9](-?[A-Za-z0-9]){0,38}/[A-Za-z0-9_.-]{1,100})?$"

SizeLimit = Annotated[int, Meta(ge=1 << 20, le=1 << 50)]


class SessionModels(msgspec.Struct, frozen=True, kw_only=True):
    """Which of `[providers.models]` answers which coding program. Not set: the first of the kind that it speaks."""

    codex: str = ""
    """For Codex, of kind `openai-responses`."""
    claude: str = ""
    """For Claude Code, of kind `anthropic`."""
    gemini: str = ""
    """For Gemini CLI, of kind `google`."""


class Runner(msgspec.Struct, frozen=True, kw_only=True):
    """Coding sessions: where they work, and what one of them may use."""

    sessions_dir: Path | None = None
    """The folder of checkouts and of the cached repositories they borrow from. By default next to the workspace, with
    its name and `-sessions`."""
    disk_bytes: SizeLimit = 20 << 30
    """How much all checkouts and cached repositories together may occupy. Beyond it no session starts."""
    recording_bytes: SizeLimit = 16 << 20
    """How much of a session's terminal is recorded; of a longer one the older half is dropped."""
    memory_bytes: SizeLimit = 4 << 30
    """How much memory a session may use."""
    processes: Annotated[int, Meta(ge=16, le=100_000)] = 512
    """How many processes a session may have."""
    open_files: Annotated[int, Meta(ge=64, le=1_000_000)] = 1024
    """How many files each process of a session may have open."""
    approval_wait_seconds: Annotated[int, Meta(ge=1, le=3600)] = 600
    """How long a question of a coding program waits for your answer. Then the program is told to go on with something
    else; a later yes is good once, when it asks for exactly the same again."""
    fake_provider: bool = False
    """Whether sessions may run the fake coding program that ships with CoilClaw, for trying things out and tests."""
    session_tokens: Annotated[int, Meta(ge=0, le=10**12)] = 10_000_000
    """Tokens that the model calls of one session may use, in and out, those from the provider's cache too; 0 means no
    limit. `budgets.daily_tokens` and the plan's `tokens_per_month` apply as well."""
    spawned_secrets: tuple[EnvName, ...] = ()
    """Names of secrets that a session is given too which the agent or another session began, of those of its
    organization. None by default."""
    models: SessionModels = SessionModels()
    """Who answers the coding programs."""


class Repo(msgspec.Struct, frozen=True, kw_only=True):
    """A repository that sessions may work on, each in its own checkout. It is only read."""

    path: Path | None = None
    """The folder of a git repository on this machine: either this or `github`."""
    github: Annotated[str, Meta(pattern=_GITHUB, title='a repository such as "owner/name"')] = ""
    """A repository on GitHub, as OWNER/NAME. It is fetched in a box that reaches github.com and nothing else."""
    token_env: EnvName = ""
    """The name of the secret with a token that may read it, for `github`. Empty: it is public."""
    copy: tuple[Annotated[str, Meta(min_length=1, max_length=500)], ...] = ()
    """Files to copy from the folder into every checkout, such as `.env`, for `path`. Sessions can read them."""
    setup: Annotated[str, Meta(max_length=4096)] = ""
    """A command to run in every new checkout before the session begins, in a box without network."""
    setup_timeout_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 600.0
    """How long the set-up command may take."""
    vouched: bool | None = None
    """Whether you vouch for what is in it. What a session read in a repository that you do not vouch for may have been
    written to mislead it, so nothing leaves such a session without a card that you open yourself. Not set: yes for
    `path`, no for `github`."""
    deploy: tuple[Annotated[str, Meta(min_length=1, max_length=500)], ...] = ()
    """Commands that deploy, such as `make deploy`: a session that wants to run one always asks."""
    auto_merge: bool = False
    """Whether a session's pull request is merged into your folder without asking you, once its checks pass. Those that
    change dependencies, workflows or names that other programs execute (`.vscode/`, `.envrc`), or that come from a
    session which took in untrusted content, ask all the same."""
    patrols: dict[PatrolKind, PatrolCommand] = {}
    """Commands of its patrols by kind: `lint`, `test`, `build`, `deps`, `security`. What is not here is found in its
    files; `"off"` leaves one out. `suggest` names a coding program instead, such as `"claude"`. See patrols.md."""
    opens_pr: bool = False
    """Whether quests open draft pull requests: what a session committed for one is kept as a draft, which asks to be
    merged once its patrol passes on it. The patrol `suggest` then takes quests by itself."""
    suggestions_per_day: Annotated[int, Meta(ge=0, le=1000)] = 3
    """How many drafts may be opened for it, and how many quests `suggest` may take, within a day."""
    patrol_rooms: tuple[Annotated[str, Meta(max_length=200)], ...] = ()
    """Folders of it that patrols look after one by one; without any, the whole repository."""
    patrol_timeout_seconds: Annotated[float, Meta(ge=1, le=86_400)] = 1800.0
    """How long the command of a patrol may take."""
    patrol_domains: tuple[Annotated[str, Meta(min_length=1, max_length=253)], ...] = ()
    """Hosts that the `deps` patrol may ask about known vulnerabilities, of `security.allowed_domains`. Every such run
    asks you first. Without any, it runs without network."""
    webhook_secret_env: EnvName = ""
    """The name of the secret that signs webhooks to `/runner/v1/webhooks/NAME`. Empty: none is accepted."""
    webhook_patrols: tuple[PatrolKind, ...] = ("test",)
    """The patrols that a webhook starts."""


class Org(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody that sessions are run for."""

    plan: PlanName | None = None
    """Which of `[plans]` limits it. Not set: `free`, for `self` `enterprise`."""
    secrets: tuple[EnvName, ...] = ()
    """Names of secrets that its sessions may be given as environment variables. They get no others."""
    repos: tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...] = ()
    """The repositories its sessions may work on, `"*"` for all of them."""
    providers: tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...] = ()
    """The providers its sessions may use, such as `"shell"`; `"*"` for all of them."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a plan."""

    sessions: Annotated[int, Meta(ge=1, le=10_000)] = 2
    """How many sessions may run at the same time."""
    minutes_per_month: Annotated[int, Meta(ge=0, le=100_000_000)] = 1000
    """How many minutes all sessions together may run in a calendar month (UTC); 0 means no limit."""
    tokens_per_month: Annotated[int, Meta(ge=0, le=10**15)] = 50_000_000
    """How many tokens all its sessions together may use in a calendar month (UTC); 0 means no limit."""


class TeamPlan(Plan, frozen=True, kw_only=True):
    """The limits of the plan `team`."""

    sessions: Annotated[int, Meta(ge=1, le=10_000)] = 10
    """How many sessions may run at the same time."""
    minutes_per_month: Annotated[int, Meta(ge=0, le=100_000_000)] = 20_000
    """How many minutes all sessions together may run in a calendar month (UTC); 0 means no limit."""
    tokens_per_month: Annotated[int, Meta(ge=0, le=10**15)] = 1_000_000_000
    """How many tokens all its sessions together may use in a calendar month (UTC); 0 means no limit."""


class EnterprisePlan(Plan, frozen=True, kw_only=True):
    """The limits of the plan `enterprise`."""

    sessions: Annotated[int, Meta(ge=1, le=10_000)] = 100
    """How many sessions may run at the same time."""
    minutes_per_month: Annotated[int, Meta(ge=0, le=100_000_000)] = 0
    """How many minutes all sessions together may run in a calendar month (UTC); 0 means no limit."""
    tokens_per_month: Annotated[int, Meta(ge=0, le=10**15)] = 0
    """How many tokens all its sessions together may use in a calendar month (UTC); 0 means no limit."""


class Plans(msgspec.Struct, frozen=True, kw_only=True):
    """What organizations may use."""

    free: Plan = Plan()
    """The plan of an organization that names none."""
    team: TeamPlan = TeamPlan()
    """A larger one."""
    enterprise: EnterprisePlan = EnterprisePlan()
    """The largest one, and yours."""

    def of(self, org: Org, asked: PlanName | None = None) -> Plan:
        """The limits of an organization. Another plan that a request names can only lower them."""
        plan: Plan = getattr(self, org.plan or "free")
        if asked is None:
            return plan
        other: Plan = getattr(self, asked)
        return Plan(
            sessions=min(plan.sessions, other.sessions),
            minutes_per_month=_lower(plan.minutes_per_month, other.minutes_per_month),
            tokens_per_month=_lower(plan.tokens_per_month, other.tokens_per_month),
        )


def _lower(*limits: int) -> int:
    """The lowest of some limits, of which 0 is none."""
    return min(filter(None, limits), default=0)


def org_called(orgs: Mapping[str, Org], name: str) -> Org | None:
    """An organization with its defaults filled in; None if the owner named no such one."""
    org = orgs.get(name, Org() if name == SELF else None)
    if org is None or name != SELF:
        return None if org is None else msgspec.structs.replace(org, plan=org.plan or "free")
    return msgspec.structs.replace(
        org, plan=org.plan or "enterprise", repos=org.repos or (EVERY,), providers=org.providers or (EVERY,)
    )


def repo_faults(repo: Repo) -> list[tuple[str, str]]:
    """What is wrong with a repository: each key (empty for the table itself), and a sentence."""
    if (repo.path is None) == (not repo.github):
        return [("", "needs exactly one of path (a folder) and github (OWNER/NAME)")]
    found: list[tuple[str, str]] = []
    if repo.path is not None and repo.token_env:
        found.append(("token_env", "is for GitHub only; a folder is read without a token"))
    if repo.github and repo.copy:
        found.append(("copy", "is for folders only: there are no files to copy from"))
    if repo.github.endswith((".git", "/.", "/..")):
        found.append(("github", 'needs OWNER/NAME without an ending, such as "owner/name"'))
    if repo.patrols.get("suggest", OFF) not in (OFF, *_PROGRAMS):
        found.append(("patrols", f"suggest must be one of {', '.join(_PROGRAMS)}, or {OFF}"))
    rooms = [room for room in repo.patrol_rooms if room and _strays(room)]
    found += [("patrol_rooms", f'"{room}" is not the path of a folder within the repository') for room in rooms]
    found += [("copy", f'"{name}" is not the path of a file within the folder') for name in repo.copy if _strays(name)]
    return found


def _strays(name: str) -> bool:
    parts = name.split("/")
    return any(part in {"", ".", ".."} for part in parts) or any(re.fullmatch(r"(?i)\.git\s*", part) for part in parts)
