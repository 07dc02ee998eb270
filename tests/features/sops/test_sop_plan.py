"""What comes next in a run: a pure rule over what is on record."""

import msgspec
import pytest

from coilclaw.features.sops.sop import Go, Over, Skip, Sop, Step, next_move
from coilclaw.store.sops import StepRow


def sop(*steps):
    return Sop(name="x", steps=tuple(steps))


def step(name, **more):
    return Step(id=name, kind="tool", tool="time", **more)


def row(name, state, position=0, **more):
    return StepRow(run_id="r", step_id=name, position=position, state=state, **{"attempt": 0, **more})


def move(made, *rows):
    return next_move(made, {each.step_id: each for each in rows})


A = step("a")


def test_the_first_step_comes_first():
    assert move(sop(A, step("b"))) == Go(position=0, attempt=0, failures=0)


def test_a_step_that_succeeded_is_not_begun_again():
    assert move(sop(A, step("b")), row("a", "SUCCEEDED")) == Go(position=1, attempt=0, failures=0)
    assert move(sop(A), row("a", "SUCCEEDED")).done


@pytest.mark.parametrize("state", ["RUNNING", "WAITING"])
def test_a_step_left_in_the_middle_continues_as_the_same_try(state):
    assert move(sop(A), row("a", state, attempt=2, failures=1)) == Go(position=0, attempt=2, failures=1)


def test_a_step_that_was_held_is_another_try_that_counts_for_nothing():
    assert move(sop(A), row("a", "HELD", attempt=0, failures=0)) == Go(position=0, attempt=1, failures=0)


def test_a_failed_step_ends_the_run_or_is_passed_over():
    assert move(sop(A, step("b")), row("a", "FAILED", code="X")) == Over(done=False, reason="Step a failed (X).")
    over = sop(step("a", on_failure="continue"), step("b"))
    assert move(over, row("a", "FAILED")) == Go(position=1, attempt=0, failures=0)
    end = move(over, row("a", "FAILED"), row("b", "SUCCEEDED"))
    assert end.done
    assert "the run continued: a" in end.reason


def test_a_failure_that_may_pass_is_tried_again_as_often_as_was_said():
    made = sop(step("a", retry=2))
    for failures in (1, 2):
        found = move(made, row("a", "FAILED", retriable=True, failures=failures, attempt=failures - 1))
        assert found == Go(position=0, attempt=failures, failures=failures)
    assert not move(made, row("a", "FAILED", retriable=True, failures=3, attempt=2)).done
    assert isinstance(move(made, row("a", "FAILED", retriable=False, failures=1)), Over)


@pytest.mark.parametrize("outcome", ["success", "failed", "skipped"])
@pytest.mark.parametrize("state", ["SUCCEEDED", "FAILED", "SKIPPED"])
def test_a_condition_holds_for_exactly_its_outcome(outcome, state):
    made = sop(step("a", on_failure="continue"), step("b", when=f"a.{outcome}"))
    holds = {"success": "SUCCEEDED", "failed": "FAILED", "skipped": "SKIPPED"}[outcome] == state
    found = move(made, row("a", state))
    assert found == (Go(position=1, attempt=0, failures=0) if holds else Skip(position=1))


def test_what_is_on_record_wins_over_a_condition():
    made = sop(A, step("b", when="a.failed"))
    done = move(made, row("a", "SUCCEEDED"), row("b", "SUCCEEDED"))
    assert done.done
    assert msgspec.structs.astuple(done)[0] is True
