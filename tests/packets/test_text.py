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


def test_a_line_stays_one_line():
    assert one_line("a\nb") == "a⟨U+000A⟩b"


def test_accents_stay_and_marks_that_cover_or_pile_up_are_shown():
    assert visible("é n\u0303 한 नि") == "é n\u0303 한 नि"
    assert visible("a\u0336b") == "a⟨U+0336⟩b"
    assert visible("a" + "\u0300" * 5) == "a" + "\u0300" * 3 + "⟨U+0300⟩" * 2
