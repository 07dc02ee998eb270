"""Issues and comments on the fake of GitHub, as the API shows them: what anybody at all may have written."""

from collections.abc import Sequence

from coilclaw.packets.canonical import Json, JsonObject
from coilclaw.sandbox.fake_github import Account, FakeGitHub
from coilclaw.sandbox.fake_github_shapes import WHEN


def write_issue(
    fake: FakeGitHub, repository: str, number: int, *, by: Account, title: str, body: str, comments: Sequence[str] = ()
) -> None:
    """Somebody opened an issue, and others said something below it."""
    there = f"/repos/{repository}/issues"
    shown: list[Json] = [_comment(repository, number * 1000 + place, by, text) for place, text in enumerate(comments)]
    fake.written[f"{there}/{number}"] = _issue(repository, number, by, title, body, len(shown))
    fake.written[f"{there}/{number}/comments"] = shown
    for each in shown:
        if isinstance(each, dict):
            fake.written[f"{there}/comments/{each['id']}"] = each


def _issue(repository: str, number: int, by: Account, title: str, body: str, comments: int) -> JsonObject:
    url = f"https://api.github.com/repos/{repository}/issues/{number}"
    return {
        "id": number, "node_id": "x", "url": url, "repository_url": f"https://api.github.com/repos/{repository}",
        "labels_url": f"{url}/labels", "comments_url": f"{url}/comments", "events_url": f"{url}/events",
        "html_url": f"https://github.com/{repository}/issues/{number}", "number": number, "state": "open",
        "title": title, "body": body, "user": by.shown(), "labels": [], "assignee": None, "milestone": None,
        "locked": False, "comments": comments, "closed_at": None, "created_at": WHEN, "updated_at": WHEN,
        "author_association": "NONE",
    }  # fmt: skip


def _comment(repository: str, number: int, by: Account, body: str) -> JsonObject:
    url = f"https://api.github.com/repos/{repository}/issues/comments/{number}"
    return {
        "id": number, "node_id": "x", "url": url, "html_url": f"https://github.com/{repository}/issues/{number}",
        "issue_url": f"https://api.github.com/repos/{repository}/issues/1", "body": body, "user": by.shown(),
        "created_at": WHEN, "updated_at": WHEN, "author_association": "NONE",
    }  # fmt: skip
