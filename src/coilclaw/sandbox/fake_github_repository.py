"""Behind the fake of GitHub: accounts, pull requests, and a real bare repository, spoken to by the Git Data API."""

import base64
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from coilclaw.packets.canonical import Json, JsonObject, as_object
from coilclaw.sandbox.fake_github_shapes import user_shape
from coilclaw.sandbox.git import failed, git_bytes

MOST_ENTRIES = 100_000
_SHA = re.compile(r"[0-9a-f]{40}\Z")


class Refused(Exception):
    """What the fake answers instead: a status and its words."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody with a token."""

    login: str
    id: int
    kind: str = "User"
    permissions: dict[str, str] = {}
    scopes: str | None = None
    """Of a classic token, in the header of every answer; a fine-grained one has none."""
    ends: float = float("inf")

    def shown(self) -> JsonObject:
        """As the API names people."""
        return user_shape(self.login, self.id, self.kind)


class HostedPull(msgspec.Struct, kw_only=True):
    """A pull request there."""

    number: int
    head: str
    base: str
    title: str
    body: str
    author: Account
    draft: bool = False
    state: str = "open"
    merged_by: Account | None = None
    merge_commit: str = ""
    last_head: str = ""
    labels: list[str] = []
    reviews: list[tuple[Account, str, str, str]] = []
    """Who, the state, the head that was seen, and what was said."""


class HostedRepository:
    """One bare repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.most_entries = MOST_ENTRIES
        """A recursive listing with more is cut off and says so."""
        if not (folder / "HEAD").exists():
            folder.mkdir(parents=True, exist_ok=True)
            self.git("init", "--bare", "--quiet", "--initial-branch=main", ".")

    def git(self, *args: str, given: bytes = b"", environment: Mapping[str, str] | None = None) -> bytes:
        """What a git command says."""
        code, out, said = git_bytes(self.folder, *args, given=given, environment=environment)
        if code:
            raise failed(args[0], code, said)
        return out

    # References

    def ref(self, name: str) -> str:
        """The object a reference leads to; empty when there is none."""
        code, out, _ = git_bytes(self.folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"refs/{name}")
        return "" if code else out.decode().strip()

    def refs(self, prefix: str) -> list[tuple[str, str]]:
        """References whose name begins like this."""
        out = self.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/").decode()
        pairs = [line.split(" ") for line in out.splitlines()]
        return [(name, sha) for name, sha in pairs if name.startswith(f"refs/{prefix}")]

    def move(self, name: str, sha: str, *, force: bool) -> None:
        """Move a reference as a push would."""
        self.must_have(sha, "commit")
        before = self.ref(name)
        if before and not force and not self.leads_to(before, sha):
            raise Refused(422, "Update is not a fast forward")
        self.git("update-ref", f"refs/{name}", sha)

    def leads_to(self, older: str, newer: str) -> bool:
        """Whether one commit is in the history of another."""
        return git_bytes(self.folder, "merge-base", "--is-ancestor", older, newer)[0] == 0

    # Objects

    def must_have(self, sha: str, kind: str) -> None:
        """Refuse an object that is not there."""
        if not _SHA.match(sha) or git_bytes(self.folder, "cat-file", "-t", sha)[1].decode().strip() != kind:
            raise Refused(404 if kind == "blob" else 422, f"{kind} {sha} does not exist")

    def put_blob(self, content: str, encoding: str) -> str:
        """Store a blob."""
        data = base64.b64decode(content) if encoding == "base64" else content.encode()
        return self.git("hash-object", "-w", "--stdin", given=data).decode().strip()

    def blob(self, sha: str) -> JsonObject:
        """A blob as the API shows it, with line breaks in its base64 as there."""
        self.must_have(sha, "blob")
        data = self.git("cat-file", "blob", sha)
        return {
            "sha": sha, "node_id": "x", "url": f"https://api.github.com/{sha}", "size": len(data),
            "encoding": "base64", "content": base64.encodebytes(data).decode(),
        }  # fmt: skip

    def put_tree(self, base: str, entries: Sequence[Mapping[str, Json]]) -> str:
        """Store a tree: that of `base` with these entries; one whose sha is null is removed."""
        index = {"GIT_INDEX_FILE": str(self.folder / "index.new")}
        (self.folder / "index.new").unlink(missing_ok=True)
        if base:
            self.git("read-tree", f"{base}^{{tree}}", environment=index)
        lines: list[str] = []
        for entry in entries:
            path, mode = str(entry.get("path")), str(entry.get("mode"))
            if "sha" in entry and entry["sha"] is None:
                lines.append(f"0 {'0' * 40}\t{path}")
                continue
            sha = str(entry["sha"]) if "sha" in entry else self.put_blob(str(entry.get("content")), "utf-8")
            self.must_have(sha, "blob")
            lines.append(f"{mode} {sha}\t{path}")
        self.git(
            "update-index", "--index-info", given="".join(f"{line}\n" for line in lines).encode(), environment=index
        )
        return self.git("write-tree", environment=index).decode().strip()

    def tree(self, sha: str, *, recursive: bool) -> JsonObject:
        """A tree as the API shows it."""
        code, out, _ = git_bytes(
            self.folder, "ls-tree", "-z", "-l", *(("-r", "-t") if recursive else ()), f"{sha}^{{tree}}"
        )
        if code:
            raise Refused(404, "Not Found")
        found: list[Json] = []
        for record in out.decode().split("\0"):
            about, _, path = record.partition("\t")
            if path:
                mode, kind, blob, size = about.split()
                entry: dict[str, Json] = {"path": path, "mode": mode, "type": kind, "sha": blob}
                found.append({**entry, "size": int(size)} if kind == "blob" else entry)
        real = self.git("rev-parse", f"{sha}^{{tree}}").decode().strip()
        cut = len(found) > self.most_entries
        return {"sha": real, "url": "https://api.github.com/x", "tree": found[: self.most_entries], "truncated": cut}

    def put_commit(self, fields: Mapping[str, Json]) -> str:
        """Store a commit exactly as asked for."""
        tree, parents = str(fields.get("tree")), fields.get("parents")
        self.must_have(tree, "tree")
        named = [str(each) for each in parents] if isinstance(parents, Sequence) else []
        for parent in named:
            self.must_have(parent, "commit")
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in named)]
        for role in ("author", "committer"):
            who = as_object(fields.get(role))
            when = int(datetime.fromisoformat(str(who.get("date"))).timestamp())
            lines.append(f"{role} {who.get('name')} <{who.get('email')}> {when} +0000")
        return self.put_raw("\n".join((*lines, "", str(fields.get("message")))).encode())

    def put_raw(self, data: bytes) -> str:
        """Store the bytes of a commit."""
        return self.git("hash-object", "-t", "commit", "-w", "--stdin", given=data).decode().strip()

    def commit(self, sha: str) -> JsonObject:
        """A commit as the API shows it: its times in UTC, its signature apart."""
        self.must_have(sha, "commit")
        data = self.git("cat-file", "commit", sha).decode()
        head, _, message = data.partition("\n\n")
        signature = re.search(r"^gpgsig ((?:.*\n )*.*)$\n", head + "\n", re.MULTILINE)
        signed = None if signature is None else signature[1].replace("\n ", "\n")
        bare = head if signature is None else (head + "\n").replace(signature[0], "").rstrip("\n")
        people: dict[str, Json] = {}
        for role in ("author", "committer"):
            found = re.search(rf"^{role} (.*) <(.*)> (\d+) [+-]\d{{4}}$", head, re.MULTILINE)
            if found is not None:
                when = datetime.fromtimestamp(int(found[3]), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                people[role] = {"name": found[1], "email": found[2], "date": when}
        tree = re.search(r"^tree (\w+)$", head, re.MULTILINE)
        parents: list[Json] = [
            {"sha": each, "url": "https://api.github.com/x", "html_url": "https://github.com/x"}
            for each in re.findall(r"^parent (\w+)$", head, re.MULTILINE)
        ]
        payload = None if signed is None else f"{bare}\n\n{message}"
        return {
            "sha": sha, "node_id": "x", "url": "https://api.github.com/x", "html_url": "https://github.com/x",
            **people, "message": message.removesuffix("\n"), "parents": parents,
            "tree": {"sha": tree[1] if tree else "", "url": "https://api.github.com/x"},
            "verification": {
                "verified": signed is not None, "reason": "valid" if signed else "unsigned", "signature": signed,
                "payload": payload, "verified_at": None,
            },
        }  # fmt: skip

    def merge(self, base: str, head: str, message: str, *, signed: bool) -> str:
        """The commit that joins a branch into another, as the service itself makes it."""
        code, out, _ = git_bytes(self.folder, "merge-tree", "--write-tree", base, head)
        if code:
            raise Refused(405, "Pull Request is not mergeable")
        tree, now = out.decode().split("\n")[0], int(datetime.now(UTC).timestamp())
        who = f"GitHub <noreply@github.com> {now} +0000"
        lines = [f"tree {tree}", f"parent {base}", f"parent {head}", f"author {who}", f"committer {who}"]
        if signed:
            lines.append(
                "gpgsig -----BEGIN PGP SIGNATURE-----\n \n wsBcBAABCAAQ\n =AAAA\n -----END PGP SIGNATURE-----\n "
            )
        return self.put_raw("\n".join((*lines, "", message)).encode())
