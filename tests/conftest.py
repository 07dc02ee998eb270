"""Shared parts: a clock the test owns, and a fresh home for tests that run the real executable."""

import gc
import os
import random
import signal
import tempfile
from collections.abc import Generator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import hypothesis
import pytest

from coilclaw.store.database import Database
from tests.missing import left_out

# The checkout may belong to somebody else, so what hypothesis remembers is kept aside; its time limits mean nothing on
# a busy machine.
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", f"{tempfile.gettempdir()}/coilclaw-hypothesis-{os.getuid()}")
hypothesis.settings.register_profile(
    "coilclaw", database=None, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("coilclaw")

# A run that was started in the background may ignore SIGINT, and everything it starts would too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="Run the tests in an order made from this number.")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage, and never look at what was collected: modules and tests stay to the end,
    and going through them took a quarter of the time it took to make them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle the files, and the tests of each: no test may depend on what ran before it."""
    seed = config.getoption("shuffle")
    if seed is not None:
        rank = random.Random(seed)
        files = {item.path: rank.random() for item in items}
        items.sort(key=lambda item: (files[item.path], rank.random()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say plainly what was left out, and how to get it."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = [report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)]
    for line in left_out(reasons):
        terminalreporter.write_line(line)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report a failure briefly when it cannot be shown: on Python 3.11.2 parsing the source of the failing line can
    itself fail ("AST constructor recursion depth mismatch"), and that must not end the whole run."""
    try:
        return (yield)
    except SystemError as error:
        longrepr = f"{call.excinfo.exconly() if call.excinfo else ''}\n(The source could not be shown: {error})"
        return pytest.TestReport(
            item.nodeid, item.location, dict.fromkeys(item.keywords, 1), "failed", longrepr, call.when
        )


class TestClock:
    """A clock that moves only when told to, plus a millisecond a look so that ids and rows are ordered."""

    __test__ = False

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=1)
        return self.now

    def advance(self, **amount: float) -> None:
        self.now += timedelta(**amount)


@pytest.fixture(scope="session", autouse=True)
def made_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where the home is kept that every sample is a copy of."""
    os.environ["TESTS_MADE_HOME"] = str(tmp_path_factory.mktemp("made"))


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "home" / "memory.sqlite", tmp_path / "home" / "locks")
    yield database
    database.close()


@pytest.fixture
def sample(tmp_path: Path):
    from tests.home import Sample

    made: list[Sample] = []

    def make(**overrides: object) -> Sample:
        made.append(Sample(tmp_path / f"s{len(made)}", **overrides))
        return made[-1]

    yield make
    for each in made:
        each.close()
