"""Live sessions: redacted before anybody sees it, found again after a crash, slow readers skipped alone."""

import asyncio

import pytest

from coilclaw.features.runner.live import PAUSE_SECONDS, PRIMING, RING, SMALL, WINDOW, LiveSession
from coilclaw.features.runner.recording import Recording
from coilclaw.secrets.redactor import Redactor

VALUE = "hunTer2/xy+Zq9k"


class Viewer:
    """A reader that keeps what it gets."""

    def __init__(self, live, offset=None):
        self.live = live
        self.woken = 0
        self.reader, self.prelude = live.join(self.wake, offset)
        self.data = b""
        self.missed = 0

    def wake(self):
        self.woken += 1

    def read(self, *, ack=True):
        while chunk := self.live.take(self.reader):
            self.data += b"" if chunk.missed else chunk.data
            self.missed += chunk.missed
            if ack:
                self.reader.ack(self.reader.offset)
        return self.data


@pytest.fixture
def path(tmp_path):
    return tmp_path / "terminal.rec"


@pytest.fixture
def opened():
    """Opens sessions; a killed server closes nothing, the end of the test does."""
    made = []

    def opened(path, *secrets):
        made.append(LiveSession("sess_1", Recording(path, most=16 << 20), Redactor(secrets), now=lambda: 0, seq=0))
        return made[-1]

    yield opened
    for live in made:
        live.recording.close()


async def until(condition):
    async with asyncio.timeout(280):
        while not condition():
            await asyncio.sleep(PAUSE_SECONDS / 4)


async def test_output_is_redacted_before_it_is_recorded_or_seen(path, opened):
    live = opened(path, ("db", VALUE))
    viewer = Viewer(live)
    live.feed(0, f"key {VALUE[:6]}".encode())
    live.feed(10, f"{VALUE[6:]}\r\n".encode())
    assert viewer.read() == b"key [redacted:db]\r\n"
    assert live.recording.text() == "key [redacted:db]\n"
    assert VALUE[:4].encode() not in path.read_bytes()


async def test_pause_releases_what_was_held_and_no_more_than_it_may(path, opened):
    live = opened(path, ("db", VALUE))
    viewer = Viewer(live)
    live.feed(0, b"$ hu")
    assert viewer.read() == b"$ "
    await until(lambda: viewer.read() == b"$ hu")
    live.feed(4, b"nTer")
    assert viewer.read() == b"$ hu"
    for _ in range(5):
        await asyncio.sleep(PAUSE_SECONDS)
    assert viewer.read() == b"$ hu"
    live.end()


async def test_late_join_gets_reset_modes_and_the_ring(path, opened):
    live = opened(path)
    live.feed(0, b"\x1b[?1049h\x1b[?2004;25h\x1b=")
    for number in range(RING * 3 // 1024):
        live.feed(17 + number * 1024, b"x" * 1023 + b"\n")
    viewer = Viewer(live)
    assert viewer.prelude == b"\x1bc\x1b[?1049h\x1b[?2004h\x1b[?25h\x1b="
    assert RING <= len(viewer.read()) <= RING + (64 << 10) + 1024


async def test_reader_goes_on_at_its_offset(path, opened):
    live = opened(path)
    live.feed(0, b"one two three")
    viewer = Viewer(live, 4)
    assert viewer.prelude == b""
    assert viewer.read() == b"two three"
    assert Viewer(live, 13).read() == b""
    assert Viewer(live, 14).prelude.startswith(b"\x1bc")  # it cannot have seen that


async def test_reader_that_never_acks_is_skipped_with_a_gap_and_others_are_not(path, opened):
    live = opened(path)
    deaf, quick = Viewer(live), Viewer(live)
    sent = 0
    while sent < 4 * WINDOW:
        live.feed(sent, b"y" * 32768)
        sent += 32768
        deaf.read(ack=False)
        quick.read()
    assert len(quick.data) == sent
    assert quick.missed == 0
    assert len(deaf.data) == WINDOW
    assert deaf.missed > 0
    assert len(deaf.data) + deaf.missed <= sent
    deaf.reader.ack(deaf.reader.offset)
    deaf.read()
    assert len(deaf.data) + deaf.missed == sent


async def test_readers_cost_no_buffers_of_their_own(path, opened):
    live = opened(path)
    viewers = [Viewer(live) for _ in range(50)]
    live.feed(0, b"z" * 32768)
    first = live.take(viewers[0].reader)
    assert first is not None
    assert all(live.take(viewer.reader).data is first.data for viewer in viewers[1:])
    for viewer in viewers:
        live.leave(viewer.reader)


async def test_many_small_pieces_are_kept_in_few(path, opened):
    live = opened(path)
    for number in range(20_000):
        live.feed(number * 2, b"x\n")
    assert len(live._ring) <= 2 + 40_000 // SMALL
    assert Viewer(live).read() == b"x\n" * 20_000


async def test_chunks_end_between_characters(path, opened):
    live = opened(path)
    live.feed(0, ("€" * 40000).encode())
    reader, _ = live.join(lambda: None)
    while chunk := live.take(reader):
        chunk.data.decode()


@pytest.mark.parametrize("cut", range(1, 60, 7))
async def test_killed_server_neither_loses_nor_doubles_nor_leaks(path, cut, opened):
    data = f"before {VALUE} sk-ant-api03Zq8Wm2Lp7Rt4Xy9KdQw after\r\n".encode()
    first = opened(path, ("db", VALUE))
    first.feed(0, data[:cut])
    again = opened(path, ("db", VALUE))  # the first is killed: nothing is closed
    assert again.attach_at == 0
    again.feed(0, data)
    again.end()
    assert again.recording.text() == "before [redacted:db] [redacted:anthropic] after\n"


async def test_killed_server_does_not_show_again_what_a_pause_released(path, opened):
    first = opened(path, ("db", VALUE))
    first.feed(0, b"$ hu")
    await until(lambda: first.offset == 4)
    again = opened(path, ("db", VALUE))
    again.feed(0, b"$ hu")
    again.feed(4, b"sh\r\n")
    again.end()
    assert again.recording.text() == "$ hush\n"


async def test_what_the_keeper_lost_is_a_gap_and_its_borders_are_not_shown(path, opened):
    first = opened(path, ("db", VALUE))
    first.feed(0, b"line\r\n" + VALUE[:8].encode())
    again = opened(path, ("db", VALUE))
    again.feed(2_000_000, VALUE[8:].encode() + b"\r\nrest\r\n")
    text = again.recording.text()
    assert "line" in text
    assert text.endswith("rest\n")
    assert "bytes missing" in text
    assert VALUE[8:] not in text
    assert VALUE[:6] not in text
    assert again.recording.raw_offset == 2_000_000 + len(VALUE[8:]) + 8
    assert again.attach_at == again.recording.raw_offset - PRIMING


async def test_ring_is_filled_again_from_the_recording(path, opened):
    first = opened(path)
    first.feed(0, b"\x1b[?1049h" + b"a" * 1000)
    again = opened(path)
    viewer = Viewer(again)
    assert viewer.read() == b"\x1b[?1049h" + b"a" * 1000


async def test_a_program_that_draws_on_the_normal_screen_is_asked_to_redraw_once_its_beginning_is_gone(path, opened):
    live = opened(path)
    live.feed(0, b"\x1b[?25l\x1b[?1004hdrawn.")
    assert not live.may_redraw()
    for number in range(8):
        live.feed(20 + number * (RING // 4), b"x" * (RING // 4))
    assert live.may_redraw()
    assert not live.may_redraw()  # not again at once
    shell = opened(path.with_name("other.rec"))
    for number in range(8):
        shell.feed(number * (RING // 4), b"x" * (RING // 4))
    assert not shell.may_redraw()


async def test_bulk_output_that_was_put_off_is_neither_lost_nor_doubled_by_a_crash(path, opened):
    data = b"".join(b"an ordinary line, number %d\r\n" % number for number in range(400)) + b"the last has no en"
    first = opened(path, ("db", VALUE))
    first.feed(0, data)
    assert first.recording.raw_offset == first.recording.offset < len(data)
    second = opened(path, ("db", VALUE))
    start = second.attach_at
    second.feed(start, data[start:] + b"d\r\n")
    second.end()
    assert b"".join(frame.data for frame in second.recording.frames()) == data + b"d\r\n"


@pytest.mark.parametrize("where", [0, 20_000, 39_900])
async def test_modes_set_within_bulk_output_are_followed(path, where, opened):
    line = b"a line of plain output, \x1b[32mgreen\x1b[0m\r\n"
    text = line * 1_000
    live, at = opened(path), where // len(line) * len(line)
    live.feed(0, text[:at] + b"\x1b[?2004h\x1b[?1049h" + text[at:])
    for number in range(1, 9):  # until the ring has lost it
        live.feed(number * len(text) + 16, text)
    live.settle()
    assert live.offset == 9 * len(text) + 16
    assert Viewer(live).prelude == b"\x1bc\x1b[?2004h\x1b[?1049h"


async def test_gap_in_bulk_output_loses_nothing_that_came_before_it(path, opened):
    data = b"".join(b"an ordinary line, number %d\r\n" % number for number in range(400)) + b"and a word "
    live = opened(path)
    live.feed(0, data)
    live.feed(len(data) + 100, b"after\r\n")
    live.end()
    assert live.recording.text().startswith(data.decode().replace("\r", "") + "\n[100 bytes missing]")
