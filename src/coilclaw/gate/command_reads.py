"""Which paths a plain command could have read, told from its text; anything that is not plain could read everything.

Only the simplest commands are plain: known readers with literal words, joined by pipes and lists. Their words are all
taken for paths, so that no option can name a file unseen; what is implied (the current folder) is added.
"""

import re
import shlex
from pathlib import Path

from coilclaw.gate.paths import UPLOADS
from coilclaw.lib.shell.facts import CommandFacts

_SIMPLE = re.compile(r"[\w \t./,:=@%+'\"*?\[\]|;&<>-]*")
"""No expansions, escapes, blocks or comments, one line: only words, patterns and redirections."""
_PUNCTUATION = re.compile(r"[|;&<>]+")
_JOINS = frozenset({"|", "||", "&&", ";", "&", "|&"})
_REDIRECTS = frozenset({"<", ">", ">>", ">&", "&>", "<&", ">|", "&>>"})
_PATTERN = re.compile(r"[*?\[]")

_TEXT = frozenset({"pwd", "id", "whoami", "uname", "true", "false", "echo", "printf", "sleep", "seq", "date",
                   "basename", "dirname", "test"})  # fmt: skip
_CONTENT = frozenset({"cat", "head", "tail", "wc", "nl", "tac", "rev", "fold", "cut", "uniq", "tr", "cmp", "stat",
                      "readlink", "realpath", "sort", "diff"})  # fmt: skip
_FLAGS_OF = {
    **dict.fromkeys(("grep", "egrep", "fgrep"), re.compile(r"-[nivclwHhsEFxoqabL]+")),
    "ls": re.compile(r"-[alh1rtSFdpmxCgGiknoqsuUXAB]+"),
    "du": re.compile(r"-[ahskmcxSb]+"),
}
"""Readers that look into the current folder by themselves, and the flags with which they do so only without a path."""
_ALWAYS_HERE = frozenset({"rg", "tree"})
_READERS = _TEXT | _CONTENT | _ALWAYS_HERE | set(_FLAGS_OF)
_LONGEST_OPTION = 64
_CHANGE_REPOSITORY = frozenset(
    f"git {verb}"
    for verb in """
    add am checkout cherry-pick commit fetch merge mv pull push rebase reset restore revert rm stash switch
    """.split()  # noqa: SIM905
)
"""Subcommands of git that write into the repository whatever their operands."""
_ELSEWHERE = re.compile(r"\b(cd|pushd|clone|init)\b|\s-C|/tmp|--git-dir|--work-tree|GIT_")
"""What may make git work in another repository than that of the folder."""


def named_paths(facts: CommandFacts) -> list[str] | None:
    """Every path a plain command could have read, folders standing for all below; None when it could be any."""
    text = facts.text.strip(" \t\n")
    if facts.opaque or facts.blocked or not set(facts.programs) <= _READERS or not _SIMPLE.fullmatch(text):
        return None
    try:
        lexer = shlex.shlex(text, posix=True, punctuation_chars="|;&<>")
        lexer.commenters = ""
        lexer.whitespace_split = True
        tokens = list(lexer)
    except ValueError:
        return None
    paths: dict[str, None] = dict.fromkeys((*facts.reads, *facts.writes))
    words: list[str] = []
    redirects = False
    for token in [*tokens, ";"]:
        if redirects:  # where it goes is a path too, but no operand: `ls > names` lists this folder
            paths.update(dict.fromkeys(_candidates(token)))
            redirects = False
        elif token in _JOINS:
            if words and not _segment(words, paths):
                return None
            words = []
        elif token in _REDIRECTS and words:
            redirects = True
            if len(words) > 1 and words[-1].isdigit():  # `2>`: most likely a descriptor, maybe a file
                paths[words.pop()] = None
        elif _PUNCTUATION.fullmatch(token):
            return None
        else:
            words.append(token)
    return list(dict.fromkeys(_before_pattern(path) for path in paths))


def changes_repository(facts: CommandFacts, folder: Path) -> bool:
    """Whether a command would have git change the folder's own repository, which it cannot: boxes have it read-only."""
    verbs = _CHANGE_REPOSITORY.intersection(facts.verbs)
    return bool(verbs) and not _ELSEWHERE.search(facts.text) and (folder / ".git").exists()


def lists_here(facts: CommandFacts) -> bool:
    """Whether a command is a plain `ls` of the folder it runs in: it shows what lies there, and nothing of folders."""
    name, *arguments = facts.text.split() or [""]
    flags = _FLAGS_OF["ls"]
    return name == "ls" and all(word == "." or flags.fullmatch(word) for word in arguments)


def names_uploads(facts: CommandFacts) -> bool:
    """Whether a command may mean the folder of uploads: it spells the name, or runs git, to which files that are out
    of sight are deleted ones. What nobody can read may mean anything."""
    return bool(facts.opaque) or UPLOADS in facts.text or "git" in facts.programs


def _segment(words: list[str], paths: dict[str, None]) -> bool:
    """Note what one program could read; False when it is not a plain reader."""
    name, *arguments = words
    if name not in _READERS:
        return False
    for word in arguments:
        if word.startswith("--f") or (word.startswith("-") and len(word) > _LONGEST_OPTION):
            return False  # --files0-from and its abbreviations: the files are named in a file
        paths.update(dict.fromkeys(_candidates(word)))
    if name in _ALWAYS_HERE or (name in _FLAGS_OF and _looks_here(name, arguments)):
        paths[""] = None
    return True


def _looks_here(name: str, arguments: list[str]) -> bool:
    flags = _FLAGS_OF[name]
    plain = all(flags.fullmatch(word) for word in arguments if word.startswith("-"))
    operands = [word for word in arguments if not word.startswith("-")]
    if name in ("ls", "du"):
        return not plain or not operands
    return not plain  # a search goes through folders only when told to


def _candidates(word: str) -> list[str]:
    """The paths a word could name: itself, what follows an equals sign, what is glued to a flag."""
    found = [word]
    if "=" in word:
        found.append(word.partition("=")[2])
    if word.startswith("-"):
        found += [word[place:] for place in range(2, len(word))]
    return [each for each in found if each and each != "-"]


def _before_pattern(path: str) -> str:
    """A pattern stands for everything below the last folder before it."""
    pattern = _PATTERN.search(path)
    return path if pattern is None else path[: pattern.start()].rpartition("/")[0] or ("/" if path[0] == "/" else "")
