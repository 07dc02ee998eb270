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
