"""Moments as clients write them."""

import pytest

from coilclaw.server.problems import Trouble
from coilclaw.server.timestamps import moment_of


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2026-03-01T12:00:00Z", "2026-03-01T12:00:00.000Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.000Z"),
        ("2016-12-31t23:59:60z", "2016-12-31T23:59:59.000Z"),
        ("2016-12-31 23:59:60Z", "2016-12-31T23:59:59.000Z"),
        ("2016-12-31T23:59:60.250Z", "2016-12-31T23:59:59.250Z"),
        ("2017-01-01T05:29:60+05:30", "2016-12-31T23:59:59.000Z"),
        ("2026-03-01T12:00", "2026-03-01T12:00:00.000Z"),
        ("2026-03-01", "2026-03-01T00:00:00.000Z"),
    ],
)
def test_a_moment_is_read_leap_seconds_too(written, meant):
    assert moment_of(written) == meant


@pytest.mark.parametrize(
    "written",
    [
        "2026-03-01T12:60:00Z",
        "2026-03-01T12:60Z",
        "2026-03-01T12:60",
        "2026-03-01T12:60:60Z",
        "2026-03-01T12:59:61Z",
        "2026-03-01T12:00:00+01:60",
        "2026-03-01T12:00:00-01:60",
        "2026-03-01T12:00:60+01:60",
        "2026-03-01T12:00:00+0160",
        "2026-03-01T12:00:00+01:99",
        "2026-03-01T12:00:00+01:00:60",
        "2026-03-01T24:00:60Z",
        "2026-03-01T:60",
    ],
)
def test_a_moment_that_does_not_exist_is_refused_and_not_moved(written):
    with pytest.raises(Trouble) as caught:
        moment_of(written)
    assert caught.value.code == "BAD_MOMENT"
