"""What git may have kept: content and names of files live on in a repository's history after they are gone.

Objects are compressed and named by another hash, so what is in there is not looked up. It is enough to know when
somebody last wrote into a repository: what was labelled later cannot be in it.
"""

import os
import stat
from pathlib import Path

from coilclaw.packets.ids import from_stamp

_EVER = float("inf")
_SLACK = 1.0
"""Times of labels are cut to the millisecond, those of files to whatever the disk keeps."""


class History:
    """When the repositories around a workspace's files were last written to."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = str(workspace)
        self._written: dict[str, float] = {}

    def may_hold(self, path: str, since: str) -> bool:
        """Whether what stood at a path at that time may be in the history of a repository that it lies in."""
        try:
            moment = from_stamp(since).timestamp() - _SLACK
        except ValueError:
            return True
        parts = path.split("/") if path else []
        folders = ("/".join(parts[:count]) for count in range(len(parts) + 1))
        return any(self._last_written(folder) >= moment for folder in folders)

    def _last_written(self, folder: str) -> float:
        if folder not in self._written:
            self._written[folder] = _newest(os.path.join(self._workspace, folder, ".git"))  # noqa: PTH118
        return self._written[folder]


def _newest(repository: str) -> float:
    """When objects were last added to a repository; `_EVER` if unknown, `-_EVER` if there is no repository."""
    try:
        info = os.lstat(repository)
    except OSError:
        return -_EVER
    if not stat.S_ISDIR(info.st_mode):
        return _EVER  # its history is elsewhere
    objects = f"{repository}/objects"
    try:
        if os.path.lexists(f"{objects}/info/alternates"):
            return _EVER
        with os.scandir(objects) as entries:
            times = [entry.stat().st_mtime for entry in entries if entry.is_dir()]
        return max((os.lstat(objects).st_mtime, *times))
    except FileNotFoundError:
        return -_EVER
    except OSError:
        return _EVER
