"""What is known about everyday programs: which operands they read or write, and which options execute something."""

from functools import cache

import msgspec


class Program(msgspec.Struct, frozen=True):
    """How one program treats its arguments."""

    operands: str
    """`read`, `write`, `text` (no paths), `last` (the last is written, the others read), `move` (all written)."""
    valued: frozenset[str] = frozenset()
    """Options that take a value."""
    runs: frozenset[str] = frozenset()
    """Options that make it execute something."""
    writes: frozenset[str] = frozenset()
    """Options whose value is written."""
    reads: frozenset[str] = frozenset()
    """Options whose value is read."""
    text: int = 0
    """How many leading operands are a pattern, a mode or a script."""
    replaces: frozenset[str] = frozenset()
    """Options that give the pattern instead, so that every operand is a path."""
    strict: bool = False
    """An unknown argument could execute or destroy something."""


def _p(operands: str, valued: str = "", *, runs: str = "", writes: str = "", reads: str = "", text: int = 0,
       replaces: str = "", strict: bool | None = None) -> Program:  # fmt: skip
    sets = [frozenset(each.split()) for each in (valued, runs, writes, reads, replaces)]
    every = sets[0] | sets[2] | sets[3] | sets[4]
    careful = operands in {"write", "move", "last"} if strict is None else strict
    return Program(operands, every | sets[1], sets[1], sets[2], sets[3], text, sets[4], careful)


_TEXT = """
echo printf true false : test [ basename dirname seq expr date sleep tr yes id whoami uname hostname nproc which whereis
type uptime arch tty locale logname groups users who w printenv cal getconf tput clear factor numfmt man apropos whatis
info help ps pgrep free vmstat iostat lscpu lsblk lsof lsmod ss netstat ip ifconfig dig nslookup host ping traceroute
jobs wait shift return exit break continue set shopt umask ulimit getopts hash dirs times caller pwd command
fortune cowsay figlet banner units bc dc pidof hostid stty mesg last uuidgen mcookie ldconfig systemctl service
journalctl
"""
_READ = """
cat wc ls nl tac rev od xxd hexdump strings file stat md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum
sum paste join comm cmp diff diff3 sdiff colordiff fold fmt pr expand unexpand column tsort base64 base32 basenc df tree
realpath readlink zcat bzcat xzcat zstdcat zless look vdir dir namei getfacl lsattr nm objdump readelf size
ldd hd iconv exa eza cloc scc tokei wdiff shellcheck pygmentize highlight csvlook xmllint identify ffprobe
"""


@cache
def programs() -> dict[str, Program]:
    """The table, made when first needed."""
    table = {name: _p("text") for name in _TEXT.split()}
    table |= {name: _p("read") for name in _READ.split()}
    table |= _searchers() | _writers() | _executors()
    return table


def _searchers() -> dict[str, Program]:
    grep = _p("read", "-A -B -C -m -d -D --include --exclude --exclude-dir --max-count --label", reads="--exclude-from",
              text=1, replaces="-e -f --regexp --file")  # fmt: skip
    return {
        **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep", "zegrep", "bzgrep", "xzgrep"), grep),
        "head": _p("read", "-n -c --lines --bytes"),
        "tail": _p("read", "-n -c -s --lines --bytes --pid --sleep-interval"),
        "cut": _p("read", "-d -f -c -b --delimiter --fields --characters --bytes --output-delimiter"),
        "uniq": _p("last", "-f -s -w --skip-fields --skip-chars --check-chars", strict=False),
        "sort": _p("read", "-k -t -S --key --field-separator --buffer-size --parallel --batch-size",
                   runs="--compress-program", writes="-o --output -T --temporary-directory", reads="--files0-from"),
        "shuf": _p("read", "-n -i --head-count --input-range", writes="-o --output"),
        "jq": _p("read", "--arg --argjson --indent -L", reads="--slurpfile --rawfile", text=1,
                 replaces="-f --from-file"),
        "yq": _p("read", "-o -p", text=1, replaces="--from-file"),
        "du": _p("read", "-d --max-depth --exclude --threshold -t -B"),
        "rg": _p("read", "-g -t -T -A -B -C -m -j -M -r -E --glob --iglob --type --type-not --max-depth --max-count "
                 "--context --sort --sortr --threads --replace --colors --color", runs="--pre --hostname-bin", text=1,
                 replaces="-e -f --regexp --file --files", strict=True),
        "ag": _p("read", "-A -B -C -G -m --ignore --ignore-dir --depth", runs="--pager", text=1, strict=True),
        "ack": _p("read", "-A -B -C -m --type --ignore-dir", runs="--pager", text=1, strict=True),
        "bat": _p("read", "-l -r -H --language --line-range --theme --style", runs="--pager", strict=True),
        "fd": _p("read", "-e -t -d -E -g -c --extension --type --max-depth --exclude",
                 runs="-x -X --exec --exec-batch", text=1, strict=True),
        "locate": _p("text"),
        "xmlstarlet": _p("read", text=2),
        "tcpdump": _p("text", "-i -c -s -C -G -W", runs="-z", writes="-w", reads="-r -F", strict=True),
        "nmap": _p("text", "-p -T -e -S", runs="--script", writes="-oN -oX -oG -oA", strict=True),
        "less": _p("read", runs="-o", strict=True),
        "more": _p("read", strict=True),
    }  # fmt: skip


def _writers() -> dict[str, Program]:
    pack = _p("write", "-S --suffix -T --threads")
    return {
        **dict.fromkeys(("rmdir", "unlink", "mkfifo", "mknod", "shred", "wipefs"),
                        _p("write", "-m --mode -d --date -t -n -s --iterations --size -p --tmpdir --suffix")),
        **dict.fromkeys(("gzip", "gunzip", "bzip2", "bunzip2", "xz", "unxz", "zstd", "unzstd", "lz4", "compress",
                         "uncompress", "dos2unix", "unix2dos", "setfattr", "srm"), pack),
        "tee": _p("write"),
        "mkdir": _p("write", "-m --mode -Z --context"),
        "rm": _p("write", "--interactive"),
        "touch": _p("write", "-d -t --date --time", reads="-r --reference"),
        "mktemp": _p("text", writes="-p"),
        "truncate": _p("write", "-s --size", reads="-r --reference"),
        "chmod": _p("write", text=1, reads="--reference"),
        "chown": _p("write", "--from", text=1, reads="--reference"),
        "chgrp": _p("write", text=1, reads="--reference"),
        "chattr": _p("write", text=1),
        "setfacl": _p("write", "-m -x -M -X --modify --remove"),
        "cp": _p("last", "-S --suffix --backup --sparse", writes="-t --target-directory"),
        "install": _p("last", "-m -o -g -S --mode --owner --group", runs="--strip-program",
                      writes="-t --target-directory"),
        "ln": _p("last", "-S --suffix", writes="-t --target-directory"),
        "mv": _p("move", "-S --suffix", writes="-t --target-directory"),
        "rename": _p("write", text=2, strict=True),
        "split": _p("read", "-l -b -n -a -C --lines --bytes", runs="--filter", strict=True),
        "csplit": _p("read", "-n -b", writes="-f", strict=True),
        "patch": _p("write", "-p -d --strip --directory", writes="-o --output -r --reject-file", reads="-i --input"),
        "unzip": _p("read", "-x -P", writes="-d", strict=True),
        "zip": _p("write", "-b -i -x -P", runs="-TT --unzip-command", strict=True),
        "7z": _p("read", text=1, strict=True),
        "rsync": _p("last", "--exclude --include --filter -f --bwlimit --timeout --port", runs="-e --rsh --rsync-path",
                    reads="--files-from --exclude-from --include-from", writes="--log-file --backup-dir --partial-dir"),
        "scp": _p("last", "-P -i -F -l -c -J -o", runs="-S -o"),
        "wget": _p("text", "-U -T -t -e --header --timeout --tries --user --password --post-data",
                   runs="--use-askpass -e --execute", reads="--post-file --body-file -i --input-file --config",
                   writes="-O --output-document -P --directory-prefix -o --output-file -a", strict=True),
        "curl": _p("text", "-X -H -d -u -A -e -b -m -x -F --request --header --data --data-raw --data-binary --user "
                   "--user-agent --max-time --retry --connect-timeout --proxy --url --form -w --write-out -r --json",
                   runs="-K --config", reads="-T --upload-file --cacert --cert --key -E --netrc-file",
                   writes="-o --output -c --cookie-jar -D --dump-header --output-dir --trace --trace-ascii --stderr",
                   strict=True),
        "openssl": _p("read", writes="-out", reads="-in", text=1, runs="-engine -provider-path", strict=True),
        "gpg": _p("read", "-r -u --recipient", writes="-o --output"),
        "ffmpeg": _p("last", reads="-i"),
        "convert": _p("last"),
        "gcc": _p("read", "-x -I -L -l -D -W", writes="-o", runs="-wrapper -B -fplugin -specs", strict=True),
        "ssh-keygen": _p("text", "-t -b -C -N -P", writes="-f", runs="-D", strict=True),
    }  # fmt: skip


def _executors() -> dict[str, Program]:
    return {
        "man": _p("text", runs="-P --pager -H --html", strict=True),
        "tar": _p("text", strict=True),
        "go": _p("text", "-o -tags -run -count -timeout -bench -mod", runs="-exec -toolexec -vettool"),
        "cargo": _p("text", "-p --package --bin --test --example --features --target -j --profile", runs="--config"),
        "pytest": _p("read", "-k -m -p -c -n -o -W -r --tb --maxfail --durations --cov --junitxml --rootdir"),
        "ruff": _p("read", "--select --ignore --line-length --config --target-version", text=1),
        "crontab": _p("read", "-u", strict=True),
        "git": _p("text"),
        "sqlite3": _p("write", "-separator -newline -nullvalue"),
        "psql": _p("text", "-h -p -U -d -c -f -v -F", strict=True),
        "mysql": _p("text", "-h -P -u -D -e", strict=True),
    }  # fmt: skip


@cache
def harmless() -> frozenset[str]:
    """Programs that only read and print, whatever their arguments."""
    table = programs()
    plain = {
        name for name, each in table.items() if each.operands in {"read", "text"} and not each.runs and not each.strict
    }
    named = {"head", "tail", "sort", "cut", "jq", "du"}
    not_plain = {
        "openssl",
        "gpg",
        "git",
        "command",
        "yes",
        "kill",
        "systemctl",
        "service",
        "ip",
        "ifconfig",
        "man",
        "split",
    }
    return frozenset((plain | named) - not_plain)
