"""The redirect of an OAuth flow is read strictly: without exactly its state it is nobody's answer."""

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coilclaw.packets.errors import ConfigError, OAuthError
from coilclaw.runtime.oauth.client import (
    OAuthClient,
    Redirect,
    begin,
    challenge_of,
    pasted_redirect_uri,
    read_redirect,
)
from coilclaw.secrets.redactor import Redactor
from tests.runtime.oauth_harness import COMMAND, REDIRECT, query_of

STATE = "s" * 43


def client(**fields):
    told = {
        "provider": "google",
        "identity": "bot",
        "client_id": "id-1",
        "client_secret": "",
        "authorize_url": "https://accounts.example/auth",
        "token_url": "https://accounts.example/token",
        "revoke_url": "",
        "scopes": ("mail.read", "https://scopes.example/mail.send"),
        "connect_command": COMMAND,
    }
    return OAuthClient(**{**told, **fields})


def read(query, issuer="", required=False):
    return read_redirect(query, STATE, issuer=issuer, issuer_required=required)


@given(
    st.text(max_size=200) | st.lists(st.sampled_from(["state", "code", "=", "&", "%", "+", "ss", "iss"])).map("".join)
)
def test_nothing_without_the_state_is_an_answer(query):
    assert STATE in query or read(query) is None


@given(
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=300),
    st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=20), max_size=8),
)
def test_every_code_comes_back_whatever_else_is_there(code, more):
    more = {name: value for name, value in more.items() if name not in ("state", "code", "error", "iss")}
    assert read(urlencode({**more, "code": code, "state": STATE})).code == code


@given(st.text(max_size=60).filter(lambda text: text != STATE))
def test_another_state_is_never_ours(state):
    assert read(urlencode({"code": "c", "state": state}, errors="replace")) is None


@given(st.text(max_size=80))
def test_no_text_of_the_server_is_repeated(text):
    answer = read(urlencode({"error": text, "error_description": text, "state": STATE}, errors="replace"))
    with pytest.raises(OAuthError) as caught:
        answer.checked(client())
    if not (text.isascii() and text.replace("_", "").islower()):
        assert len(text) < 12 or text not in str(caught.value)


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        (f"state={STATE}", "BAD_ANSWER"),
        (f"state={STATE}&code=", "BAD_ANSWER"),
        (f"state={STATE}&code=a%20b", "BAD_ANSWER"),
        (f"state={STATE}&code=a%0d%0ab", "BAD_ANSWER"),
        (f"state={STATE}&code=a&code=b", "BAD_ANSWER"),
        (f"state={STATE}&code={'a' * 5000}", "BAD_ANSWER"),
        (f"state={STATE}&error=access_denied", "access_denied"),
        (f"state={STATE}&error=access_denied&code=a", "access_denied"),
        (f"state={STATE}&error=%3Cb%3E", "BAD_ANSWER"),
    ],
)
def test_an_answer_with_our_state_that_gives_no_code_ends_it(query, fault):
    assert read(query) == Redirect(fault=fault)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "code=a",
        f"state={STATE}&state={STATE}&code=a",
        f"state={STATE}&state=other&code=a",
        f"state={STATE}x&code=a",
        f"state={STATE[:-1]}&code=a",
        f"State={STATE}&code=a",
        f"state={STATE}&code=a&loose",
        f"state={STATE}&code=%ff",
        f"state={STATE}&code=a&" + "&".join(f"f{n}=1" for n in range(40)),
        f"state={STATE}&code={'a' * 9000}",
        f"state={STATE}&code=ä",
    ],
)
def test_what_is_not_certainly_ours_is_ignored(query):
    assert read(query) is None


@pytest.mark.parametrize(
    ("named", "required", "fits"),
    [("https://a.example", False, True), ("https://b.example", False, False), ("", False, True), ("", True, False)],
)
def test_an_answer_from_another_server_is_refused(named, required, fits):
    query = urlencode({"code": "c", "state": STATE, **({"iss": named} if named else {})})
    answer = read(query, issuer="https://a.example", required=required)
    assert answer == (Redirect(code="c") if fits else Redirect(fault="ISSUER"))


def test_a_flow_is_bound_by_state_and_verifier_and_keeps_both_to_itself():
    first, second = (begin(client(), REDIRECT) for _ in range(2))
    asked = query_of(first.address)
    assert asked["code_challenge"] == challenge_of(first.verifier)
    assert asked["code_challenge_method"] == "S256"
    assert asked["state"] == first.state
    assert asked["redirect_uri"] == REDIRECT
    assert asked["scope"] == "mail.read https://scopes.example/mail.send"
    assert first.verifier not in first.address
    assert first.state != second.state
    assert first.verifier != second.verifier
    assert min(len(first.state), len(first.verifier)) >= 43
    assert Redactor().text(first.address) == first.address, "the owner must be able to open it"


def test_the_challenge_is_the_one_of_the_standard():
    """RFC 7636, appendix B."""
    assert challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_further_parameters_are_added_and_an_own_query_kept():
    made = client(
        authorize_url="https://accounts.example/auth?tenant=1",
        authorize_params=(("access_type", "offline"), ("prompt", "consent")),
        resource="https://mcp.example/mcp",
    )
    asked = query_of(begin(made, REDIRECT).address)
    assert (asked["tenant"], asked["access_type"], asked["prompt"]) == ("1", "offline", "consent")
    assert asked["resource"] == "https://mcp.example/mcp"


def test_a_pasted_address_must_be_the_whole_right_one():
    pending = begin(client(), pasted_redirect_uri())
    good = f"{pending.redirect_uri}?code=abc&state={pending.state}"
    assert pending.read_pasted(f"  {good}\n").code == "abc"
    assert pending.read_pasted(f"{good}#fragment").code == "abc"
    for bad in ("", "abc", good.replace("127.0.0.1", "evil.example"), good.replace("http:", "https:"), good[:-1]):
        with pytest.raises(OAuthError, match="Copy the whole address") as caught:
            pending.read_pasted(bad)
        assert "abc" not in str(caught.value)
        assert pending.state not in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"token_url": "http://accounts.example/token"},
        {"token_url": "https://user:pw@accounts.example/token"},
        {"authorize_url": "javascript:alert(1)"},
        {"authorize_url": "https://accounts.example/auth#x"},
        {"authorize_url": "https://accounts.example/auth?redirect_uri=https://evil.example"},
        {"authorize_url": "https://accounts.example/auth?request_uri=x"},
        {"authorize_params": (("state", "mine"),)},
        {"authorize_params": (("code_challenge_method", "plain"),)},
        {"revoke_url": "ftp://accounts.example"},
        {"provider": "Google Mail"},
        {"provider": "../x"},
        {"client_id": "two\nlines"},
        {"client_secret": "two\nlines"},
        {"scopes": ("a b",)},
        {"scopes": ("a", "a")},
        {"scopes": ('quo"te',)},
    ],
)
def test_a_client_that_could_weaken_the_flow_is_refused(fields):
    with pytest.raises(ConfigError):
        client(**fields)


def test_plain_http_is_for_this_machine_alone():
    for host in ("127.0.0.1:8080", "localhost:8080", "[::1]:8080"):
        assert client(token_url=f"http://{host}/token").token_url.startswith("http:")
    for host in ("10.0.0.1", "127.0.0.1.evil.example", "localhost.evil.example", "169.254.169.254"):
        with pytest.raises(ConfigError):
            client(token_url=f"http://{host}/token")
