"""Recordings: what was written is read again, torn ends are cut, the cap holds, gaps are said."""

import json
import os
import resource
import signal

import pytest

from coilclaw.features.runner.recording import LARGEST_FRAME, Recording

MOST = 16 << 20


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sessions" / "sess_1" / "terminal.rec"


@pytest.fixture
def opened():
    """Opens recordings; a crash does not close them, the end of the test does."""
    made = []

    def opened(path, most=MOST):
        made.append(Recording(path, most=most))
        return made[-1]

    yield opened
    for recording in made:
        recording.close()


def test_recording_goes_on_where_it_ended(path, opened):
    first = opened(path)
    first.resize(0, 24, 80)
    first.output(5, 7, b"hello\r\n")
    first.close()
    again = opened(path)
    assert (again.raw_offset, again.offset, again.ms) == (7, 7, 5)
    again.output(9, 20, b"[redacted:db]\r\n")
    assert again.offset == 22
    assert again.tail(100) == (0, b"hello\r\n[redacted:db]\r\n")
    assert again.tail(4) == (18, b"b]\r\n")
    assert again.text() == "hello\n[redacted:db]\n"


def test_only_the_owner_may_read_it(path, opened):
    opened(path).close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_link_in_its_place_is_refused(path, tmp_path, opened):
    path.parent.mkdir(parents=True)
    (tmp_path / "other").write_bytes(b"precious")
    path.symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        opened(path)
    assert (tmp_path / "other").read_bytes() == b"precious"


def test_torn_frame_is_cut_wherever_it_tears(path, opened):
    recording = opened(path)
    recording.output(1, 5, b"first")
    whole = path.stat().st_size
    recording.output(2, 11, b"second")
    recording.close()
    data = path.read_bytes()
    for size in range(whole, len(data)):
        path.write_bytes(data[:size])
        again = opened(path)
        assert (again.raw_offset, again.offset) == (5, 5)
        again.output(3, 10, b"other")
        again.close()
        assert opened(path).text() == "firstother"


def test_garbage_in_its_place_becomes_a_new_recording(path, opened):
    path.parent.mkdir(parents=True)
    path.write_bytes(os.urandom(100))
    recording = opened(path)
    recording.output(1, 2, b"ok")
    assert opened(path).text() == "ok"


def test_cap_drops_the_older_half_and_says_so(path, opened):
    recording = opened(path, most=4 * LARGEST_FRAME)
    recording.resize(0, 30, 100)
    for number in range(1000):
        recording.output(number, (number + 1) * 1024, b"%07d\n" % number * 128)
        assert path.stat().st_size <= 8 * LARGEST_FRAME + 2048  # it is written on while the half is copied
    recording.sync()
    assert not path.with_name("terminal.rec.new").exists()
    assert recording.offset == recording.raw_offset == 1000 * 1024
    first, *rest = recording.frames()
    assert first.kind == "gap"
    assert rest[0].kind == "resize"
    assert first.offset == rest[1].offset > 0
    assert recording.tail(8) == (1000 * 1024 - 8, b"0000999\n")
    again = opened(path)
    assert (again.offset, again.raw_offset) == (recording.offset, recording.raw_offset)
    assert again.text().startswith("\n[")


def test_what_is_added_while_the_older_half_is_dropped_follows_it(path, opened):
    recording = opened(path, most=4 * LARGEST_FRAME)
    frame = b"x" * 1023 + b"\n"
    while recording._halving is None:
        recording.output(1, recording.raw_offset + 1024, frame)
    thread, _ = recording._halving
    recording.output(2, recording.raw_offset + 6, b"added\n")
    thread.join()
    recording.output(3, recording.raw_offset + 4, b"end\n")
    assert recording._halving is None
    kept = [each for each in recording.frames() if each.kind == "output"]
    assert [each.data for each in kept[-2:]] == [b"added\n", b"end\n"]
    places = [each.offset for each in kept]
    assert [each.offset + len(each.data) for each in kept[:-1]] == places[1:]
    assert opened(path).offset == recording.offset


def test_large_output_is_cut_into_frames(path, opened):
    recording = opened(path)
    recording.output(1, 200_000, b"x" * 200_000)
    assert [len(frame.data) for frame in recording.frames()] == [LARGEST_FRAME] * 3 + [200_000 - 3 * LARGEST_FRAME]
    assert opened(path).raw_offset == 200_000


def test_clock_that_jumps_back_does_not_reorder_frames(path, opened):
    recording = opened(path)
    for ms in (10, 5, 2**40):
        recording.output(ms, 1, b"x")
    assert [frame.ms for frame in recording.frames()] == [10, 10, 2**32 - 1]


def test_full_disk_is_a_gap_and_not_the_end(path, opened):
    recording = opened(path)
    recording.output(1, 5, b"first")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (recording.size + 10, hard))  # the next frame fits only in part
        recording.output(2, 11, b"second")
        assert recording.failed
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert (recording.raw_offset, recording.offset) == (11, 11)
    recording.output(3, 16, b"third")
    assert recording.text() == "first\n[11 bytes missing]\nthird"
    again = opened(path)
    assert (again.raw_offset, again.offset) == (16, 16)


def test_asciicast_has_its_size_its_output_and_its_gaps(path, opened):
    recording = opened(path)
    recording.resize(0, 30, 100)
    recording.output(1500, 3, "é\n".encode())
    recording.gap(2000, 10)
    recording.resize(2500, 40, 120)
    lines = [json.loads(line) for line in recording.asciicast()]
    assert lines == [
        {"version": 2, "width": 100, "height": 30},
        [0.0, "r", "100x30"],
        [1.5, "o", "é\n"],
        [2.0, "o", "\r\n[7 bytes missing]\r\n"],
        [2.5, "r", "120x40"],
    ]


def test_text_has_no_sequences(path, opened):
    recording = opened(path)
    recording.output(1, 5, b"\x1b[31mred\x1b]0;title\x07 \x1b[0")
    recording.output(2, 9, b"mend\r\n")
    assert recording.text() == "red end\n"
