"""Which names announce a secret: `password`, `client_secret`, `X-Api-Key`, and which only look so: `token_count`."""

import re
from typing import NamedTuple

from coilclaw.secrets.labels import word_set

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


class Field(NamedTuple):
    """What a name announces. `strict`: the name is ambiguous, so only a value that looks random counts."""

    kind: str
    strict: bool = False


_ENDINGS = {
    "password": "password", "passwd": "password", "pwd": "password", "passphrase": "password", "passcode": "password",
    "passwort": "password", "kennwort": "password", "contrasena": "password", "secret": "secret", "token": "token",
    "apikey": "api_key", "accesskey": "api_key", "secretkey": "api_key", "accountkey": "api_key", "authkey": "api_key",
    "signingkey": "api_key", "encryptionkey": "api_key", "masterkey": "api_key", "sharedkey": "api_key",
    "privatekey": "private_key", "authorization": "authorization",
}  # fmt: skip
_ANY_ENDING = tuple(_ENDINGS)
_PLURALS = word_set("passwords secrets apikeys credentials creds credential cred auth")
_KEYS = word_set(
    "api access private secret account shared encryption decryption signing master service auth session deploy "
    "license licence subscription storage root admin client app application functions webhook write ingest "
    "integration security crypto cipher aes hmac jwt rsa consumer bot server wallet vault unseal recovery "
    "activation token openai anthropic stripe sendgrid mailgun twilio datadog gemini groq mistral hmac seed ssh "
    "gpg pgp tls ssl private rest"
)
_TOKENS_NOT = word_set(
    "page next previous prev continuation sync resume scroll cursor pad padding eos bos unk unknown cls sep mask "
    "special stop start end first last per input output prompt completion cached reasoning image audio cancel "
    "cancellation each current lexer parser max min total num new-line delimiter"
)
_CODES = word_set("pairing recovery backup otp totp mfa 2fa authentication login sms onetime time security")
_NOT_AFTER = word_set(
    "count counts counter range limit limits budget id ids name names env var variable file files filename path paths "
    "dir url uri urls endpoint host type types ttl exp expiry expires expire expired expiration at in on by of "
    "length len size min max minimum maximum policy policies hash hashes hashed digest fingerprint checksum "
    "sha256 hint field fields label labels header headers prefix suffix format required valid invalid validity "
    "error errors status state enabled disabled source provider providers store manager service usage used per "
    "cost rate price version index position bytes scope scopes issuer audience algorithm alg method mode strategy "
    "rotation age created updated last ref refs reference arn selector mount class factory callback fn func "
    "function handler validator regex pattern placeholder description help prompt message title reset change "
    "changed strength page form input kind rule rules check checks exists present set configured loaded missing "
    "revoked bucket window estimate estimator map list schema model models level vocab embedding dim ratio "
    "probability logprob logprobs command cmd option options flag flags param params parameter config settings "
    "attempts retries generator cache ring chain cloak less stuffing spray spraying encoder decoder encoding "
    "usages ed ing is was has needs changer redacted masked hidden"
)
_SHORT = word_set("pw bindpw rootpw userpw dbpw")
_HEADERS = frozenset({"cookie", "setcookie"})


def words_of(name: str) -> list[str]:
    """The words of a name, whatever the style they are joined in."""
    return [word.lower() for word in _WORDS.findall(name)]


def field_of(name: str, before: str = "") -> Field | None:
    """What a name announces, or nothing. `before` is the word in front of it, for names written as `api key`."""
    words = words_of(name)
    if before:
        words.insert(0, before.lower())
    while len(words) > 1 and words[-1].isdecimal() and len(words[-1]) < 4:
        words.pop()
    if not words:
        return None
    if "".join(words) in _HEADERS:
        return Field("cookie")
    for place in range(len(words) - 1, -1, -1):
        if words[place] in _NOT_AFTER:
            return None
        found = _announced(words, place)
        if found:
            return found
    return None


def _announced(words: list[str], place: int) -> Field | None:
    word = words[place]
    previous = words[place - 1] if place else ""
    if word == "token" and previous in _TOKENS_NOT:
        return None
    if word == "key":
        return _key(previous, joined=place == len(words) - 1)
    if word == "code":
        return Field("code") if previous in _CODES else None
    if word in ("otp", "totp", "pin"):
        return Field("code")
    if word == "pat" and previous:
        return Field("token", strict=True)
    if word in _SHORT:
        return Field("password")
    if word == "pass":
        return Field("password", strict=not previous)
    if word in _PLURALS:
        return Field("authorization" if word == "auth" else "credential", strict=True)
    for ending, kind in _ENDINGS.items() if word.endswith(_ANY_ENDING) else ():
        if word.endswith(ending):
            return Field(kind, strict=place < len(words) - 2)
    return None


def _key(previous: str, *, joined: bool) -> Field | None:
    if previous not in _KEYS:
        return None
    return Field("private_key" if previous == "private" else "api_key", strict=not joined)
