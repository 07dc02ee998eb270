"""The redactor as a filter, beside a plain copy of the same stream in the same pieces."""

import io
import random
from collections.abc import Iterator

from bench.rounds import timed, timings
from bench.row import Plan, Row, beside
from coilclaw.secrets.redactor import CHUNK, Redactor

TEXT = (
    "the request was sent to worker and returned status after a retry because connection closed by peer while reading"
    " response header from upstream client server host path user session cache entry expired updated token count"
)
WORDS = TEXT.split()


def _prose(source: random.Random, size: int) -> bytes:
    """Ordinary text."""
    made: list[str] = []
    while sum(map(len, made)) < size // 64:
        made.append(" ".join(source.choices(WORDS, k=14)) + ".\n")
    return _repeated("".join(made), size)


def _log(source: random.Random, size: int) -> bytes:
    """Lines of a service: times, levels, fields, paths, hashes that must pass unharmed."""
    made = [
        f"2026-03-01T12:{number % 60:02d}:07.{number % 1000:03d}Z INFO request_id={source.getrandbits(128):032x}"
        f" method=GET path=/v1/items/{number} status=200 bytes={source.randrange(10**6)}"
        f' user_agent="Mozilla/5.0 (X11; Linux x86_64)" sha256={source.getrandbits(256):064x}\n'
        for number in range(300)
    ]
    return _repeated("".join(made), size)


def _secrets(source: random.Random, size: int) -> bytes:
    """Log lines of which every tenth holds something to take out."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    made: list[str] = []
    for number in range(300):
        value = "".join(source.choices(letters, k=36))
        secret = (f"Authorization: Bearer {value}", f"ghp_{value}", f'"password": "{value}"')[number // 10 % 3]
        made.append(f"{number} {secret}\n" if number % 10 == 0 else " ".join(source.choices(WORDS, k=14)) + "\n")
    return _repeated("".join(made), size)


def _repeated(text: str, size: int) -> bytes:
    data = text.encode()
    return data * (size // len(data) + 1)


def _copy(data: bytes) -> None:
    source, sink = io.BytesIO(data), io.BytesIO()
    while piece := source.read1(CHUNK):
        sink.write(piece)
        sink.flush()


def measure(plan: Plan) -> Iterator[Row]:
    """Three kinds of stream, with ten registered secrets that do not occur."""
    source = random.Random(7)
    size = plan.size(2_000_000, 200_000)
    redactor = Redactor((f"KEY_{number}", f"{source.getrandbits(200):x}") for number in range(10))
    kinds = {"ordinary text": _prose, "service log": _log, "log with secrets": _secrets}
    streams = {name: make(source, size) for name, make in kinds.items()}
    for name, data in streams.items():
        found = timings(
            {
                "copy": timed(lambda data=data: _copy(data), 10),
                "filter": timed(lambda data=data: redactor.filter(io.BytesIO(data), io.BytesIO())),
            },
            min(plan.rounds, 9),
        )
        rate, plain = (len(data) / found[side].median / 1e6 for side in ("filter", "copy"))
        megabytes = len(data) / 1e6
        yield beside(
            "redactor", f"redactor, {name} ({megabytes:.1f} MB)", "ms", found["filter"].scaled(1e3), "plain copy",
            found["copy"].scaled(1e3), note=f"{rate:.1f} MB/s, copy {plain:.0f} MB/s",
        )  # fmt: skip
