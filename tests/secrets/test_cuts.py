"""Beside a gap stands no half of anything that a redactor would have known whole."""

import pytest

from coilclaw.secrets.cuts import REACH, after_gap, before_gap

KEY = b"".join(b"MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n" for _ in range(24))


def test_line_that_is_cut_goes_with_the_gap():
    assert before_gap(b"one\ntoken=sk-ab") == b"one\n"
    assert after_gap(b"cdef0123\ntwo\n") == b"two\n"


@pytest.mark.parametrize("cut", [10, 70, 500, len(KEY) - 1])
def test_rest_of_a_key_goes_too(cut):
    assert after_gap(KEY[cut:] + b"-----END PRIVATE KEY-----\nshown\n") == b"shown\n"


def test_line_without_an_end_loses_no_more_than_a_token_could_have():
    assert len(before_gap(b"x" * 3 * REACH)) == 2 * REACH
    assert len(after_gap(b"x" * 3 * REACH)) == 2 * REACH
    assert before_gap(b"x") == after_gap(b"x") == b""
