"""awk and sed programs: plain ones are harmless; others run commands or write files, which their text shows."""

import re

from coilclaw.lib.shell.call import Call, Feed, Findings
from coilclaw.lib.shell.options import sort_options
from coilclaw.lib.shell.patterns import overwrites
from coilclaw.lib.shell.shells import written
from coilclaw.lib.shell.words import Word

_AWK_STRING = re.compile(r'"(?:\\.|[^"\\])*"', re.DOTALL)
_AWK_REGEX = re.compile(r"(^|[({;,!~&|}\n])(\s*)/(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\n])+/")
_AWK_COMMENT = re.compile(r"#[^\n]*")
_AWK_RUNS = re.compile(r"\bsystem\s*\(|(?<!\|)\|(?!\|)|@\s*\w")
_AWK_WRITES = re.compile(r'>>?\s*"((?:\\.|[^"\\])*)"')
_AWK_READS = re.compile(r'(?:getline[^<;}\n]*<|@(?:include|load))\s*"((?:\\.|[^"\\])*)"')
_AWK_READS_SOMEWHERE = re.compile(r"\bgetline\b[^<;}\n]*<\s*[\w$(]")
_AWK_WRITES_SOMEWHERE = re.compile(r"\bprintf?\b[^;}\n()]*>>?\s*(?![\"\s>=])[\w$(]")
_SED_SPACE = " \t\n;"
_SED_PLAIN = frozenset("dDgGhHnNpPxzFlL=")


def script(call: Call, found: Findings) -> Feed | None:
    """Judge an awk or sed call; None if this program is neither."""
    if call.name in {"awk", "gawk", "mawk", "nawk", "original-awk"}:
        _awk(call, found)
    elif call.name in {"sed", "gsed", "ssed"}:
        _sed(call, found)
    else:
        return None
    return Feed("unknown", fetched=call.feed.fetched)


def _awk(call: Call, found: Findings) -> None:
    valued = "-F -v -f -e -i -l -E --field-separator --assign --file --source --include --load --exec"
    options = sort_options(call.args, frozenset(valued.split()), permute=False)
    if options.has("-i", "-l", "-E", "--include", "--load", "--exec"):
        found.mark_opaque("executes", call.shown)
    _files(options.values("-f", "--file"), call, found)
    operands = list(options.operands)
    programs = list(options.values("-e", "--source"))
    if not programs and not options.has("-f", "--file"):
        programs, operands = operands[:1], operands[1:]
    for word in programs:
        _awk_program(word, call, found)
    files = [word for word in operands if not re.match(r"[A-Za-z_]\w*=", word.text)]
    included = options.values("-i", "-l", "-E", "--include", "--load", "--exec")
    found.read(call.scope, *files, *included)
    if any(word.text.rpartition("/")[2].startswith("inplace") for word in included):
        found.write(call.scope, *files)


def _files(words: tuple[Word, ...], call: Call, found: Findings) -> None:
    """Programs in files; one from the input or written by this command is code like any other."""
    for word in words:
        if not word.sure or word.text == "-" or word.text.startswith("/dev/"):
            found.mark_opaque("interpreter", call.shown)
        elif written(word.text, call.scope, found) is not None:
            found.mark_opaque("opaque.written", call.shown)
        found.execute(call.scope, word)


def _awk_program(word: Word, call: Call, found: Findings) -> None:
    if not word.sure or word.loose:
        found.mark_opaque("opaque.argument", call.shown)
        return
    if word.fetched:
        found.block("download-run", call.shown)
    text = word.text
    bare = _AWK_COMMENT.sub("", _AWK_REGEX.sub(r"\1\2 0", _AWK_STRING.sub('""', text)))
    if _AWK_RUNS.search(bare):
        found.mark_opaque("interpreter", call.shown)
    found.read(call.scope, *(Word(path) for path in _AWK_READS.findall(text)))
    if _AWK_READS_SOMEWHERE.search(bare):
        found.mark_opaque("opaque.argument", call.shown)
    if ">" in bare:
        for path in _AWK_WRITES.findall(text):
            if re.search(r'>>?\s*""', bare):
                overwrites(Word(path), call.scope, found)
        if _AWK_WRITES_SOMEWHERE.search(bare) or re.search(r'>>?\s*\(|>>?\s*""\s*[\w$(]', bare):
            found.mark_opaque("opaque.target", call.shown)


def _sed(call: Call, found: Findings) -> None:
    in_place, args = _in_place(call.args)
    valued = frozenset({"-e", "-f", "-l", "--expression", "--file", "--line-length"})
    options = sort_options(args, valued)
    _files(options.values("-f", "--file"), call, found)
    operands = list(options.operands)
    scripts = list(options.values("-e", "--expression"))
    if not scripts and not options.has("-f", "--file"):
        scripts, operands = operands[:1], operands[1:]
    for word in scripts:
        if not word.sure or word.loose:
            found.mark_opaque("opaque.argument", call.shown)
        else:
            _Sed(word.text, call, found).run()
    if any(word.optional for word in operands):
        found.mark_opaque("opaque.argument", call.shown)
    for word in operands:
        if in_place:
            overwrites(word, call.scope, found)
        else:
            found.read(call.scope, word)


def _in_place(args: tuple[Word, ...]) -> tuple[bool, tuple[Word, ...]]:
    """Whether -i is given; its suffix is attached, so the word is removed before options are sorted."""
    kept: list[Word] = []
    given = False
    for word in args:
        match = re.fullmatch(r"-([nErsuz]*)i.*|--in-place(=.*)?|--in-p\w*(=.*)?", word.text, re.DOTALL)
        given |= match is not None
        if match is None:
            kept.append(word)
        elif re.fullmatch(r"-[nErsuz]*i[e]", word.text):
            kept.append(Word("-e"))
    return given, tuple(kept)


class _Sed:
    """Just enough of sed's grammar to see the commands that run or write something."""

    def __init__(self, text: str, call: Call, found: Findings) -> None:
        self.text, self.at, self.call, self.found = text, 0, call, found

    def run(self) -> None:
        while self.at < len(self.text):
            if not self.one():
                self.found.mark_opaque("executes", self.call.shown)
                return

    def one(self) -> bool:
        self.skip(_SED_SPACE + "{}")
        if self.at >= len(self.text):
            return True
        if not self.address():
            return False
        self.skip(" \t!")
        if self.at >= len(self.text):
            return False
        command = self.text[self.at]
        self.at += 1
        if command in _SED_PLAIN or command in "{}":
            return True
        if command == "#":
            self.rest_of_line()
            return True
        return self.argument(command)

    def argument(self, command: str) -> bool:
        if command in "sy":
            return self.substitute(command)
        if command in "aic":
            while self.rest_of_line().endswith("\\"):
                pass
        elif command in "rR":
            self.found.read(self.call.scope, Word(self.rest_of_line().strip()))
        elif command in "wW":
            self.writes()
        elif command == "e":
            self.found.mark_opaque("interpreter", self.call.shown)
            inner = self.rest_of_line().strip()
            if inner:
                self.found.follow(inner, self.call.scope.fork(), self.call.feed)
        elif command in "btT:qQv":
            while self.at < len(self.text) and self.text[self.at] not in ";\n}":
                self.at += 1
        else:
            return False
        return True

    def writes(self) -> None:
        path = self.rest_of_line().strip()
        if path not in {"/dev/stdout", "/dev/stderr"}:
            overwrites(Word(path), self.call.scope, self.found)

    def skip(self, chars: str) -> None:
        while self.at < len(self.text) and self.text[self.at] in chars:
            self.at += 1

    def rest_of_line(self) -> str:
        end = self.text.find("\n", self.at)
        end = len(self.text) if end < 0 else end
        line, self.at = self.text[self.at : end], end + 1
        return line

    def address(self) -> bool:
        """Skip `1,5`, `$`, `/re/`, `0~3`, `\\,re,` and ranges of them."""
        simple = re.compile(r"[0-9$~+,]+[ \t]*")
        while self.at < len(self.text):
            char = self.text[self.at]
            if match := simple.match(self.text, self.at):
                self.at = match.end()
            elif char in "/\\":
                self.at += 1
                delimiter = char
                if char == "\\":
                    delimiter = self.text[self.at : self.at + 1]
                    self.at += 1
                if not delimiter or not self.until(delimiter):
                    return False
                self.skip("IM")
                self.skip(" \t")
            else:
                break
        return True

    def until(self, delimiter: str) -> bool:
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 2 if char == "\\" else 1
            if char == delimiter:
                return True
        return False

    def substitute(self, command: str) -> bool:
        delimiter = self.text[self.at : self.at + 1]
        self.at += 1
        if not delimiter or delimiter in "\n\\" or not self.until(delimiter) or not self.until(delimiter):
            return False
        if command == "y":
            return True
        while self.at < len(self.text) and self.text[self.at] in "gpiImMe0123456789w":
            flag = self.text[self.at]
            self.at += 1
            if flag == "e":
                self.found.mark_opaque("interpreter", self.call.shown)
            elif flag == "w":
                self.writes()
                return True
        return self.at >= len(self.text) or self.text[self.at] in _SED_SPACE + "}#"
