"""What answers took is written down and added up by model, day and job."""

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.agent.spending import spent_on
from coilclaw.config import Price
from coilclaw.features.chat.turn_view import spent_words
from coilclaw.features.status.commands import cost_text
from coilclaw.features.status.usage_cost import bill, bills
from coilclaw.packets.chat import ChatRequest, ChatResponse, Usage
from coilclaw.store.usage import UsageRow, add_usage, day_began, tokens_of_job, tokens_since, usage_rows


def use(db, clock, *, model="m", job=None, tokens=(10, 5), estimated=False, cached=0):
    db.write_now(
        lambda tx: add_usage(
            tx,
            clock,
            thread_id="t",
            turn_id="u",
            job_id=job,
            provider="p",
            model=model,
            input_tokens=tokens[0],
            output_tokens=tokens[1],
            estimated=estimated,
            cached_tokens=cached,
        )
    )


def test_a_day_begins_at_midnight_utc():
    assert day_began(datetime(2026, 3, 1, 23, 59, tzinfo=UTC)) == "2026-03-01T00:00:00.000Z"
    assert day_began(datetime(2026, 3, 1, 0, 0, tzinfo=UTC), days_ago=1) == "2026-02-28T00:00:00.000Z"


def test_tokens_are_counted_by_day_and_by_job(db, clock):
    use(db, clock, job="job_1")
    clock.advance(days=1)
    use(db, clock, job="job_1", tokens=(100, 50))
    use(db, clock)
    assert tokens_since(db.reader, day_began(clock())) == 165
    assert tokens_since(db.reader, "") == 180
    assert tokens_of_job(db.reader, "job_1") == 165
    assert tokens_of_job(db.reader, "job_2") == 0


def test_a_provider_that_counts_backwards_lowers_nothing(db, clock):
    use(db, clock, tokens=(-1000, 5))
    assert tokens_since(db.reader, "") == 5


def test_usage_is_grouped_by_model_day_and_job(db, clock):
    use(db, clock, model="b", estimated=True)
    use(db, clock, model="a", job="job_1")
    clock.advance(days=1)
    use(db, clock, model="a")
    rows = usage_rows(db.reader, "", "model")
    assert [(r.group, r.answers, r.input_tokens, r.output_tokens, r.estimated) for r in rows] == [
        ("a", 2, 20, 10, 0),
        ("b", 1, 10, 5, 15),
    ]
    assert [(r.group, r.model) for r in usage_rows(db.reader, "", "day")] == [
        ("2026-03-01", "a"),
        ("2026-03-01", "b"),
        ("2026-03-02", "a"),
    ]
    assert [r.group for r in usage_rows(db.reader, "", "job")] == ["", "", "job_1"]
    assert [r.answers for r in usage_rows(db.reader, day_began(clock()), "model")] == [1]


def test_tokens_from_a_cache_are_kept_and_never_more_than_were_read(db, clock):
    use(db, clock, cached=4)
    use(db, clock, cached=-3)
    use(db, clock, cached=10_000)
    (kept,) = usage_rows(db.reader, "", "model")
    assert (kept.input_tokens, kept.cached_tokens) == (30, 14)
    assert bill("all", [kept], {}).cached_tokens == 14


def test_what_a_provider_says_of_its_cache_is_spent():
    request = ChatRequest(system_prompt="", messages=(), tools=(), model="m")
    answer = ChatResponse(final_text="x", provider="p", model="m", usage=Usage(input_tokens=10, cached_tokens=4))
    assert spent_on(request, answer).cached_tokens == 4
    assert spent_on(request, msgspec.structs.replace(answer, usage=None)).cached_tokens == 0


def row(model="m", tokens=(0, 0), group="g", cached=0):
    return UsageRow(
        group=group,
        model=model,
        answers=1,
        input_tokens=tokens[0],
        output_tokens=tokens[1],
        estimated=0,
        cached_tokens=cached,
    )


@pytest.mark.parametrize(
    ("tokens", "price", "cost"),
    [
        ((1_000_000, 0), Price(input_per_million=0.15), 150_000),
        ((1_000_000, 1_000_000), Price(input_per_million=2.5, output_per_million=10), 12_500_000),
        ((1, 0), Price(input_per_million=0.15), 0),
        ((4, 0), Price(input_per_million=0.15), 1),
        ((3, 0), Price(input_per_million=1e-9), 0),
        ((10**12, 10**12), Price(input_per_million=1e6, output_per_million=1e6), 2 * 10**18),
    ],
)
def test_a_cost_is_what_the_price_says(tokens, price, cost):
    assert bill("g", [row(tokens=tokens)], {"m": price}).cost_millionths == cost


@pytest.mark.parametrize(
    ("price", "cost"),
    [
        (Price(input_per_million=2.5), 2_500_000),
        (Price(input_per_million=2.5, cached_per_million=2.5), 2_500_000),
        (Price(input_per_million=2.5, cached_per_million=0.25), 700_000),
        (Price(input_per_million=2.5, cached_per_million=0), 500_000),
    ],
)
def test_tokens_from_a_cache_cost_what_their_price_says_and_else_as_any_token_read(price, cost):
    assert bill("g", [row(tokens=(1_000_000, 0), cached=800_000)], {"m": price}).cost_millionths == cost


def test_the_words_of_a_conversation_count_its_cached_tokens_at_their_price(sample):
    app = sample(prices={"m": Price(input_per_million=2.0, cached_per_million=0.5, output_per_million=4.0)}).app
    use(app.db, app.clock, tokens=(1_000_000, 500_000), cached=800_000)
    assert spent_words(app, "", "t") == "1,500,000 tokens (800,000 cached), 2.8000"


def test_a_model_without_a_price_is_told_and_not_guessed():
    prices = {"a": Price(input_per_million=1)}
    unknown = bill("g", [row("b", (5, 5))], prices)
    assert (unknown.cost_millionths, unknown.unpriced_tokens, cost_text(unknown)) == (None, 10, "-")
    mixed = bill("g", [row("a", (1_234_567, 0)), row("b", (1, 1))], prices)
    assert cost_text(mixed) == "≥ 1.2346"
    assert cost_text(bill("g", [row("a", (1_234_567, 0))], prices)) == "1.2346"
    assert cost_text(bill("g", [row("a")], prices)) == "0.0000"


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 10**9), st.integers(0, 10**9)), max_size=20),
    st.dictionaries(st.sampled_from("ab"), st.floats(0, 1000)),
)
def test_the_parts_of_a_bill_add_up_however_they_are_grouped(rows, rates):
    prices = {model: Price(input_per_million=rate, output_per_million=rate) for model, rate in rates.items()}
    used = [row(model, (one, two), group=str(one % 3)) for model, one, two in rows]
    total = bill("total", used, prices)
    parts = bills(used, prices, str)
    assert sum(part.input_tokens for part in parts) == total.input_tokens
    assert sum(part.unpriced_tokens for part in parts) == total.unpriced_tokens
    added = sum(part.cost_millionths or 0 for part in parts)
    assert abs(added - (total.cost_millionths or 0)) <= len(parts)  # each is rounded once
