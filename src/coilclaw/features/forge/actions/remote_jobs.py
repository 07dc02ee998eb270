"""Jobs that run in Actions: each is a reference with its specification, made once, and a run of `execute.yml`."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from coilclaw.features.forge.github.api import GitHubApi, GitHubRefused
from coilclaw.features.forge.github.links import runs_page
from coilclaw.features.forge.github.main_branch import commit_of
from coilclaw.features.jobs.job_spec import check_goal
from coilclaw.packets.canonical import Json, JsonObject, as_object, canonical_bytes, sha256_hex
from coilclaw.packets.errors import UsageError
from coilclaw.packets.ids import new_id
from coilclaw.packets.job import JobPacket
from coilclaw.sandbox.fast_import import BOT

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

EXECUTE = "execute.yml"
FILE = "job.json"
PACKET_BYTES = 256 << 10
GRACE = timedelta(minutes=20)
"""So long whoever claimed a run is left to start it."""
_JOBS, _RUNS = "coilclaw/jobs", "coilclaw/runs"


def job_id_of(key: str) -> str:
    """The job that a key stands for: the same key is the same job, wherever it is handed in."""
    return f"job_{sha256_hex(key.encode())[:24]}"


def run_claim(run_instance_id: str) -> str:
    """The reference whose creation claims a run of a schedule."""
    return f"refs/{_RUNS}/{sha256_hex(run_instance_id.encode())}"


class RemoteJobs:
    """Hands jobs in on GitHub, and reads them there. Each write looks first, or fails the second time."""

    def __init__(self, app: "Runtime", api: GitHubApi | None = None) -> None:
        self._app = app
        self.api = api or GitHubApi(app)

    async def hand_in(self, packet: JobPacket, claim: str = "") -> bool:
        """Keep a specification and start its run; False when that was done before.

        `claim` is a further reference that only one of several may create. A process that died between claiming and
        starting is made up for by the next that hands the same in: whether it was started is looked up.
        """
        job_id = packet.job_id
        commit = await self._job_commit(job_id)
        if not commit:
            commit = await self._keep(packet)
        claimed = [await self.create_ref(name, commit) for name in (claim, f"refs/{_JOBS}/{job_id}") if name]
        if not all(claimed) and (await self.started(job_id) or await self._is_fresh(job_id)):
            return False
        await self._start(job_id)
        return True

    async def create_ref(self, name: str, commit: str) -> bool:
        """Create a reference; False when somebody was faster."""
        try:
            await self.api.write("POST", "/git/refs", {"ref": name, "sha": commit})
        except GitHubRefused as error:
            if error.status == 422 and await self.ref(name):
                return False
            raise
        return True

    async def ref(self, name: str) -> str:
        """Where a reference leads; empty when there is none."""
        return commit_of((await self.api.read(f"/git/ref/{name.removeprefix('refs/')}")).fields)

    async def started(self, job_id: str) -> bool:
        """Whether a run of this job was started: its name says which job it is for."""
        found = await self.api.read(f"/actions/workflows/{EXECUTE}/runs?event=workflow_dispatch&per_page=100")
        runs = found.fields.get("workflow_runs")
        titles = [as_object(each).get("display_title") for each in (runs if isinstance(runs, list) else ())]
        return f"execute {job_id}" in titles

    async def _is_fresh(self, job_id: str) -> bool:
        """Whether whoever kept the specification may still be about to start its run."""
        told = (await self.api.read(f"/git/commits/{await self._job_commit(job_id)}")).fields
        try:
            made = datetime.fromisoformat(str(as_object(told.get("committer")).get("date")))
        except ValueError:
            return False
        return self._app.clock() - made < GRACE

    async def packet(self, job_id: str) -> JobPacket:
        """The specification of a job; UsageError when there is none, or it is not one."""
        commit = await self._job_commit(job_id)
        if not commit:
            raise UsageError(f"there is no job {job_id[:80]!r} on GitHub.")
        data = (await self.commit_files(commit)).get(FILE, b"")
        try:
            packet = msgspec.json.decode(data, type=JobPacket)
        except msgspec.DecodeError as error:
            raise UsageError(f"the specification of {job_id[:80]!r} cannot be read: {error}.") from error
        if packet.job_id != job_id:
            raise UsageError(f"the specification of {job_id[:80]!r} is of another job.")
        return packet

    async def commit_files(self, commit: str) -> dict[str, bytes]:
        """The few small files of a commit that this module or the dispatcher made."""
        tree = as_object((await self.api.read(f"/git/commits/{commit}")).fields.get("tree")).get("sha")
        listed = (await self.api.read(f"/git/trees/{tree}")).fields.get("tree")
        found: dict[str, bytes] = {}
        for each in listed[:10] if isinstance(listed, list) else ():
            entry = as_object(each)
            size = entry.get("size")
            if entry.get("type") == "blob" and isinstance(size, int) and size <= PACKET_BYTES:
                told = (await self.api.read(f"/git/blobs/{entry.get('sha')}")).fields
                found[str(entry.get("path"))] = base64.b64decode(str(told.get("content") or ""))
        return found

    async def write_commit(self, files: dict[str, bytes], message: str, parents: tuple[str, ...]) -> str:
        """Write a commit that holds exactly these files."""
        listed: list[Json] = [
            {"path": path, "mode": "100644", "type": "blob", "content": data.decode()} for path, data in files.items()
        ]
        tree = await self.api.write("POST", "/git/trees", {"tree": listed})
        return await self.commit_tree(str(tree.get("sha")), message, parents)

    async def commit_tree(self, tree: str, message: str, parents: tuple[str, ...]) -> str:
        """Write a commit of a tree that is there."""
        date = self._app.clock().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        bot: JsonObject = {"name": BOT.name, "email": BOT.address, "date": date}
        body: JsonObject = {
            "message": message, "tree": tree, "parents": list(parents), "author": bot, "committer": bot,
        }  # fmt: skip
        return str((await self.api.write("POST", "/git/commits", body)).get("sha"))

    async def _job_commit(self, job_id: str) -> str:
        return await self.ref(f"refs/{_JOBS}/{job_id}")

    async def _keep(self, packet: JobPacket) -> str:
        clean = redacted(packet, self._app.redact)
        data = canonical_bytes(msgspec.to_builtins(clean))
        if len(data) > PACKET_BYTES:
            raise UsageError(f"the specification has {len(data)} bytes; at most {PACKET_BYTES} are handed in.")
        return await self.write_commit({FILE: data}, f"Job {packet.job_id}", ())

    async def _start(self, job_id: str) -> None:
        body: JsonObject = {"ref": "main", "inputs": {"job_id": job_id}}
        await self.api.write("POST", f"/actions/workflows/{EXECUTE}/dispatches", body)


def redacted(packet: JobPacket, redact: Callable[[str], str]) -> JobPacket:
    """The packet without a secret in any text: what is handed in stands in the repository."""
    plain: Json = msgspec.to_builtins(packet)

    def clean(value: Json) -> Json:
        if isinstance(value, str):
            return redact(value)
        if isinstance(value, dict):
            return {redact(str(name)): clean(inner) for name, inner in value.items()}
        return [clean(inner) for inner in value] if isinstance(value, (list, tuple)) else value

    return msgspec.convert(clean(plain), JobPacket)


async def hand_in_here(app: "Runtime", packet: JobPacket) -> str:
    """Hand a job in from this home; in words, what became of it."""
    forge = app.config.forge
    if forge.kind != "github" or forge.github.execute != "actions":
        raise UsageError("no job runs in Actions.", remedy='Set forge.github.execute = "actions"; see docs/github.md.')
    if app.estop.engaged():
        raise UsageError("ESTOP is engaged.", remedy="Clear it first.")
    check_goal(packet.intent)
    job_id = job_id_of(f"here:{new_id('job', app.clock())}")
    jobs = RemoteJobs(app)
    if (await jobs.api.read("")).fields.get("private") is not True:
        raise UsageError("the repository on GitHub is not private, so nothing was sent.", remedy="Make it private.")
    await jobs.hand_in(msgspec.structs.replace(packet, job_id=job_id))
    words = f"{job_id} runs in Actions; its pull request will be on the branch job/{job_id}."
    return f"{words}\nSee {runs_page(forge.github)}"
