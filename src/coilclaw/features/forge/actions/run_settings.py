"""The settings of runs in Actions, made from the owner's own: the same model and limits, and other names of secrets."""

import tomllib
from collections.abc import Mapping
from typing import cast

KEPT = (
    "default_provider", "default_model", "fallback_model", "providers", "security", "agent", "budgets", "jobs",
    "prices", "forge",
)  # fmt: skip
"""What a run needs to know; everything else stays at home."""
MODEL_KEY, APP_KEY = "CI_MODEL_KEY", "CI_APP_KEY"


def run_settings(config: str) -> str:
    """The text of `.github/coilclaw/config.toml` for the text of a config.toml. No path and no secret comes along."""
    import tomlkit

    table = cast("dict[str, object]", tomllib.loads(config))
    made = {name: table[name] for name in KEPT if name in table}
    for provider in _tables(made.get("providers")):
        if "api_key_env" in provider:
            provider["api_key_env"] = MODEL_KEY
        for inner in _tables(provider):
            if "api_key_env" in inner:
                inner["api_key_env"] = MODEL_KEY
    forge = made.get("forge")
    if isinstance(forge, dict):
        forge = cast("dict[str, object]", forge)
        forge.pop("trees_dir", None)
        github = forge.get("github")
        if isinstance(github, dict):
            github = cast("dict[str, object]", github)
            github.pop("token_env", None)
            github["private_key_env"] = APP_KEY
    return "# Settings of runs in GitHub Actions, made by `coilclaw bot setup --actions`.\n" + tomlkit.dumps(made)


def _tables(value: object) -> list[dict[str, object]]:
    if not isinstance(value, Mapping):
        return []
    found = cast("Mapping[str, object]", value).values()
    return [cast("dict[str, object]", each) for each in found if isinstance(each, dict)]
