"""The corpus: secrets kept in parts, so that the file itself holds none, and near misses that must pass untouched."""

import json
from pathlib import Path

import pytest

from coilclaw.secrets.redactor import Redactor

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "corpora" / "secrets.jsonl").read_text(encoding="utf-8").splitlines()
]
SECRETS = [row for row in ROWS if "parts" in row]
BENIGN = [row["benign"] for row in ROWS if "benign" in row]
SLICE = 8


def planted(row: dict[str, object]) -> tuple[str, str]:
    """The secret of a row, and the text it stands in."""
    secret = "".join(row["parts"])
    return secret, row["context"].replace("@@", secret, 1)


def leaks(secret: str, shown: str, size: int = SLICE) -> bool:
    """Whether any slice of the secret is still to be seen."""
    size = min(size, len(secret))
    return any(secret[at : at + size] in shown for at in range(len(secret) - size + 1))


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def streamed(redactor: Redactor, chunks: list[str]) -> tuple[str, str]:
    """What a stream showed before and after it was closed."""
    stream = redactor.stream()
    before = "".join(stream.feed(chunk) for chunk in chunks)
    return before, before + stream.close()


def test_the_corpus_is_large_enough_and_holds_no_whole_token() -> None:
    assert len(SECRETS) >= 110
    assert len(BENIGN) >= 80
    assert all(len(part) <= 9 for row in SECRETS for part in row["parts"])


@pytest.mark.parametrize("row", SECRETS, ids=lambda row: f"{row['kind']}: {row['context'][:40]}")
def test_a_planted_secret_is_hidden_and_its_surroundings_stay(row: dict[str, object]) -> None:
    secret, text = planted(row)
    shown = Redactor().text(text)
    assert not leaks(secret, shown)
    assert "[redacted:" in shown
    kept = max(0, min(20, text.index(secret) - 16))
    assert shown[:kept] == text[:kept]


@pytest.mark.parametrize("text", BENIGN)
def test_a_near_miss_passes_byte_for_byte(text: str) -> None:
    assert Redactor().text(text) == text
    assert Redactor().text(f"before\n{text}\nafter") == f"before\n{text}\nafter"


def test_redacting_twice_is_redacting_once() -> None:
    redactor = Redactor()
    for row in SECRETS:
        once = redactor.text(planted(row)[1])
        assert redactor.text(once) == once


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 61])
def test_every_chunking_gives_what_the_whole_text_gives(size: int) -> None:
    redactor = Redactor()
    for text in [*(planted(row)[1] for row in SECRETS), *BENIGN]:
        before, after = streamed(redactor, cut(text, size))
        assert after == redactor.text(text)
        assert after.startswith(before)


def test_nothing_leaks_between_two_chunks_wherever_the_border_falls() -> None:
    redactor = Redactor()
    for row in SECRETS:
        secret, text = planted(row)
        start = text.index(secret)
        for border in range(start, start + len(secret), max(1, len(secret) // 12)):
            before, after = streamed(redactor, [text[:border], text[border:]])
            assert not leaks(secret, before)
            assert not leaks(secret, after)


def test_all_rows_in_one_text_are_hidden_and_no_near_miss_is_harmed() -> None:
    closed = [row for row in SECRETS if row["kind"] not in ("pem", "putty")]
    text = "\n".join([*(planted(row)[1] for row in closed), *BENIGN])
    shown = Redactor().text(text)
    assert not any(leaks(planted(row)[0], shown, 16) for row in closed)
    assert shown.endswith("\n".join(BENIGN))
