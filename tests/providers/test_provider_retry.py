"""When a request is repeated, and how long that takes."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.packets.errors import ProviderRefused, ProviderUnavailable
from coilclaw.providers.retry import Backoff, Transient, retry_after_seconds, with_retries


def clock() -> datetime:
    return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("", None),
        ("7", 7.0),
        (" 0.5 ", 0.5),
        ("Fri, 02 Jan 2026 03:04:35 GMT", 30.0),
        ("Fri, 02 Jan 2026 03:00:00 GMT", 0.0),
        ("Fri, 02 Jan 2026 03:04:35", None),
        ("soon", None),
        ("-3", None),
        ("nan", None),
        ("٣", None),
        ("1.2.3", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(header, seconds):
    assert retry_after_seconds(header, clock) == seconds


@given(st.text(max_size=40))
def test_no_retry_after_header_can_break_anything(header):
    seconds = retry_after_seconds(header, clock)
    assert seconds is None or seconds >= 0


@given(st.integers(1, 30), st.floats(0, 0.999))
def test_a_wait_grows_with_every_try_and_stays_under_the_cap(tried, jitter):
    backoff = Backoff(retries=30, first_seconds=0.5, cap_seconds=20)
    wait = backoff.wait(tried, None, lambda: jitter)
    assert wait is not None
    assert min(20, 0.5 * 2 ** (tried - 1)) / 2 <= wait <= 20


def test_a_server_that_asks_for_more_patience_than_we_have_is_given_up():
    backoff = Backoff(retries=3, cap_seconds=20)
    assert backoff.wait(1, 20.0, lambda: 0) == 20.0
    assert backoff.wait(1, 21.0, lambda: 0) is None
    assert backoff.wait(4, 1.0, lambda: 0) is None


async def run(outcomes, waits, *, retries=3, may_repeat=lambda: True):
    async def attempt():
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def sleep(seconds):
        waits.append(seconds)

    backoff = Backoff(retries=retries)
    return await with_retries(attempt, backoff=backoff, sleep=sleep, random=lambda: 0.5, may_repeat=may_repeat)


async def test_passing_failures_are_tried_again_with_growing_waits(waits):
    assert await run([Transient("a"), Transient("b"), "answer"], waits) == "answer"
    assert waits == [0.375, 0.75]


async def test_the_number_of_tries_is_bounded_and_told(waits):
    left = [Transient("busy.") for _ in range(9)]
    with pytest.raises(ProviderUnavailable, match=r"busy\. Attempted 3 times\."):
        await run(left, waits, retries=2)
    assert len(left) == 6


@pytest.mark.parametrize("error", [ProviderRefused("no"), ProviderUnavailable("500"), ValueError("bug")])
async def test_other_failures_are_not_tried_again(waits, error):
    with pytest.raises(type(error)):
        await run([error, "answer"], waits)
    assert waits == []


async def test_nothing_is_repeated_once_text_was_shown(waits):
    with pytest.raises(ProviderUnavailable):
        await run([Transient("cut"), "answer"], waits, may_repeat=lambda: False)
    assert waits == []
