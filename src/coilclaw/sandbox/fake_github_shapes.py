"""What GitHub's answers hold besides what anybody uses: every field that its description requires."""

from collections.abc import Sequence

from coilclaw.packets.canonical import Json, JsonObject

WHEN = "2026-01-02T03:04:05Z"
_URL = "https://api.github.com/x"
_USER_URLS = """avatar html followers following gists starred subscriptions organizations repos events
    received_events""".split()  # noqa: SIM905  a dozen quoted words are harder to read
_REPOSITORY_URLS = """html archive assignees blobs branches collaborators comments commits compare contents contributors
    deployments downloads events forks git_commits git_refs git_tags hooks issue_comment issue_events issues keys labels
    languages merges milestones notifications pulls releases stargazers statuses subscribers subscription tags teams
    trees clone git ssh svn mirror""".split()  # noqa: SIM905
_PULL_URLS = "diff patch issue commits review_comments review_comment comments statuses html".split()  # noqa: SIM905
_COUNTS = """forks forks_count network_count open_issues open_issues_count size stargazers_count subscribers_count
    watchers watchers_count""".split()  # noqa: SIM905


def _urls(names: Sequence[str]) -> dict[str, Json]:
    return {"url": _URL, **{f"{name}_url": _URL for name in names}}


def user_shape(login: str, number: int, kind: str) -> JsonObject:
    """An account."""
    return {**_urls(_USER_URLS), "login": login, "id": number, "type": kind, "node_id": "x", "gravatar_id": "",
            "site_admin": False}  # fmt: skip


def own_account_shape(user: JsonObject) -> JsonObject:
    """An account as it sees itself."""
    empty = dict.fromkeys(("bio", "blog", "company", "email", "hireable", "location", "name"))
    zero = dict.fromkeys(("followers", "following", "public_gists", "public_repos"), 0)
    return {**user, **empty, **zero, "created_at": WHEN, "updated_at": WHEN}


def repository_shape(name: str, owner: JsonObject, *, private: bool) -> JsonObject:
    """A repository."""
    had = dict.fromkeys(("issues", "projects", "wiki", "pages", "discussions"), False)
    empty = dict.fromkeys(("description", "homepage", "language", "license"))
    return {
        **_urls(_REPOSITORY_URLS), **{f"has_{each}": value for each, value in had.items()}, **empty,
        **dict.fromkeys(_COUNTS, 0), "id": 1, "node_id": "x", "name": name.partition("/")[2], "full_name": name,
        "private": private, "owner": owner, "fork": False, "archived": False, "disabled": False,
        "default_branch": "main", "created_at": WHEN, "pushed_at": WHEN, "updated_at": WHEN, "topics": [],
        "visibility": "private" if private else "public", "has_downloads": False,
    }  # fmt: skip


def ref_shape(name: str, sha: str) -> JsonObject:
    """A reference."""
    return {"ref": name, "node_id": "x", "url": _URL, "object": {"type": "commit", "sha": sha, "url": _URL}}


def branch_shape(name: str, sha: str) -> JsonObject:
    """A branch that is protected."""
    return {"name": name, "commit": {"sha": sha, "url": _URL}, "protected": True}


def label_shape(name: str) -> JsonObject:
    """A label."""
    return {"id": 1, "node_id": "x", "url": _URL, "name": name, "color": "ededed", "default": False,
            "description": ""}  # fmt: skip


def pull_shape(fields: JsonObject) -> JsonObject:
    """A pull request, from what is known of it."""
    empty = dict.fromkeys(("assignee", "auto_merge", "milestone", "closed_at", "merged_at", "mergeable"))
    zero = dict.fromkeys(("additions", "deletions", "changed_files", "comments", "commits", "review_comments"), 0)
    linked = ("comments", "commits", "statuses", "html", "issue", "review_comments", "review_comment", "self")
    links: JsonObject = {name: {"href": _URL} for name in linked}
    return {
        **_urls(_PULL_URLS), **empty, **zero, "node_id": "x", "_links": links, "author_association": "NONE",
        "locked": False, "maintainer_can_modify": False, "mergeable_state": "unknown", "rebaseable": None,
        "created_at": WHEN, "updated_at": WHEN, "assignees": [], "requested_reviewers": [], "requested_teams": [],
        **fields,
    }  # fmt: skip


def review_shape(fields: JsonObject) -> JsonObject:
    """A review, from what is known of it."""
    links: JsonObject = {"html": {"href": _URL}, "pull_request": {"href": _URL}}
    return {"node_id": "x", "html_url": _URL, "pull_request_url": _URL, "author_association": "NONE", "_links": links,
            "submitted_at": WHEN, **fields}  # fmt: skip


def check_shape(number: int, asked: JsonObject) -> JsonObject:
    """A check run, from what was asked for."""
    told = asked.get("output")
    output: JsonObject = {
        "title": None, "summary": None, "text": None, "annotations_count": 0, "annotations_url": _URL,
        **(told if isinstance(told, dict) else {}),
    }  # fmt: skip
    return {
        "id": number, "node_id": "x", "url": _URL, "html_url": _URL, "details_url": _URL, "started_at": WHEN,
        "completed_at": WHEN, "conclusion": None, "status": "queued", "external_id": "", "app": None,
        "check_suite": None, "pull_requests": [], **asked, "output": output,
    }  # fmt: skip


def environment_shape(name: str, *, restricted: bool) -> JsonObject:
    """An environment of deployments."""
    policy: Json = {"protected_branches": False, "custom_branch_policies": True} if restricted else None
    return {"id": 1, "node_id": "x", "name": name, "url": _URL, "html_url": _URL, "created_at": WHEN,
            "updated_at": WHEN, "protection_rules": [], "deployment_branch_policy": policy}  # fmt: skip
