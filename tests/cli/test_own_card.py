"""What the owner wrote instead of a card is done without a second question, and nothing else is."""

import pytest

from coilclaw.cli.card_text import is_own
from coilclaw.packets.card import Card


def card(**fields):
    given = {
        "action_id": "act_1",
        "tool_name": "shell",
        "human_summary": "Run it.",
        "target_entity": "x",
        "risk_class": "WRITE",
        "risk": "R2",
        "risk_word": "medium",
        "lane": "A",
        "preview_or_diff": "",
        "source_type": "chat",
        "expires_at": "",
        "reasons": ("Supervised.",),
        "provenance": (),
        "digest": "0" * 64,
        "args": '{"command":"mine"}',
    }
    return Card(**given | fields)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "fields",
    [
        {"args": '{"command":"other"}'},
        {"tool_name": "file_write"},
        {"lane": "B"},
        {"lane": "C"},
        {"reasons": ("Supervised.", "It cannot be undone.")},
        {"provenance": ("untrusted:web",)},
    ],
)
def test_only_just_what_the_owner_wrote_needs_no_second_yes(fields):
    before = card(args='{"command":"theirs"}')
    assert is_own(card(), before, b'{"command":"mine"}')
    assert not is_own(card(**fields), before, b'{"command":"mine"}')
