"""Checkpoints across versions: read, migrated, or refused with a reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.features.jobs.checkpoint import (
    MIGRATIONS,
    VERSION,
    Checkpoint,
    CheckpointRefused,
    read_checkpoint,
    write_checkpoint,
)

FROZEN_V1 = (
    b'{"version":1,"step":7,"position":1,"tokens":1234,"calls":9,"fresh":["untrusted:web.example"],'
    b'"inherited":["untrusted:mail"],"waiting":["act_1"]}'
)
"""As the first version wrote it. It must be readable for ever: never change these bytes."""


def test_a_checkpoint_of_the_first_version_is_still_understood():
    read = read_checkpoint(FROZEN_V1)
    assert (read.step, read.position, read.tokens, read.calls) == (7, 1, 1234, 9)
    assert read.fresh == ("untrusted:web.example",)
    assert read.inherited == ("untrusted:mail",)
    assert read.waiting == ("act_1",)
    assert read.version == VERSION
    assert read.label == "untrusted:mail,web.example"


def test_every_version_since_the_first_has_its_way_up():
    assert set(MIGRATIONS) == set(range(1, VERSION))


def test_an_older_checkpoint_is_migrated_step_by_step():
    older = b'{"version":-1,"round":3,"taint":["untrusted:web"]}'

    def renamed(fields):
        return {"step": fields["round"], "taint": fields["taint"]}

    def split(fields):
        return {"step": fields["step"], "fresh": fields["taint"]}

    read = read_checkpoint(older, {-1: renamed, 0: split})
    assert read == Checkpoint(step=3, fresh=("untrusted:web",))


@pytest.mark.parametrize(("data", "words"), [
    (b'{"version":2,"step":1}', "newer CoilClaw"),
    (b'{"version":99}', "newer CoilClaw"),
    (b'{"version":0,"step":1}', "there is no migration"),
    (b'{"step":1}', "has no version"),
    (b'{"version":"1"}', "has no version"),
    (b'{"version":true}', "has no version"),
    (b'{"version":1,"step":"x"}', "does not match"),
    (b'{"version":1,"surprise":1}', "does not match"),
    (b'{"version":1,"version":1}', "cannot be read"),
    (b"\x80\x04pickle", "cannot be read"),
    (b"", "cannot be read"),
    (b"[]", "cannot be read"),
])  # fmt: skip
def test_what_cannot_be_understood_is_refused_with_a_reason(data, words):
    with pytest.raises(CheckpointRefused, match=words):
        read_checkpoint(data)


labels = st.lists(st.sampled_from(["untrusted:a", "untrusted:b", "untrusted:c"]), unique=True).map(tuple)


@given(
    st.builds(
        Checkpoint,
        step=st.integers(0, 10**6), position=st.integers(0, 100), tokens=st.integers(0, 10**9),
        fresh=labels, inherited=labels, waiting=st.lists(st.text(max_size=30)).map(tuple),
    )
)  # fmt: skip
def test_what_is_written_is_read_back(checkpoint):
    assert read_checkpoint(write_checkpoint(checkpoint)) == checkpoint
