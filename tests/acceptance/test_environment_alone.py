"""The ten variables of the approval backend's document are all that a working backend needs."""

import base64
import os

import pytest

from coilclaw.sandbox.fake_openai import FakeOpenAI
from tests.acceptance.conftest import HomeAt, until
from tests.acceptance.test_approval_backend_requests import Backend

pytestmark = pytest.mark.slow

KEY = "sk-or-v1-" + "0123456789abcdef" * 4


def variables(home: HomeAt) -> dict[str, str]:
    """The ten, and nothing else."""
    return {
        "COILCLAW_ENV": "production",
        "COILCLAW_HTTP_ADDR": "127.0.0.1:0",
        "COILCLAW_DATABASE_PATH": str(home.root / "backend.sqlite"),
        "COILCLAW_ENCRYPTION_KEY_B64": base64.b64encode(os.urandom(32)).decode(),
        "COILCLAW_OPENROUTER_API_KEY": KEY,
        "COILCLAW_MODEL_PRIMARY": "vendor/primary",
        "COILCLAW_MODEL_FALLBACK": "vendor/fallback",
        "COILCLAW_APPROVAL_TTL_HOURS": "24",
        "COILCLAW_DAILY_TOKEN_BUDGET": "1000000",
        "COILCLAW_JOB_TOKEN_BUDGET": "200000",
    }


def test_ten_variables_alone_resolve_to_openrouter(empty: HomeAt) -> None:
    empty.environ |= variables(empty)
    empty.ok("init")
    shown = empty.ok("config", "show", "--json").json()
    assert (shown["default_provider"], shown["default_model"]) == ("openrouter", "vendor/primary")
    assert (shown["fallback_model"], shown["env"]) == ("vendor/fallback", "production")
    provider = shown["providers"]["models"]["openrouter"]
    assert provider["base_url"] == "https://openrouter.ai/api/v1"
    assert provider["api_key_env"] == "COILCLAW_OPENROUTER_API_KEY"
    assert shown["approvals"]["ttl_hours"] == 24
    assert (shown["budgets"]["daily_tokens"], shown["budgets"]["job_tokens"]) == (1_000_000, 200_000)
    assert KEY not in empty.ok("config", "show", "--json").out


def test_key_alone_sends_nothing_to_openrouter(empty: HomeAt) -> None:
    empty.environ |= {"COILCLAW_OPENROUTER_API_KEY": KEY}
    empty.ok("init")
    assert empty.ok("config", "show", "--json").json()["default_provider"] == "local"


def test_provider_that_the_file_names_stays_the_one_that_answers(home: HomeAt) -> None:
    home.provider("http://127.0.0.1:9/v1")
    home.environ |= variables(home)
    assert home.ok("config", "show", "--json").json()["default_provider"] == "server"


def test_up_starts_a_working_backend_from_the_ten_variables(empty: HomeAt) -> None:
    """OpenRouter's place is taken by the shipped fake, by the one variable that says where it is."""
    with FakeOpenAI(models=("vendor/primary",), api_key=KEY) as model:
        empty.environ |= variables(empty)
        empty.environ["COILCLAW_PROVIDERS_MODELS_OPENROUTER_BASE_URL"] = model.base_url
        assert not empty.root.exists()
        backend = Backend(empty)
        thread = backend.thread()
        backend.ok(f"POST /v1/chat/threads/{thread}/messages", {"content": "hello"})
        until(lambda: len(backend.ok(f"GET /v1/chat/threads/{thread}/messages")["items"]) >= 2, "the answer")
        backend.http.close()
        assert [each.body["model"] for each in model.requests][:1] == ["vendor/primary"]
    assert (empty.root / "backend.sqlite").exists()
