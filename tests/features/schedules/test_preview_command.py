"""schedule preview: what a cron expression means and when it runs next, alone or line by line."""

import json
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.features.schedules.commands.preview import LONGEST_LINE, answer_line, preview
from coilclaw.packets.errors import UsageError

DAILY = {"cron": "0 17 * * *", "timezone": "America/Los_Angeles", "after": "2026-02-23T20:10:00Z", "count": 3}
ANSWER = {
    "next_runs_utc": ["2026-02-24T01:00:00Z", "2026-02-25T01:00:00Z", "2026-02-26T01:00:00Z"],
    "next_runs_local": [
        "2026-02-23 5:00 PM America/Los_Angeles",
        "2026-02-24 5:00 PM America/Los_Angeles",
        "2026-02-25 5:00 PM America/Los_Angeles",
    ],
    "cron_summary": "Every day at 5:00 PM America/Los_Angeles.",
    "cron_notes": None,
}


def options(question: dict[str, Any]) -> list[str]:
    return [word for name, value in question.items() for word in (f"--{name}", str(value))]


def run(*arguments: str, text: str | bytes = "") -> str:
    done = CliRunner().invoke(preview, list(arguments), input=text, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def ask(**changed: Any) -> Any:
    question = {name: value for name, value in {**DAILY, **changed}.items() if value is not ...}
    return json.loads(answer_line(json.dumps(question).encode()))


def test_one_expression_is_answered_in_json():
    found = json.loads(run(*options(DAILY), "--json"))
    assert found == ANSWER
    assert list(found) == ["next_runs_utc", "next_runs_local", "cron_summary", "cron_notes"]


def test_one_expression_is_answered_for_people():
    shown = run(*options({**DAILY, "cron": "0 9 13 * 5"})).splitlines()
    assert shown[0] == "On the 13th of each month, and every Friday, at 09:00 (America/Los_Angeles)."
    assert shown[1].startswith("Note: Dates and weekdays both count")
    assert shown[2] == "  2026-02-27 9:00 AM America/Los_Angeles  (2026-02-27T17:00:00Z)"


def test_what_is_missing_is_named():
    with pytest.raises(UsageError, match="the cron expression is missing"):
        run(*options({name: value for name, value in DAILY.items() if name != "cron"}))


def test_without_a_zone_the_machines_is_taken_and_named(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    shown = run(*options({name: value for name, value in DAILY.items() if name != "timezone"}))
    assert "Asia/Tokyo" in shown


def test_lines_are_not_mixed_with_options():
    with pytest.raises(UsageError, match="with --stdin, everything"):
        run("--stdin", "--count", "3")


def test_every_line_has_an_answer_or_an_error_in_order():
    lines = [json.dumps(DAILY), "{", "", json.dumps({**DAILY, "cron": "@daily"}), json.dumps(DAILY)]
    found = [json.loads(line) for line in run("--stdin", text="\n".join(lines) + "\n").splitlines()]
    assert [list(answer) == ["error"] for answer in found] == [False, True, True, True, False]
    assert found[0] == found[-1] == ANSWER
    assert "Write 0 0 * * *" in found[3]["error"]


def test_the_last_line_needs_no_end_and_an_overlong_one_is_one_line():
    text = b"x" * (LONGEST_LINE * 3) + b"\n\xff\n" + json.dumps(DAILY).encode()
    found = [json.loads(line) for line in run("--stdin", text=text).splitlines()]
    assert ["error" in answer for answer in found] == [True, True, False]
    assert "longer than" in found[0]["error"]


@pytest.mark.parametrize(("changed", "words"), [
    ({"cron": ...}, "missing required field `cron`"),
    ({"timezone": ...}, "missing required field `timezone`"),
    ({"cron": 5}, "Expected `str`, got `int`"),
    ({"cron": None}, "Expected `str`"),
    ({"timezone": ["UTC"]}, "Expected `str`"),
    ({"count": "3"}, "got `str`"),
    ({"count": 1.5}, "got `float`"),
    ({"count": True}, "got `bool`"),
    ({"count": 0}, "1 to 1000"),
    ({"count": -1}, "1 to 1000"),
    ({"count": 1001}, "1 to 1000"),
    ({"count": 10**30}, "beyond"),
    ({"after": 5}, "got `int`"),
    ({"after": "yesterday"}, "RFC 3339"),
    ({"after": "2026-02-30T00:00:00Z"}, "RFC 3339"),
    ({"after": "2026-02-23T25:00:00Z"}, "RFC 3339"),
    ({"after": "2026-02-23T20:10:00+25:00"}, "RFC 3339"),
    ({"after": "2026-02-23"}, "RFC 3339"),
    ({"after": "٢٠٢٦-02-23T20:10:00Z"}, "RFC 3339"),
    ({"after": "2026-02-23T20:10:00"}, "no offset"),
    ({"after": "0001-01-01T00:00:00+14:00"}, "1800"),
    ({"after": "9999-12-31T23:59:59-12:00"}, "1800"),
    ({"timezone": "America/Los_Angles"}, "Did you mean America/Los_Angeles"),
    ({"zone": "UTC"}, "unknown field `zone`"),
    ({"cron": "0 0 30 2 *"}, "never run"),
])  # fmt: skip
def test_a_line_that_is_invalid_is_an_error(changed, words):
    found = ask(**changed)
    assert list(found) == ["error"]
    assert words in found["error"]


@pytest.mark.parametrize("line", [b"", b"null", b"[]", b'"x"', b"[" * 5000, b'{"cron":1,"cron":2}', b"NaN", b"\xff"])
def test_a_line_that_is_not_an_object_is_an_error(line):
    assert list(json.loads(answer_line(line))) == ["error"]


@pytest.mark.parametrize("after", [
    "2026-02-23T12:10:00-08:00", "2026-02-23t20:10:00z", "2026-02-23 20:10:00Z", "2026-02-23T20:10Z",
    "2026-02-23T20:10:00.123456789Z", "2026-02-24T05:10:00.5+09:00", " 2026-02-23T20:10:00+00:00 ",
])  # fmt: skip
def test_a_time_may_be_spelled_in_all_the_ways_of_rfc_3339(after):
    assert ask(after=after) == ANSWER


def test_the_defaults_are_five_runs_from_now_on():
    assert len(ask(after=..., count=...)["next_runs_utc"]) == 5
    assert len(ask(after=None, count=None)["next_runs_utc"]) == 5


def test_a_thousand_leap_days_are_answered():
    found = ask(cron="0 0 29 2 *", count=1000, after="2026-01-01T00:00:00Z")["next_runs_utc"]
    assert len(set(found)) == 1000


@given(st.binary(max_size=80))
def test_any_line_is_answered_with_one_line(line):
    answer = answer_line(line)
    assert b"\n" not in answer
    json.loads(answer)


@given(st.fixed_dictionaries(
    {"cron": st.text(max_size=20), "timezone": st.text(max_size=20)},
    optional={"after": st.text(max_size=30), "count": st.integers()},
))  # fmt: skip
def test_any_question_is_answered_with_one_line(question):
    answer = answer_line(json.dumps(question).encode())
    assert b"\n" not in answer
    json.loads(answer)
