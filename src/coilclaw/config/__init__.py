"""Configuration: defaults, config.toml and COILCLAW_* variables become one typed, frozen Config.

Owns every option, where each value came from, and the home's layout. Never writes a file, never keeps a secret.
"""

from coilclaw.config.load import Loaded, config_origins, load, load_config
from coilclaw.config.options import Origin
from coilclaw.config.paths import Home, home_from
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
    MockModel,
    OpenAIModel,
    Price,
    ProviderModel,
    Providers,
    Receipts,
    ReliableModel,
    Retention,
    RouterModel,
    Security,
    Server,
    Webhook,
    WebSearch,
)
from coilclaw.config.show import policy_inputs, secret_variables, show_config

__all__ = [
    "Agent",
    "Approvals",
    "Budgets",
    "Channels",
    "CliChannel",
    "Config",
    "Executor",
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
    "Retention",
    "RouterModel",
    "Security",
    "Server",
    "WebSearch",
    "Webhook",
    "config_origins",
    "default_toml",
    "docs_markdown",
    "home_from",
    "load",
    "load_config",
    "policy_inputs",
    "secret_variables",
    "show_config",
]
