"""Rows that must be blocked and rows that must pass, judged without any network."""

import json
from pathlib import Path
from typing import Any

import pytest

from coilclaw.airlock import Listing, check_row
from coilclaw.packets.errors import TransportError

ROWS = [json.loads(line) for line in (Path(__file__).parent.parent / "corpora" / "ssrf.jsonl").read_text().splitlines()]
LISTING = Listing.build(
    providers=[
        "https://api.example.net/v1",
        "http://127.0.0.1:11434/v1",
        "http://plain.example.net:8000/v1",
        "http://localhost:8765/v1",
        "http://127.0.0.1:8765/v1",
        "http://[::1]:8765/v1",
    ],
    allowed_domains=[
        "example.com",
        "*.example.org",
        "http://localhost:8080",
        "https://files.example.net:8443",
        "http://nas.lan:5000",
    ],
    own_ports=[8765],
)


def no_dns(host: str) -> tuple[str, ...]:
    raise TransportError(f"{host} was looked up", sent=False)


def asked(row: dict[str, Any]) -> bytes:
    return json.dumps({key: row[key] for key in ("url", "for", "answers", "chain") if key in row}).encode()


@pytest.mark.parametrize("row", ROWS, ids=[f"{n}-{row['kind']}" for n, row in enumerate(ROWS)])
def test_every_row_of_the_corpus_is_judged_as_it_must_be(row: dict[str, Any]) -> None:
    verdict = check_row(asked(row), LISTING, no_dns)
    assert verdict.verdict == row["expect"], verdict
    assert "code" not in row or verdict.code == row["code"], verdict
    assert verdict.url == row["url"]
    assert verdict.reason


def test_the_corpus_is_large_enough_to_mean_something() -> None:
    blocks = [row for row in ROWS if row["expect"] == "block"]
    assert len(blocks) >= 160
    assert len(ROWS) - len(blocks) >= 50
    assert {"static", "dns", "rebind", "redirect"} <= {row["kind"] for row in blocks}


@pytest.mark.parametrize(
    "row",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"{}",
        b'{"url": 1}',
        b'{"url": null}',
        b'{"url": "https://example.com/", "for": "anyone"}',
        b'{"url": "https://example.com/", "answers": ["93.184.215.14"]}',
        b'{"url": "https://example.com/", "answers": {"example.com": "93.184.215.14"}}',
        b'{"url": "https://example.com/", "chain": "https://example.com/"}',
        b'{"url": "https://example.com/", "url": "https://example.com/"}',
        b'{"url": "https://example.com/", "answers": {"example.com": ["1.1.1.1"], "example.com": ["1.1.1.1"]}}',
        b'{"url": "https://example.com/", "surprise": 1}',
        b'{"url": "https://example.com/\\ud800"}',
        b'{"url": "https://example.com/"} x',
        b"\xff\xfe",
        b'{"url": "' + b"a" * (1 << 20) + b'"}',
        b'{"chain":' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
def test_a_broken_row_is_a_block_and_never_an_error(row: bytes) -> None:
    verdict = check_row(row, LISTING, no_dns)
    assert (verdict.verdict, verdict.code) == ("block", "BAD_ROW")


def test_without_answers_a_name_is_looked_up_only_after_the_judge_let_it_through() -> None:
    looked_up: list[str] = []

    def resolve(host: str) -> tuple[str, ...]:
        looked_up.append(host)
        return ("93.184.215.14",)

    assert check_row(b'{"url": "https://printer.local/"}', LISTING, resolve).code == "LOCAL_NAME"
    assert check_row(b'{"url": "https://other.com/", "for": "http"}', LISTING, resolve).code == "NOT_LISTED"
    assert looked_up == []
    assert check_row(b'{"url": "https://example.com/"}', LISTING, resolve).address == "93.184.215.14"
    assert looked_up == ["example.com"]


def test_a_name_that_does_not_resolve_is_a_block() -> None:
    assert check_row(b'{"url": "https://example.com/"}', LISTING, no_dns).code == "NO_ADDRESS"
