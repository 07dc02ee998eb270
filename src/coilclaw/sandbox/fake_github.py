"""A strict fake of the part of GitHub that the forge uses, on a real bare repository.

`python -m coilclaw.sandbox.fake_github FOLDER [KEY.pem] [PORT]` prints its address; docs/github.md says how to try it.
It does what the service documents and other emulators leave out: heads that follow their branch, one pull request for a
head, nobody approves their own, reviews that count only for the head they saw, protection, conditional reads, both
rate limits. Faults are scripted by path, before the effect and after it. It listens on loopback only. Nothing here is
for production.
"""

import hashlib
import re
import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias, cast
from urllib.parse import parse_qs

import msgspec

from coilclaw.packets.canonical import Json, JsonObject
from coilclaw.sandbox.fake_github_app import installation_shape, is_signed, public_half
from coilclaw.sandbox.fake_github_http import GitHubReply, GitHubServer, fault, scripted
from coilclaw.sandbox.fake_github_protection import Protection, protection_shape, read_protection
from coilclaw.sandbox.fake_github_repository import Account, HostedPull, HostedRepository, Refused
from coilclaw.sandbox.fake_github_shapes import (
    branch_shape,
    check_shape,
    label_shape,
    own_account_shape,
    pull_shape,
    ref_shape,
    repository_shape,
    review_shape,
    user_shape,
)

APP_PERMISSIONS = {"contents": "write", "pull_requests": "write", "checks": "write", "metadata": "read"}
LIFETIME = timedelta(hours=1)
PORT = 4650
"""Of the fake as a program, so that settings can name it."""
OWNER_ID, BOT_ID, STRANGER_ID = 1001, 9001, 6666
_EVENTS = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}


Effect: TypeAlias = Callable[[GitHubReply], GitHubReply]


class FakeGitHub:
    """Start it, give `base_url` as `forge.github.api_url`, look at `requests`. Use it as a context manager."""

    def __init__(self, folder: Path, *, repository: str = "owner/bot", public_key: bytes = b"", port: int = 0) -> None:
        self.name = repository
        self.hosted = HostedRepository(folder)
        self.private = True
        self.protection: dict[str, Protection] = {}
        """By branch; see `fake_github_protection.py`."""
        self.labels: list[str] = []
        self.paid = True
        """Branches of a private repository can be protected; not so on a plan that costs nothing."""
        self.signs = True
        self.app_id, self.installation_id, self.public_key = 17, 4242, public_key
        self.permissions = dict(APP_PERMISSIONS)
        self.accounts: dict[str, Account] = {
            "owner-token": Account(login="owner", id=OWNER_ID),
            "stranger-token": Account(login="stranger", id=STRANGER_ID),
            "bot-token": Account(login="bot-account", id=BOT_ID + 1, permissions=dict(APP_PERMISSIONS)),
        }
        self.pulls: dict[int, HostedPull] = {}
        self.checks: list[dict[str, Json]] = []
        self.checked_by: dict[int, int] = {}
        """The App that made a check; 0 for anybody else."""
        self.written: dict[str, Json] = {}
        """Issues and comments of any repository, by path; see `fake_github_issues.py`."""
        self.remaining = 5000
        self.instead: list[tuple[str, GitHubReply]] = []
        """Answers that come before anything happens, each once: a pattern for `METHOD path`, and the answer."""
        self.afterwards: list[tuple[str, Effect]] = []
        """Changes to the answer after its effect, each once."""
        self.requests: list[tuple[str, str, JsonObject]] = []
        self._lock = threading.RLock()
        self._server = GitHubServer(self.answer, port)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def base_url(self) -> str:
        """The address of its API."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def writes(self) -> list[tuple[str, str]]:
        """Method and path of what was to change something."""
        return [(method, path) for method, path, _ in list(self.requests) if method != "GET"]

    def review(self, number: int, token: str, state: str = "APPROVED", words: str = "") -> None:
        """Somebody reviews the head of a pull request."""
        self._review(self.accounts[token], self.pulls[number], state, words, "")

    def _review(self, who: Account, pull: HostedPull, state: str, words: str, seen: str) -> None:
        if who.id == pull.author.id:
            raise Refused(422, "Can not approve your own pull request")
        pull.reviews.append((who, state, seen or self.head_of(pull), words))

    def head_of(self, pull: HostedPull) -> str:
        """Where its branch stands; of one whose branch is gone, where it stood."""
        pull.last_head = self.hosted.ref(f"heads/{pull.head}") or pull.last_head
        return pull.last_head

    def merge(self, number: int, token: str, sha: str = "", words: tuple[str, str] = ("", "")) -> str:
        """Somebody merges a pull request; with a title and a message of their own, if they give them."""
        pull, who = self.pulls[number], self.accounts[token]
        head, base = self.head_of(pull), self.hosted.ref(f"heads/{pull.base}")
        if pull.state != "open" or pull.draft:
            raise Refused(405, "Pull Request is not mergeable")
        if sha and sha != head:
            raise Refused(409, "Head branch was modified. Review and try the merge again.")
        if (wall := self.protection.get(pull.base)) is not None and who.id != OWNER_ID:
            wall.must_be_met(self.hosted, base, head, self._approvals(pull, head), self._passed(head))
        title = words[0] or f"Merge pull request #{number} from {self.name.partition('/')[0]}/{pull.head}"
        message = f"{title}\n\n{words[1] or pull.title}"
        pull.merge_commit = self.hosted.merge(base, head, message, signed=self.signs)
        self.hosted.move(f"heads/{pull.base}", pull.merge_commit, force=False)
        pull.state, pull.merged_by = "closed", who
        return pull.merge_commit

    def _approvals(self, pull: HostedPull, head: str) -> int:
        """The owner alone may write here besides the bot, whose own reviews GitHub refuses."""
        said = [state for by, state, seen, _ in pull.reviews if by.id == OWNER_ID and seen == head]
        return said.count("APPROVED")

    def _passed(self, head: str) -> set[tuple[str, int]]:
        """Checks that succeeded on a commit, each with the App that said so."""
        found = [each for each in self.checks if (each["head_sha"], each["conclusion"]) == (head, "success")]
        return {(str(each["name"]), self.checked_by[cast("int", each["id"])]) for each in found}

    # One request

    def answer(self, method: str, path: str, body: JsonObject, headers: Mapping[str, str]) -> GitHubReply:
        """The reply to a request; scripted ones first."""
        with self._lock:
            self.requests.append((method, path, body))
            asked = f"{method} {path}"
            if (instead := scripted(self.instead, asked)) is not None:
                return instead
            self.remaining -= 1
            try:
                reply = self._route(method, path, body, headers)
            except Refused as refused:
                reply = fault(refused.status, refused.message)
            if (effect := scripted(self.afterwards, asked)) is not None:
                reply = effect(reply)
            return self._conditional(method, reply, headers)

    def _conditional(self, method: str, reply: GitHubReply, headers: Mapping[str, str]) -> GitHubReply:
        told = (
            ("x-ratelimit-remaining", str(max(self.remaining, 0))),
            ("x-ratelimit-reset", str(int(time.time()) + 60)),
        )
        if method != "GET" or reply.status != 200:
            return msgspec.structs.replace(reply, headers=(*reply.headers, *told))
        etag = f'W/"{hashlib.sha256(msgspec.json.encode(reply.body)).hexdigest()}"'
        if headers.get("if-none-match") == etag:
            self.remaining += 1  # it does not count
            return GitHubReply(status=304, headers=(("etag", etag), *told))
        return msgspec.structs.replace(reply, headers=(*reply.headers, ("etag", etag), *told))

    def _route(self, method: str, path: str, body: JsonObject, headers: Mapping[str, str]) -> GitHubReply:
        where, _, query = path.partition("?")
        if where == f"/app/installations/{self.installation_id}/access_tokens":
            return self._mint(body, headers)
        if where == f"/app/installations/{self.installation_id}":
            return self._installation(headers)
        who = self.accounts.get(headers.get("authorization", "").removeprefix("Bearer "))
        if who is None or who.ends < time.time():
            return fault(401, "Bad credentials")
        if where == "/user":
            is_user = who.kind == "User"
            told = (("x-oauth-scopes", who.scopes),) if who.scopes is not None else ()
            shown = GitHubReply(body=own_account_shape(who.shown()), headers=told)
            return shown if is_user else fault(403, "Not accessible")
        if method == "GET" and where in self.written:
            return GitHubReply(body=self.written[where])
        prefix = f"/repos/{self.name}"
        if where != prefix and not where.startswith(f"{prefix}/"):
            return fault(404, "Not Found")
        if self.remaining < 0:
            return fault(403, "API rate limit exceeded")
        asked = {name: values[-1] for name, values in parse_qs(query).items()}
        rest = where.removeprefix(prefix).strip("/")
        for pattern, name, need in _ROUTES:
            found = re.fullmatch(pattern, f"{method} {rest}")
            if found is not None:
                self._must_be_allowed(who, method, need)
                return cast("_Method", getattr(self, name))(who, found.groups(), body, asked)
        return fault(404, "Not Found")

    def _must_be_allowed(self, who: Account, method: str, need: str) -> None:
        if who.id == STRANGER_ID and (self.private or method != "GET"):
            raise Refused(404, "Not Found")
        if method != "GET" and who.id != OWNER_ID and who.permissions.get(need) != "write":
            raise Refused(403, "Resource not accessible by integration")

    def _mint(self, body: JsonObject, headers: Mapping[str, str]) -> GitHubReply:
        """A token of the installation, for a JWT signed with the App's key; it may be narrowed, never widened."""
        if not is_signed(headers.get("authorization", "").removeprefix("Bearer "), self.app_id, self.public_key):
            return fault(401, "A JSON web token could not be decoded")
        wanted, names = body.get("permissions"), body.get("repositories")
        asked = {str(key): str(value) for key, value in wanted.items()} if isinstance(wanted, Mapping) else {}
        if any(key not in self.permissions for key in asked):
            return fault(422, "The permissions requested are not granted to this installation.")
        if isinstance(names, Sequence) and list(names) != [self.name.partition("/")[2]]:
            return fault(422, "There is at least one repository that does not exist or is not accessible")
        token, given = f"ghs_{secrets.token_hex(18)}", asked or dict(self.permissions)
        ends = datetime.now(UTC) + LIFETIME
        self.accounts[token] = Account(
            login="coilclaw[bot]", id=BOT_ID, kind="Bot", permissions=given, ends=ends.timestamp()
        )
        permissions: JsonObject = {**given}
        return GitHubReply(
            status=201,
            body={"token": token, "expires_at": ends.strftime("%Y-%m-%dT%H:%M:%SZ"), "permissions": permissions},
        )

    def _installation(self, headers: Mapping[str, str]) -> GitHubReply:
        if not is_signed(headers.get("authorization", "").removeprefix("Bearer "), self.app_id, self.public_key):
            return fault(401, "A JSON web token could not be decoded")
        owner = user_shape("owner", OWNER_ID, "User")
        return GitHubReply(body=installation_shape(self.installation_id, self.app_id, owner, self.permissions))

    def _administered(self, who: Account, *_: object) -> GitHubReply:
        if who.id != OWNER_ID and "administration" not in who.permissions:
            raise Refused(403, "Resource not accessible by personal access token")
        return GitHubReply(body={"enabled": True, "allowed_actions": "all"})

    # The repository

    def _repository(self, *_: object) -> GitHubReply:
        return GitHubReply(body=self._shown_repository())

    def _shown_repository(self) -> JsonObject:
        return repository_shape(self.name, user_shape("owner", OWNER_ID, "User"), private=self.private)

    def _get_ref(self, _: Account, parts: Sequence[str], *__: object) -> GitHubReply:
        sha = self.hosted.ref(parts[0])
        return GitHubReply(body=ref_shape(f"refs/{parts[0]}", sha)) if sha else fault(404, "Not Found")

    def _matching_refs(self, _: Account, parts: Sequence[str], *__: object) -> GitHubReply:
        return GitHubReply(body=[ref_shape(name, sha) for name, sha in self.hosted.refs(parts[0])])

    def _make_ref(self, who: Account, _: object, body: JsonObject, __: object) -> GitHubReply:
        name = str(body.get("ref")).removeprefix("refs/")
        if self.hosted.ref(name):
            raise Refused(422, "Reference already exists")
        self._must_not_be_protected(who, name, body)
        self.hosted.move(name, str(body.get("sha")), force=False)
        return GitHubReply(status=201, body=ref_shape(f"refs/{name}", str(body.get("sha"))))

    def _move_ref(self, who: Account, parts: Sequence[str], body: JsonObject, _: object) -> GitHubReply:
        if not self.hosted.ref(parts[0]):
            raise Refused(422, "Reference does not exist")
        self._must_not_be_protected(who, parts[0], body)
        self.hosted.move(parts[0], str(body.get("sha")), force=body.get("force") is True)
        return GitHubReply(body=ref_shape(f"refs/{parts[0]}", str(body.get("sha"))))

    def _must_not_be_protected(self, who: Account, name: str, body: JsonObject) -> None:
        if (wall := self.protection.get(name.removeprefix("heads/"))) is not None:
            wall.must_take_push(is_admin=who.id == OWNER_ID, forced=body.get("force") is True)

    def _make_blob(self, _: Account, __: object, body: JsonObject, ___: object) -> GitHubReply:
        sha = self.hosted.put_blob(str(body.get("content")), str(body.get("encoding") or "utf-8"))
        return GitHubReply(status=201, body={"sha": sha, "url": "https://api.github.com/x"})

    def _get_blob(self, _: Account, parts: Sequence[str], *__: object) -> GitHubReply:
        return GitHubReply(body=self.hosted.blob(parts[0]))

    def _make_tree(self, who: Account, _: object, body: JsonObject, __: object) -> GitHubReply:
        listed = body.get("tree")
        entries = [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, Sequence) else []
        if any(str(each.get("path")).startswith(".github/workflows/") for each in entries) and who.id != OWNER_ID:
            raise Refused(403, "Resource not accessible by integration")  # the permission `workflows` is never given
        sha = self.hosted.put_tree(str(body.get("base_tree") or ""), entries)
        return GitHubReply(status=201, body=self.hosted.tree(sha, recursive=False))

    def _get_tree(self, _: Account, parts: Sequence[str], __: JsonObject, asked: Mapping[str, str]) -> GitHubReply:
        return GitHubReply(body=self.hosted.tree(parts[0], recursive="recursive" in asked))

    def _make_commit(self, _: Account, __: object, body: JsonObject, ___: object) -> GitHubReply:
        return GitHubReply(status=201, body=self.hosted.commit(self.hosted.put_commit(body)))

    def _get_commit(self, _: Account, parts: Sequence[str], *__: object) -> GitHubReply:
        return GitHubReply(body=self.hosted.commit(parts[0]))

    # Pull requests

    def _shown(self, pull: HostedPull) -> JsonObject:
        head, owner = self.head_of(pull), user_shape("owner", OWNER_ID, "User")
        side: JsonObject = {"user": owner, "repo": self._shown_repository()}
        label = self.name.partition("/")[0]
        return pull_shape({
            "id": pull.number, "number": pull.number, "state": pull.state, "title": pull.title, "body": pull.body,
            "draft": pull.draft, "user": pull.author.shown(), "merged": bool(pull.merge_commit),
            "merge_commit_sha": pull.merge_commit or None, "labels": [label_shape(each) for each in pull.labels],
            "merged_by": pull.merged_by.shown() if pull.merged_by else None,
            "html_url": f"https://github.com/{self.name}/pull/{pull.number}",
            "head": {**side, "ref": pull.head, "sha": head, "label": f"{label}:{pull.head}"},
            "base": {**side, "ref": pull.base, "sha": self.hosted.ref(f"heads/{pull.base}"),
                     "label": f"{label}:{pull.base}"},
        })  # fmt: skip

    def _pull(self, number: str) -> HostedPull:
        if int(number) not in self.pulls:
            raise Refused(404, "Not Found")
        return self.pulls[int(number)]

    def _pulls_of_commit(self, _: Account, parts: Sequence[str], *__: object) -> GitHubReply:
        return GitHubReply(body=[self._shown(each) for each in self.pulls.values() if each.merge_commit == parts[0]])

    def _list_pulls(self, _: Account, __: object, ___: JsonObject, asked: Mapping[str, str]) -> GitHubReply:
        wanted = asked.get("head", "").partition(":")[2]
        state = asked.get("state", "open")
        found = [
            each for each in self.pulls.values() if (not wanted or each.head == wanted) and state in ("all", each.state)
        ]
        return GitHubReply(body=[self._shown(each) for each in reversed(found)])

    def _open_pull(self, who: Account, _: object, body: JsonObject, __: object) -> GitHubReply:
        head, base = str(body.get("head")), str(body.get("base"))
        if not self.hosted.ref(f"heads/{head}") or not self.hosted.ref(f"heads/{base}"):
            raise Refused(422, "Validation Failed: head or base is invalid")
        if any((each.head, each.base, each.state) == (head, base, "open") for each in self.pulls.values()):
            raise Refused(422, f"A pull request already exists for {head}.")
        pull = HostedPull(
            number=len(self.pulls) + 1, head=head, base=base, title=str(body.get("title")), author=who,
            body=str(body.get("body") or ""), draft=body.get("draft") is True, labels=[], reviews=[],
        )  # fmt: skip
        self.pulls[pull.number] = pull
        return GitHubReply(status=201, body=self._shown(pull))

    def _get_pull(self, _: Account, parts: Sequence[str], *__: object) -> GitHubReply:
        return GitHubReply(body=self._shown(self._pull(parts[0])))

    def _change_pull(self, _: Account, parts: Sequence[str], body: JsonObject, __: object) -> GitHubReply:
        pull = self._pull(parts[0])
        if body.get("state") in ("open", "closed") and not pull.merge_commit:
            pull.state = str(body["state"])
        pull.title, pull.body = str(body.get("title", pull.title)), str(body.get("body", pull.body))
        return GitHubReply(body=self._shown(pull))

    def _merge_pull(self, who: Account, parts: Sequence[str], body: JsonObject, _: object) -> GitHubReply:
        token = next(name for name, account in self.accounts.items() if account is who)
        words = str(body.get("commit_title") or ""), str(body.get("commit_message") or "")
        commit = self.merge(self._pull(parts[0]).number, token, str(body.get("sha") or ""), words)
        return GitHubReply(body={"sha": commit, "merged": True, "message": "Pull Request successfully merged"})

    def _reviews(self, _: Account, parts: Sequence[str], *__: object) -> GitHubReply:
        return GitHubReply(body=self._shown_reviews(self._pull(parts[0])))

    def _shown_reviews(self, pull: HostedPull) -> list[Json]:
        return [
            review_shape({"id": number, "user": who.shown(), "state": state, "commit_id": head, "body": words})
            for number, (who, state, head, words) in enumerate(pull.reviews, 1)
        ]

    def _make_review(self, who: Account, parts: Sequence[str], body: JsonObject, _: object) -> GitHubReply:
        pull, state = self._pull(parts[0]), _EVENTS.get(str(body.get("event")))
        if state is None:
            raise Refused(422, "Validation Failed: event must be APPROVE, REQUEST_CHANGES or COMMENT")
        self._review(who, pull, state, str(body.get("body") or ""), str(body.get("commit_id") or ""))
        return GitHubReply(body=self._shown_reviews(pull)[-1])

    def _set_labels(self, _: Account, parts: Sequence[str], body: JsonObject, __: object) -> GitHubReply:
        labels = body.get("labels")
        self._pull(parts[0]).labels = [str(each) for each in labels] if isinstance(labels, Sequence) else []
        return GitHubReply(body=[label_shape(each) for each in self._pull(parts[0]).labels])

    # Labels and protection

    def _list_labels(self, *_: object) -> GitHubReply:
        return GitHubReply(body=[label_shape(each) for each in self.labels])

    def _make_label(self, _: Account, __: object, body: JsonObject, ___: object) -> GitHubReply:
        name = str(body.get("name"))
        if name.lower() in (each.lower() for each in self.labels):
            raise Refused(422, "Validation Failed")
        self.labels.append(name)
        return GitHubReply(status=201, body=label_shape(name))

    def _list_branches(self, _: Account, __: object, ___: JsonObject, asked: Mapping[str, str]) -> GitHubReply:
        found = [(name.removeprefix("refs/heads/"), sha) for name, sha in self.hosted.refs("heads/")]
        shown: list[Json] = [branch_shape(name, sha) for name, sha in found if name in self.protection]
        if asked.get("protected") != "true":
            raise Refused(404, "Not Found")
        return GitHubReply(body=shown)

    def _get_protection(self, who: Account, parts: Sequence[str], *_: object) -> GitHubReply:
        self._must_administer(who)
        if parts[0] not in self.protection:
            raise Refused(404, "Branch not protected")
        return GitHubReply(body=protection_shape(self.protection[parts[0]]))

    def _protect(self, who: Account, parts: Sequence[str], body: JsonObject, _: object) -> GitHubReply:
        self._must_administer(who)
        if not self.hosted.ref(f"heads/{parts[0]}"):
            raise Refused(404, "Branch not found")
        if self.private and not self.paid:
            raise Refused(403, "Upgrade to GitHub Pro or make this repository public to enable this feature.")
        self.protection[parts[0]] = read_protection(body)
        return GitHubReply(body=protection_shape(self.protection[parts[0]]))

    def _must_administer(self, who: Account) -> None:
        if who.id != OWNER_ID:
            raise Refused(403, "Resource not accessible by integration")

    # Check runs

    def _make_check(self, who: Account, _: object, body: JsonObject, __: object) -> GitHubReply:
        self.hosted.must_have(str(body.get("head_sha")), "commit")
        made = {**check_shape(len(self.checks) + 1, body)}
        self.checks.append(made)
        self.checked_by[len(self.checks)] = self.app_id if who.id == BOT_ID else 0
        return GitHubReply(status=201, body=made)

    def _list_checks(self, _: Account, parts: Sequence[str], *__: object) -> GitHubReply:
        found: list[Json] = [each for each in self.checks if each["head_sha"] == parts[0]]
        return GitHubReply(body={"total_count": len(found), "check_runs": found})


_Method: TypeAlias = Callable[[Account, tuple[str, ...], JsonObject, Mapping[str, str]], GitHubReply]
_ROUTES = (
    (r"GET ", "_repository", "metadata"),
    (r"GET actions/permissions", "_administered", "administration"),
    (r"GET git/ref/(.+)", "_get_ref", "contents"),
    (r"GET git/matching-refs/(.+)", "_matching_refs", "contents"),
    (r"POST git/refs", "_make_ref", "contents"),
    (r"PATCH git/refs/(.+)", "_move_ref", "contents"),
    (r"POST git/blobs", "_make_blob", "contents"),
    (r"GET git/blobs/(\w+)", "_get_blob", "contents"),
    (r"POST git/trees", "_make_tree", "contents"),
    (r"GET git/trees/(\w+)", "_get_tree", "contents"),
    (r"POST git/commits", "_make_commit", "contents"),
    (r"GET git/commits/(\w+)", "_get_commit", "contents"),
    (r"GET pulls", "_list_pulls", "pull_requests"),
    (r"POST pulls", "_open_pull", "pull_requests"),
    (r"GET pulls/(\d+)", "_get_pull", "pull_requests"),
    (r"PATCH pulls/(\d+)", "_change_pull", "pull_requests"),
    (r"PUT pulls/(\d+)/merge", "_merge_pull", "contents"),
    (r"GET pulls/(\d+)/reviews", "_reviews", "pull_requests"),
    (r"POST pulls/(\d+)/reviews", "_make_review", "pull_requests"),
    (r"PUT issues/(\d+)/labels", "_set_labels", "pull_requests"),
    (r"GET labels", "_list_labels", "issues"),
    (r"POST labels", "_make_label", "issues"),
    (r"GET branches", "_list_branches", "contents"),
    (r"GET branches/(\w+)/protection", "_get_protection", "administration"),
    (r"PUT branches/(\w+)/protection", "_protect", "administration"),
    (r"POST check-runs", "_make_check", "checks"),
    (r"GET commits/(\w+)/check-runs", "_list_checks", "checks"),
    (r"GET commits/(\w+)/pulls", "_pulls_of_commit", "pull_requests"),
)


if __name__ == "__main__":
    at, *more = sys.argv[1:]
    key = next((public_half(Path(each)) for each in more if not each.isdigit()), b"")
    with FakeGitHub(
        Path(at), public_key=key, port=next((int(each) for each in more if each.isdigit()), PORT)
    ) as served:
        sys.stdout.write(f"{served.base_url}\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            sys.stdout.write("\n")
