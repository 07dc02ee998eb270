"""Claims: a process owns work for as long as it holds its name's lock; work of a name nobody holds is free."""

from pathlib import Path
from types import TracebackType

from coilclaw.packets.ids import Clock, new_id
from coilclaw.store.lock import HeldLock, holder_is_gone


class Claimant:
    """This process's name for one kind of work. The lock is taken when the name is first read."""

    def __init__(self, locks: Path, kind: str, clock: Clock) -> None:
        self._locks = locks
        self._kind = kind
        self._clock = clock
        self._lock: HeldLock | None = None

    @property
    def name(self) -> str:
        """What to write into the rows that are claimed."""
        if self._lock is None:
            self._lock = HeldLock(self._locks / f"{new_id(self._kind, self._clock())}.lock")
        return self._lock.path.stem

    def gone(self, name: str | None) -> bool:
        """Whether nobody holds that name any more, so that what it claimed is free."""
        return is_gone(self._locks, name)

    def close(self) -> None:
        """Let go of the name: what it still has is the next one's."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> str:
        return self.name

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()


def is_gone(locks: Path, name: str | None) -> bool:
    """Whether nobody holds that name any more; nobody at all is gone, too."""
    return name is None or holder_is_gone(locks / f"{name}.lock")
