"""What a skill names that the configuration does not grant. It stays denied; saying so is all that happens."""

from typing import TYPE_CHECKING

from coilclaw.features.jobs.job_spec import covered
from coilclaw.packets.names import did_you_mean

if TYPE_CHECKING:
    from coilclaw.features.skills.skill import Skill
    from coilclaw.runtime.runtime import Runtime


def ungranted(runtime: "Runtime", skill: "Skill") -> list[str]:
    """Each tool and domain that a skill names and nobody granted, in words."""
    needs = (need.partition(":") for need in skill.preconditions)
    needed = [(kind, name) for kind, _, name in needs]
    tools = dict.fromkeys((*(skill.tools or ()), *(name for kind, name in needed if kind == "tool")))
    domains = dict.fromkeys((*(skill.domains or ()), *(name for kind, name in needed if kind == "domain")))
    listed = runtime.config.security.allowed_domains
    return [
        *(_tool(runtime, name) for name in tools if name not in runtime.allowed_tools),
        *(
            f"{name} is not in security.allowed_domains; commands and http cannot reach it, and no skill grants it."
            for name in domains
            if not covered(name, listed)
        ),
    ]


def _tool(runtime: "Runtime", name: str) -> str:
    if name not in runtime.tools:
        return f"there is no tool {name[:80]!r}. {did_you_mean(name, sorted(runtime.allowed_tools))}"
    return f"{name} is not in channels.cli.tools_allow; it stays denied, and a skill cannot grant it."
