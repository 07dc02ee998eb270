"""The event stream, cut anywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.providers.sse import EventReader


def read(*chunks: bytes) -> list[bytes]:
    reader = EventReader()
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    rest = reader.close()
    return events if rest is None else [*events, rest]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: one\ndata: two\n\n", [b"one\ntwo"]),
        (b": keep-alive\n\n: again\n\ndata: a\n\n", [b"a"]),
        (b"event: message\nid: 7\nretry: 10\ndata: a\n\n", [b"a"]),
        (b"data\n\n", [b""]),
        (b"data: \n\n", [b""]),
        (b"\n\n\ndata: a\n\n\n\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"data: [DONE]", [b"[DONE]"]),
        (b"data: a\n", [b"a"]),
        (b"database: no\ndata: a: b\n\n", [b"a: b"]),
        ("data: größe 🦀\n\n".encode(), ["größe 🦀".encode()]),
        (b"", []),
    ],
)
def test_events_are_read_as_the_standard_says(stream, events):
    assert read(stream) == events


lines = st.sampled_from([b"data: x", b"data:", b"data: [DONE]", b": c", b"id: 1", b"", "data: ü🦀".encode(), b"data"])
ends = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(st.lists(st.tuples(lines, ends), max_size=12), st.data())
def test_where_the_chunks_are_cut_changes_nothing(parts, data):
    end = data.draw(ends)  # one line end per stream, as servers write
    stream = b"".join(line + end for line, _ in parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    chunks = [stream[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(*chunks) == read(stream)


@given(st.lists(st.tuples(lines, ends), max_size=12), st.data())
def test_mixed_line_ends_survive_any_cut_as_well(parts, data):
    stream = b"".join(line + end for line, end in parts)
    assert read(*[stream[place : place + 1] for place in range(len(stream))]) == read(stream)


@given(st.binary(max_size=400))
def test_no_bytes_can_break_the_reader(noise):
    for event in read(noise):
        assert isinstance(event, bytes)


def test_a_stream_says_where_it_can_be_resumed_and_when() -> None:
    reader = EventReader()
    assert (reader.last_id, reader.retry_ms) == (b"", None)
    assert reader.feed(b"id: 1\nretry: 250\ndata: a\n\nid: 2\ndata: half") == [b"a"]
    assert (reader.last_id, reader.retry_ms) == (b"1", 250)
    assert reader.feed(b"\n\ndata: without an id\n\n") == [b"half", b"without an id"]
    assert reader.last_id == b"2"
    assert reader.feed(b"id: a\0b\nretry: soon\nretry: 99999999999\ndata: b\n\nid\n\n") == [b"b"]
    assert (reader.last_id, reader.retry_ms) == (b"", 250)
