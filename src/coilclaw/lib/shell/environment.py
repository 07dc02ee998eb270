"""Variables that make other programs execute something, and which values of them are harmless."""

import re

from coilclaw.lib.shell.call import Findings
from coilclaw.lib.shell.words import Word

_EXECUTE = frozenset({
    "PATH", "IFS", "ENV", "SHELL", "HOME", "PWD", "CDPATH", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND", "PS0", "PS1",
    "PS2", "PS4", "EDITOR", "VISUAL", "BROWSER", "OPENER", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONBREAKPOINT",
    "PYTHONINSPECT", "PYTHONUSERBASE", "PYTHONWARNINGS", "RUBYOPT", "RUBYLIB", "NODE_OPTIONS", "NODE_PATH", "PHPRC",
    "PHP_INI_SCAN_DIR", "LUA_INIT", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "MAVEN_OPTS", "LESS",
    "LESSOPEN", "LESSCLOSE", "MANOPT", "TAR_OPTIONS", "GREP_OPTIONS", "RSYNC_RSH", "RSYNC_CONNECT_PROG", "CVS_RSH",
    "SSH_ASKPASS", "SUDO_ASKPASS", "SUDO_EDITOR", "MAKEFLAGS", "GNUMAKEFLAGS", "MFLAGS", "MAKEFILES", "RUSTC",
    "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTDOC", "RUSTFLAGS", "GOFLAGS", "GCONV_PATH", "LOCPATH",
    "OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES", "CURL_HOME", "WGETRC", "VIMINIT", "EXINIT", "GVIMINIT",
    "EMACSLOADPATH", "INPUTRC", "ZDOTDIR", "FPATH", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "KUBECONFIG", "TERMINFO",
    "COMSPEC", "HOSTALIASES", "AWKPATH", "AWKLIBPATH", "R_PROFILE", "R_ENVIRON", "JULIA_LOAD_PATH", "PSQLRC",
    "TEXINPUTS", "ANSIBLE_CONFIG", "TF_CLI_CONFIG_FILE", "FZF_DEFAULT_COMMAND", "RIPGREP_CONFIG_PATH",
    "NPM_CONFIG_PREFIX", "DOCKER_HOST", "DOCKER_CONFIG", "CMAKE_TOOLCHAIN_FILE", "PKG_CONFIG", "EXECIGNORE",
    "GLOBIGNORE",
})  # fmt: skip
_PREFIXES = ("LD_", "DYLD_", "BASH_", "GIT_", "PERL5", "npm_config_", "NPM_CONFIG_", "PIP_", "UV_", "CARGO_TARGET_",
             "CARGO_BUILD_RUSTC", "GCC_EXEC", "COMPILER_PATH")  # fmt: skip
_HARMLESS = re.compile(
    r"GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)|GIT_TERMINAL_PROMPT|GIT_OPTIONAL_LOCKS|GIT_MERGE_AUTOEDIT|"
    r"GIT_CONFIG_NOSYSTEM|GIT_CEILING_DIRECTORIES|GIT_LITERAL_PATHSPECS|BASH_REMATCH|CARGO_TARGET_DIR|"
    r"PIP_(NO_INPUT|DISABLE_PIP_VERSION_CHECK|QUIET|NO_COLOR)|UV_(OFFLINE|NO_PROGRESS)"
)
_COMPILERS = frozenset({"CC", "CXX", "CPP", "LD", "AR", "AS", "RANLIB", "STRIP", "FC", "PYTHON", "NODE"})
_PLAIN_VALUES: dict[str, re.Pattern[str]] = {
    "NODE_OPTIONS": re.compile(r"(--max[-_]old[-_]space[-_]size=\d+|--no-warnings|--trace-warnings|\s)*"),
    "RUSTFLAGS": re.compile(r"(-D ?warnings|-A ?\w+|-C ?(opt-level|debuginfo|target-cpu)=\w+|\s)*"),
    "GOFLAGS": re.compile(r"(-mod=\w+|-race|-v|-count=\d+|-tags=[\w,]+|\s)*"),
    "MAKEFLAGS": re.compile(r"(-j ?\d*|--no-print-directory|\s)*"),
    "PYTHONWARNINGS": re.compile(r"(error|ignore|default|always|once)?"),
    "LESS": re.compile(r"-?[FRSXKiMqc]*"),
    "PS4": re.compile(r"[^$`]*"),
    "PS1": re.compile(r"[^$`]*"),
}
_NO_PROGRAM = frozenset({"", "cat", "true", ":", "less", "/bin/true", "/bin/cat", "/usr/bin/true"})
_PROGRAM_NAME = re.compile(r"[\w.+-]+")
_LIVE = re.compile(r"\$\(|`|\$\{")


def assigned(name: str, value: Word | None, found: Findings) -> None:
    """Record an assignment that makes something execute, now or later; None is a value known only at run time."""
    base = name.partition("[")[0]
    if value is not None and _LIVE.search(value.text):
        found.mark_opaque("opaque.delayed", f"{name}={value.shown}")
    if base in _COMPILERS:
        _compiler(base, value, found)
    elif executes(base) and not _plain(base, value):
        found.mark_opaque("opaque.assignment", name)


def executes(name: str) -> bool:
    """True if programs execute, load or look up this variable's value."""
    if name in _EXECUTE or name.endswith(("PAGER", "_EDITOR", "_ASKPASS", "_RUNNER", "_LINKER", "_WRAPPER")):
        return True
    return name.startswith(_PREFIXES) and not _HARMLESS.fullmatch(name)


def _plain(name: str, value: Word | None) -> bool:
    if value is None or not value.sure:
        return False
    if name.endswith(("PAGER", "EDITOR")) or name == "VISUAL":
        return value.text in _NO_PROGRAM
    pattern = _PLAIN_VALUES.get(name)
    return pattern is not None and pattern.fullmatch(value.text) is not None


def _compiler(name: str, value: Word | None, found: Findings) -> None:
    if value is not None and value.literal and _PROGRAM_NAME.fullmatch(value.text):
        found.programs[value.text] = None
    elif value is None or value.text:
        found.mark_opaque("opaque.assignment", name)
