"""Every option with its type, bounds and default. The docstring of a field is its documentation.

`docs/config.md` and the commented config.toml that `init` writes are generated from this file.
"""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from coilclaw.config.evolve import Evolve
from coilclaw.config.forge import Forge
from coilclaw.config.google import Google
from coilclaw.config.mcp import Mcp
from coilclaw.config.models import Providers, Seconds, Tokens
from coilclaw.config.notify import EnvName, Notify
from coilclaw.config.prices import Price
from coilclaw.config.runner import Org, Plans, Repo, Runner
from coilclaw.config.web_search import WebSearch
from coilclaw.packets.decision import Autonomy

EVERY_TOOL = "*"
"""In an allowlist of tools: all of them."""

# Reading, comparing, packing, version control and building. Interpreters are here because building needs them:
# the box, not this list, is what keeps a command from doing harm.
ALLOWED_COMMANDS = tuple(
    """
    ls cat head tail wc grep egrep fgrep rg find fd sort uniq cut tr paste join comm diff cmp file stat du df tree
    pwd date cal echo printf true false test [ basename dirname realpath readlink which type sleep seq expr bc
    id whoami uname nproc env xargs timeout time cd export set
    sed awk jq yq tee touch mkdir cp mv ln chmod mktemp
    md5sum sha1sum sha256sum sha512sum cksum base64 od xxd hexdump strings nl tac rev fold fmt expand column
    tar gzip gunzip zcat bzip2 xz zip unzip zstd
    git patch make cmake ninja gcc g++ cc c++ clang clang++ ld ar pkg-config
    python python3 pip pytest ruff mypy uv node npm npx tsc cargo rustc go gofmt java javac mvn gradle
    """.split()  # noqa: SIM905  a hundred quoted words are harder to read
)

Command = Annotated[str, Meta(pattern=r"^[^\s/]+$", title='a bare command name such as "rm"')]
Domain = Annotated[
    str,
    Meta(
        pattern=r"^((\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|https?://[A-Za-z0-9.\[\]:-]+)$",
        title='a host name such as "example.com" or "*.example.com", or an origin such as "http://localhost:8080"',
    ),
]
ToolName = Annotated[
    str, Meta(pattern=r"^(\*|[A-Za-z][A-Za-z0-9_.:-]{0,127})$", title='the name of a tool such as "file_read", or "*"')
]
Days = Annotated[int, Meta(ge=0, le=36_500)]
Bytes = Annotated[int, Meta(ge=1024, le=104_857_600)]


class Security(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent may touch. Only the configuration grants; policies, channels, skills and jobs only narrow."""

    autonomy: Autonomy = "supervised"
    """`readonly` only reads; `supervised` asks before changing the workspace or running a command; `full` asks only
    for high risk. External effects and changes to the agent itself ask in all three."""
    workspace_only: bool = True
    """Paths outside the workspace are denied. With `false` they count as high risk."""
    forbidden_paths: tuple[Path, ...] = (Path("/etc"), Path("/sys"), Path("/boot"), Path("~/.ssh"))
    """Never read, written or visible in a box, with everything in them. Relative to the workspace."""
    forbidden_commands: tuple[Command, ...] = ("rm", "shutdown", "reboot", "mkfs", "dd")
    """Never run, whatever else allows them; these programs are absent from the box."""
    allowed_commands: tuple[Command, ...] = ALLOWED_COMMANDS
    """Commands of medium risk. Any other is high risk: denied when supervised, asks in full autonomy. Programs of the
    folder itself, such as `./gradlew` or `bash run.sh`, need no entry, and ask."""
    toolchains: tuple[Path, ...] = ()
    """Folders outside the system that boxes may read, and run programs from: `~/.pyenv/versions/3.12.1`,
    `~/.nvm/versions/node/v22.11.0` or `~/.local/share/uv/python`. The `bin` of each comes first on the PATH. Lend what
    holds programs alone: the agent can read whatever else lies in it, such as `~/.cargo/credentials.toml`."""
    allowed_domains: tuple[Domain, ...] = ()
    """Hosts that the http tool and boxed commands may reach, over https on port 443: `example.com` is just that name,
    `*.example.com` every name below it. `http://localhost:8080` is one exact origin; plain http, another port or
    a host in your own network can only be listed this way."""
    audit_log: bool = True
    """The audit trail cannot be switched off; `false` is an error."""


class CliChannel(msgspec.Struct, frozen=True, kw_only=True):
    """The conversation at the terminal."""

    enabled: bool = True
    """Whether you can talk to the agent at the terminal."""
    tools_allow: tuple[ToolName, ...] = (EVERY_TOOL,)
    """The tools that this channel may use, `"*"` for all of them; any other is denied."""


class Channels(msgspec.Struct, frozen=True, kw_only=True):
    """Where messages come from."""

    cli: CliChannel = CliChannel()
    """The terminal."""


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered, and where."""

    backend: Literal["sqlite"] = "sqlite"
    """The storage backend; SQLite is the only one so far."""
    path: Path = Path("memory.sqlite")
    """The database, relative to the home. It must not be in the workspace."""
    recent_messages: Annotated[int, Meta(ge=0, le=1000)] = 1000
    """Maximum number of earlier messages sent with a request; the model's window limits them too."""


class Receipts(msgspec.Struct, frozen=True, kw_only=True):
    """The proof of everything that was done, denied or failed."""

    enabled: bool = True
    """Receipts cannot be switched off; `false` is an error."""
    path: Path = Path("tool_receipts.log")
    """The copy of the receipts as JSON lines, relative to the home. It must not be in the workspace."""
    head_every: Annotated[int, Meta(ge=1, le=10_000)] = 64
    """A signed head is created after at most this many receipts."""
    head_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 60
    """A signed head is created after at most this many seconds, and at exit."""


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on one turn."""

    max_tool_rounds: Annotated[int, Meta(ge=1, le=100)] = 50
    """How many rounds of tool calls the model may make before it must answer."""
    max_response_bytes: Bytes = 1_048_576
    """Maximum length of a model's answer."""
    tool_timeout_seconds: Seconds = 30.0
    """How long a tool may run, not counting boxed commands."""
    shell_timeout_seconds: Seconds = 120.0
    """How long a boxed command may run by default. A call may request up to 1800 seconds; its card says so."""
    shell_write_bytes: Annotated[int, Meta(ge=1 << 20, le=1 << 50)] = 4 << 30
    """How much a boxed command may write to, or occupy on, the workspace's file system. It is measured twenty
    times a second, so a fast disk can exceed it slightly. A single file may have 64 MiB, `/tmp` in the box 128 MiB."""
    http_timeout_seconds: Seconds = 20.0
    """How long an http request may take."""
    context_tokens: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    """How many tokens a request may have; 0 means the model's window. What does not fit any more is summed up."""
    turn_token_budget: Tokens = 3_000_000
    """Tokens that one turn may use, in and out. Every round sends the conversation anew, and what the provider had in
    its cache counts too: 50 rounds over 50,000 tokens of code and results are 2.5 million."""
    max_message_bytes: Bytes = 1_048_576
    """Maximum length of a message; a longer one is refused, because it would exceed a turn's budget."""


class Approvals(msgspec.Struct, frozen=True, kw_only=True):
    """The queue of pending approvals."""

    ttl_hours: Annotated[int, Meta(ge=1, le=8760)] = 24
    """How long a proposal waits before it expires."""
    lane_b_proof: Literal["passkey", "token"] = "passkey"
    """What a paired device must present to approve what leaves this machine: a passkey, or only its token. Lane C
    always needs a passkey."""


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    """Limits across turns and jobs."""

    daily_tokens: Tokens = 15_000_000
    """Tokens per day (UTC), all work together: some five long turns, or a hundred short ones. When they are used up,
    jobs pause until midnight and turns are refused. Tokens from the provider's cache count in full, though most
    providers charge a tenth for them: set it to what a day may cost you."""
    job_tokens: Tokens = 1_000_000
    """Tokens per job; a job that needs more fails. A step sends prompt, tools and the job's work so far: 100 steps of
    10,000 tokens each."""
    tool_calls_per_minute: Annotated[int, Meta(ge=1, le=100_000)] = 60
    """Tool calls per minute; more are denied. A quarter is reserved for conversations, where reads that stay on this
    machine do not count: the limits of a turn bound them."""
    open_proposals: Annotated[int, Meta(ge=1, le=100_000)] = 100
    """Proposals that may be pending at the same time; more are denied. A quarter is reserved for conversations."""
    jobs_at_once: Annotated[int, Meta(ge=1, le=1000)] = 4
    """Jobs that run at the same time; the others wait."""
    prs_per_day: Annotated[int, Meta(ge=0, le=10_000)] = 10
    """Pull requests that may be opened within 24 hours; more are denied."""


class Jobs(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on background work."""

    step_seconds: Seconds = 60.0
    """How long one step may take; a longer one is interrupted and retried. While a command of the step
    runs, its own timeout applies, and that time does not count."""
    step_calls: Annotated[int, Meta(ge=1, le=1000)] = 10
    """Maximum tool calls in one step."""
    step_output_tokens: Tokens = 8000
    """Maximum tokens the model may write in one step."""
    max_steps: Annotated[int, Meta(ge=1, le=100_000)] = 100
    """Maximum steps of a job; one that is not done by then fails."""
    step_retries: Annotated[int, Meta(ge=0, le=100)] = 3
    """How often a step that failed or timed out is retried before the job fails."""
    max_hours: Annotated[int, Meta(ge=1, le=87_600)] = 72
    """Hours after which an unfinished job times out, including time spent waiting."""


class Schedules(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on the follow-ups that the agent plans for itself. Your own schedules are in `cron/jobs.json`."""

    followups_open: Annotated[int, Meta(ge=0, le=1000)] = 20
    """Follow-ups that may be open at the same time; more are refused."""
    followup_days: Annotated[int, Meta(ge=1, le=366)] = 30
    """How many days ahead a follow-up may be planned."""
    followups_in_a_row: Annotated[int, Meta(ge=1, le=10_000)] = 30
    """Maximum length of a chain of follow-ups before you have to say something again."""


class Executor(msgspec.Struct, frozen=True, kw_only=True):
    """How approved actions are executed."""

    max_attempts: Annotated[int, Meta(ge=1, le=100)] = 5
    """How often an action is attempted before it fails."""
    backoff_seconds: Seconds = 5.0
    """Pause before the second attempt; it doubles with each further one, up to an hour."""


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """A target that you configure for `webhook_send`. Sending always asks."""

    url: str = ""
    """Where to send, by POST; required. The airlock lets webhooks reach exactly the hosts and ports listed here."""
    header: Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{1,64}$", title="the name of a header")] = "Authorization"
    """The header for the secret, if there is one."""
    secret_env: EnvName = ""
    """The name of the environment variable with the header's whole value. Empty: no such header is sent."""
    key_header: Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{1,64}$", title="the name of a header")] = "Idempotency-Key"
    """The header for the idempotency key."""
    deduplicates: bool = False
    """Whether the receiver ignores requests with a key that it has seen before. Then an interrupted send is
    simply repeated."""
    lookup_url: str = ""
    """Where to look up whether a key was received, by GET with the same header; `{key}` is the key; 200 means yes,
    404 no. Empty: no lookup, and you resolve interrupted sends yourself unless the receiver deduplicates."""
    timeout_seconds: Seconds = 20.0
    """How long one request may take."""


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How many days data is kept; 0 means for ever. Receipts are always kept. The worker prunes daily."""

    idempotency_days: Days = 90
    """Idempotency keys."""
    audit_days: Days = 90
    """Audit events. They go once they are on main in `audit/YYYY/MM/DD.jsonl`, where the daily export puts them; with
    `forge.enabled = false` that file is written in the workspace first."""
    messages_days: Days = 0
    """Messages. An active conversation keeps untrusted content, because later messages may depend on it; one that
    has been silent for this long is deleted as a whole, unless an open action or job belongs to it."""
    artifacts_days: Days = 90
    """Artifacts, except those in a job's evidence or referenced by a kept message."""


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """The HTTP interface."""

    http_addr: str = "127.0.0.1:8377"
    """Address and port to listen on, such as `127.0.0.1:8377` or `[::1]:8377`. Beyond loopback only with TLS."""
    public_url: str = ""
    """The address people open, if not `http://localhost:PORT`, such as `https://coil.example.net`. Passkeys
    belong to its name."""
    tls_cert: Path | None = None
    """The TLS certificate (PEM, with its chain); needs `tls_key`."""
    tls_key: Path | None = None
    """The private key of `tls_cert`."""
    tls_client_ca: Path | None = None
    """Authorities (PEM) of client certificates: only programs and browsers that show one of theirs may then connect,
    and what they ask for still needs its token. Needs `tls_cert` and `tls_key`."""
    tls_proxy: str = ""
    """The address of a proxy that terminates TLS, such as `10.0.0.2`; only it may then connect. Needs an https
    `public_url`."""
    max_body_bytes: Annotated[int, Meta(ge=1024, le=64 << 20)] = 1 << 20
    """Maximum size of a request body; uploads have their own limit (2 MiB)."""
    body_seconds: Seconds = 20.0
    """How long a client may take to send a request."""
    token_days: Annotated[int, Meta(ge=1, le=365)] = 30
    """How long a device stays signed in without being used."""
    pairing_minutes: Annotated[int, Meta(ge=1, le=60)] = 5
    """How long a pairing code is valid."""
    turns_at_once: Annotated[int, Meta(ge=1, le=64)] = 4
    """How many conversations are answered at the same time."""
    max_streams: Annotated[int, Meta(ge=1, le=10_000)] = 1200
    """How many event streams may be open, and how many WebSockets (at most 256 of those)."""
    requests_per_minute: Annotated[int, Meta(ge=10, le=1_000_000)] = 1200
    """How many requests a device may make; single routes have stricter limits."""


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """Logging."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The minimum level that is logged."""
    format: Literal["text", "json"] = "text"
    """Text lines, or one JSON object per line."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration. Paths are absolute; secrets are only named, by environment variable."""

    workspace_dir: Path = Path("../coilclaw-workspace")
    """The directory that the agent works in, relative to the home, so the default is the home's sibling:
    `~/coilclaw-workspace`. It must not contain the home or be inside it."""
    default_provider: str = "local"
    """Which of `[providers.models]` answers."""
    default_model: str = ""
    """The model to use. Empty: the provider's own."""
    fallback_model: str = ""
    """The model to try once if the first one's answer is unusable. Empty: none."""
    env: Literal["development", "production"] = "production"
    """The purpose of this installation, for logs and reports; it has no other effect."""
    security: Security = Security()
    """What the agent may touch."""
    providers: Providers = Providers()
    """Who answers."""
    channels: Channels = Channels()
    """Where messages come from."""
    memory: Memory = Memory()
    """What is remembered."""
    receipts: Receipts = Receipts()
    """The proof of what was done."""
    agent: Agent = Agent()
    """Limits on one turn."""
    approvals: Approvals = Approvals()
    """Pending approvals."""
    budgets: Budgets = Budgets()
    """Limits across turns and jobs."""
    jobs: Jobs = Jobs()
    """Limits on background work."""
    schedules: Schedules = Schedules()
    """Limits on follow-ups."""
    executor: Executor = Executor()
    """How approved actions are executed."""
    webhooks: dict[str, Webhook] = {}
    """Targets for sending, each a table `[webhooks.NAME]`."""
    prices: dict[str, Price] = {}
    """What models cost, each a table `[prices."NAME"]`."""
    retention: Retention = Retention()
    """How long data is kept."""
    notify: Notify = Notify()
    """Notifications."""
    forge: Forge = Forge()
    """Pull requests."""
    mcp: Mcp = Mcp()
    """The Model Context Protocol."""
    runner: Runner = Runner()
    """Coding sessions."""
    repos: dict[str, Repo] = {}
    """Repositories that sessions work on, each a table `[repos.NAME]`."""
    orgs: dict[str, Org] = {}
    """Who sessions are run for, each a table `[orgs.NAME]`."""
    plans: Plans = Plans()
    """What organizations may use."""
    evolve: Evolve = Evolve()
    """The agent that works on itself."""
    web_search: WebSearch = WebSearch()
    """The search server of web_search."""
    google: Google = Google()
    """Mail and calendar accounts."""
    server: Server = Server()
    """The HTTP interface."""
    log: Log = Log()
    """Logging."""

    @property
    def trees_dir(self) -> Path:
        """Where jobs get their copies of the workspace."""
        return self.forge.trees_dir or self.workspace_dir.with_name(f"{self.workspace_dir.name}-trees")

    @property
    def sessions_dir(self) -> Path:
        """Where sessions have their checkouts."""
        return self.runner.sessions_dir or self.workspace_dir.with_name(f"{self.workspace_dir.name}-sessions")
