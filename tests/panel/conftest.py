"""One browser, houses for those who want one."""

import pytest

from tests.panel.house import House, build_panel
from tests.panel.window import Window, browsing


@pytest.fixture(scope="package")
def browser():
    with browsing() as made:
        build_panel()
        yield made


@pytest.fixture
def house(tmp_path):
    made = House(tmp_path)
    yield made
    made.close()


@pytest.fixture
def window(browser, house):
    """Opens windows on the house; when the test has passed, each must have been without fault."""
    opened = []

    def make(look, **options):
        opened.append(Window(browser, house, look, **options))
        return opened[-1]

    yield make
    for each in opened:
        each.close()
