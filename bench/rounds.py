"""Rounds: every case once in turn, again and again, so that a slow spell of the machine hits all of them alike."""

import statistics
import time
from collections.abc import Callable, Sequence

import msgspec

Case = Callable[[], float]
"""Does its work once and says how many seconds one unit of it took."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """What a case took: the least and the middle of its samples."""

    min: float
    median: float
    samples: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> "Timing":
        """Sum up samples."""
        return cls(min=min(samples), median=statistics.median(samples), samples=len(samples))

    def scaled(self, factor: float) -> "Timing":
        """The same in another unit."""
        return Timing(min=self.min * factor, median=self.median * factor, samples=self.samples)


def interleave(cases: dict[str, Case], rounds: int) -> dict[str, list[float]]:
    """Run every case once a round; the round before the first warms caches and is dropped."""
    samples: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds + 1):
        for name, case in cases.items():
            seconds = case()
            if number:
                samples[name].append(seconds)
    return samples


def timings(cases: dict[str, Case], rounds: int) -> dict[str, Timing]:
    """Interleave and sum up."""
    return {name: Timing.of(samples) for name, samples in interleave(cases, rounds).items()}


def timed(work: Callable[[], object], times: int = 1) -> Case:
    """A case that does a piece of work so many times and says what one of them took."""

    def case() -> float:
        start = time.perf_counter()
        for _ in range(times):
            work()
        return (time.perf_counter() - start) / times

    return case


def percentile(samples: Sequence[float], share: float) -> float:
    """The sample below which that share of all lies."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
