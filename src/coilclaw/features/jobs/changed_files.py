"""The workspace files that jobs changed, as they are now: read beside the event loop, before any transaction begins."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from coilclaw.store.database import Database
from coilclaw.store.jobs import job_files
from coilclaw.store.tx import Tx

Hashes = Mapping[str, str | None]
"""Path to the hash of what it holds; None when it is gone."""

Known = Mapping[tuple[str, str], str | None]
"""The same by job and path."""


class ChangedFiles:
    """Hashes what jobs changed."""

    def __init__(self, db: Database, hash_file: Callable[[str, str], str | None]) -> None:
        self._db = db
        self._hash_file = hash_file

    async def now(self, job_ids: Iterable[str]) -> Known:
        """The hash of every file that these jobs changed, each in the folder its job works in."""
        changed = sorted({(job_id, path) for job_id in job_ids for path in job_files(self._db.reader, job_id)})
        return await asyncio.to_thread(lambda: {each: self._hash_file(*each) for each in changed}) if changed else {}

    async def of_job(self, job_id: str) -> Hashes:
        """The hash of every file that one job changed."""
        return {path: found for (_, path), found in (await self.now([job_id])).items()}

    def of(self, tx: Tx, job_id: str, known: Known) -> Hashes:
        """The same for one job in a transaction: what it changed since `known` was made is read now."""
        changed = ((job_id, path) for path in job_files(tx, job_id))
        return {each[1]: known[each] if each in known else self._hash_file(*each) for each in changed}
