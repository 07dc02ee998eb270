"""How often somebody knocked; the chore lets the oldest knock fade."""


class Knocks:
    """Counts."""

    def __init__(self) -> None:
        self.count = 0

    def knock(self) -> int:
        """One more."""
        self.count += 1
        return self.count

    async def fade(self) -> int:
        """The oldest goes; tells how many went."""
        faded = min(1, self.count)
        self.count -= faded
        return faded
