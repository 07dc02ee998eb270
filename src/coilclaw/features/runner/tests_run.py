"""Tests that the program of a session runs: which commands are test runs, and what their output counts. Pure.

The numbers are those of a program that ran somebody's code: they are shown, and nothing is decided by them.
"""

import re

import msgspec

_RUNNERS = re.compile(
    r"(?:^|[;&|(]|\s)(?:\S*/)?(?:pytest|py\.test|tox|nox|vitest|jest|mocha|ctest|rspec|phpunit|go test"
    r"|cargo (?:test|nextest)|python[0-9.]* -m (?:pytest|unittest)|(?:npm|pnpm|yarn|bun)(?: run)? test"
    r"|(?:make|just|mvn|gradle|gradlew) (?:test|check))(?=[\s;&|)]|$)"
)
# Nothing in it is tried twice: a repository chooses the text.
_COUNT = re.compile(r"(\d{1,9}) (passed|passing|failed|failing|errors?|skipped|pending|ignored)\b")
_WORDS = {
    "passed": "passed", "passing": "passed", "failed": "failed", "failing": "failed", "error": "failed",
    "errors": "failed", "skipped": "skipped", "pending": "skipped", "ignored": "skipped",
}  # fmt: skip
READ = 64 << 10
"""How much of the end of an output is looked at: the summary is the last thing a runner writes."""


class TestCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What a test run told of itself; zeros where nothing was understood."""

    __test__ = False

    passed: int = 0
    failed: int = 0
    skipped: int = 0


def is_test_run(command: str) -> bool:
    """Whether a command runs tests, by its words."""
    return _RUNNERS.search(" ".join(command[:1000].split())) is not None


def counts_of(output: str) -> TestCounts:
    """The counts of the last line that has any: pytest, cargo, vitest, jest and mocha write them so."""
    for line in reversed(output[-READ:].replace("\\n", "\n").splitlines()):
        if found := _COUNT.findall(line[:2000]):
            told = {"passed": 0, "failed": 0, "skipped": 0}
            for number, word in found:
                told[_WORDS[word]] += int(number)
            return TestCounts(**told)
    return TestCounts()
