"""How much is read to decide: a hostile text makes little of it, and what is hidden is what the plain way hides."""

import random
import re
import string

import pytest

from coilclaw.secrets.context import Context
from coilclaw.secrets.context import _anchors as context_anchors
from coilclaw.secrets.redactor import Redactor
from coilclaw.secrets.shape_table import REACH, SHAPES, _row
from coilclaw.secrets.shapes import Shapes
from coilclaw.secrets.shapes import _anchors as shape_anchors
from coilclaw.secrets.stream_engine import Hit, StreamEngine, Window, sift
from tests.secrets.plain_shapes import PlainShapes
from tests.secrets.test_redactor_corpus import BENIGN, SECRETS, planted

HOSTILE = [
    "sk-a1b2-",
    "sk_a1b2_",
    "sk-abcdefgh-",
    "ghp_",
    "_ghp_",
    "api_key_",
    "sk_api_key_",
    "_sk-pat",
    "secret_sk_",
    "tskey-",
    "tskey-sk-",
    "sk-a1b2c3d4e5-ffffffff-",
    "-eyJ12345678",
    "eyJ12345678_",
    "eyJ12345678.",
    "EAAA_",
    "1Q~",
    "hooks.slack.com/services/",
    "AGE-PLUGIN-A-",
    "$6$a",
    "ya29.a-",
    "sk-ant-ffffffff-",
    "ntfy.sh/",
    "/hooks/",
    "a1.m.pipedream.net",
    "dp.st.",
    "12345678:AA",
    "/hooks/\n",
    "webhook.office.com/webhookb2/\n",
]
LETTERS = string.ascii_letters + string.digits
ALPHABETS = [LETTERS, LETTERS + "_-", LETTERS + "_-.", LETTERS + "+/=", "0123456789abcdef", "a1-", "abcd1_", "ab", "f"]
LENGTHS = [1, 3, 8, 10, 16, 20, 24, 26, 30, 36, 40, 43, 60, 64, 80, 130, 300, 800, 801, 2040, 2048, 2100]
PREFIXES = """
sk- sk_ sk-ant- sk-proj- ghp_ github_pat_ glpat- eyJ .eyJ cc_ xoxb- AKIA AIza ya29. SG. npm_ hf_ s. b. hvs. key- -1 xai-
AGE-SECRET-KEY-1 AGE-PLUGIN- $2b$10$ $argon2id$ $6$ 1//0 123456789: bot LS0tLS1CRUdJTiBQUkl oy2 dapi 1Q~ pat pat- ntn_
secret_ a_key_ a_live_ tskey- tskey-auth- dp.pt. sl. sk.eyJ. /webhooks/1234567890/ mfa. hooks.slack.com/services/ whsec_
webhook.office.com/webhookb2/ .atlasv1. EAAA EAA A3-ABCDEF- ffffffff SK AAAAabcdefg:APA91b lin_api_ ---- -----BEGIN
MTIzNDU2Nzg5MDEyMzQ1Njc4 ntfy.sh/ /hooks/ .m.pipedream.net dp.st. dp.st.dev. tk_ 12345678:AA
"""
PIECES = [*PREFIXES.split(), *"_-.:/=+~$ \n'@", "\r\n", "\n  "]


def repeated(unit: str, size: int) -> str:
    return (unit * (size // len(unit) + 1))[:size]


def mixture(rng: random.Random) -> str:
    """Prefixes, separators and real-looking tokens in any order, sometimes all over again."""
    parts: list[str] = []
    for _ in range(rng.choice([3, 8, 30])):
        chance = rng.random()
        if chance < 0.6:
            parts.append(rng.choice(PIECES))
        elif chance < 0.9:
            parts.append("".join(rng.choices(rng.choice(ALPHABETS), k=rng.choice(LENGTHS))))
        else:
            parts.append(planted(rng.choice(SECRETS))[0])
    return ("".join(parts) * rng.choice([1, 1, 1, 2, 12]))[:6_000]


def looked(layer: Shapes, text: str, chunk: int) -> int:
    """How many characters a layer reads for its decisions, per character of the text."""
    sieve = StreamEngine(layer)
    for at in range(0, len(text), chunk):
        sieve.feed(text[at : at + chunk])
    sieve.close()
    return sieve.looked // len(text)


@pytest.mark.parametrize("unit", HOSTILE)
def test_each_character_is_read_only_so_often(unit: str) -> None:
    assert looked(Shapes(), repeated(unit, 32_000), 32_000) <= 80


@pytest.mark.parametrize("unit", HOSTILE)
def test_lines_full_of_prefixes_are_read_only_so_often(unit: str) -> None:
    line = repeated(unit, 1_900) + "\n"
    assert looked(Shapes(), line * 10, 32_000) <= 220


@pytest.mark.parametrize("unit", HOSTILE)
def test_a_stream_of_small_chunks_is_read_hardly_more_often(unit: str) -> None:
    assert looked(Shapes(), repeated(unit, 12_000), 4) <= 100


class Asked(Context):
    """Counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def decide(self, window: Window, at: int) -> Hit | None:
        self.asked += 1
        return super().decide(window, at)


@pytest.mark.parametrize("start", ['password="', "Cookie: a=", "Authorization: Digest a=b,", "token = '"])
def test_a_value_without_end_is_not_asked_about_again_for_every_chunk(start: str) -> None:
    layer = Asked()
    sieve = StreamEngine(layer)
    text = start + "x; y=z " * 1_000
    for at in range(0, len(text), 4):
        sieve.feed(text[at : at + 4])
    assert layer.asked <= 60


def test_a_reader_of_everything_would_be_noticed() -> None:
    assert looked(PlainShapes(), repeated("sk-a1b2-", 32_000), 32_000) > 200


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if not shape.long], ids=lambda shape: shape.pattern[:30])
def test_no_head_is_longer_than_what_is_looked_at(shape) -> None:
    source = _row(0, shape).source
    assert re._parser.parse(source).getwidth()[1] < REACH


ANCHORS = [*shape_anchors(), *context_anchors()]
each_anchor = pytest.mark.parametrize("anchor", ANCHORS, ids=lambda each: each.source[:30])


@each_anchor
def test_a_text_without_the_first_character_of_an_anchor_has_no_place_for_it(anchor) -> None:
    kind, code = re._parser.parse(anchor.source)[0]
    assert (str(kind), code) == ("LITERAL", ord(anchor.first))
    assert re.compile(anchor.source, re.ASCII).flags & re.IGNORECASE == 0


TELLING = [
    "SK0123456789abcdef", "AGE ATATT3 ATCTT3 ATBB AKCp ASIA ABIA ACCA A3TX AIza A3-AB12CD-", "EZAK EZTK", "GR1348941",
    "1//0" + "a" * 30, "dapi" + "0" * 32, "oy2" + "a" * 43, "1Q~", "webhooks/0123456789", "Private-Lines: 8",
    "LTAI" + "a" * 16, "LS0tLS1CRUdJTiBQUkl", "-----BEGIN", "---- B", "hooks.slack.com/", "HOOKS.SLACK.COM/",
    "a key, token, cookie, password, otp, pwd, pat, pin, secret, credential, pin code, auth, au0026, bearer, basic",
    "identified by x", "http://u:p@h", r"http:\/\/u:p@h", "curl -u a:b --user c:d", "EAA" + "a" * 40,
]  # fmt: skip


@each_anchor
def test_an_anchor_matches_only_where_one_of_its_words_stands(anchor) -> None:
    pattern, met = re.compile(anchor.source, re.ASCII), 0
    for text in [*HOSTILE, *BENIGN, *TELLING, *(planted(row)[1] for row in SECRETS)]:
        for made in (text, text.upper(), text.lower(), text.swapcase(), text.title()):
            for found in pattern.finditer(made):
                met += 1
                around = made[max(0, found.start() - 16) : found.start() + 32]
                assert any(word in around for word in anchor.words)
    assert met or anchor.words == (anchor.first,)


@pytest.mark.parametrize("row", SECRETS, ids=lambda row: f"{row['kind']}: {row['context'][:40]}")
def test_a_planted_secret_is_decided_as_the_plain_way_does(row) -> None:
    text = planted(row)[1]
    for made in (text, text * 3, f"{text}\n{text}", text.replace("-", "-\n"), f"sk-a1b2-{text}", f"{text}_{text}"):
        assert sift(Shapes(), made) == sift(PlainShapes(), made)


def test_near_misses_are_decided_as_the_plain_way_does() -> None:
    for text in ["\n".join(BENIGN), "".join(BENIGN), *(text * 40 for text in BENIGN)]:
        assert sift(Shapes(), text) == sift(PlainShapes(), text)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_any_mixture_is_decided_as_the_plain_way_does(seed: int) -> None:
    rng, fast, plain, hidden = random.Random(seed), Shapes(), PlainShapes(), 0
    for _ in range(150):
        text = mixture(rng)
        shown = sift(fast, text)
        assert shown == sift(plain, text)
        hidden += shown != text
    assert hidden >= 30


@pytest.mark.slow
@pytest.mark.parametrize("unit", HOSTILE)
def test_a_token_in_a_hostile_text_is_hidden_and_every_chunking_agrees(unit: str) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0"
    text = f"{repeated(unit, 5_000)}\n{token} {repeated(unit, 3_000)}={token}\n{repeated(unit, 300)}\n{token}"
    redactor = Redactor()
    whole = redactor.text(text)
    assert token not in whole
    assert sift(Shapes(), text) == sift(PlainShapes(), text)
    for size in (1, 7, 100, 1_000, 2_561, 5_000):
        stream = redactor.stream()
        assert "".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size)) + stream.close() == whole


def test_what_follows_a_long_run_is_shown_as_soon_as_it_ends() -> None:
    stream = Redactor().stream()
    text = repeated("sk-a1b2-", 2_300)
    stream.feed(text)
    assert stream.feed(" and on ").endswith("-sk-a and on ")
