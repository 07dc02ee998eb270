"""GitHub's API through the airlock: signing in, limits, and what each answer means. See decision 0044."""

import asyncio
import base64
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

import msgspec

from coilclaw.packets.canonical import Json, JsonObject, as_object, canonical_bytes
from coilclaw.packets.errors import EffectUncertain, ToolError, TransportError, TryLater
from coilclaw.packets.http import HttpRequest, HttpResponse

if TYPE_CHECKING:
    from coilclaw.runtime.runtime import Runtime

PERMISSIONS = {"contents": "write", "pull_requests": "write", "checks": "write"}
"""What a token of the App is narrowed to when it is made."""
FOR_ACTIONS = {"actions": "write", "actions_variables": "write"}
"""What jobs in Actions need besides: to start workflows, and to set the kill switch."""
NEVER = ("workflows", "administration")
"""With these a token could change what checks it: none is used that has them."""
BETWEEN_WRITES = 1.0
"""Seconds, as the service asks of programs."""
EARLY = timedelta(minutes=5)
"""So long before it ends a token is renewed."""
LEAST_PAUSE, LONGEST_PAUSE = 60.0, 3600.0
SECONDS = 30.0
MOST_BYTES = 64 << 20
_VERSION = "2022-11-28"


class GitHubRefused(ToolError):
    """GitHub says no, and the same request would get the same answer."""

    code = "GITHUB_REFUSED"

    def __init__(self, status: int, message: str, *, remedy: str = "") -> None:
        super().__init__(f"GitHub refused it ({status}): {message.rstrip('.')}.", remedy=remedy, begun=False)
        self.status = status


class GitHubBusy(TryLater):
    """A limit is reached, or the service is away; nothing happened."""

    code = "GITHUB_LIMIT"

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class GitHubAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that can be used: done, unchanged (304) or not there (404)."""

    status: int
    body: Json
    etag: str

    @property
    def fields(self) -> JsonObject:
        """The body, if it is an object."""
        return as_object(self.body)

    @property
    def rows(self) -> list[JsonObject]:
        """The body, if it is a list of objects."""
        listed = self.body if isinstance(self.body, Sequence) and not isinstance(self.body, str) else ()
        return [each for each in listed if isinstance(each, Mapping)]


class TokenRights(msgspec.Struct, frozen=True, kw_only=True):
    """What GitHub tells of whoever the bot signs in as."""

    account: int | None
    """The number of the account that a token belongs to; None for an App, which is none."""
    never: tuple[str, ...]
    """What it has of `NEVER`."""
    unknown: bool
    """A fine-grained token: nothing tells whether it may change workflows."""


class GitHubApi:
    """Speaks for the bot. One writer, with a pause between writes; a limit holds for everything that follows."""

    def __init__(self, app: "Runtime", *, token: str = "") -> None:
        """Sign in as the settings say, or with a token that is given for this once."""
        self._app = app
        self._given = token
        self.settings = app.config.forge.github
        self.path = f"/repos/{self.settings.repository}"
        self._token = ""
        self._ends: datetime | None = None
        self._next_write = 0.0
        self._busy_until = 0.0
        self._writing = asyncio.Lock()
        self.left = -1
        """How many requests the limit leaves, as the last answer said; -1 if none did."""

    @property
    def is_paused(self) -> bool:
        """Whether the service asked for a pause that is not over."""
        return time.monotonic() < self._busy_until

    async def read(self, path: str, *, etag: str = "") -> GitHubAnswer:
        """GET below the repository: 200, 304 when nothing changed, or 404."""
        answer = await self._ask("GET", self.path + path, None, etag)
        if answer.status in (200, 304, 404):
            return answer
        raise self._refused(answer)

    async def read_of(self, repository: str, path: str) -> GitHubAnswer:
        """GET below any repository, whatever the bot may see of it."""
        answer = await self._ask("GET", f"/repos/{repository}{path}", None, "")
        if answer.status in (200, 404):
            return answer
        raise self._refused(answer)

    async def read_all(self, path: str) -> list[JsonObject]:
        """Every row of a listing, page after page."""
        found: list[JsonObject] = []
        for page in range(1, 101):
            mark = "&" if "?" in path else "?"
            rows = (await self.read(f"{path}{mark}per_page=100&page={page}")).rows
            found += rows
            if len(rows) < 100:
                break
        return found

    async def write(
        self, method: Literal["POST", "PUT", "PATCH"], path: str, body: JsonObject, *, despite_estop: bool = False
    ) -> JsonObject:
        """Change something below the repository; anything but a plain yes is an error. Only a stop is sent despite
        ESTOP."""
        async with self._writing:
            await asyncio.sleep(max(self._next_write - time.monotonic(), 0.0))
            if self._app.estop.engaged() and not despite_estop:  # a look may have hundreds of writes before it
                raise GitHubBusy("ESTOP is engaged: nothing is sent until you clear it.", LEAST_PAUSE)
            self._next_write = time.monotonic() + BETWEEN_WRITES
            answer = await self._ask(method, self.path + path, body, "")
        if answer.status in (200, 201, 204):
            return answer.fields
        raise self._refused(answer)

    async def rights(self) -> TokenRights:
        """What the bot may do there, as far as GitHub tells: all of an App's, the scopes of a classic token; a
        fine-grained one tells nothing, so that administration is tried by a read that needs it."""
        settings = self.settings
        if not settings.token_env:
            signed = app_jwt(settings.app_id, self._secret(settings.private_key_env), self._now())
            given = await self._told(f"/app/installations/{settings.installation_id}", signed)
            granted = as_object(_object(given.body).get("permissions"))
            return TokenRights(account=None, never=tuple(each for each in NEVER if each in granted), unknown=False)
        user = await self._told("/user", await self._signed_in())
        number = _object(user.body).get("id")
        scopes = next((value for name, value in user.headers if name.lower() == "x-oauth-scopes"), None)
        classic = {each.strip() for each in (scopes or "").split(",")}
        administers = (await self._ask("GET", f"{self.path}/actions/permissions", None, "")).status == 200
        return TokenRights(
            account=number if isinstance(number, int) else None,
            never=(*(("workflows",) if "workflow" in classic else ()), *(("administration",) if administers else ())),
            unknown=scopes is None,
        )

    async def account(self) -> int | None:
        """The number of the account that the token belongs to."""
        number = _object((await self._told("/user", await self._signed_in())).body).get("id")
        return number if isinstance(number, int) else None

    async def _told(self, path: str, token: str) -> HttpResponse:
        answer = await self._send("GET", path, None, "", token)
        self._heed_limits(answer)
        if answer.status != 200:
            raise self._refused(GitHubAnswer(status=answer.status, body=_object(answer.body), etag=""))
        return answer

    def _now(self) -> int:
        return int(self._app.clock().timestamp())

    # One request

    async def _ask(
        self, method: Literal["GET", "POST", "PUT", "PATCH"], path: str, body: Json, etag: str
    ) -> GitHubAnswer:
        if (wait := self._busy_until - time.monotonic()) > 0:
            raise GitHubBusy("GitHub asked for a pause, which is not over.", wait)
        answer = await self._send(method, path, body, etag, await self._signed_in())
        if answer.status == 401 and not (self._given or self.settings.token_env):
            self._token = ""  # it was revoked, or the clock is wrong: one new token, then no more
            answer = await self._send(method, path, body, etag, await self._signed_in())
        self._heed_limits(answer)
        try:
            told: Json = msgspec.json.decode(answer.body) if answer.body else None
        except msgspec.DecodeError as error:
            raise _uncertain(method, "its answer is not JSON") from error
        if answer.status >= 500:
            raise _uncertain(method, f"it answered {answer.status}")
        return GitHubAnswer(status=answer.status, body=told, etag=answer.header("etag"))

    async def _send(
        self, method: Literal["GET", "POST", "PUT", "PATCH"], path: str, body: Json, etag: str, token: str
    ) -> HttpResponse:
        headers = [("authorization", f"Bearer {token}"), ("accept", "application/vnd.github+json")]
        headers += [("x-github-api-version", _VERSION)]
        headers += [("if-none-match", etag)] if etag else []
        headers += [("content-type", "application/json")] if body is not None else []
        request = HttpRequest(
            principal="forge",
            method=method,
            url=self.settings.api_url.rstrip("/") + path,
            headers=tuple(headers),
            body=b"" if body is None else canonical_bytes(body),
            timeout_seconds=SECONDS,
            max_bytes=MOST_BYTES,
        )
        try:
            return await self._app.transport.send(request)
        except TransportError as error:
            if error.sent and method != "GET":
                raise _uncertain(method, error.message.rstrip(".")) from error
            raise GitHubBusy(f"GitHub cannot be reached: {error.message}", LEAST_PAUSE) from error

    def _heed_limits(self, answer: HttpResponse) -> None:
        """Stop asking for as long as the service says: going on regardless can end in a ban."""
        remaining = answer.header("x-ratelimit-remaining")
        self.left = int(remaining) if remaining.isdecimal() else self.left
        words = answer.body[:2000].decode("utf-8", "replace").lower()
        spent = remaining == "0"
        limited = answer.status == 429 or (answer.status == 403 and ("rate limit" in words or spent))
        if not limited:
            return
        after, reset = answer.header("retry-after"), answer.header("x-ratelimit-reset")
        if after.isdecimal():
            seconds = float(after)
        elif spent and reset.isdecimal():
            seconds = float(reset) - self._app.clock().timestamp()
        else:
            seconds = LEAST_PAUSE
        seconds = min(max(seconds, 1.0), LONGEST_PAUSE)
        self._busy_until = time.monotonic() + seconds
        raise GitHubBusy(f"GitHub's limit is reached; it goes on in {seconds:.0f} s.", seconds)

    def _refused(self, answer: GitHubAnswer) -> GitHubRefused:
        message = str(answer.fields.get("message", ""))[:300]
        remedy = "Run `coilclaw bot connect`: it says what is missing." if answer.status in (401, 403, 404) else ""
        if 300 <= answer.status < 400:
            remedy = "The repository was renamed or moved: set forge.github.repository to where it is now."
        return GitHubRefused(answer.status, self._app.redact(message) or "no reason given", remedy=remedy)

    # Signing in

    async def _signed_in(self) -> str:
        settings = self.settings
        if self._given:
            return self._given
        if settings.token_env:
            return self._secret(settings.token_env)
        if self._token and self._ends is not None and self._app.clock() < self._ends - EARLY:
            return self._token
        return await self._mint()

    async def _mint(self) -> str:
        """A token of the installation, for this repository and these permissions alone; kept in memory."""
        settings = self.settings
        wanted = {**PERMISSIONS, **(FOR_ACTIONS if settings.execute == "actions" else {})}
        asked: JsonObject = {"repositories": [settings.repository.partition("/")[2]], "permissions": {**wanted}}
        key = self._secret(settings.private_key_env)
        signed = app_jwt(settings.app_id, key, self._now())
        path = f"/app/installations/{settings.installation_id}/access_tokens"
        answer = await self._send("POST", path, asked, "", signed)
        self._heed_limits(answer)
        told = _object(answer.body)
        token, ends, given = told.get("token"), told.get("expires_at"), told.get("permissions")
        if answer.status != 201 or not isinstance(token, str) or not isinstance(ends, str):
            message = str(told.get("message", ""))[:300]
            remedy = "Run `coilclaw bot connect`: it says what is missing."
            if answer.status in (404, 422):
                remedy = "Install the App on the repository with its permissions; if it was renamed, set its name anew."
            raise GitHubRefused(answer.status, f"no token for the App: {message}", remedy=remedy)
        self._app.redactor.register("github installation token", token)
        granted = set(as_object(given))
        if wide := sorted(granted & set(NEVER)):
            raise GitHubRefused(
                403, f"the App has the permission {wide[0]}, with which it could change what checks it",
                remedy="Take it away in the App's settings.",
            )  # fmt: skip
        try:
            self._token, self._ends = token, datetime.fromisoformat(ends)
        except ValueError as error:
            raise GitHubRefused(502, "its token has no readable expiry", remedy="Try again later.") from error
        return token

    def _secret(self, name: str) -> str:
        value = self._app.keyring.get(name, "")
        if not value:
            raise GitHubRefused(401, f"{name} is not set", remedy=f"Set it: coilclaw secret set {name}")
        return value


def app_jwt(app_id: int, key: str, now: int) -> str:
    """What an App proves itself with: signed by its key, good for nine minutes, from a minute ago on."""
    from cryptography.hazmat.primitives.asymmetric import padding, rsa
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    text = key.replace("\\n", "\n").strip()
    try:
        pem = text.encode() if text.startswith("-----") else base64.b64decode(text, validate=True)
        private = load_pem_private_key(pem, None)
    except ValueError as error:
        raise GitHubRefused(401, "the App's private key cannot be read", remedy="Store its PEM text again.") from error
    if not isinstance(private, rsa.RSAPrivateKey):
        raise GitHubRefused(
            401, "the App's private key is not an RSA key", remedy="Make a new one in the App's settings."
        )
    claims: JsonObject = {"iat": now - 60, "exp": now + 480, "iss": str(app_id)}
    parts = (_encoded(canonical_bytes(part)) for part in ({"alg": "RS256", "typ": "JWT"}, claims))
    signed = ".".join(parts)
    return f"{signed}.{_encoded(private.sign(signed.encode(), padding.PKCS1v15(), SHA256()))}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _object(data: bytes) -> JsonObject:
    try:
        told = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return {}
    return as_object(told)


def _uncertain(method: str, why: str) -> ToolError:
    if method == "GET":
        return GitHubBusy(f"GitHub is not well: {why}.", LEAST_PAUSE)
    return EffectUncertain(f"GitHub may have done it: {why}.")
