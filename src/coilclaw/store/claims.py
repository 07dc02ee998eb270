"""Claims: a process owns work while it holds the lock of its name; work of an unheld name is free."""

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
        """The name to write into claimed rows."""
        if self._lock is None:
            self._lock = HeldLock(self._locks / f"{new_id(self._kind, self._clock())}.lock")
        return self._lock.path.stem

    def gone(self, name: str | None) -> bool:
        """Whether nobody holds that name any more, so that its claims are free."""
        return is_gone(self._locks, name)

    def close(self) -> None:
        """Release the name: its remaining claims are free."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> str:
        return self.name

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()


def is_gone(locks: Path, name: str | None) -> bool:
    """Whether nobody holds that name any more; no name counts as gone."""
    return name is None or holder_is_gone(locks / f"{name}.lock")
