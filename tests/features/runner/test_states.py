"""The life of a session is a table: every pair of states is either on it or refused."""

from itertools import pairwise
from typing import get_args

import pytest

from coilclaw.features.runner.states import BEGINNING, ENDED, LIVE, EndCode, SessionState, may_follow, state_for

STATES = get_args(SessionState)


def test_the_states_are_those_of_the_document():
    assert set(STATES) == {
        "CREATED", "PREPARING_WORKSPACE", "STARTING_PROVIDER", "RUNNING", "WAITING_FOR_APPROVAL", "PAUSED_BY_HUMAN",
        "STOPPING", "COMPLETED", "FAILED",
    }  # fmt: skip


@pytest.mark.parametrize("before", sorted(ENDED))
def test_nothing_follows_an_end(before):
    assert not any(may_follow(before, after) for after in STATES)


def test_every_state_can_come_to_an_end():
    reached = set(ENDED)
    while more := {each for each in STATES if each not in reached and any(may_follow(each, one) for one in reached)}:
        reached |= more
    assert reached == set(STATES)


def test_a_session_runs_only_after_it_was_prepared_and_started():
    path = ("CREATED", "PREPARING_WORKSPACE", "STARTING_PROVIDER", "RUNNING")
    assert all(may_follow(before, after) for before, after in pairwise(path))
    assert not may_follow("CREATED", "RUNNING")
    assert not may_follow("PREPARING_WORKSPACE", "RUNNING")


def test_pausing_and_resuming_go_back_and_forth():
    assert may_follow("RUNNING", "PAUSED_BY_HUMAN")
    assert may_follow("PAUSED_BY_HUMAN", "RUNNING")
    assert not may_follow("STOPPING", "RUNNING")


def test_every_end_has_a_state_and_only_two_are_no_failure():
    states = {code: state_for(code) for code in get_args(EndCode)}
    assert {code for code, state in states.items() if state == "COMPLETED"} == {"EXITED", "STOPPED"}
    assert set(states.values()) == ENDED


def test_stored_states_are_each_beginning_living_or_ended():
    assert set(STATES) - {"WAITING_FOR_APPROVAL"} == BEGINNING | LIVE | ENDED
    assert not BEGINNING & LIVE
    assert not LIVE & ENDED
