"""Addresses for people: where things stand on GitHub."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coilclaw.config.forge import GitHubForge


def page_of(settings: "GitHubForge", rest: str = "") -> str:
    """A page of the bot's repository, on the site that the API belongs to."""
    return f"{settings.site}/{settings.repository}{rest}"


def runs_page(settings: "GitHubForge") -> str:
    """The runs of jobs in Actions; empty where none run there."""
    return page_of(settings, "/actions/workflows/execute.yml") if settings.execute == "actions" else ""
