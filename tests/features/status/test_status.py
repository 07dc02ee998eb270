"""The house over HTTP: what is in force, what was used, whether everything holds, who answers."""

import asyncio
import dataclasses
import json
import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from coilclaw.config import CliChannel, OpenAIModel, Price, ReliableModel, Webhook
from coilclaw.config.options import values_of
from coilclaw.features.status.feature import status_part
from coilclaw.features.status.providers import ConfiguredProviders
from coilclaw.gate.turn import Turn
from coilclaw.packets.action import ToolCall
from coilclaw.runtime.keyring import set_secret
from coilclaw.server.events.part import events_part
from coilclaw.store.usage import add_usage
from tests.home import Sample
from tests.server.house import code_of, events, house, policy, rows, rule
from tests.server.parts import queue_part
from tests.server.site import served

SECRET = "tok-7f3a91c2e5d84b0699aa"
COILCLAW = Path(sys.executable).with_name("coilclaw")


def setting(told, key):
    return next(each for each in told["settings"] if each["key"] == key)


@contextmanager
def listening(answer):
    """A model server on loopback that does with each request what it is told."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            answer(self)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


def with_provider(sample, base_url, **more):
    models = {"far": OpenAIModel(base_url=base_url, model="m", max_retries=0, api_key_env="FAR_KEY")}
    return sample(providers__models=models, default_provider="far", environ={"FAR_KEY": SECRET}, **more)


# The gateway


async def test_health_is_open_and_says_nothing_else(sample):
    async with house(sample()) as site:
        answer = await site.bare.get("/health")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok", "database": "ok", "config": "ok"})


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/status"),
        ("GET", "/tools"),
        ("GET", "/metrics"),
        ("POST", "/estop"),
        ("GET", "/v1/estop"),
        ("GET", "/v1/settings/policy"),
        ("GET", "/v1/policies/default.json"),
        ("PUT", "/v1/system-prompt"),
        ("GET", "/v1/doctor"),
        ("POST", "/v1/providers/local/test"),
    ],
)
async def test_everything_else_needs_a_token(sample, method, path):
    home = sample()
    async with house(home) as site:
        assert (await site.bare.request(method, path)).status_code == 401
        assert not home.app.estop.engaged()


async def test_the_status_tells_how_things_stand(sample):
    home = sample()
    async with house(home) as site:
        await home.call("time")
        told = (await site.http.get("/status")).json()
        assert told["queue"] == {"waiting": 0, "approved": 0, "unknown": 0, "open_jobs": 0}
        assert (told["worker"], told["autonomy"], told["provider"]) == (False, "supervised", "local")
        assert (told["chain"]["receipts"], told["chain"]["valid"]) == (1, True)
        assert told["chain"]["hash"] == home.receipts()[-1].receipt_hash
        assert told["policy_broken"] is False
        with home.app.executor(site.serving.core.conveyor).hold():
            (home.workspace / "policies" / "bad.json").write_text("{")
            await site.http.put("/v1/system-prompt", json={"content": "x"})
            told = (await site.http.get("/status")).json()
            assert (told["worker"], told["policy_broken"]) == (True, True)


async def test_what_waits_is_counted(sample):
    home = sample()
    async with house(home) as site:
        await site.http.put("/v1/system-prompt", json={"content": "x"})
        assert (await site.http.get("/status")).json()["queue"]["waiting"] == 1


async def test_tools_are_listed_with_what_the_gate_would_say(sample):
    home = sample(channels__cli=CliChannel(tools_allow=("time", "shell", "file_write")))
    async with house(home) as site:
        tools = {each["name"]: each for each in (await site.http.get("/tools")).json()["items"]}
        assert set(tools) == set(home.app.tools)
        verdicts = {name: tools[name]["verdict"] for name in ("time", "shell", "file_write", "http")}
        assert verdicts == {"time": "allow", "shell": "ask", "file_write": "ask", "http": "deny"}
        assert tools["webhook_send"]["lane"] == "B"
        assert tools["shell"]["parameters"]["properties"]["command"]["type"] == "string"
        home.app.estop.engage("x", "2026-03-01T12:00:00.000Z")
        stopped = (await site.http.get("/tools")).json()["items"]
        assert {each["verdict"] for each in stopped} == {"deny"}


# What is in force


@pytest.fixture
def just_touched(monkeypatch):
    """Nothing that changes in config.toml has settled yet, however long a test takes."""
    monkeypatch.setattr("coilclaw.runtime.live_config.SETTLED_SECONDS", 3600.0)


async def test_every_option_is_reported_with_where_it_comes_from(sample):
    home = sample(environ={"COILCLAW_DAILY_TOKEN_BUDGET": "5000", "COILCLAW_AGENT_MAX_TOOL_ROUNDS": "7"})
    async with house(home) as site:
        told = (await site.http.get("/v1/settings/policy")).json()
        assert [each["key"] for each in told["settings"]] == [".".join(path) for path, _ in values_of(home.app.config)]
        assert all(each["description"] for each in told["settings"])
        daily = setting(told, "budgets.daily_tokens")
        assert (daily["value"], daily["source"]) == (5000, "environment COILCLAW_DAILY_TOKEN_BUDGET")
        assert setting(told, "agent.max_tool_rounds")["source"] == "environment COILCLAW_AGENT_MAX_TOOL_ROUNDS"
        assert setting(told, "security.autonomy")["source"] == "config.toml"
        assert setting(told, "retention.audit_days")["source"] == "default"
        assert not any(each["changes"] for each in told["settings"])
        assert told["policy_hash"] == home.app.policy().hash
        assert [each["id"] for each in told["rules"]] == ["no-environment-files"]


async def test_what_the_file_says_by_now_is_reported_beside_what_is_in_force(sample, just_touched):
    home = sample()
    file = home.home.config_file
    async with house(home) as site:
        file.write_text(file.read_text().replace('autonomy = "supervised"', 'autonomy = "readonly"'))
        told = (await site.http.get("/v1/settings/policy")).json()
        autonomy = setting(told, "security.autonomy")
        assert (autonomy["value"], autonomy["next_value"], autonomy["changes"]) == ("supervised", "readonly", True)
        assert told["autonomy"] == "supervised"
        file.write_text("[security]\nautonmy = 5\n")
        told = (await site.http.get("/v1/settings/policy")).json()
        assert "autonmy" in told["faults"][0]
        assert setting(told, "security.autonomy")["value"] == "supervised"
        assert not any(each["changes"] for each in told["settings"])


HOOK = f"""
[webhooks.team]
url = "https://hooks.example/in/{SECRET}"
header = "X-Team"
secret_env = "TEAM_KEY"
"""


async def test_a_webhook_that_comes_changes_or_goes_is_told_as_one_change(sample, just_touched):
    home = sample()
    file = home.home.config_file
    before = file.read_text()
    async with house(home) as site:
        file.write_text(before + HOOK)
        answer = await site.http.get("/v1/settings/policy")
        (comes,) = [each for each in answer.json()["settings"] if each["changes"]]
        assert (comes["key"], comes["value"], comes["source"]) == ("webhooks.team", None, "config.toml")
        assert comes["next_value"] == ["url = https://hooks.example/…", "header = X-Team", "secret_env = TEAM_KEY"]
        assert comes["description"]
        assert SECRET not in answer.text

    home = sample(webhooks={"team": Webhook(url=f"https://hooks.example/in/{SECRET}", secret_env="TEAM_KEY")})
    file = home.home.config_file
    async with house(home) as site:
        answer = await site.http.get("/v1/settings/policy")
        (goes,) = [each for each in answer.json()["settings"] if each["changes"]]
        assert (goes["key"], goes["next_value"]) == ("webhooks.team", None)
        assert goes["value"] == ["url = https://hooks.example/…", "secret_env = TEAM_KEY"]
        assert setting(answer.json(), "webhooks.team.secret_env")["value"] == "TEAM_KEY"
        assert SECRET not in answer.text
        lines = f'url = "https://hooks.example/other/{SECRET}"\nsecret_env = "TEAM_KEY"\ntimeout_seconds = 5\n'
        file.write_text(f"{file.read_text()}\n[webhooks.team]\n{lines}")
        answer = await site.http.get("/v1/settings/policy")
        changed = {each["key"]: each for each in answer.json()["settings"] if each["changes"]}
        assert set(changed) == {"webhooks.team.url", "webhooks.team.timeout_seconds"}
        assert changed["webhooks.team.url"]["next_value"] == "https://hooks.example/…"
        assert SECRET not in answer.text


async def test_secrets_are_named_and_never_shown(sample):
    home = with_provider(sample, f"https://me:{SECRET}@models.example/v1")
    async with house(home) as site:
        answers = [await site.http.get(path) for path in ("/v1/settings/policy", "/v1/providers", "/status")]
        assert all(answer.status_code == 200 and SECRET not in answer.text for answer in answers)
        assert setting(answers[0].json(), "providers.models.far.api_key_env")["value"] == "FAR_KEY"


async def test_a_call_is_checked_as_the_gate_would_and_leaves_nothing_behind(sample):
    home = sample()
    calls = [
        {"tool": "shell", "args": {"command": "ls"}},
        {"tool": "file_read", "args": {"path": "/etc/passwd"}},
        {"tool": "file_write", "args": {"path": "SYSTEM.md", "content": "x"}, "source": "job"},
        {"tool": "nothing", "args": {"a\x00": ["\x00"]}},
    ]
    async with house(home) as site:
        before = rows(home)
        for call in calls:
            told = (await site.http.post("/v1/policy/check", json=call)).json()
            turn = Turn("t", "", call.get("source", "chat"))
            wanted = home.conveyor().intake.decide(ToolCall.of(call["tool"], call["args"]), turn)
            assert (told["decision"]["verdict"], told["decision"]["code"]) == (wanted.verdict, wanted.code)
            assert told["faults"] == []
        tainted = {"tool": "webhook_send", "args": {}, "taint": ["untrusted:evil.example"]}
        told = (await site.http.post("/v1/policy/check", json=tainted)).json()
        assert told["decision"]["verdict"] == "deny"
        assert rows(home) == before


async def test_a_call_is_checked_against_a_policy_file_that_is_not_written(sample):
    home = sample()
    call = {"tool": "file_write", "args": {"path": "a.txt", "content": "x"}}
    async with house(home) as site:
        before = rows(home)
        plain = (await site.http.post("/v1/policy/check", json=call)).json()["decision"]
        file = {"name": "mine.json", "content": policy(rule("quiet", path="a.txt"))}
        tried = (await site.http.post("/v1/policy/check", json={**call, "file": file})).json()
        assert (plain["verdict"], tried["decision"]["verdict"], tried["faults"]) == ("ask", "deny", [])
        assert tried["decision"]["rule"] == "policy.quiet"
        assert tried["decision"]["policy_hash"] != plain["policy_hash"]
        # In place of a file that is there: its rules are gone.
        write = {"tool": "file_write", "args": {"path": ".env", "content": "x"}}
        assert (await site.http.post("/v1/policy/check", json=write)).json()["decision"]["verdict"] == "deny"
        file = {"name": "default.json", "content": policy()}
        tried = (await site.http.post("/v1/policy/check", json={**write, "file": file})).json()
        assert tried["decision"]["verdict"] == "ask"
        broken = {"name": "mine.json", "content": policy(rule(), {"id": 5})}
        tried = (await site.http.post("/v1/policy/check", json={**call, "file": broken})).json()
        assert tried["decision"]["code"] == "POLICY_BROKEN"
        assert tried["faults"][0]["line"] == 5
        assert [path.name for path in (home.workspace / "policies").iterdir()] == ["default.json"]
        assert rows(home) == before


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"tool": ""}',
        b'{"tool": "time", "args": []}',
        b'{"tool": "time", "source": "nobody"}',
        b'{"tool": "time", "args": {"n": 9007199254740993}}',
        b'{"tool": "time", "args": {"n": 1e999}}',
        b'{"tool": "time", "args": {"n": "\\ud800"}}',
        b'{"tool": "time", "args": ' + b'{"a":' * 70 + b"1" + b"}" * 70 + b"}",
        b'{"tool": "time", "file": {"name": "../x.json", "content": ""}}',
        b'{"tool": "time", "file": {"name": "x", "content": ""}}',
        b'{"tool": "time", "taint": 5}',
        b"\xff",
        b"",
    ],
)
async def test_what_is_not_a_call_is_refused(sample, body):
    async with house(sample()) as site:
        headers = {"Content-Type": "application/json"}
        answer = await site.http.post("/v1/policy/check", content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) in ((400, "BAD_REQUEST"), (422, "UNFIT"))


# Usage


async def test_usage_is_added_up_by_whatever_is_asked_for(sample):
    home = sample(prices={"a": Price(input_per_million=2.0, output_per_million=4.0)}, budgets__daily_tokens=1000)
    now = home.app.clock

    def use(tx):
        for provider, model, job in (("p", "a", None), ("p", "b", "job_1"), ("q", "a", "job_1")):
            add_usage(
                tx, now, thread_id="t", turn_id="u", job_id=job, provider=provider, model=model,
                input_tokens=100, output_tokens=50, estimated=False,
            )  # fmt: skip

    home.app.db.write_now(use)
    async with house(home) as site:
        told = (await site.http.get("/v1/usage", params={"by": "provider"})).json()
        assert [(row["group"], row["answers"], row["input_tokens"]) for row in told["rows"]] == [
            ("p", 2, 200),
            ("q", 1, 100),
        ]
        assert told["total"]["cost_millionths"] == 800
        assert told["total"]["unpriced_tokens"] == 150
        budgets = told["budgets"]
        assert (budgets["used_today"], budgets["left_today"], budgets["daily_tokens"]) == (450, 550, 1000)
        for by, groups in (("model", ["a", "b"]), ("job", ["", "job_1"]), ("day", [now().date().isoformat()])):
            rows_by = (await site.http.get("/v1/usage", params={"by": by, "days": 1})).json()["rows"]
            assert [row["group"] for row in rows_by] == groups


@pytest.mark.parametrize("params", [{"days": 0}, {"days": 367}, {"days": "x"}, {"by": "week"}, {"days": 10**30}])
async def test_a_span_that_makes_no_sense_is_refused(sample, params):
    async with house(sample()) as site:
        assert code_of(await site.http.get("/v1/usage", params=params), 400) == "BAD_REQUEST"


# The doctor


async def test_the_doctor_probes_and_says_the_worst(sample):
    home = sample()
    async with house(home) as site:
        await home.call("time")
        told = (await site.http.get("/v1/doctor")).json()
        assert {"database", "ledger", "workspace", "provider", "estop", "box"} <= {
            each["name"] for each in told["probes"]
        }
        assert told["state"] in ("ok", "warn")
        log = home.app.config.receipts.path
        log.write_text(log.read_text().replace("time", "tome"))
        told = (await site.http.get("/v1/doctor")).json()
        assert told["state"] == "fail"
        assert next(each for each in told["probes"] if each["name"] == "ledger")["state"] == "fail"


async def test_many_who_ask_the_doctor_at_once_are_served_while_others_are_too(sample):
    home = sample()
    async with house(home) as site:
        asked = [asyncio.ensure_future(site.http.get("/v1/doctor")) for _ in range(8)]
        assert (await site.http.get("/health")).status_code == 200
        answers = await asyncio.gather(*asked)
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.json()["checked_at"] for answer in answers}) < 8


@pytest.mark.slow
async def test_the_long_check_up_tries_the_boxes_and_never_the_canaries(sample):
    async with house(sample()) as site:
        told = (await site.http.get("/v1/doctor", params={"short": "false"}, timeout=280)).json()
        names = [each["name"] for each in told["probes"]]
        assert any(name.startswith("tier") for name in names)
        assert not any("canary" in name for name in names)


# Providers


async def test_providers_are_listed_with_their_keys_by_name(sample):
    models = {
        "far": OpenAIModel(base_url="https://models.example/v1", model="m", api_key_env="FAR_KEY"),
        "other": OpenAIModel(base_url="https://models.example/v1", model="n", api_key_env="OTHER_KEY"),
        "steady": ReliableModel(providers=("far", "other")),
    }
    home = sample(providers__models=models, default_provider="steady", environ={"FAR_KEY": SECRET})
    async with house(home) as site:
        items = (await site.http.get("/v1/providers")).json()["items"]
        assert [(each["name"], each["key_name"], each["key_set"], each["default"]) for each in items] == [
            ("far", "FAR_KEY", True, False),
            ("other", "OTHER_KEY", False, False),
            ("steady", "", False, True),
        ]
        assert items[2]["leans_on"] == ["far", "other"]


@pytest.mark.slow
async def test_the_terminal_and_the_server_find_keys_where_the_provider_does(tmp_path):
    Sample(tmp_path).close()
    names = ("HERE", "KEPT", "BOTH", "NOWHERE")
    models = "".join(
        f'[providers.models.{name.lower()}]\nkind = "openai-compatible"\nmodel = "m"\nbase_url = "https://models.example/v1"\n'
        f'api_key_env = "{name}_KEY"\n'
        for name in names
    )
    (tmp_path / "home" / "config.toml").write_text(f'default_provider = "here"\n{models}')
    there = {"HERE_KEY": SECRET, "BOTH_KEY": SECRET, "KEPT_KEY": "", "NOWHERE_KEY": ""}
    home = Sample(tmp_path, environ=there)
    for name in ("KEPT_KEY", "BOTH_KEY"):
        set_secret(home.app, name, f"{SECRET}-{name}")
    async with house(home) as site:
        served = {each["key_name"]: each["key_set"] for each in (await site.http.get("/v1/providers")).json()["items"]}
        warned = [each["detail"] for each in (await site.http.get("/v1/doctor")).json()["probes"]]
    environ = {**os.environ, **there, "COILCLAW_HOME": str(home.home.root), "HOME": str(tmp_path / "user")}
    told = await asyncio.to_thread(
        subprocess.run, [COILCLAW, "provider", "list", "--json"], env=environ, capture_output=True, timeout=280
    )
    home.close()
    keys = [each["key"] for each in json.loads(told.stdout) if each["key"]]
    wanted = {f"{name}_KEY": name != "NOWHERE" for name in names}
    assert {name: found for name, found in served.items() if name} == wanted
    assert {each.split()[0]: each.endswith("(set)") for each in keys} == wanted
    assert [each for each in warned if each.endswith("is not set")] == ["NOWHERE_KEY is not set"]


async def test_a_key_that_the_keyring_does_not_look_up_is_not_told_as_there(sample):
    """What nothing in the configuration names is not read from the vault, whatever lies in it."""
    home = sample(environ={"FAR_KEY": ""})
    set_secret(home.app, "FAR_KEY", SECRET)
    assert not home.app.keyring.holds("FAR_KEY")
    assert not home.app.keyring.get("FAR_KEY")
    home = with_provider(sample, "https://models.example/v1")
    assert home.app.keyring.holds("FAR_KEY")
    assert home.app.keyring.get("FAR_KEY") == SECRET


async def test_a_provider_that_answers_is_reported(sample):
    async with house(sample()) as site:
        told = (await site.http.post("/v1/providers/local/test")).json()
        assert (told["name"], told["model"]) == ("local", "mock")
        assert told["text"].startswith("Hello")
        for name in ("nobody", "%00", "..", "x" * 3000):
            assert (await site.http.post(f"/v1/providers/{name}/test")).status_code == 404


async def test_a_provider_that_fails_says_why_without_its_key(sample):
    def echo(request):
        text = json.dumps({"error": {"message": f"bad key {request.headers['Authorization']}", "type": "x"}}).encode()
        request.send_response(401)
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)

    with listening(echo) as base_url:
        home = with_provider(sample, base_url)
        async with house(home) as site:
            answer = await site.http.post("/v1/providers/far/test")
            assert code_of(answer, 502) == "PROVIDER_FAILED"
            assert answer.json()["remedy"]
            assert SECRET not in answer.text
            assert events(home, "provider_failed") == [{"code": "REFUSED"}]


async def test_a_provider_that_does_not_answer_is_not_waited_for(sample):
    over = threading.Event()
    with listening(lambda _: over.wait(30)) as base_url:
        home = with_provider(sample, base_url)

        def part(serving):
            made = status_part(serving)
            return dataclasses.replace(
                made, given={**made.given, "providers": ConfiguredProviders(home.app, seconds=0.2)}
            )

        try:
            async with served(home, queue_part, events_part, part) as site:
                answer = await site.http.post("/v1/providers/far/test")
        finally:
            over.set()
        assert (answer.status_code, answer.json()["code"]) == (504, "PROVIDER_SLOW")


def test_every_probe_has_a_name_in_the_panel():
    """Those of `doctor --phone` are shown at the terminal alone."""
    root = Path(__file__).resolve().parents[3]
    texts = (root / "web" / "src" / "text" / "en" / "settings.ts").read_text()
    named = set()
    for path in (root / "src" / "coilclaw").rglob("*.py"):
        if path.name != "phone_probes.py":
            named |= set(re.findall(r'Probe\(\s*name="([^"]+)"', path.read_text()))
    assert {"undo", "tier A"} < named
    missing = {name for name in named if f"'settings.probe.name.{name.replace(' ', '_')}'" not in texts}
    assert missing == set()
