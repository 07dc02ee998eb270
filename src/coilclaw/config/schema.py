"""Every option, its type, its bounds and its default. The text under a field is its documentation.

`docs/config.md` and the commented config.toml that `init` writes are made from this file.
"""

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from coilclaw.packets.decision import Autonomy

EVERY_TOOL = "*"
"""In an allowlist of tools: whatever there is."""

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
        title='a host name such as "example.com" or "*.example.com", or a place such as "http://localhost:8080"',
    ),
]
ToolName = Annotated[
    str, Meta(pattern=r"^(\*|[A-Za-z][A-Za-z0-9_.:-]{0,127})$", title='the name of a tool such as "file_read", or "*"')
]
EnvName = Annotated[
    str, Meta(pattern=r"^([A-Z_][A-Z0-9_]*)?$", title="the NAME of an environment variable such as OPENAI_API_KEY")
]
Seconds = Annotated[float, Meta(ge=0.05, le=3600)]
Days = Annotated[int, Meta(ge=0, le=36_500)]
Tokens = Annotated[int, Meta(ge=1, le=1_000_000_000_000)]
Bytes = Annotated[int, Meta(ge=1024, le=104_857_600)]


class Security(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent may touch. Only the configuration grants; policies, channels, skills and jobs only narrow."""

    autonomy: Autonomy = "supervised"
    """`readonly` only reads; `supervised` asks before it changes the workspace or runs a command; `full` asks only
    for high risk. External effects and changes to the agent itself are asked for in all three."""
    workspace_only: bool = True
    """Paths outside the workspace are denied. With `false` they count as high risk."""
    forbidden_paths: tuple[Path, ...] = (Path("/etc"), Path("/sys"), Path("/boot"), Path("~/.ssh"))
    """Never read, written or visible in a box, with all they contain. A relative path begins at the workspace."""
    forbidden_commands: tuple[Command, ...] = ("rm", "shutdown", "reboot", "mkfs", "dd")
    """Never run, whatever else allows them; their programs are absent from the box."""
    allowed_commands: tuple[Command, ...] = ALLOWED_COMMANDS
    """Commands of medium risk. Any other is high risk: denied when supervised, asked for in full autonomy."""
    allowed_domains: tuple[Domain, ...] = ()
    """Hosts that the http tool and boxed commands may reach, over https on port 443: `example.com` is that name alone,
    `*.example.com` every name below it. `http://localhost:8080` names one place exactly; only so can plain http,
    another port or a host of your own network be listed."""
    audit_log: bool = True
    """The audit trail cannot be switched off; `false` is an error."""


class MockModel(msgspec.Struct, frozen=True, kw_only=True):
    """Answers from a script, always the same: for trying things out and for tests. Needs no network and no key."""

    kind: Literal["mock"] = "mock"
    """What answers."""
    model: str = "mock"
    """The name it answers under."""
    script: Path | None = None
    """A file of scripted answers; a relative path begins at the home. `COILCLAW_MOCK_SCRIPT` names one for a run."""


class OpenAIModel(msgspec.Struct, frozen=True, kw_only=True):
    """A server that speaks the OpenAI chat completions protocol, local or remote."""

    kind: Literal["openai-compatible"] = "openai-compatible"
    """What answers."""
    model: str = ""
    """The model to ask for; required."""
    base_url: str = ""
    """Where the server is, up to but without `/chat/completions`, such as `http://localhost:1234/v1`; required.
    The airlock lets this provider reach exactly this host and port."""
    api_key_env: EnvName = ""
    """The name of the environment variable that holds the key, never the key itself. Empty: no key is sent."""
    timeout_seconds: Seconds = 60.0
    """How long one request may take."""
    max_retries: Annotated[int, Meta(ge=0, le=20)] = 3
    """How often a request is tried again after a timeout, 429 or 5xx."""
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    """How freely it answers. Not set: the server decides."""
    max_output_tokens: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    """Longest answer to ask for. Not set: the server decides."""


class ReliableModel(msgspec.Struct, frozen=True, kw_only=True):
    """Asks other providers in order until one answers."""

    kind: Literal["reliable"] = "reliable"
    """What answers."""
    providers: tuple[str, ...] = ()
    """Names of other providers, tried from first to last; required."""


class RouterModel(msgspec.Struct, frozen=True, kw_only=True):
    """Chooses a provider by the hint that a request carries."""

    kind: Literal["router"] = "router"
    """What answers."""
    routes: dict[str, str] = {}
    """For each hint the name of the provider that answers it."""
    default: str = ""
    """The provider for requests without a hint, or with one that no route names; required."""


ProviderModel: TypeAlias = MockModel | OpenAIModel | ReliableModel | RouterModel
MODEL_KINDS: dict[str, type[MockModel | OpenAIModel | ReliableModel | RouterModel]] = {
    "mock": MockModel,
    "openai-compatible": OpenAIModel,
    "reliable": ReliableModel,
    "router": RouterModel,
}


def default_models() -> dict[str, ProviderModel]:
    """What is there when the file names no provider."""
    return {"local": MockModel()}


class Providers(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers. Each provider is a table `[providers.models.NAME]`; its keys depend on its `kind`."""

    models: dict[str, ProviderModel] = msgspec.field(default_factory=default_models)
    """The providers by name."""


class CliChannel(msgspec.Struct, frozen=True, kw_only=True):
    """The conversation at the terminal."""

    enabled: bool = True
    """Whether the agent can be talked to at the terminal."""
    tools_allow: tuple[ToolName, ...] = (EVERY_TOOL,)
    """The tools that this channel may use, `"*"` for all of them; any other is denied."""


class Channels(msgspec.Struct, frozen=True, kw_only=True):
    """Where messages come from."""

    cli: CliChannel = CliChannel()
    """The terminal."""


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered, and where."""

    backend: Literal["sqlite"] = "sqlite"
    """How it is kept; SQLite is the only way so far."""
    path: Path = Path("memory.sqlite")
    """The one database. A relative path begins at the home. It may not lie in the workspace."""
    recent_messages: Annotated[int, Meta(ge=0, le=1000)] = 20
    """How many earlier messages of a conversation are sent along."""


class Receipts(msgspec.Struct, frozen=True, kw_only=True):
    """The proof of everything that was done, denied or failed."""

    enabled: bool = True
    """Receipts cannot be switched off; `false` is an error."""
    path: Path = Path("tool_receipts.log")
    """The receipts' copy as JSON lines. A relative path begins at the home. It may not lie in the workspace."""
    head_every: Annotated[int, Meta(ge=1, le=10_000)] = 64
    """After how many receipts a signed head is made, at the latest."""
    head_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 60
    """After how many seconds a signed head is made, at the latest; one is also made at exit."""


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on one turn."""

    max_tool_rounds: Annotated[int, Meta(ge=1, le=100)] = 5
    """How often the model may call tools before it must answer."""
    max_response_bytes: Bytes = 1_048_576
    """Longest model answer that is read."""
    tool_timeout_seconds: Seconds = 30.0
    """How long a tool may run."""
    shell_timeout_seconds: Seconds = 15.0
    """How long a boxed command may run."""
    shell_write_bytes: Annotated[int, Meta(ge=1 << 20, le=1 << 50)] = 4 << 30
    """How much a boxed command may write to the workspace's file system in all, or use up of it. It is looked at twenty
    times a second, so a fast disk takes a little more. A single file may hold 64 MiB, `/tmp` in the box 128 MiB."""
    http_timeout_seconds: Seconds = 20.0
    """How long an http request may take."""
    turn_token_budget: Tokens = 100_000
    """Tokens that one turn may use, in and out."""
    max_message_bytes: Bytes = 1_048_576
    """Longest message that is accepted; a longer one is refused, because no turn's budget could hold it."""


class Approvals(msgspec.Struct, frozen=True, kw_only=True):
    """The queue of things that wait for the owner."""

    ttl_hours: Annotated[int, Meta(ge=1, le=8760)] = 24
    """How long a proposal waits before it expires."""
    lane_b_proof: Literal["passkey", "token"] = "passkey"
    """What a paired device must show to approve what leaves this machine: a passkey, or only its token. What is the
    owner's own (lane C) always needs a passkey."""


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    """Ceilings that hold across turns and jobs."""

    daily_tokens: Tokens = 1_000_000
    """Tokens per day (UTC), all work together. When they are used up, jobs pause until midnight and turns are
    refused."""
    job_tokens: Tokens = 200_000
    """Tokens per job; a job that needs more fails."""
    tool_calls_per_minute: Annotated[int, Meta(ge=1, le=100_000)] = 60
    """Tool calls per minute; more are denied. A quarter is kept for conversations: jobs cannot use it up."""
    open_proposals: Annotated[int, Meta(ge=1, le=100_000)] = 100
    """Proposals that may wait at the same time; more are denied. A quarter is kept for conversations."""
    jobs_at_once: Annotated[int, Meta(ge=1, le=1000)] = 4
    """Jobs that are worked on at the same time; the others wait their turn."""
    prs_per_day: Annotated[int, Meta(ge=0, le=10_000)] = 10
    """Pull requests that may be opened within 24 hours; more are denied."""


class Jobs(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on work in the background."""

    step_seconds: Seconds = 60.0
    """How long one step may take; a step that takes longer is cut off and tried again."""
    step_calls: Annotated[int, Meta(ge=1, le=1000)] = 10
    """Tool calls in one step."""
    step_output_tokens: Tokens = 8000
    """Tokens the model may write in one step."""
    max_steps: Annotated[int, Meta(ge=1, le=100_000)] = 100
    """Steps after which a job that is not done fails."""
    step_retries: Annotated[int, Meta(ge=0, le=100)] = 3
    """How often a step that failed or took too long is tried again before the job is given up."""
    max_hours: Annotated[int, Meta(ge=1, le=87_600)] = 72
    """Hours after which a job that is not done has timed out, waiting included."""


class Schedules(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on the follow-ups that the agent plans for itself. Your own schedules stand in `cron/jobs.json`."""

    followups_open: Annotated[int, Meta(ge=0, le=1000)] = 20
    """Follow-ups that may be open at the same time; more are refused."""
    followup_days: Annotated[int, Meta(ge=1, le=366)] = 30
    """How many days ahead a follow-up may be planned."""
    followups_in_a_row: Annotated[int, Meta(ge=1, le=10_000)] = 30
    """How many follow-ups may lead from one to the next before you have to say something again."""


class Executor(msgspec.Struct, frozen=True, kw_only=True):
    """How approved actions are carried out."""

    max_attempts: Annotated[int, Meta(ge=1, le=100)] = 5
    """How often an action is tried before it has failed."""
    backoff_seconds: Seconds = 5.0
    """Pause before the second try; it doubles with each further one, up to an hour."""


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """A place that `webhook_send` may send to, named by you. Sending always asks."""

    url: str = ""
    """Where to send, by POST; required. The airlock lets webhooks reach exactly the hosts and ports written here."""
    header: Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{1,64}$", title="the name of a header")] = "Authorization"
    """The header that carries the secret, when there is one."""
    secret_env: EnvName = ""
    """The name of the environment variable that holds the header's whole value. Empty: no such header is sent."""
    key_header: Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{1,64}$", title="the name of a header")] = "Idempotency-Key"
    """The header that carries the idempotency key."""
    deduplicates: bool = False
    """Whether the receiver does a request with a key that it has seen before only once. Then an interrupted send is
    simply repeated."""
    lookup_url: str = ""
    """Where to ask whether a key was received, by GET with the same header: `{key}` stands for the key; 200 means yes,
    404 no. Empty: it cannot be asked, and what was interrupted is yours to resolve unless the receiver deduplicates."""
    timeout_seconds: Seconds = 20.0
    """How long one request may take."""


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What a model costs, for `coilclaw usage`. The table's name is the model's name as it answers."""

    input_per_million: Annotated[float, Meta(ge=0, le=1_000_000)] = 0.0
    """Price of a million tokens read, in your currency."""
    output_per_million: Annotated[float, Meta(ge=0, le=1_000_000)] = 0.0
    """Price of a million tokens written."""


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How many days things are kept; 0 means for ever. Receipts are always kept. The worker prunes daily."""

    idempotency_days: Days = 90
    """Idempotency keys."""
    audit_days: Days = 90
    """Audit events; they are exported to `audit/YYYY/MM/DD.jsonl` in the workspace before they go."""
    messages_days: Days = 0
    """Messages. A conversation that goes on keeps what others wrote in it, because later words may rest on it; one that
    has been silent for so long goes as a whole. What an open action or job belongs to stays."""
    artifacts_days: Days = 90
    """Artifacts; not those a job left, which its evidence names, nor those a kept message points to."""


class WebSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Where `web_search` asks. Off until you choose; the key is only ever named."""

    kind: Literal["off", "brave", "searxng"] = "off"
    """`brave` is the Brave Search API and needs a key; `searxng` is a SearXNG server of your own."""
    base_url: str = ""
    """For searxng: where the server is, such as `http://localhost:8888`."""
    api_key_env: EnvName = ""
    """The name of the environment variable that holds the key."""

    def address(self) -> str:
        """The address that is asked, without the query; empty when off."""
        if self.kind == "brave":
            return "https://api.search.brave.com/res/v1/web/search"
        return f"{self.base_url.rstrip('/')}/search" if self.kind == "searxng" and self.base_url else ""


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """The HTTP interface."""

    http_addr: str = "127.0.0.1:8377"
    """Address and port to listen on, such as `127.0.0.1:8377` or `[::1]:8377`. Beyond loopback only with TLS."""
    public_url: str = ""
    """The address people open when it is not `http://localhost:PORT`, such as `https://coil.example.net`. Passkeys
    belong to its name."""
    tls_cert: Path | None = None
    """The certificate (PEM, with its chain) to speak TLS with; needs `tls_key`."""
    tls_key: Path | None = None
    """The private key that belongs to `tls_cert`."""
    tls_proxy: str = ""
    """The address of a proxy that speaks TLS for us, such as `10.0.0.2`; only it may connect then. Needs an https
    `public_url`."""
    max_body_bytes: Annotated[int, Meta(ge=1024, le=64 << 20)] = 1 << 20
    """The largest request body; uploads have a limit of their own (2 MiB)."""
    body_seconds: Seconds = 20.0
    """How long a client may take to send a request."""
    token_days: Annotated[int, Meta(ge=1, le=365)] = 30
    """How long a device stays signed in without being used."""
    pairing_minutes: Annotated[int, Meta(ge=1, le=60)] = 5
    """How long a pairing code can be used."""
    turns_at_once: Annotated[int, Meta(ge=1, le=64)] = 4
    """How many conversations are answered at the same time."""
    max_streams: Annotated[int, Meta(ge=1, le=10_000)] = 1200
    """How many event streams may be open, and how many WebSockets (of those at most 256)."""
    requests_per_minute: Annotated[int, Meta(ge=10, le=1_000_000)] = 1200
    """How many requests a device may make; single routes have stricter limits."""


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """What the processes say about themselves."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important level that is written."""
    format: Literal["text", "json"] = "text"
    """Lines for people, or one JSON object per line."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration. Paths are absolute; keys are only ever named, by environment variable."""

    workspace_dir: Path = Path("../coilclaw-workspace")
    """The directory that the agent works in. A relative path begins at the home, so the default is the home's sibling:
    `~/coilclaw-workspace`. It may not contain the home or lie in it."""
    default_provider: str = "local"
    """Which of `[providers.models]` answers."""
    default_model: str = ""
    """The model to ask for. Empty: the provider's own."""
    fallback_model: str = ""
    """The model asked once when the first one's answer cannot be used. Empty: none."""
    env: Literal["development", "production"] = "production"
    """What this installation is for; a word for logs and reports, it loosens nothing."""
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
    """Bounds on one turn."""
    approvals: Approvals = Approvals()
    """What waits for the owner."""
    budgets: Budgets = Budgets()
    """Ceilings across turns and jobs."""
    jobs: Jobs = Jobs()
    """Bounds on work in the background."""
    schedules: Schedules = Schedules()
    """Bounds on follow-ups."""
    executor: Executor = Executor()
    """How approved actions are carried out."""
    webhooks: dict[str, Webhook] = {}
    """Places to send to, each a table `[webhooks.NAME]`."""
    prices: dict[str, Price] = {}
    """What models cost, each a table `[prices."NAME"]`."""
    retention: Retention = Retention()
    """How long things are kept."""
    web_search: WebSearch = WebSearch()
    """Where web_search asks."""
    server: Server = Server()
    """The HTTP interface."""
    log: Log = Log()
    """What the processes say about themselves."""
