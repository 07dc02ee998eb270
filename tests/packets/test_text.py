import pytest

from coilclaw.packets.text import one_line, visible


@pytest.mark.parametrize(
    "character",
    [
        "\x00",
        "\x1b",
        "\x7f",
        "\x9b",
        "\u200b",
        "\u202e",
        "\u2066",
        "\ufeff",
        "\u3164",
        "\u2800",
        "\u115f",
        "\ufe0f",
        "\u034f",
        "\u00a0",
    ],
)
def test_what_could_hide_or_move_text_is_shown_by_its_number(character):
    assert visible(f"a{character}b") == f"a⟨U+{ord(character):04X}⟩b"


@pytest.mark.parametrize("text", ["plain", "Grüße, 你好, עברית, 🙂", "a\tb\nc"])
def test_ordinary_text_is_left_alone(text):
    assert visible(text) == text


@pytest.mark.parametrize("number", [*range(32), 127])
def test_every_control_of_a_run_is_shown_by_its_number(number):
    run = f"a{chr(number) * 2}\x1b{chr(number)}z"
    shown = f"⟨U+{number:04X}⟩"
    assert visible(run, lines=False) == f"a{shown}{shown}⟨U+001B⟩{shown}z"
    assert visible(run) == (run.replace("\x1b", "⟨U+001B⟩") if chr(number) in "\n\t" else visible(run, lines=False))


def test_a_line_stays_one_line():
    assert one_line("a\nb") == "a⟨U+000A⟩b"


def test_accents_stay_and_marks_that_cover_or_pile_up_are_shown():
    assert visible("é n\u0303 한 नि") == "é n\u0303 한 नि"
    assert visible("a\u0336b") == "a⟨U+0336⟩b"
    assert visible("a" + "\u0300" * 5) == "a" + "\u0300" * 3 + "⟨U+0300⟩" * 2
