"""Configuration: defaults, config.toml and COILCLAW_* variables become one typed, frozen Config.

Owns every option, the origin of each value, and the home's layout. Never writes a file, never stores a secret.
"""

from coilclaw.config.load import FileStamp, Loaded, load, read_config, stamp_of
from coilclaw.config.models import (
    AnthropicModel,
    GoogleModel,
    MockModel,
    OpenAIModel,
    ProviderModel,
    Providers,
    ReliableModel,
    ResponsesModel,
    RouterModel,
    ServerModel,
)
from coilclaw.config.options import Origin
from coilclaw.config.paths import Home, home_from
from coilclaw.config.prices import Price
from coilclaw.config.reference import default_toml, docs_markdown
from coilclaw.config.schema import (
    Agent,
    Approvals,
    Budgets,
    Channels,
    CliChannel,
    Config,
    Executor,
    Jobs,
    Log,
    Memory,
    Receipts,
    Retention,
    Security,
    Server,
    Webhook,
    WebSearch,
)
from coilclaw.config.show import named_secrets, policy_inputs, secret_variables, show_config

__all__ = [
    "Agent",
    "AnthropicModel",
    "Approvals",
    "Budgets",
    "Channels",
    "CliChannel",
    "Config",
    "Executor",
    "FileStamp",
    "GoogleModel",
    "Home",
    "Jobs",
    "Loaded",
    "Log",
    "Memory",
    "MockModel",
    "OpenAIModel",
    "Origin",
    "Price",
    "ProviderModel",
    "Providers",
    "Receipts",
    "ReliableModel",
    "ResponsesModel",
    "Retention",
    "RouterModel",
    "Security",
    "Server",
    "ServerModel",
    "WebSearch",
    "Webhook",
    "default_toml",
    "docs_markdown",
    "home_from",
    "load",
    "named_secrets",
    "policy_inputs",
    "read_config",
    "secret_variables",
    "show_config",
    "stamp_of",
]
