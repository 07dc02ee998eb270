"""Searches files in a process that can be killed: a model writes the expression, and the loop must not wait for it."""

import asyncio
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from coilclaw.packets.errors import ToolError
from coilclaw.packets.search import SearchedFile, SearchFound, SearchQuery

MOST_FILES = 100_000
MOST_BYTES = 512 << 20
MOST_ANSWER = 8 << 20
"""Maximum bytes of a result; the search ends there."""
GRACE_SECONDS = 3.0
"""Grace period after the program's own time limit, before it is killed."""


async def search_files(root: str, start: str, query: SearchQuery, hidden: tuple[str, ...]) -> SearchFound:
    """Search below a resolved path of a root, without hidden files. Cancelling kills the program."""
    top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lines, whole = await _run(top, _asked(start, query, hidden), query.seconds + GRACE_SECONDS)
    finally:
        os.close(top)
    return _found(lines, query, whole=whole)


def _asked(start: str, query: SearchQuery, hidden: tuple[str, ...]) -> bytes:
    limits = {"files": MOST_FILES, "bytes": MOST_BYTES, "path": start, "hidden": list(hidden)}
    return json.dumps({**msgspec.structs.asdict(query), **limits}).encode()


async def _run(top: int, query: bytes, seconds: float) -> tuple[list[dict[str, Any]], bool]:
    """The program's output lines, and whether it completed."""
    here = Path(__file__)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-B", str(here.with_name("search_program.py")), str(top), str(here.parents[2]),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        pass_fds=(top,), env={}, cwd="/", start_new_session=True,
    )  # fmt: skip
    answer = bytearray()
    try:
        async with asyncio.timeout(seconds):
            await _talk(process, query, answer)
            if len(answer) < MOST_ANSWER:
                await process.wait()  # it is ending: to kill it now could take its end from whoever waits for it
    except TimeoutError:
        pass
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
    *lines, _ = bytes(answer).split(b"\n")
    told = [json.loads(line) for line in lines]
    return told, bool(told) and "done" in told[-1]


async def _talk(process: asyncio.subprocess.Process, query: bytes, answer: bytearray) -> None:
    """Send the query and collect the result, as far as it gets."""
    assert process.stdin is not None  # noqa: S101 - both are pipes
    assert process.stdout is not None  # noqa: S101
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(query)
        await process.stdin.drain()
        process.stdin.close()
    while len(answer) < MOST_ANSWER and (piece := await process.stdout.read(1 << 16)):
        answer += piece


def _found(told: list[dict[str, Any]], query: SearchQuery, *, whole: bool) -> SearchFound:
    notes: list[str] = []
    counts: dict[str, int] = {}
    for each in told:
        if "invalid" in each:
            raise ToolError(
                f"the regular expression is not valid: {each['invalid']}.",
                remedy="Escape characters that are meant literally with a backslash.",
                code="PATTERN_INVALID",
                begun=False,
            )
        if "fault" in each:
            raise ToolError(f"{query.path} cannot be searched ({each['fault']}).", code="FILE_ERROR", begun=False)
        if "over" in each:
            notes.append(f"The search ended {each['over']}; there may be more.")
        counts = each.get("done", counts)
    if not whole:
        notes.append("The search had to be ended; there may be more.")
    if slow := counts.get("slow"):
        notes.append(f"The expression took too long for {slow} of the files; write a simpler one.")
    if counts.get("large"):
        notes.append(f"{counts['large']} files were too large to search.")
    files = tuple(msgspec.convert(each | {"path": each["file"]}, SearchedFile) for each in told if "file" in each)
    hid = not whole or counts.get("hidden", 0) > 0
    return SearchFound(files=files, notes=tuple(notes), looked_at=counts.get("files", 0), hid=hid)
