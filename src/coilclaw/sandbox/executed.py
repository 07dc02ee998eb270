# ruff: noqa: SIM905 - a hundred quoted words are harder to read
"""Names that other programs execute on their own: an editor, a shell that enters the folder, git, an interpreter.

The table lists names that take effect *without anybody asking for that file*, at any depth. Ordinary sources, a
Makefile, package.json, conftest.py or eslint.config.js are not in it: they run when somebody builds, tests or checks.
Letter case, trailing dots and characters that some file systems ignore make no difference.
"""

import unicodedata
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["file", "folder", "link", "other"]

_NAMES = frozenset(
    # A shell, or a hook of one, that enters the folder or takes it for a home.
    """
    .env.leave .autoenv.leave .autoenv_leave.zsh .envrc.local .smartcd_enter .smartcd_leave .in .out
    .envrc .env .env.local .autoenv .autoenv.zsh .rvmrc .rbenv-vars .profile .login .logout .shrc .cshrc .tcshrc .kshrc
    .mkshrc .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .zshrc .zshenv .zprofile .zlogin .zlogout
    .inputrc .xprofile .xinitrc .xsession .xsessionrc .pam_environment config.fish .ssh .direnv .tmux.conf .screenrc
    .shadowenv.d .xonshrc .flox
    .direnvrc .bash_completion .bashrc.d .zshrc.d .devbox devbox.json devenv.nix flake.nix shell.nix .sdkmanrc .mailcap
    .gnupg .kube .aws .quiltrc .tmuxinator.yml .tmuxinator.yaml .tmuxp.yaml .tmuxp.yml .tmuxp.json .smug.yml
    """
    # An editor or a debugger that opens the folder.
    """
    .vscode .vs .idea .fleet .zed .cursor .windsurf .devcontainer .devcontainer.json .vimrc _vimrc .gvimrc .exrc _exrc
    .nvimrc .nvim.lua .lvimrc .local.vimrc .vim .nvim .emacs .emacs.d .dir-locals.el .dir-locals-2.el .ycm_extra_conf.py
    .gdbinit .gdbearlyinit .lldbinit .pylintrc pylintrc .helix .lapce .nova .theia .clj-kondo .solargraph.yml
    .bsp buildserver.json .sourcekit-lsp rust-analyzer.toml .rust-analyzer.toml hie.yaml .hie-bios config.nims
    .rubocop.yml .flake8 .gitpod.yml .idx .replit .codesandbox .externaltoolbuilders .kateproject .lite_project.lua
    .luarc.json .luarc.jsonc .luacheckrc .mypy.ini mypy.ini
    _gvimrc .vimrc.local .lazy.lua .neoconf.json .nlsp-settings .vimspector.json session.vim .yas-setup.el .kakrc.local
    .run .factorypath .bloop .merlin .fvm .fvmrc .ruby-lsp .ruby-lsp.yml .standard.yml .erb-lint.yml .erb_lint.yml
    .erb-linters .haml-lint.yml .slim-lint.yml .sqlfluff .lintr .cmake-format.py cmake-format.py .gersemirc .tflint.hcl
    .tflint.d .terraform .phpactor.json .phpactor.yml .asciidoctor .asciidoctorconfig .latexmkrc latexmkrc zls.json
    pylintrc.toml .pylintrc.toml .gitpod .gitpod.dockerfile .ona devfile.yaml .devfile.yaml .stackblitzrc replit.nix
    .eslintrc.js .eslintrc.cjs .prettierrc.js .prettierrc.cjs .prettierrc.mjs .prettierrc.ts .stylelintrc.js
    .stylelintrc.cjs .stylelintrc.mjs
    """
    # A coding agent: its settings, hooks, servers and instructions.
    """
    .claude .codex .gemini .mcp.json .aider.conf.yml .cursorrules .windsurfrules .clinerules claude.md claude.local.md
    agents.md agents.override.md gemini.md .agents .agent .opencode opencode.json opencode.jsonc .kiro .qwen qwen.md
    .continue .continuerc.json .roo .roorules .kilocode .junie .factory .amazonq .trae .crush.json crush.json
    .goosehints .aider.conf.yaml .openhands .openhands_instructions .augment .augment-guidelines .warp warp.md .rules
    .cline .copilot .claude-plugin .grok grok.md .vibe agent.md .goose .rovodev .codebuddy codebuddy.md .iflow iflow.md
    .zencoder .tabnine .cody .sourcegraph .lingma .codeium .pi .amp
    .claude.json mcp.json .mcp mcp_config.json .ai .aiassistant .antigravity .crush .kimi .devin .specify gptme.toml
    .firebender firebender.json .voidrules sweep.yaml .sweep.yaml
    """
    # Version control, and what it runs before a commit, after a checkout or on a push.
    """
    .gitattributes .gitmodules .gitconfig .lfsconfig .husky .githooks .pre-commit-config.yaml .pre-commit-config.yml
    .overcommit.yml .lefthook .lefthook-local .huskyrc captainhook.json .rusty-hook.toml
    .hg .hgrc .jj .svn .bzr .sl .fossil-settings _darcs .pijul
    .github .gitlab-ci.yml .circleci .travis.yml .gitea .forgejo .woodpecker .buildkite .cirrus.yml .drone.yml
    .semaphore .tekton .builds .build.yml jenkinsfile azure-pipelines.yml bitbucket-pipelines.yml appveyor.yml
    .appveyor.yml .readthedocs.yml .readthedocs.yaml .mergify.yml netlify.toml vercel.json
    prek.toml hk.pkl .hk .arcconfig .arclint
    .lintstagedrc .commitlintrc .czrc .gitlint .trunk .qlty .moon grumphp.yml .grumphp.yml .cargo-husky .git-hooks
    .hgsub .fslckout _fossil_ .repo .gclient .gclient_entries _mtn .bk .p4config .p4enviro .mrconfig
    .gitlab .drone.star .drone.jsonnet .cirrus.star azure-pipelines.yaml .azure-pipelines .azuredevops .vsts-ci.yml
    buildspec.yml buildspec.yaml cloudbuild.yaml cloudbuild.yml cloudbuild.json zuul.yaml .zuul.yaml .zuul.d .prow.yaml
    .teamcity .space.kts wercker.yml amplify.yml render.yaml railway.json railway.toml nixpacks.toml .do .ebextensions
    .upsun .platform.app.yaml renovate.json renovate.json5 .renovaterc .renovaterc.json
    """
    # A package manager or version manager, whatever the command.
    """
    .npmrc .yarnrc .yarnrc.yml .yarnrc.yaml .pnpmfile.cjs .pnp.cjs .pnp.js .pnp.loader.mjs bunfig.toml .pypirc pip.conf
    pip.ini .condarc .gemrc .bundle .mvn .sbtopts .jvmopts .tool-versions .mise rust-toolchain rust-toolchain.toml
    ansible.cfg .pnpmfile.mjs .bazelrc .buckconfig .buckconfig.local .bazelversion .bazeliskrc .pants.rc
    .pants.bootstrap .plzconfig .prototools .corepack.env .python-version .python-versions uv.toml poetry.toml pdm.toml
    .pdm.toml .pdm-python .pdm-plugins
    .bunfig.toml pnpm-workspace.yaml .bowerrc nuget.config .mambarc local.properties .mill-opts .mill-jvm-opts .luarocks
    _opam .swiftpm dub.settings.json .buckconfig.d pants.toml .plzconfig.local .vagrantplugins .chef
    .kitchen.yml .kitchen.local.yml node.config.json
    """
    # An interpreter or a test runner, whatever it runs.
    """
    .pdbrc .irbrc .pryrc .rspec .proverc .rprofile .renviron .rdata .octaverc .ghci .iex.exs .ocamlinit .utoprc .erlang
    .guile .perldb .user.ini .htaccess pyvenv.cfg .pdbrc.py .rspec-local .byebugrc .rdbgrc .rdbgrc.rb .gnuplot startup.m
    irb.rc _irbrc $irbrc .rdebugrc .yardopts .rdoc_options .psysh.php php.ini localvaletdriver.php .flaskenv .busted
    .luacov .ghcid .jdbrc jdb.ini .dbxrc .dbxinit .valgrindrc finish.m pathdef.m matlabrc.m .scilab scilab.ini
    maxima-init.mac maxima-init.lisp .singularrc .axiom.input .fricas.input .swiplrc .plrc .yaprc .sbclrc .clisprc
    .eclrc nim.cfg dmd.conf sc.ini ldc2.conf .taprc
    """.split()
)
_PAIRS = frozenset(
    (
        (".cargo", "config"),
        (".cargo", "config.toml"),
        (".yarn", "releases"),
        (".yarn", "plugins"),
        (".yarn", "sdks"),
        (".config", "mise"),
        ("mise", "config.toml"),
        (".config", "git"),
        (".config", "fish"),
        (".config", "nvim"),
        (".config", "autostart"),
        (".config", "systemd"),
        (".config", "environment.d"),
        (".config", "direnv"),
        (".config", "irb"),
        (".config", "emacs"),
        (".config", "helix"),
        (".config", "kak"),
        (".config", "zed"),
        (".config", "tmux"),
        (".config", "kitty"),
        (".config", "starship.toml"),
        (".config", "nushell"),
        (".config", "powershell"),
        (".config", "gdb"),
        (".config", "gh"),
        (".config", "lazygit"),
        (".config", "pip"),
        (".config", "uv"),
        (".config", "opencode"),
        (".config", "dotnet-tools.json"),
        (".config", "wt.toml"),
        (".docker", "config.json"),
        (".docker", "cli-plugins"),
        (".local", "bin"),
        ("gradle", "wrapper"),
        ("renv", "activate.r"),
        (".pixi", "config.toml"),
        ("conda", "activate.d"),
        ("conda", "deactivate.d"),
        ("tools", "bazel"),
        ("bin", "hermit.hcl"),
        ("bin", "activate-hermit"),
    )
)
"""Folders with other content: only these names in them count."""
_PARENTS = frozenset(folder for folder, _ in _PAIRS)
_ENVIRONMENT = ("bin", "scripts")
"""Where a virtual environment has its programs."""
_SUFFIXES = (
    ".pth", "._pth", ".code-workspace", ".sublime-project", ".ipr", ".iws", ".suo", ".user", ".run.xml", ".nims",
    ".bazelrc", "-gdb.py", "-gdb.gdb", "-gdb.scm",
)  # fmt: skip
_PREFIXES = (".envrc.", ".envrc-", ".ghc.environment.")
_EXAMPLES = ("example", "sample", "template", "dist", "schema", "defaults")
"""What `.env.NAME` is called that no program loads."""
_MODULES = frozenset(("sitecustomize", "usercustomize"))
"""Modules that Python imports by itself: files of several kinds, or folders."""
_CONFIGS = frozenset(
    """
    lefthook .lefthook lefthook-local .lefthook-local mise .mise .rtx .huskyrc .simple-git-hooks .woodpecker husky
    .lintstagedrc lint-staged .commitlintrc commitlint .mocharc .golangci .cz .cz-config .nano-staged
    """.split()
)
"""Configurations that their program reads in several forms."""
_CONFIG_FORMS = (".yml", ".yaml", ".toml", ".json", ".jsonc", ".js", ".cjs", ".mjs", ".ts")

_IGNORED = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF, 0x00AD, *range(0xFE00, 0xFE10))
)
"""Characters that macOS file systems ignore when comparing names, and other invisible ones."""


def folded(name: str) -> str:
    """The name as the most forgiving file system compares it."""
    if not name.isascii():
        name = unicodedata.normalize("NFC", name.translate(_IGNORED)).casefold()
    plain = name.lower()
    return plain.rstrip(". ") if plain[-1:] in (".", " ") else plain


def is_dot_git(name: str) -> bool:
    """Whether git on some file system would treat the name as `.git`."""
    plain = folded(name.partition(":")[0])
    return plain == ".git" or (plain.startswith("git~") and plain[4:].isdigit())


def is_executed(plain: str, folder: str, *, link: bool) -> bool:
    """Whether other programs execute this (folded) name in a folder with that (folded) name.

    A link with the name of a folder that holds such names counts itself: what it leads to has names of its own.
    """
    if ":" in plain:  # what follows names a stream of the same file
        plain = folded(plain.partition(":")[0])
    return (
        plain in _NAMES
        or plain.endswith(_SUFFIXES)
        or (folder in _PARENTS and (folder, plain) in _PAIRS)
        or (folder in _ENVIRONMENT and _is_of_environment(plain))
        or (link and (plain in _PARENTS or plain in _ENVIRONMENT))
        or _is_in_another_form(plain)
    )


def _is_in_another_form(plain: str) -> bool:
    stem = plain[:1] + plain[1:].partition(".")[0]
    return (
        stem in _MODULES
        or (stem in _CONFIGS and plain.endswith(_CONFIG_FORMS))
        or (plain[:1] == "." and _is_of_a_shell(plain, stem))
        or (stem.endswith("_config") and stem.startswith(("ipython", "jupyter")) and plain.endswith((".py", ".json")))
    )


def _is_of_a_shell(plain: str, stem: str) -> bool:
    """What a shell's hook reads: a pinned version, which is part of a path there, or another form of `.env`."""
    if stem == ".env":
        return not plain.endswith(_EXAMPLES)
    return plain.endswith(("-version", "-versions")) or plain.startswith(_PREFIXES)


def _is_of_environment(plain: str) -> bool:
    """What a shell or an editor runs of a virtual environment by itself."""
    stem = plain.partition(".")[0]
    return stem in ("activate", "activate_this") or stem.rstrip("0123456789") in ("python", "pythonw")


def executed_part(relative: str, *, link: bool = False) -> str:
    """The leading part of a path that ends in such a name, or empty; everything below it counts too.

    With `link` the path is that of a link, or will be.
    """
    folder = ""
    parts = relative.split("/")
    for depth, name in enumerate(parts, start=1):
        plain = folded(name)
        if is_executed(plain, folder, link=link and depth == len(parts)):
            return "/".join(parts[:depth])
        folder = plain
    return ""


GIT_PARTS = frozenset(("head", "objects", "refs", "commondir"))
"""The names by which git recognises a repository."""
GIT_FILES = GIT_PARTS | frozenset(
    """
    config config.worktree description hooks info logs packed-refs index gitdir branches modules worktrees lfs shallow
    orig_head fetch_head merge_head commit_editmsg objects-tmp reftable
    """.split()
)
"""Other names in such a folder."""


Shape: TypeAlias = set[tuple[str, Kind]]
"""The (folded) names of a folder's entries with their kinds; one name may have several, in different letters."""


def is_git_shaped(shape: Shape) -> bool:
    """Whether git would treat a folder of this shape as a repository, bare or of a linked worktree."""

    def has(name: str, *kinds: Kind) -> bool:
        return any((name, kind) in shape for kind in kinds)

    if not has("head", "file", "link"):
        return False
    return has("commondir", "file", "link") or all(has(name, "folder", "link") for name in ("objects", "refs"))
