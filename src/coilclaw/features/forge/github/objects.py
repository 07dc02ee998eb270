"""Commits on their way to GitHub and back, by its Git Data API alone: no git process of ours dials out.

What goes up is compared with what stands here, id by id. What comes down is hashed again before it is stored.
"""

import asyncio
import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from coilclaw.features.forge.builtin_checks import searchable
from coilclaw.features.forge.github.api import GitHubApi
from coilclaw.packets.canonical import Json, JsonObject, as_object
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.bot_repository import BotRepository
from coilclaw.sandbox.fast_import import FILE, PROGRAM, name_fault, object_id

if TYPE_CHECKING:
    from coilclaw.packets.forge import FileChange

WORKFLOWS = ".github/workflows/"
INLINE_BYTES = 256 << 10
"""A larger text goes up as a blob of its own."""
MOST_COMMITS, MOST_OBJECTS = 500, 20_000
COMMIT_BYTES = 64 << 10
"""Of what the API tells of a commit: many thousand guesses of that length are hashed."""
MOST_DEEP = 100
NO_FILES = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""git's name for a tree without files, which it knows without having it."""
TREE, LINK = "040000", "120000"
Redact: TypeAlias = Callable[[str], str]
_PERSON = re.compile(r"(.*) <(.*)> (\d+) ([+-]\d{4})")


class CannotSend(ToolError):
    """A commit that must not or cannot go to GitHub by the API."""

    code = "CANNOT_SEND"


class SecretInChange(CannotSend):
    """Something that looks like a secret would leave; nothing was sent."""

    code = "SECRET_IN_CHANGE"


class BadObject(ToolError):
    """What came from GitHub is not what its id says, or must not be here."""

    code = "BAD_OBJECT"


class CommitParts(msgspec.Struct, frozen=True, kw_only=True):
    """A commit that the API can make: two people, times in UTC, nothing else in its head."""

    tree: str
    parents: tuple[str, ...]
    author: JsonObject
    committer: JsonObject
    message: str


# Up


class CommitUploads:
    """Sends commits of the bot's repository to GitHub."""

    def __init__(self, api: GitHubApi, repository: BotRepository, redact: Redact) -> None:
        self._api = api
        self._repository = repository
        self._redact = redact

    async def send(self, head: str, known: Iterable[str]) -> int:
        """Bring a commit and what it builds on; `known` is there already. Returns how many commits went."""
        listed = await asyncio.to_thread(self._repository.commits_since, head, list(known), MOST_COMMITS + 1)
        if len(listed) > MOST_COMMITS:
            raise CannotSend(
                f"more than {MOST_COMMITS} commits are not on GitHub.",
                remedy="Push them yourself: git push",
                begun=False,
            )
        for sha in listed:
            await self._send(sha)
        return len(listed)

    async def _send(self, sha: str) -> None:
        parts = commit_parts(await asyncio.to_thread(self._repository.raw, sha))
        if parts is None:
            raise CannotSend(
                f"the commit {sha[:12]} cannot be made by the API: it is signed, or its times are not in UTC.",
                remedy="Push it yourself: git push", begun=False,
            )  # fmt: skip
        parent = parts.parents[0] if parts.parents else NO_FILES
        changes = await asyncio.to_thread(self._repository.changes, parent, sha)
        contents = await asyncio.to_thread(self._contents, sha, parts, changes)
        if changes:
            entries: list[Json] = [await self._entry(change, contents) for change in changes]
            body: dict[str, Json] = {"tree": entries}
            if parts.parents:
                body["base_tree"] = await asyncio.to_thread(self._repository.tree_of, parent)
            made = await self._api.write("POST", "/git/trees", body)
            _must_equal("tree", parts.tree, made.get("sha"))
        fields: JsonObject = {
            "message": parts.message, "tree": parts.tree, "parents": list(parts.parents),
            "author": parts.author, "committer": parts.committer,
        }  # fmt: skip
        made = await self._api.write("POST", "/git/commits", fields)
        _must_equal("commit", sha, made.get("sha"))

    def _contents(self, sha: str, parts: CommitParts, changes: "Sequence[FileChange]") -> dict[str, bytes]:
        """What the changed files hold, read through for secrets before the first byte leaves."""
        for change in changes:
            if change.path.startswith(WORKFLOWS):
                raise CannotSend(
                    f"the commit {sha[:12]} changes {change.path}, which the bot may not push.",
                    remedy="Push it yourself: git push", begun=False,
                )  # fmt: skip
            if change.new_blob and change.new_mode not in (FILE, PROGRAM):
                raise CannotSend(f"{change.path} is no regular file.", begun=False)
        contents = self._repository.blobs(each.new_blob for each in changes if each.new_blob)
        people = (str(value) for role in (parts.author, parts.committer) for value in role.values())
        words = (parts.message, *people, *(each.path for each in changes))
        for text in (*words, *(searchable(data) for data in contents.values())):
            if self._redact(text) != text:
                raise SecretInChange(
                    f"the commit {sha[:12]} holds what looks like a secret; nothing was sent.",
                    remedy="Reject the pull request, or have the job take it out.", begun=False,
                )  # fmt: skip
        return contents

    async def _entry(self, change: "FileChange", contents: Mapping[str, bytes]) -> JsonObject:
        where: dict[str, Json] = {
            "path": change.path,
            "mode": change.new_mode if change.new_blob else FILE,
            "type": "blob",
        }
        if not change.new_blob:
            return {**where, "sha": None}
        data = contents[change.new_blob]
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            text = None
        if text is not None and len(data) <= INLINE_BYTES and "\0" not in text:
            return {**where, "content": text}
        body: JsonObject = {"content": base64.b64encode(data).decode(), "encoding": "base64"}
        made = await self._api.write("POST", "/git/blobs", body)
        _must_equal("blob", change.new_blob, made.get("sha"))
        return {**where, "sha": change.new_blob}


def commit_parts(data: bytes) -> CommitParts | None:
    """A commit as the API takes it; None for one that it would make differently."""
    try:
        head, _, message = data.decode("utf-8").partition("\n\n")
    except UnicodeDecodeError:
        return None
    fields = [line.partition(" ")[::2] for line in head.split("\n")]
    if [name for name, _ in fields if name != "parent"] != ["tree", "author", "committer"]:
        return None
    people = {name: _PERSON.fullmatch(value) for name, value in fields if name in ("author", "committer")}
    shown: dict[str, JsonObject] = {}
    for role, found in people.items():
        if found is None or found[4] != "+0000":
            return None
        shown[role] = {
            "name": found[1],
            "email": found[2],
            "date": f"{datetime.fromtimestamp(int(found[3]), UTC):%Y-%m-%dT%H:%M:%SZ}",
        }
    return CommitParts(
        tree=fields[0][1],
        parents=tuple(value for name, value in fields if name == "parent"),
        author=shown["author"],
        committer=shown["committer"],
        message=message,
    )


def _must_equal(kind: str, wanted: str, made: Json) -> None:
    if made != wanted:
        raise CannotSend(
            f"GitHub made the {kind} {str(made)[:40]} where {wanted} was meant; nothing leads to it.",
            remedy="Push the branch yourself: git push", begun=False,
        )  # fmt: skip


# Down


class CommitDownloads:
    """Brings commits from GitHub into the bot's repository; nothing leads to them yet."""

    def __init__(self, api: GitHubApi, repository: BotRepository) -> None:
        self._api = api
        self._repository = repository
        self._count = 0

    async def bring(self, sha: str) -> None:
        """Bring a commit and all it builds on that is not here."""
        waiting, order = [object_id(sha)], list[tuple[str, bytes]]()
        seen = set[str]()
        while waiting:
            each = waiting.pop()
            if each in seen or await self._has(each):
                continue
            seen.add(each)
            data, tree, parents = await self._commit(each)
            await self._tree(tree, "")
            order.append((each, data))
            waiting += parents
        for each, data in reversed(order):  # parents first, so that nothing here ever lacks what it builds on
            await self._store("commit", each, data)

    async def _has(self, sha: str) -> bool:
        return await asyncio.to_thread(self._repository.has, sha)

    async def _get(self, path: str) -> JsonObject:
        self._count += 1
        if self._count > MOST_OBJECTS:
            raise BadObject("GitHub's main has more new objects than are taken in.", remedy="Bring it by git pull.")
        answer = await self._api.read(path)
        if answer.status != 200:
            raise BadObject(f"GitHub has no {path[1:80]}.")
        return answer.fields

    async def _commit(self, sha: str) -> tuple[bytes, str, list[str]]:
        told = await self._get(f"/git/commits/{sha}")
        if len(msgspec.json.encode(told)) > COMMIT_BYTES:
            raise BadObject(f"the commit {sha[:12]} from GitHub is too long.", remedy="Bring it by git pull.")
        data = await asyncio.to_thread(_guessed, told, sha)
        if data is None:
            raise BadObject(
                f"the commit {sha[:12]} from GitHub is not what its id says.", remedy="Bring it by git pull."
            )
        lines = data.partition(b"\n\n")[0].decode("utf-8", "replace").split("\n")
        parents = [line.removeprefix("parent ") for line in lines if line.startswith("parent ")]
        return data, lines[0].removeprefix("tree "), parents

    async def _tree(self, sha: str, place: str) -> None:
        if await self._has(object_id(sha)):
            return
        if place.count("/") > MOST_DEEP:
            raise BadObject("the folders from GitHub are too deep to take in.", remedy="Bring it by git pull.")
        told = await self._get(f"/git/trees/{sha}")
        entries = told.get("tree")
        if told.get("truncated") is not False or not isinstance(entries, Sequence):
            raise BadObject(f"the folder {place or '/'} has too many files to take in.", remedy="Bring it by git pull.")
        data = bytearray()
        for entry in entries:
            name, mode, blob = _entry_of(entry)
            if fault := name_fault(name):
                raise BadObject(f"{place}{name[:200]!r} cannot be taken in: {fault}.")
            if mode == TREE:
                await self._tree(blob, f"{place}{name}/")
            elif mode in (FILE, PROGRAM, LINK):
                await self._blob(blob)
            else:
                raise BadObject(f"{place}{name} has the mode {mode}, which is not taken in.")
            data += f"{mode.lstrip('0')} {name}\0".encode() + bytes.fromhex(blob)
        await self._store("tree", sha, bytes(data))

    async def _blob(self, sha: str) -> None:
        if await self._has(object_id(sha)):
            return
        content = (await self._get(f"/git/blobs/{sha}")).get("content")
        try:
            data = base64.b64decode(str(content))
        except ValueError as error:
            raise BadObject(f"the file {sha[:12]} from GitHub cannot be read.") from error
        await self._store("blob", sha, data)

    async def _store(self, kind: Literal["commit", "tree", "blob"], sha: str, data: bytes) -> None:
        if object_hash(kind, data) != sha:
            raise BadObject(f"the {kind} {sha[:12]} from GitHub is not what its id says.")
        await asyncio.to_thread(self._repository.store, kind, data)


def _guessed(told: JsonObject, sha: str) -> bytes | None:
    return next((each for each in commit_bytes(told) if object_hash("commit", each) == sha), None)


def _entry_of(entry: Json) -> tuple[str, str, str]:
    fields = as_object(entry)
    name, mode, sha = fields.get("path"), fields.get("mode"), fields.get("sha")
    if not isinstance(name, str) or not isinstance(mode, str) or not isinstance(sha, str) or "/" in name:
        raise BadObject("a folder from GitHub cannot be read.")
    return name, mode, object_id(sha)


def object_hash(kind: str, data: bytes) -> str:
    """The id that git gives an object."""
    return hashlib.sha1(f"{kind} {len(data)}\0".encode() + data, usedforsecurity=False).hexdigest()


def commit_bytes(told: JsonObject) -> Iterator[bytes]:
    """What a commit may have been, from what the API says of it: it tells neither time zones nor line ends.

    The right one has the right id, so trying them all is safe.
    """
    signed = as_object(told.get("verification"))
    payload, signature = signed.get("payload"), signed.get("signature")
    if isinstance(payload, str) and isinstance(signature, str):
        head, _, message = payload.partition("\n\n")
        for end in (signature, signature.rstrip("\n"), signature.rstrip("\n") + "\n"):
            folded = end.replace("\n", "\n ")
            yield f"{head}\ngpgsig {folded}\n\n{message}".encode()
    parents = told.get("parents")
    lines = [f"tree {as_object(told.get('tree')).get('sha')}"]
    lines += [f"parent {as_object(each).get('sha')}" for each in (parents if isinstance(parents, Sequence) else ())]
    author, committer = (_person(told.get(role)) for role in ("author", "committer"))
    message = str(told.get("message", ""))
    zones = ("+0000", *(f"{sign}{hour:02}{minute:02}" for sign in "+-" for hour in range(15) for minute in (0, 30, 45)))
    for ours in zones:
        for theirs in dict.fromkeys((ours, *zones)):
            people = (f"author {author} {ours}", f"committer {committer} {theirs}")
            for end in ("\n", ""):
                yield "\n".join((*lines, *people, "", message + end)).encode()


def _person(told: Json) -> str:
    fields = as_object(told)
    try:
        when = int(datetime.fromisoformat(str(fields.get("date"))).timestamp())
    except (ValueError, OverflowError):
        when = 0
    return f"{fields.get('name')} <{fields.get('email')}> {when}"
