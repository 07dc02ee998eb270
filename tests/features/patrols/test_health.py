"""Health: what is known, what is open, how old it is. Unknown is not well."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from coilclaw.features.patrols.health import COST, STALE, UNSURE, Known, health_of

NOW = datetime(2026, 11, 17, 12, 0, tzinfo=UTC)
FRESH = {"test": Known(ended_at=NOW, passed=10)}


def test_nothing_known_is_not_a_number():
    assert health_of(["test"], {}, [], [], NOW) is None
    assert health_of([], {"test": Known(ended_at=NOW - STALE)}, [], [], NOW) is None


def test_all_well_is_a_hundred_and_every_alert_costs():
    assert health_of(["test"], FRESH, [], [], NOW) == 100
    assert health_of(["test"], FRESH, [], ["error", "warning"], NOW) == 100 - COST["error"] - COST["warning"]
    assert health_of(["test"], FRESH, [], ["critical"] * 3, NOW) == 0


def test_half_of_the_tests_failing_costs_a_quarter():
    assert health_of(["test"], {"test": Known(ended_at=NOW, passed=5, failed=5)}, [], [], NOW) == 75


def test_an_expected_patrol_that_never_told_anything_keeps_it_from_being_well():
    assert health_of(["test", "deps"], FRESH, [], [], NOW) == UNSURE
    assert health_of(["test"], FRESH, ["deps"], [], NOW) == UNSURE


def test_old_news_count_less():
    week = {"test": Known(ended_at=NOW - timedelta(days=16), passed=1)}
    assert health_of([], week, [], [], NOW) == 75


@given(
    st.lists(st.sampled_from(["info", "warning", "error", "critical"]), max_size=20),
    st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 40), st.booleans(),
)  # fmt: skip
def test_it_is_always_within_bounds_and_another_alert_never_helps(alerts, passed, failed, days, doubt):
    last = {"test": Known(ended_at=NOW - timedelta(days=days), passed=passed, failed=failed)}
    doubtful = ["deps"] if doubt else []
    health = health_of(["test"], last, doubtful, alerts, NOW)
    worse = health_of(["test"], last, doubtful, [*alerts, "error"], NOW)
    assert (health is None) == (days >= 30)
    if health is not None:
        assert 0 <= worse <= health <= (UNSURE if doubt else 100)
