"""No secret leaves by the event stream, however quickly an event is looked through."""

import hypothesis.strategies as st
import msgspec
from hypothesis import given

from coilclaw.ledger.audit import Told
from coilclaw.secrets.redactor import Redactor
from coilclaw.server.events.event import _PLAIN, LARGEST, event_of
from coilclaw.server.events.part import events_part
from tests.server.events.test_events import happen
from tests.server.site import served


async def test_secrets_in_an_event_are_redacted(sample):
    home = sample()
    home.app.redactor.register("LAB", "tr0ub4dor-and-3-horses")
    await happen(home, 1, "label_forgotten", "notes/tr0ub4dor-and-3-horses.md", {"said": "tr0ub4dor-and-3-horses"})
    hidden = {"said": 'quoted "tr0ub4dor-and-3-horses"', "deep": [{"password": "hunter2hunter2"}]}
    await happen(home, 1, "label_forgotten", "x", hidden)
    async with served(home, events_part) as site:
        answer = await site.http.get("/v1/events", params={"after": 0, "follow": "false"})
    assert answer.text.count("[redacted:LAB]") == 3
    assert "horses" not in answer.text
    assert "hunter2" not in answer.text


class Broken(Redactor):
    def text(self, text):
        raise RuntimeError

    registered = text


def test_an_event_that_cannot_be_redacted_says_nothing_of_its_inside():
    told = Told(1, "job_created", "job_secret", '{"word": "secret"}', "2026-01-01T00:00:00.000Z", "thr_secret")
    event = event_of(told, {"word": "secret"}, "thr_secret", Broken())
    assert b"secret" not in event.sse
    assert b"redaction failed" in event.sse


REGISTERED = ["tr0ub4dor-and-3-horses", "xyzzyplugh", "0f1e2d3c4b5a6978" * 4, "job_0123456789abcdefghj", "8675309123"]
SECRETISH = st.sampled_from(
    [*REGISTERED, "hunter2", "password", "Bearer abc123def456ghi7", "sk-proj-" + "aB3" * 14, "AKIAABCDEFGHIJKLMNOP",
     "ghp_" + "a1B2" * 9, "api_key=zxcvbnm1234567", "a" * 64, "x: y", " ", '"', "\\", "\n", "é", "https://u:pw1234@h/",
     "token", "secret", "key", "_", "act_1m7h0z8rzxb5zp46pr3", "auth", "code", "SECRET_KEY", "pin", "otp"]
)  # fmt: skip
PLAINISH = st.from_regex(_PLAIN, fullmatch=True) | st.lists(
    st.sampled_from(["password", "passwd", "pwd", "token", "secret", "key", "api", "auth", "bearer", "pin", "otp"]),
    min_size=1, max_size=4,
).map("_".join)  # fmt: skip
WORDS = st.lists(SECRETISH, max_size=4).map("".join) | PLAINISH | PLAINISH.map(str.upper)
NAMES = st.sampled_from(
    ["digest", "by", "password", "api_key", "value", "name", "token_count", "token", "reason", "pin"]
)
NUMBERS = st.integers(-(2**53), 2**53) | st.just(8675309123)
PAYLOADS = st.dictionaries(
    NAMES | WORDS,
    WORDS | NUMBERS | st.none() | st.booleans() | st.lists(WORDS, max_size=3) | st.dictionaries(NAMES, WORDS),
    max_size=4,
)


@given(PAYLOADS, WORDS)
def test_what_is_not_looked_at_closely_holds_nothing_a_closer_look_would_redact(payload, entity):
    redactor = Redactor([("LAB", value) for value in REGISTERED])
    told = Told(1, "tool_begun", entity, "", "2026-01-01T00:00:00.000Z", "")
    shown = msgspec.json.decode(event_of(told, payload, "", redactor).sse.split(b"\ndata: ")[1])
    assert shown["data"] == redactor.value(payload)
    assert shown["id"] == redactor.text(entity)


def test_of_an_event_that_is_too_large_only_the_frame_is_reported():
    told = Told(1, "job_state", "job_1", "", "2026-01-01T00:00:00.000Z", "")
    event = event_of(told, {"evidence": ["x" * LARGEST]}, "", Redactor())
    assert len(event.sse) < 1000
    assert b"too large" in event.sse
