"""The life of a job: every move that may be made, and none other."""

from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.features.jobs.lifecycle import COARSE, TRANSITIONS, WrongMove, move
from coilclaw.packets.job import ENDED, CoarseState, JobState

STATES = get_args(JobState)


def go(state, to, *, paused_from=None, reason="why", evidence=("art_1",)):
    return move(state, to, paused_from=paused_from, reason=reason, evidence=evidence)


def test_every_state_has_its_moves_and_its_coarse_view():
    assert set(TRANSITIONS) == set(COARSE) == set(STATES)
    assert set(COARSE.values()) == set(get_args(CoarseState))


@pytest.mark.parametrize("path", [
    ["RECEIVED", "PARSED", "POLICY_CHECKED", "PLANNED", "EXECUTING", "DONE"],
    ["EXECUTING", "WAITING_APPROVAL", "EXECUTING", "DONE"],
    ["EXECUTING", "PR_OPENED", "WAITING_APPROVAL", "MERGED", "DEPLOYED", "DONE"],
    ["PARSED", "DENIED"],
])  # fmt: skip
def test_the_ways_a_job_may_go(path):
    for state, to in pairwise(path):
        assert go(state, to) is None


@pytest.mark.parametrize("state", sorted(ENDED))
@pytest.mark.parametrize("to", STATES)
def test_what_has_ended_stays_ended(state, to):
    with pytest.raises(WrongMove):
        go(state, to)


@pytest.mark.parametrize("state", sorted(set(STATES) - ENDED))
@pytest.mark.parametrize("to", ["FAILED", "CANCELLED", "TIMED_OUT"])
def test_everything_that_continues_can_fail(state, to):
    assert go(state, to, paused_from="EXECUTING") is None


@pytest.mark.parametrize("to", sorted(ENDED))
@pytest.mark.parametrize(("reason", "evidence"), [("", ("a",)), ("why", ()), ("", ())])
def test_an_end_needs_a_reason_and_evidence(to, reason, evidence):
    state = "PARSED" if to == "DENIED" else "EXECUTING"
    with pytest.raises(WrongMove):
        go(state, to, reason=reason, evidence=evidence)


@pytest.mark.parametrize("state", sorted(set(STATES) - ENDED - {"PAUSED_BUDGET"}))
def test_a_pause_returns_to_where_it_was(state):
    assert go(state, "PAUSED_BUDGET") == state
    assert go("PAUSED_BUDGET", state, paused_from=state) is None
    for other in set(STATES) - ENDED - {state}:
        with pytest.raises(WrongMove):
            go("PAUSED_BUDGET", other, paused_from=state)


@given(st.sampled_from(STATES), st.lists(st.sampled_from(STATES), max_size=12))
def test_no_sequence_of_moves_leads_out_of_an_end(state, wanted):
    paused_from = None
    ended = state in ENDED
    for to in wanted:
        try:
            paused_from = go(state, to, paused_from=paused_from)
        except WrongMove:
            continue
        assert not ended
        assert (paused_from is not None) == (to == "PAUSED_BUDGET")
        state, ended = to, to in ENDED
