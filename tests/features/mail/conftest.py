"""The shipped Google, and a home whose owner has connected both accounts to it."""

import pytest

from coilclaw.sandbox.fake_google import FakeGoogle
from tests.features.mail.accounts_harness import BOT, OWNER
from tests.features.mail.mail_harness import connected


@pytest.fixture
def google():
    with FakeGoogle(OWNER, BOT) as fake:
        yield fake


@pytest.fixture
def mail_home(tmp_path, google):
    home = connected(tmp_path, google)
    yield home
    home.close()
