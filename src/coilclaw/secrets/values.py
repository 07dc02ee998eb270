"""Whether what follows a significant name is a value, or a placeholder, a reference, a type, code or prose."""

import re
from functools import cache

from coilclaw.secrets.labels import MARK, word_set

_PLACEHOLDERS = (
    r"\[redacted:[^\]\s]{1,80}\]",
    r"[\[<({*]*(?:redacted|hidden|masked|removed|filtered|omitted|scrubbed|sanitized|snip)[\]>)}*]*",
    r"<[^<>]{0,120}>",
    r"\$\{\{?[^{}]{0,120}\}?\}",
    r"\$\([^()]{0,200}\)",
    r"\$(?:env:)?[A-Za-z_]{1,60}(?:_\w{0,40})?\d?",
    r"%[A-Za-z_]\w{0,80}%",
    r"\{\{.{0,120}\}\}",
    r"\{%.{0,120}%\}",
    r"\{[A-Za-z_][\w.\[\]'\"!:()-]{0,80}\}",
    r"\{\}",
    r"%\(\w{1,60}\)s",
    r"%[sdrvq]",
    r":[a-z_]{1,40}",
    r"@[A-Za-z_]\w{0,60}@",
    r"[*•●.…_#?-]{1,}",
    r"[xX*•.]{3,}+(?:[-_ ][xX*•.]{2,}+)*",
    r"(?:0+|1+)",
    r"(?:none|null|nil|undefined|true|false|yes|no|on|off|empty|unset|n/?a|default|unknown|auto)",
    r"(?:changeme|change[-_]me|change[-_]?this|replace[-_]?me|fixme|todo|tbd|placeholder|dummy|example|sample|foo|bar|baz)",
    r"(?:<|\[|\{)?(?:your|insert|enter|replace|paste|put|example|sample|dummy|fake)[-_ ][A-Za-z_ -]{1,60}(?:>|\]|\})?",
    r"[A-Za-z_-]{1,60}[-_]here",
    r"(?:password|passwd|pass|pwd|pw|secret|token|api[-_]?key|key|auth|credentials?|username|user)",
    (
        r"(?:str|string|text|bytes|int|integer|number|bool|boolean|any|object|char|varchar|uuid|secretstr|buffer|optional|self)"
        r"(?:\[[^\]]{0,40}\])?[;,?!]?"
    ),
    (
        r"(?:bearer|basic|jwt|oauth2?|digest|refresh|access|hidden|required|optional|expired|invalid|missing|revoked|valid|present"
        r"|absent|enabled|disabled|ok|failed|inherit|prompt|ask|never|always)"
    ),
    (
        r"(?:os\.environ|os\.getenv|process\.env|import\.meta\.env|getenv|env|ENV|System\.getenv|Deno\.env|secrets|vault|var|local"
        r"|data|params|config|settings|ssm|keyring|op|file|env_file|ref\+\w+)(?:[.\[(]|:(?=//|[A-Za-z_/])).{0,200}"
    ),
    r"arn:aws[\w-]*:.{1,200}",
    r"!(?:ref|sub|getatt|secret|vault|env|include|importvalue)\b.{0,80}",
    r"sha(?:1|256|384|512)[:-][A-Za-z0-9+/=]{20,100}",
)
_MASKED = re.compile(r"\*{3}|•{3}|…|\.\.\.|[xX]{6}")
_ENV_NAME = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_TYPE = re.compile(r"(?:[A-Za-z_]\w*\.)*(?:[A-Z0-9]+(?=[A-Z][a-z]))?(?:[A-Z][a-z]+\d{0,5}){2,}(?:\[.*)?[,;:)\]]*")
_LETTER_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_TEMPLATE = re.compile(r"\$\{[^}]*\}|\{\{.*?\}\}|\{[^{}]{1,80}\}|<[a-z_ -]+>|%s|\$[A-Z_]{2,}")
_URL = re.compile(r"[a-z][a-z0-9+.-]{1,20}:(?:\\*/){2}", re.IGNORECASE)
_PATH = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][\w.@ -]{0,60})+")
_FILE = re.compile(r"[\w./-]{1,100}\.(?:pem|key|crt|json|ya?ml|toml|txt|py|js|ts|go|rs|env|conf|cfg|ini|md)")
_CODE = re.compile(
    r"[(\[{]|[&*!]{1,2}[A-Za-z_.:>-]+[,;)]*\Z|(?:await|new|not|lambda|function|async|return|typeof|if|else|is|in|or|and)\b"
    r"|[A-Za-z_]\w*(?:(?:\.|::|->|\?\.)[A-Za-z_]\w*)*(?:[(\[)]|::|->)"
)
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::|->|\?\.)[A-Za-z_]\w*)+[,;:)]*")
_HOST = re.compile(
    r"(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,12}(?::\d{1,5})?|localhost:\d{1,5}|\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?"
)
_NAME = re.compile(r"[A-Za-z_]\w*[,;:)]*")
_WORD = re.compile(r"[A-Za-z][a-z]*(?:['-][a-z]+)*[.,;:!?)]*|[A-Z]+[.,;:!?)]*")
_PAIRS = {")": "(", "]": "[", "}": "{"}
_PROSE = word_set(
    "a an and are as at be been but by can cannot could did do does for from had has have here how if in into is "
    "isn't it its least may might must need needs no nor not of off on only or please policy provide provided "
    "rejected rotate rotated rotation should since so than that the their then there these they this to too twice "
    "under until use used using was were when where which while who will with without would you your again "
    "already always any authentication changed check does doesn't don't empty enter expires expired failed found "
    "generated handling incorrect invalid is length longer mismatch missing never now omitted optional per "
    "required reset sent set shorter stored support supports too unchanged unknown updated valid validation value "
    "via wrong characters"
)


@cache
def _placeholders() -> re.Pattern[str]:
    return re.compile("|".join(_PLACEHOLDERS), re.IGNORECASE | re.DOTALL)


def placeholder(value: str) -> bool:
    """Whether this is a placeholder for a secret, or refers to one stored elsewhere."""
    hidden = MARK.match(value)
    if hidden and not value[hidden.end() : hidden.end() + 1].isalnum():
        return True
    if len(value) > 240:
        return False
    if _placeholders().fullmatch(value):
        return True
    if _MASKED.search(value) and len(re.sub(r"[*•….xX]", "", value)) <= 12:
        return True
    bare = _TEMPLATE.sub("", MARK.sub("", value))
    return bare != value and not random_word(bare) and len(bare) < 16


def random_word(value: str) -> bool:
    """A longer word that mixes letters with digits or symbols, unlike prose."""
    if len(value) < 6 or " " in value:
        return False
    letters, digits = sum(map(str.isalpha, value)), sum(map(str.isdecimal, value))
    symbols = len(value) - letters - digits - value.count("-") - value.count("_") - value.count(".")
    if letters and digits:
        return not re.fullmatch(
            r"[a-z]+[-_.]?\d{1,2}|\d{1,4}[-.]?[a-z]{1,8}|v?\d+(?:\.\d+)+[a-z]*\d*", value, re.IGNORECASE
        )
    if symbols and letters:
        return True
    return len(value) >= 16 and letters > 8 and _scrambled(value)


def _scrambled(value: str) -> bool:
    """Whether the case of the letters changes too often for words."""
    words = _LETTER_WORDS.findall(value)
    return sum(map(len, words)) < 3 * len(words)


def reference(value: str) -> bool:
    """A file, an address, or the name of an environment variable rather than a secret."""
    if _URL.match(value) or _FILE.fullmatch(value):
        return True
    if _ENV_NAME.fullmatch(value) and not random_word(value.replace("_", "")):
        return True
    return bool(_PATH.fullmatch(value)) and not any(
        len(part) >= 20 and random_word(part) and not part.islower() for part in re.split(r"[/\\]", value)
    )


def prose(text: str) -> bool:
    """Words of a sentence rather than a passphrase."""
    words = [word.strip(".,;:!?()\"'").lower() for word in text.split()]
    return any(word in _PROSE for word in words)


def one_word(value: str) -> bool:
    """A single plain word, perhaps with the punctuation of a sentence."""
    return bool(_WORD.fullmatch(value))


def code(value: str) -> bool:
    """An expression: a call, a subscript, a dotted name, a bracket."""
    if _TYPE.fullmatch(value) and not _scrambled(value):
        return True
    if _CODE.match(value) or _DOTTED.fullmatch(value):
        return not any(_random_part(part) for part in re.split(r"\W+", value, maxsplit=8)[:8])
    return False


def _random_part(part: str) -> bool:
    """A part of a dotted name that looks random; words with at most one number are a name."""
    if len(part) < 12 or not random_word(part):
        return False
    words = _LETTER_WORDS.findall(part)
    return sum(map(len, words)) < 4 * len(words) or len(re.findall(r"\d+", part)) > 1


def host(value: str) -> bool:
    """A host name or address, perhaps with a port."""
    return bool(_HOST.fullmatch(value))


def bare_name(value: str) -> bool:
    """What could be a variable: an identifier that is not random."""
    return bool(_NAME.fullmatch(value)) and not random_word(value.strip(",;:)"))


def unclosed(value: str) -> str:
    """The value without the punctuation after it: commas, full stops, brackets that it did not open."""
    value = value.rstrip(",;:")
    while value and value[-1] in _PAIRS and value.count(_PAIRS[value[-1]]) < value.count(value[-1]):
        value = value[:-1].rstrip(",;:")
    return value.rstrip(".!?") or value
