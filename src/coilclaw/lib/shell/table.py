"""What is known about programs, one line each: what their operands are, and what their options read, write and run.

A line is `NAMES: OPERANDS; SECTION WORD…; SECTION WORD…`. It continues where one blank starts the next line,
and with a new section where two do. `git/clone` is a program and its subcommand.

OPERANDS  `read`, `write`, `first` or `last` (that one is written, the others read), `move` (all written), `text` (no
          paths), `guess` (what looks like a path is read). Then, as they apply: `skip1`, `skip2` (leading operands that
          are a pattern, a mode or a script), `words` (long options begin with one dash), `strict` or `loose` (an
          argument only known when it runs could do harm, or not; without either, it could where operands are written).
takes     options with a value that is neither path nor command
reads     options whose value is read               data   the same for what follows `@` or `<` in the value
writes    options whose value is written            in     options that say in which directory it works
runs      options, or subcommands, that execute something; `*` ends a prefix of any argument
edits     options with which operands are written   spares options with which nothing is
instead   options that give the pattern or script, so that no operand is one
pairs     options with two values, the second counts
"""

ANY_PROGRAM = """
guess words; writes -o -out -output -outfile -outdir -output-directory --output --out --outfile --out-file --output-file
--outdir --out-dir --output-dir --output-directory --dest --destination --log-file --logfile; edits --write --fix
--overwrite; runs --eval --exec --execute
"""
"""The default for a program without a line; the sections apply to every `guess`."""

ANY_GIT = """
text; takes -m -C -c -n -b -B -u -L -S -G -t -e -s --message --author --date --format --pretty --since --until --after
--before --grep --branch --depth --origin --max-count --onto --strategy --cleanup --trailer --filter --jobs
--exclude --prefix --remote; reads -F --file --pathspec-from-file --contents --reference; writes --output
--separate-git-dir
"""
"""The default options of git subcommands; their own lines add to it."""

LOOKERS = r"""
echo printf true false [ test basename dirname seq expr sleep tr yes id whoami uname hostname nproc which whereis type
 uptime arch tty locale logname groups users who w printenv cal getconf tput clear factor numfmt apropos whatis info
 help ps pgrep free vmstat iostat lscpu lsblk lsof lsmod netstat ifconfig nslookup host ping traceroute jobs wait shift
 return exit break continue set shopt umask ulimit getopts hash dirs times caller pwd command fortune cowsay figlet
 banner units pidof hostid stty mesg last uuidgen mcookie ldconfig locate: text
date: text; takes -d --date; reads -f --file -r --reference
dig: text; reads -f -k
ss: text; reads -F --filter
ip: text words; runs netns vrf -batch -b -force; reads -batch -b
systemctl: text; runs start restart enable link edit set-environment import-environment daemon-reload
service: text; runs start restart
journalctl: text; reads --file -D --directory
man: guess strict; runs -P* --pager -H* --html --preprocessor; reads -C --config-file
cat ls tac rev od hexdump stat md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum paste join comm
 cmp diff3 fold fmt pr expand unexpand column tsort df realpath readlink zcat bzcat xzcat zstdcat zless look vdir dir
 namei getfacl lsattr readelf hd exa eza cloc scc tokei wdiff shellcheck pygmentize highlight csvlook identify
 ffprobe: read
nl: read; takes -b -d -f -h -i -l -n -s -v -w
diff sdiff colordiff: read; takes -I -U -C -W -x --ignore-matching-lines --label --exclude; writes --output
  reads -X --exclude-from --from-file --to-file
base64 base32 basenc: read; takes -w --wrap; writes -o --output; reads -i
wc: read; reads --files0-from
file: read; takes -P -F --separator -e; reads -f --files-from -m --magic-file; runs -C --compile
strings nm size objdump: read; takes -n -e -j -M --bytes; runs --plugin
ldd: read
tree: read; takes -L -P -I --filelimit --charset; writes -o; reads --fromfile --gitfile
xxd: last loose; takes -l -c -g -s -o -n -R
iconv: read; takes -f -t --from-code --to-code; writes -o --output
xmllint: read; takes --xpath --encode; writes --output -o; reads --schema --relaxng --dtdvalid
head: read; takes -n -c --lines --bytes
tail: read; takes -n -c -s --lines --bytes --pid --sleep-interval
cut: read; takes -d -f -c -b --delimiter --fields --characters --bytes --output-delimiter
du: read; takes -d --max-depth --exclude --threshold -t -B; reads --files0-from -X --exclude-from
bc: read
dc: read; takes -e --expression; reads -f --file
uuencode: read
uniq: last loose; takes -f -s -w --skip-fields --skip-chars --check-chars
sort: read; takes -k -t -S --key --field-separator --buffer-size --parallel --batch-size --sort
  runs --compress-program; writes -o --output -T --temporary-directory; reads --files0-from --random-source
shuf: read; takes -n -i --head-count --input-range; writes -o --output; reads --random-source
grep egrep fgrep zgrep zegrep bzgrep xzgrep: read skip1; takes -A -B -C -m -d -D --include --exclude --exclude-dir
  takes --max-count --label --context; reads -f --file --exclude-from; instead -e -f --regexp --file
jq: read skip1; takes --indent -L; pairs --arg --argjson --slurpfile --rawfile --argfile
  reads --slurpfile --rawfile --argfile -f --from-file; instead -f --from-file
yq: read skip1; takes -o -p --arg -I --output-format --input-format; edits -i --inplace --in-place
  reads --from-file; instead --from-file
rg: read skip1 strict; takes -g -t -T -A -B -C -m -j -M -r -E --glob --iglob --type --type-not --max-depth --max-count
  takes --context --sort --sortr --threads --replace --colors --color; runs --pre --hostname-bin
  reads -f --file --ignore-file; instead -e -f --regexp --file --files
ag: read skip1 strict; takes -A -B -C -G -m --ignore --ignore-dir --depth; runs --pager; reads -p --path-to-ignore
ack: read skip1 strict; takes -A -B -C -m --type --ignore-dir; runs --pager; reads --ackrc --files-from
bat batcat: read strict; takes -l -r -H --language --line-range --theme --style; runs --pager
fd fdfind: read skip1 strict; takes -e -t -d -E -g -c --extension --type --max-depth --exclude
  runs -x* -X* --exec --exec-batch; reads --ignore-file; in -C --base-directory
xmlstarlet: read skip2
python/json.tool: last loose; takes --indent
python/http.server: text; reads -d --directory
dd: text
tcpdump: text strict; takes -i -c -s -C -G -W; runs -z; writes -w; reads -r -F
nmap: text words strict; takes -p -T -e -S; runs --script; writes -oN -oX -oG -oA -oS; reads -iL --excludefile
less more most: read strict; runs -o -O -k --lesskey-file --lesskey-src +*
"""

WRITERS = r"""
tee rm mkfifo mknod rmdir unlink mkdir sponge ed: write; takes -m --mode -Z --context --interactive
shred wipefs srm: write; takes -n -s --iterations --size; reads --random-source
gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lz4 compress uncompress pigz brotli: write; takes -S --suffix -T --threads
  writes -o; spares -c -l -t --stdout --to-stdout --list --test; reads -D --files --files0
dos2unix unix2dos setfattr: write
fallocate: write; takes -l -o --length --offset
venv virtualenv python/venv: write loose; takes --prompt -p --python
touch: write; takes -d -t --date --time; reads -r --reference
mktemp: write loose; takes --suffix; writes -p --tmpdir; spares -u --dry-run
truncate: write; takes -s --size; reads -r --reference
chmod chgrp: write skip1; reads --reference; instead --reference
chown: write skip1; takes --from; reads --reference; instead --reference
chattr: write skip1
setfacl: write; takes -m -x --modify --remove; reads -M -X --restore --modify-file
cp: last; takes -S --suffix --backup --sparse; writes -t --target-directory
install: last; takes -m -o -g -S --mode --owner --group; runs --strip-program; writes -t --target-directory
ln: last; takes -S --suffix; writes -t --target-directory
mv: move; takes -S --suffix; writes -t --target-directory
rename prename: write skip2 strict
split: last strict; takes -l -b -n -a -C -t --lines --bytes --number --suffix-length --additional-suffix; runs --filter
csplit: read strict; takes -n -b --digits --suffix-format; writes -f --prefix
patch: first; takes -p -F -V --strip --fuzz --version-control; writes -o --output -r --reject-file; reads -i --input
  in -d --directory
unzip: read strict; takes -x -P; writes -d
zip: first strict; takes -b -i -x -P -n; runs -TT* --unzip-command; writes -O --out
python/zipfile python/tarfile python/gzip: write; spares -l -t --list --test
7z/a 7z/u 7z/d 7za/a 7za/u 7za/d 7zz/a 7zz/u: first skip1 words
7z 7za 7zz: guess words strict; writes -o -w
cpio: write strict; takes -H -R -C; writes -O -F; reads -I -E; in -D --directory; runs --rsh-command
ar/t ar/tv ar/p ar/x: read skip1
ar/r ar/rc ar/rs ar/rv ar/rcs ar/cr ar/crs ar/q ar/qc: first skip1
ar: write; runs --plugin; in --output
rsync: last; takes --exclude --include --filter -f --bwlimit --timeout --port; runs -e* --rsh --rsync-path
  reads --files-from --exclude-from --include-from --password-file --compare-dest --link-dest
  writes --log-file --backup-dir --partial-dir -T --temp-dir --write-batch
scp: last; takes -P -l -c -J; runs -S* -o*; reads -i -F
ssh: text; takes -b -c -D -e -I -J -L -l -m -O -p -Q -R -W -w; reads -i -F; writes -E -S; runs -o*
sftp: text; runs -S* -o* -D; reads -b -i -F
wget: text strict; takes -U -T -t --header --timeout --tries --user --password --post-data -A -R -D -l
  runs --use-askpass -e* --execute; reads --post-file --body-file -i --input-file --config --load-cookies
  writes -O --output-document -P --directory-prefix -o --output-file -a --append-output --save-cookies --warc-file
curl: text strict; takes -X -u -A -e -m -x -w -r -C -y -Y -z --request --user --user-agent --max-time --retry --proxy
  takes --connect-timeout --url --write-out --limit-rate; runs -K* --config --engine --proto-default
  data -d -F -H -w --data --data-ascii --data-raw --data-binary --data-urlencode --form --header --json --variable
  reads -T --upload-file --cacert --cert --key -E --netrc-file -b --cookie -K --config --etag-compare
  writes -o --output -c --cookie-jar -D --dump-header --output-dir --trace --trace-ascii --stderr --hsts --etag-save
aria2c axel: text; takes -x -s -j -n; writes -o --out -d --dir -l --log; reads -i --input-file; runs --on-download-*
ffmpeg: write words; takes -f -c -r -s -t -ss -to -vf -af -b -map -vcodec -acodec -codec; reads -i
convert magick: last words
pandoc: read; takes -f -t -V -M --from --to --variable --metadata; runs -F* --filter -L* --lua-filter --pdf-engine
  writes -o --output --extract-media --log; reads --template -c --css -H --bibliography --metadata-file -d
  reads --defaults
openssl: text words strict; takes -pass -passin -passout -k -K -iv -subj -days -connect -newkey -name
  runs -engine -provider-path -provider; writes -out -keyout -CAserial -writerand
  reads -in -inkey -key -CA -CAfile -config -extfile -signature -verify -sign -rand -cert -certfile
openssl/dgst: read words strict; takes -hmac -mac; runs -engine -provider-path -provider; writes -out
  reads -signature -verify -sign -prverify
gpg gpg2: read; takes -r -u --recipient --local-user --passphrase; writes -o --output --homedir --log-file
  runs --agent-program --photo-viewer --keyserver-options --dirmngr-program --exec-path --options --pinentry-program
  reads --passphrase-file --keyring
ssh-keygen: text strict; takes -t -b -C -N -P -I -n -O; writes -f; spares -l -y -F -B; runs -D -w; reads -s
ssh-add: read; runs -s -S; takes -t
age age-keygen: read; takes -r -p; reads -i -R; writes -o --output
sqlite3: write words; takes -separator -newline -nullvalue; runs -init -cmd; reads -init
vi vim nvim gvim nano pico micro hx: write; runs -c* -S* -s* -e* -E* -u* -w* -W* --cmd +*; spares -R -M
view ex: write; runs -c* -S* -s* -e* -u* -w* --cmd +*; spares -R
emacs: write
m4 flex lex bison yacc: read; takes -D -I; writes -o --output --defines -b
prettier eslint gofmt goimports shfmt clang-format rustfmt stylua: read; takes --parser --style --ext --format -i -tabs
  edits --write --fix -w -i --in-place; reads -c --config; writes -o --output-file --cache-location
black isort: write loose; takes -l --line-length -t --target-version --profile; reads --config
  spares --check --diff -c --check-only
autopep8 yapf: read; edits -i --in-place; reads --style
"""

BUILDERS = r"""
gcc cc g++ c++ clang clang++ cpp gfortran tcc: read words strict
  takes -x -l -D -U -W -O -std -target -arch -Xlinker -Xpreprocessor -Xassembler -u -z --param; data -Wa
  runs -wrapper -B* -fplugin* -fpass-plugin* -specs* --specs* -Xclang -cc1* --config* -fuse-ld=/* -fuse-ld=.* -load @*
  runs -Wl,-plugin* -Wl,--plugin* -plugin -mllvm --ld-path* --gcc-toolchain*
  writes -o -MF -dumpdir --output -Wl,-Map -Wl,-o -save-temps -ftest-coverage
  reads -I -L -include -imacros -isystem -iquote -idirafter -T --sysroot -isysroot
ld ld.bfd ld.gold ld.lld lld mold: read words strict; takes -l -m -e -z -u -dynamic-linker -soname -h -rpath
  writes -o --output -Map --dependency-file; reads -L -T --script --library-path -rpath-link --sysroot
  runs -plugin* --plugin* @* -fini=/*
as nasm yasm: read; takes -f -D; writes -o -l -MF -MD; reads -I
strip: write; takes -K -N -R; writes -o
objcopy: last; takes -O -I -B -j -R -K -N --output-target --input-target; reads --add-section
rustc rustdoc: read strict; takes --crate-type --crate-name --edition --target --cfg --emit -l -W -A -D -F --cap-lints
  takes -C -Z --codegen; writes -o --out-dir; reads -L --extern --sysroot
  runs -Clinker* -Clink-* linker=* link-arg* -Zcodegen-backend* codegen-backend=* --test-builder -Zplugin* @*
go: text words; takes -tags -run -count -timeout -bench -mod -ldflags -gcflags; in -C; reads -modfile
  writes -o -coverprofile -cpuprofile -memprofile -trace -outputdir
  runs -exec* --exec* -toolexec* --toolexec* -vettool* --vettool* -overlay* -gccgoflags* generate install get
cargo: text; takes -p --package --bin --test --example --features --target -j --profile
  runs --config install publish binstall; writes --target-dir --root --out-dir --artifact-dir
  reads --manifest-path; in -C
cargo/new cargo/init: write skip1; takes --name --vcs --edition
java: guess words; takes -cp -classpath --class-path -p --module-path --add-modules -m
  runs -agentpath* -agentlib* -javaagent* -XX:On* -XX:Flags* -XX:VMOptionsFile* @* -Xrun*; writes -Xlog:*
javac: read words; takes -source -target -encoding -release --release; writes -d -s -h; reads -cp -classpath -sourcepath
  runs -processorpath -processor --processor-path -J* -Xplugin* @*
make gmake: text; takes -o -W --old-file --jobs; runs --eval -E; reads -f --file --makefile -I --include-dir
  in -C --directory
ninja: text; takes -j -k -l -t -d; reads -f; in -C
cmake: guess words; takes -G -T -A --target --config -j --parallel --preset
  writes -B --install-prefix --prefix --graphviz; reads -S --build --install -C -P --toolchain
tar bsdtar gtar: text strict; takes -b -K -N -V -H --exclude --transform --xform --owner --group --mode
  takes --strip-components --format --checkpoint -f -C --file --directory; reads -T -X --files-from --exclude-from
  writes -g --listed-incremental --index-file --one-top-level
  runs -I* -F* --to-command --checkpoint-action --use-compress-program --rsh-command --rmt-command --info-script
  runs --new-volume-script
pytest py.test: read; takes -k -m -p -n -o -W -r --tb --maxfail --durations --cov; reads -c --rootdir --confcutdir
  writes --junitxml --junit-xml --basetemp --log-file --cov-report --resultlog --report-log
ruff: read skip1; takes --select --ignore --line-length --target-version; reads --config; edits --fix
  writes --output-file -o --cache-dir
ruff/format: write skip1 loose; takes --line-length --target-version; reads --config; spares --check --diff
protoc: read; writes --descriptor_set_out -o --python_out --cpp_out --java_out --go_out; reads -I --proto_path
  runs --plugin @*
gs ghostscript: read words; runs -c -dNOSAFER* @*; writes -o -sOutputFile
tex latex pdftex pdflatex xelatex lualatex: guess words; writes -output-directory -jobname
  runs -shell-escape* --shell-escape* -enable-write18* --enable-write18*
pylint: guess; runs --init-hook --load-plugins
mypy: guess; runs --python-executable; writes --cache-dir --junit-xml --html-report
svn: guess; runs --config-option --diff-cmd --editor-cmd
latexmk: guess words; runs -e -r -pdflatex* -latex*; in -cd; writes -outdir -auxdir -output-directory
pip pip3: guess; runs install download wheel --python; reads -r -c --requirement --constraint; writes --log
  writes --cache-dir -t --target --prefix --root -d --dest
npm: guess; in -C --prefix; runs install i ci add exec x create init update rebuild link publish install-test it isntall
  runs --script-shell --node-options
pnpm: guess; in -C --dir; runs install i add dlx exec create update up rebuild --script-shell
yarn: guess; in --cwd; runs install add dlx exec create up upgrade global --use-yarnrc
uv: guess; in --directory --project; runs add sync tool pip lock python build publish
hg: guess; runs --config; in -R --cwd
crontab: read strict; takes -u
psql: text strict; takes -h -p -U -d -c -v -F; reads -f --file; writes -o --output -L --log-file
mysql mariadb: text strict; takes -h -P -u -D -e; runs --init-command; reads --defaults-file; writes --tee
exim: text words; runs -be -C
dbus-send busctl: text; runs call --system --session
pipx: guess; runs run install upgrade inject runpip reinstall
bun: guess; runs install i add x create update exec eval
deno: guess; runs eval install run-remote repl
poetry: guess; runs install add update self build publish shell
pipenv: guess; runs install sync update shell
pdm: guess; runs install add sync update
gem: guess; runs install update exec
bundle: guess; runs install update add
brew: guess; runs install upgrade reinstall tap
apt: guess; runs install upgrade full-upgrade dist-upgrade remove purge
apt-get: guess; runs install upgrade dist-upgrade remove purge build-dep
dnf yum: guess; runs install update upgrade remove
apk: guess; runs add del upgrade
pacman: guess strict; runs -S* -U* -R*
snap flatpak: guess; runs install refresh run
conda mamba: guess; runs install create update run env
composer: guess; runs install require update create-project exec
nix: guess; runs run shell develop
docker podman: guess strict; runs run exec build compose cp load import start restart commit create buildx
kubectl: guess; runs exec run apply delete create edit cp
helm: guess; runs install upgrade uninstall
terraform: guess words; runs apply destroy import
code: guess; runs --install-extension
mvn: guess; runs exec:exec exec:java
launchctl: guess; runs load submit start bootstrap
gh: guess; runs extension alias codespace
direnv: guess; runs allow exec
rustup: guess; runs install update run default toolchain
nvm asdf mise: guess; runs install exec run plugin
"""

WRAPPING = r"""
env: text; takes -u --unset; in -C --chdir
timeout gtimeout: text; takes -s -k --signal --kill-after
nice: text; takes -n --adjustment
ionice: text; takes -c -n -p --class --classdata
stdbuf: text; takes -i -o -e --input --output --error
time: text; takes -f --format; writes -o --output
sudo: text; takes -u -g -h -p -C -r -t -U -T --user --group --host --prompt; in -D -R --chdir --chroot
doas pkexec: text; takes -u --user; reads -C
daemonize: text; takes -u; writes -p -l -o -e; in -c
taskset: text; takes -p
numactl: text; takes -N -m -C
chrt: text; takes -T -P -D
caffeinate: text; takes -t -w
unshare: text; takes -S -G; in -R -w --root --wd
nsenter: text; takes -t -S -G --target; in -r -w --root --wd
strace ltrace: text; takes -e -p -s -u -E -P -a -O -S -I -b -n -l; writes -o --output
valgrind: text; writes --log-file --xml-file
setpriv: text; takes --reuid --regid --groups --inh-caps --bounding-set
prlimit: text; takes -p --pid -o --output
systemd-run: text; takes -u -p -E -M -t --unit --property --slice; in --working-directory
fakeroot: text; takes -l -u; reads -i; writes -s
proot: text; takes -b; in -r -w
dbus-run-session: text; reads --config-file
xvfb-run: text; takes -s -n; writes -f -e
ssh-agent: text; takes -t -a
proxychains: text; reads -f
cpulimit: text; takes -l -p
logsave: text
script: write; takes -E -m -o; runs -c* --command; writes -I -O -B -T --log-in --log-out --log-io --log-timing
"""

GIT = r"""
git: text; takes -c --namespace --config-env --super-prefix --attr-source; in -C --work-tree; reads --git/dir
git/clone: text; runs -u --upload-pack -c --config --template --recurse-submodules --recursive
git/init: text; runs --template
git/fetch: text; runs --upload-pack --recurse-submodules
git/pull: text; runs --upload-pack
git/push git/send-pack: text; runs --receive-pack --exec
git/ls-remote git/fetch-pack: text; runs --upload-pack --exec
git/archive: text; runs --exec --remote; writes -o; reads --add-file
git/rebase: text; takes -C; runs -x* --exec -i --interactive
git/grep: text; takes -e -A -B -C; reads -f; runs -O* --open-files-in-pager --textconv
git/help: text; runs -w --web
git/cat-file: text; runs --textconv --filters
git/blame: text; runs --textconv
git/diff git/log git/show git/whatchanged git/reflog git/stash git/diff-tree git/diff-files git/diff-index: text
  takes -O -U; runs --ext-diff --textconv
git/format-patch: text; writes -o --output-directory; runs --ext-diff --textconv
git/apply: text; takes -p -C; writes --directory --build-fake-ancestor
git/bundle: text
git/checkout git/switch: text; takes -b -B -c -C --orphan --conflict
git/restore: text; takes --source -s
git/checkout-index: text; writes --prefix
git/config: text; takes --type --default; reads -f
git/commit git/tag: text; reads -t --template
git/difftool git/mergetool: text; takes -t --tool; runs -x --extcmd
"""
