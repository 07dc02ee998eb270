"""ESTOP: a file that stops every effect. What cannot be read counts as stopped."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

POLL_SECONDS = 0.1


class Estop:
    """The emergency stop."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def engaged(self) -> bool:
        """Whether everything must stop. Only a clear 'no such file' means no."""
        try:
            os.lstat(self.file)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return True

    def engage(self, reason: str, when: str) -> None:
        """Stop everything; doing it twice is fine."""
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.file.touch(mode=0o600)  # that it exists is what stops everything
        with suppress(OSError), self.file.open("a", encoding="utf-8") as file:
            file.write(f"{when} {reason}\n")

    def clear(self) -> bool:
        """Let things go on; says whether there was anything to clear."""
        try:
            self.file.unlink()
        except FileNotFoundError:
            return False
        return True

    async def wait(self) -> None:
        """Return when ESTOP is engaged."""
        while not self.engaged():
            await asyncio.sleep(POLL_SECONDS)
