"""The workspace files that jobs changed, as they are now: read beside the event loop, before any transaction begins."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from coilclaw.store.database import Database
from coilclaw.store.jobs import job_files
from coilclaw.store.tx import Tx

Hashes = Mapping[str, str | None]
"""Path to the hash of what it holds; None when it is gone."""


class ChangedFiles:
    """Hashes what jobs changed."""

    def __init__(self, db: Database, hash_file: Callable[[str], str | None]) -> None:
        self._db = db
        self._hash_file = hash_file

    async def now(self, job_ids: Iterable[str]) -> Hashes:
        """The hash of every file that these jobs changed."""
        paths = {path for job_id in job_ids for path in job_files(self._db.reader, job_id)}
        return await asyncio.to_thread(lambda: {path: self._hash_file(path) for path in sorted(paths)}) if paths else {}

    def of(self, tx: Tx, job_id: str, known: Hashes) -> Hashes:
        """The same for one job in a transaction: what it changed since `known` was made is read now."""
        return {path: known[path] if path in known else self._hash_file(path) for path in job_files(tx, job_id)}
