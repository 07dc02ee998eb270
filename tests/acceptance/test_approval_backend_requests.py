"""The approval backend's requests, written as its document writes them, against a real `coilclaw up`."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.conftest import HomeAt, move_in, until
from tests.server.phone import Phone

pytestmark = pytest.mark.slow


class Backend:
    """A running server, and a device that was paired with it."""

    def __init__(self, home: HomeAt) -> None:
        self.home = home
        self.up = home.sit("up", "--addr", "127.0.0.1:0").wait_for("Pairing code: ").wait_for("\n")
        shown = self.up.shown
        self.address = re.search(r"is up: (\S+?)/?\s", shown)[1]  # type: ignore[index]
        code = re.search(r"Pairing code: (\S+)", shown)[1]  # type: ignore[index]
        self.http = self.bind(code)

    def bind(self, code: str) -> httpx.Client:
        """Pair a new device with a code."""
        answer = httpx.post(f"{self.address}/v1/pairing/bind", json=Phone().body(code), trust_env=False)
        assert answer.status_code == 201, answer.text
        headers = {"Authorization": f"Bearer {answer.json()['token']}"}
        return httpx.Client(base_url=self.address, headers=headers, timeout=280, trust_env=False)

    def ask(self, line: str, body: Any = None) -> httpx.Response:
        """One request as the document writes it: `GET /v1/jobs`. Without a body, nothing is sent."""
        method, path = line.split(" ")
        return self.http.request(method, path, **({} if body is None else {"json": body}))

    def ok(self, line: str, body: Any = None) -> Any:
        """The answer to a request that must succeed."""
        answer = self.ask(line, body)
        assert answer.status_code < 300, (line, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def thread(self) -> str:
        """A new conversation."""
        return self.ok("POST /v1/chat/threads")["thread_id"]

    def waiting(self, name: str) -> dict[str, Any]:
        """A file that waits for the owner's word before it is written: its card."""
        thread = self.thread()
        self.ok(f"POST /v1/chat/threads/{thread}/messages", {"content": f"write bread to {name}"})
        found: list[dict[str, Any]] = []

        def asked() -> bool:
            found[:] = self.ok(f"GET /v1/approvals?status=pending&thread_id={thread}")["items"]
            return bool(found)

        until(asked, "the card")
        return found[0]


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[Backend]:
    home = move_in(HomeAt(tmp_path_factory.mktemp("backend")), template)
    made = Backend(home)
    yield made
    made.http.close()
    home.close()


# Requests without a body


def test_thread_is_created_without_a_body(backend: Backend) -> None:
    answer = backend.ask("POST /v1/chat/threads")
    assert answer.status_code == 201, answer.text
    assert answer.json()["thread_id"]


def test_message_is_appended_as_content_and_listed_in_the_timeline(backend: Backend) -> None:
    thread = backend.thread()
    posted = backend.ok(f"POST /v1/chat/threads/{thread}/messages", {"content": "hello there"})
    assert posted["thread_id"] == thread

    def answered() -> bool:
        said = backend.ok(f"GET /v1/chat/threads/{thread}/messages")["items"]
        return [each["role"] for each in said][:2] == ["user", "assistant"] and said[0]["content"] == "hello there"

    until(answered, "the answer")


@pytest.mark.parametrize("body", [{"text": "hi"}, {"content": "hi"}])
def test_either_name_of_the_words_is_taken(backend: Backend, body: dict[str, str]) -> None:
    backend.ok(f"POST /v1/chat/threads/{backend.thread()}/messages", body)


@pytest.mark.parametrize("body", [{}, {"text": "a", "content": "b"}])
def test_message_without_words_or_with_two_is_refused(backend: Backend, body: dict[str, str]) -> None:
    answer = backend.ask(f"POST /v1/chat/threads/{backend.thread()}/messages", body)
    assert answer.status_code == 422, answer.text
    assert "content" in answer.json()["remedy"]


def test_action_is_rejected_without_a_body(backend: Backend) -> None:
    card = backend.waiting("no.txt")
    told = backend.ok(f"POST /v1/approvals/{card['action_id']}/reject")
    assert told["action"]["status"] == "REJECTED"


def test_job_is_cancelled_without_a_body(backend: Backend) -> None:
    job = backend.ok("POST /v1/jobs", {"goal": "tidy up", "thread_id": backend.thread()})
    assert backend.ask(f"POST /v1/jobs/{job['job_id']}/cancel").status_code in (200, 409)  # it may be over already
    shown = backend.ok(f"GET /v1/jobs/{job['job_id']}")
    assert {"events", "artifacts"} <= shown.keys()


def test_body_that_is_empty_json_means_the_same_as_none(backend: Backend) -> None:
    headers = {"Content-Type": "application/json"}
    answer = backend.http.post("/v1/chat/threads", content=b"", headers=headers)
    assert answer.status_code == 201, answer.text


# Filters


@pytest.mark.parametrize("word", ["pending", "PENDING", "Pending"])
def test_status_is_taken_in_either_case(backend: Backend, word: str) -> None:
    assert backend.ask(f"GET /v1/approvals?status={word}").status_code == 200
    assert backend.ask(f"GET /v1/actions?status={word}").status_code == 200
    assert backend.ask(f"GET /v1/jobs?state={word}").status_code == 200


def test_status_in_capitals_filters_as_in_small_letters(backend: Backend) -> None:
    card = backend.waiting("both.txt")
    by_case = [backend.ok(f"GET /v1/approvals?status={word}&limit=200")["items"] for word in ("pending", "PENDING")]
    ids = [[each["action_id"] for each in found] for found in by_case]
    assert ids[0] == ids[1]
    assert card["action_id"] in ids[0]


def test_executed_approvals_are_only_those_that_needed_one(backend: Backend) -> None:
    read, card = backend.thread(), backend.waiting("yes.txt")
    backend.ok(f"POST /v1/chat/threads/{read}/messages", {"content": "What files are here?"})
    shown = backend.ok(f"GET /v1/approvals/{card['action_id']}")
    backend.ok(f"POST /v1/approvals/{card['action_id']}/approve", {"digest": shown["digest"], "seen": shown["seen"]})
    done = "GET /v1/actions?status=EXECUTED&limit=200"
    until(lambda: {card["action_id"]} < {each["action_id"] for each in backend.ok(done)["items"]}, "both ran")
    listed = backend.ok("GET /v1/approvals?status=EXECUTED&limit=200")["items"]
    assert [each["action_id"] for each in listed] == [card["action_id"]]


def test_unknown_value_of_a_filter_is_refused(backend: Backend) -> None:
    assert backend.ask("GET /v1/approvals?status=DONE").status_code == 400


def test_query_name_that_stands_twice_is_refused(backend: Backend) -> None:
    assert backend.ask("GET /v1/approvals?status=pending&status=executed").status_code == 422


DOCUMENT = json.loads((Path(__file__).parents[2] / "docs" / "openapi.json").read_text())
ROUTES = [
    (method.upper(), path, sorted(each["name"] for each in operation.get("parameters", ()) if each["in"] == "query"))
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
]


@pytest.mark.parametrize(("method", "path", "known"), ROUTES, ids=[f"{method} {path}" for method, path, _ in ROUTES])
def test_unknown_query_name_is_refused_on_every_route(
    backend: Backend, method: str, path: str, known: list[str]
) -> None:
    answer = backend.http.request(
        method, re.sub(r"\{\w+\}", "none", path.replace("{number}", "1")), params={"stauts": "pending"}
    )
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["code"] == "UNKNOWN_PARAMETER"
    assert "stauts" in told["detail"]
    assert all(name in told["remedy"] for name in known)


# Schedules


@pytest.mark.parametrize(
    ("body", "trigger", "field", "value"),
    [
        ({"trigger_type": "cron", "trigger_config": {"cron": "0 9 * * *"}}, "cron", "cron", "0 9 * * *"),
        ({"trigger_type": "interval", "trigger_config": {"interval": "2h"}}, "interval", "interval", "2h"),
        ({"trigger_type": "interval", "trigger_config": {"every_seconds": 7200}}, "interval", "interval", "2h"),
        ({"trigger_type": "at", "trigger_config": {"at": "2126-12-01T09:00"}}, "at", "at", "2126-12-01T09:00"),
        ({"trigger": "interval", "interval": "2h"}, "interval", "interval", "2h"),
        ({"trigger": "interval", "every": "2h"}, "interval", "interval", "2h"),
    ],
)
def test_schedule_is_created_with_trigger_type_config_and_payload(
    backend: Backend, body: dict[str, Any], trigger: str, field: str, value: str
) -> None:
    asked = {"timezone": "Australia/Melbourne", "payload": {"goal": "Tell me what is due"}, **body}
    made = backend.ok("POST /v1/schedules", asked)
    assert (made["trigger"], made[field], made["goal"]) == (trigger, value, "Tell me what is due")
    written = json.loads((backend.home.workspace / "cron" / "jobs.json").read_text())["jobs"]
    (entry,) = [each for each in written if each["job_id"] == made["schedule_id"]]
    assert entry[field] == value
    assert "schedule_cron" not in entry


def test_schedule_is_switched_off_edited_and_run_now(backend: Backend) -> None:
    asked = {"trigger_type": "interval", "trigger_config": {"interval": "24h"}, "payload": {"intent": "Look around"}}
    name = backend.ok("POST /v1/schedules", asked)["schedule_id"]
    assert backend.ok(f"PATCH /v1/schedules/{name}", {"enabled": False})["enabled"] is False
    edited = backend.ok(
        f"PATCH /v1/schedules/{name}",
        {
            "trigger_type": "cron",
            "trigger_config": {"cron": "5 4 * * *"},
            "timezone": "UTC",
            "payload": {"goal": "Look again", "inputs": {"since": "yesterday"}},
            "enabled": True,
        },
    )
    assert (edited["cron"], edited["interval"], edited["goal"]) == ("5 4 * * *", None, "Look again")
    assert edited["inputs"] == {"since": "yesterday"}
    assert backend.ok(f"POST /v1/schedules/{name}/run-now")["run"]["schedule_id"] == name
    assert name in [each["schedule_id"] for each in backend.ok("GET /v1/schedules?limit=200")["items"]]


def test_schedule_that_says_one_thing_twice_and_differently_is_refused(backend: Backend) -> None:
    asked = {"cron": "0 9 * * *", "trigger_config": {"cron": "0 8 * * *"}, "timezone": "UTC", "goal": "x"}
    answer = backend.ask("POST /v1/schedules", asked)
    assert answer.status_code == 422, answer.text


def test_one_spelling_holds_in_file_command_and_rest(backend: Backend) -> None:
    """What any of the three wrote, the others read by the same names; the file's former name still counts."""
    home = backend.home
    home.ok("schedule", "add", "--id", "by-hand", "--cron", "0 7 * * *", "--timezone", "UTC", "--goal", "x", "--json")
    registry = home.workspace / "cron" / "jobs.json"
    written = json.loads(registry.read_text())
    (entry,) = [each for each in written["jobs"] if each["job_id"] == "by-hand"]
    assert entry["cron"] == "0 7 * * *"
    assert backend.ok("GET /v1/schedules/by-hand")["cron"] == "0 7 * * *"
    former = {"job_id": "former", "timezone": "UTC", "schedule_cron": "0 6 * * *", "job_spec": {"intent": "y"}}
    registry.write_text(json.dumps({**written, "jobs": [*written["jobs"], former]}))

    def taken() -> bool:
        answer = backend.ask("GET /v1/schedules/former")
        return answer.status_code == 200 and answer.json()["cron"] == "0 6 * * *"

    until(taken, "the worker took the file over")
    home.ok("schedule", "edit", "former", "--interval", "3h")
    (entry,) = [each for each in json.loads(registry.read_text())["jobs"] if each["job_id"] == "former"]
    assert entry["interval"] == "3h"
    assert "schedule_cron" not in entry
    assert "cron" not in entry


# The rest of the document's list


@pytest.mark.parametrize("line", [
    "GET /v1/approvals?status=pending", "GET /v1/jobs", "GET /v1/schedules", "GET /v1/settings/policy", "GET /v1/audit",
    "GET /v1/notifications",
])  # fmt: skip
def test_reads_answer_as_written(backend: Backend, line: str) -> None:
    assert backend.ask(line).status_code == 200


def test_policy_check_takes_the_envelope_with_its_identity(backend: Backend) -> None:
    envelope = {"tool": "file_list", "identity": "user", "args": {"path": "."}}
    plain = {**envelope, "identity": None}
    assert backend.ok("POST /v1/policy/check", plain)["decision"]["verdict"] == "allow"
    told = backend.ok("POST /v1/policy/check", envelope)["decision"]
    assert (told["verdict"], told["code"]) == ("deny", "IDENTITY_FORBIDDEN")  # a listing is in nobody's name
    told = backend.home.run("policy", "check", "--json", json.dumps(envelope)).json()
    assert (told["verdict"], told["code"]) == ("deny", "IDENTITY_FORBIDDEN")
    assert backend.home.run("policy", "check", "--json", json.dumps({**envelope, "identity": "me"})).rc == 2
    assert backend.ask("POST /v1/policy/check", {**envelope, "identity": "me"}).status_code == 400


def test_pairing_code_keeps_one_device_unless_another_is_asked_for(backend: Backend) -> None:
    beside = backend.bind(backend.ok("POST /v1/pairing/code", {"mode": "add"})["code"])
    with beside:
        assert backend.ask("GET /v1/sign-in").status_code == 200
        assert beside.get("/v1/sign-in").status_code == 200
        issued = backend.ok("POST /v1/pairing/code")
        assert issued["mode"] == "replace"
        before, backend.http = backend.http, backend.bind(issued["code"])
        assert before.get("/v1/sign-in").status_code == 401
        before.close()
        assert beside.get("/v1/sign-in").status_code == 401
        active = [each for each in backend.ok("GET /v1/devices")["items"] if each["revoked_at"] is None]
        assert len(active) == 1
