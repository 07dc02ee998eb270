"""What a command writes while it runs: without secrets, without escapes, and never more than a bound."""

import asyncio
import secrets

from coilclaw.gate.live_output import EVERY_SECONDS, KEPT, LiveOutput
from coilclaw.gate.turn import Turn
from coilclaw.sandbox.fake_box import finished
from coilclaw.secrets.redactor import Redactor

VALUE = f"{secrets.token_hex(16)}-value"


def listening(*named):
    """Live output, and what it said."""
    said = []
    redactor = Redactor(named)
    return LiveOutput(redactor.stream, lambda offset, piece: said.append((offset, piece))), said


def words(said):
    return "".join(piece for _, piece in said)


async def test_escapes_are_shown_and_do_nothing():
    live, said = listening()
    live("stdout", b"\x1b]0;title\x07\x1b[2J\rhello\n")
    live.close()
    assert words(said) == "⟨U+001B⟩]0;title⟨U+0007⟩⟨U+001B⟩[2J⟨U+000D⟩hello\n"


async def test_secret_that_comes_in_pieces_is_not_shown():
    live, said = listening(("TOKEN", VALUE))
    for at in range(0, len(VALUE), 5):
        live("stdout", VALUE[at : at + 5].encode())
        live("stderr", b"a line of the other stream\n")
        live._flush()
    live.close()
    assert "[redacted:TOKEN]" in words(said)
    assert VALUE[:10] not in words(said).replace("a line of the other stream\n", "")


async def test_flood_is_bounded_and_what_is_left_out_is_reported():
    live, said = listening()
    chunk = b"\x1b" * (1 << 20)
    for _ in range(64):
        live("stdout", chunk)
    await asyncio.sleep(2 * EVERY_SECONDS)
    live("stdout", b"\nthe end\n")
    live.close()
    assert "bytes left out]" in words(said)
    assert words(said).endswith("the end\n")
    assert len(live.text) <= KEPT
    assert all(len(piece) < 100_000 for _, piece in said)
    assert len(words(said)) == live.length < 200_000


async def test_no_half_of_a_secret_stands_beside_what_was_left_out():
    live, said = listening(("TOKEN", VALUE))
    for _ in range(50):
        live("stdout", (VALUE + "\n").encode() * 2000)
        live._flush()
    live.close()
    shown = words(said)
    assert "bytes left out]" in shown
    assert not any(VALUE[at : at + 8] in shown for at in range(len(VALUE) - 8))


async def test_offsets_count_what_was_said():
    live, said = listening()
    for piece in ("one ", "zwö ", "three"):
        live("stdout", piece.encode())
        live._flush()
    live.close()
    told = 0
    for offset, piece in said:
        assert offset == told
        told += len(piece)
    assert words(said) == live.text == "one zwö three"


async def test_redaction_that_breaks_shows_nothing():
    class Broken:
        def feed(self, text):
            raise ValueError(text)

    said = []
    live = LiveOutput(Broken, lambda *piece: said.append(piece))
    live("stdout", b"a secret")
    live.close()
    assert said == []


async def test_command_is_watched_while_it_runs_and_forgotten_afterwards(sample):
    home = sample(security__autonomy="full")
    home.box._answer = lambda _: finished(b"built\n", stderr=b"a warning\n")
    heard = []
    with home.app.commands.watched(heard.append):
        outcome = await home.call("shell", turn=Turn("turn_1", "conv_1", "cli"), command="make")
    assert "".join(each.piece for each in heard) == "built\na warning\n"
    assert {(each.thread_id, each.turn_id, each.action_id) for each in heard} == {
        ("conv_1", "turn_1", outcome.action.action_id)
    }
    assert list(home.app.commands.so_far()) == []
