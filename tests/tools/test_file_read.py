"""file_read: whole files, ranges of large ones, and pictures."""

import hashlib

import pytest

from coilclaw.packets.pictures import MAX_PICTURE

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


async def read(home, **args):
    return (await home.call("file_read", key=str(args), **args)).result


async def test_a_small_file_is_read_whole_to_the_byte(sample):
    home = sample()
    text = "one\r\ntwo\n" + "x" * 9000
    (home.workspace / "a.txt").write_bytes(text.encode())
    result = await read(home, path="a.txt")
    assert result.output == text
    assert result.metadata == {"bytes": len(text), "lines": 3}


async def test_lines_are_counted_and_numbered(sample):
    home = sample()
    (home.workspace / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 101)))
    result = await read(home, path="a.txt", offset=10, limit=2, numbers=True)
    assert result.output == "    10\tline 10\n    11\tline 11\n[lines 10 to 11 of 100. Go on with offset 12.]"
    assert (await read(home, path="a.txt", offset=100)).output == "line 100\n[lines 100 to 100 of 100.]"


async def test_the_whole_file_with_numbers(sample):
    home = sample()
    (home.workspace / "a.txt").write_text("one\ntwo\n")
    assert (await read(home, path="a.txt", numbers=True)).output == "     1\tone\n     2\ttwo"


async def test_a_line_that_does_not_exist_is_an_error(sample):
    home = sample()
    (home.workspace / "a.txt").write_text("one\ntwo")
    result = await read(home, path="a.txt", offset=3)
    assert result.code == "FILE_RANGE"
    assert "has 2 lines" in result.output


async def test_of_a_large_file_the_beginning_is_read_and_how_to_continue(sample):
    home = sample()
    with (home.workspace / "big.log").open("wb") as file:
        for number in range(200_000):
            file.write(b"entry %d of a long log\n" % number)
    result = await read(home, path="big.log")
    assert result.output.startswith("entry 0 of")
    assert result.output.endswith("[lines 1 to 2000 of 200000. Go on with offset 2001.]")
    assert "entry 150000 of" in (await read(home, path="big.log", offset=150_001, limit=1)).output


async def test_a_long_line_is_cut_with_a_word(sample):
    home = sample()
    (home.workspace / "min.js").write_text("é" * 300_000 + "\nshort\n")
    result = await read(home, path="min.js", limit=5)
    first, second, _ = result.output.split("\n")
    assert first == "é" * 2000 + " … [cut: the line has 600001 bytes]"
    assert second == "short"


async def test_a_result_is_bounded_in_bytes(sample):
    home = sample()
    (home.workspace / "wide.txt").write_text(("x" * 1999 + "\n") * 400)
    result = await read(home, path="wide.txt", limit=400)
    assert len(result.output) < 257 * 1024
    assert "[lines 1 to 131 of 400. Go on with offset 132.]" in result.output


@pytest.mark.parametrize("args", [{}, {"offset": 1, "limit": 5}])
async def test_what_is_not_text_is_reported(sample, args):
    home = sample()
    (home.workspace / "x.bin").write_bytes(b"abc\n\xff\xfe\n")
    assert (await read(home, path="x.bin", **args)).code == "FILE_NOT_TEXT"


async def test_bytes_that_are_no_text_far_into_a_large_file(sample):
    home = sample()
    (home.workspace / "x.bin").write_bytes(b"text\n" * 100_000 + b"\xff\n")
    assert (await read(home, path="x.bin", offset=100_001)).code == "FILE_NOT_TEXT"


async def test_a_picture_is_named_by_place_and_hash(sample):
    home = sample()
    (home.workspace / "pics").mkdir()
    (home.workspace / "pics" / "a.txt").write_bytes(PNG)
    result = await read(home, path="./pics/../pics/a.txt")
    assert result.output == f"./pics/../pics/a.txt: a PNG picture, {len(PNG)} bytes."
    assert result.metadata["picture"] == {
        "path": "pics/a.txt",
        "sha256": hashlib.sha256(PNG).hexdigest(),
        "media_type": "image/png",
        "size": len(PNG),
    }


async def test_a_picture_that_is_too_large_is_reported_in_one_line(sample):
    home = sample()
    (home.workspace / "a.png").write_bytes(PNG + bytes(MAX_PICTURE))
    result = await read(home, path="a.png")
    assert "too large to look at" in result.output
    assert "picture" not in result.metadata
