# Shared by scripts/up, scripts/test and scripts/check: finding Python and keeping .venv as the locks say.
# POSIX sh; sourced with $root set.
# shellcheck shell=sh

say() { printf '%s\n' "$*" >&2; }
stop() { say "$*"; exit 1; }

find_python() {
  for candidate in ${COILCLAW_PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do
    if command -v "$candidate" >/dev/null 2>&1 &&
      "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      printf '%s\n' "$candidate"
      return 0
    fi
  done
  return 1
}

# Chromium for the tests that need a browser: installed where that is allowed; elsewhere they say that they were left out.
need_chromium() {
  for name in chromium chromium-browser google-chrome google-chrome-stable; do
    command -v "$name" >/dev/null 2>&1 && return
  done
  [ -z "${COILCLAW_TEST_CHROMIUM:-}" ] || return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "Installing Chromium for the tests …"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium; } >/dev/null 2>&1 && return
  fi
  say "There is no Chromium: tests in a browser are left out. Install the package chromium, or name one in COILCLAW_TEST_CHROMIUM."
}

# in_memory PYTEST...: run it with its files in memory, where one may mount (as root) and there is room. Tests have
# files synced thousands of times, and none is about the disk. Nothing is left: the mount is seen by this run alone.
in_memory() {
  room=$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo 2>/dev/null || true)
  memory=$(mktemp -d "${TMPDIR:-/tmp}/coilclaw-tests.XXXXXX")
  mounted='mount -t tmpfs -o mode=0700 tmpfs "$0" && exec "$@"'
  code=0
  if [ "${room:-0}" -gt 6000000 ] && unshare --mount sh -c "$mounted" "$memory" true 2>/dev/null; then
    unshare --mount sh -c "$mounted" "$memory" "$@" \
      --basetemp "$memory/t" -o tmp_path_retention_policy=failed || code=$?
  else
    "$@" || code=$?
  fi
  rmdir "$memory"
  return "$code"
}

# twice PYTEST…: run it; if at most ten tests failed, run these once more, alone, and note in $luck those that passed
# only then. The run has passed if they all did.
luck=
twice() {
  kept=$(mktemp -d "${TMPDIR:-/tmp}/coilclaw-failed.XXXXXX")
  code=0
  "$@" -o cache_dir="$kept" || code=$?
  failed >"$kept/first"
  number=$(wc -l <"$kept/first")
  if [ "$code" = 1 ] && [ "$number" -gt 0 ] && [ "$number" -le 10 ]; then
    say "Once more, alone: $number that failed …"
    code=0
    "$@" -o cache_dir="$kept" --last-failed -n 0 || code=$?
    failed >"$kept/second"
    passed=$(grep -vxF -f "$kept/second" "$kept/first" | sed 's/^/  /')
    luck="$luck${passed:+$passed
}"
  fi
  rm -r "$kept"
  return "$code"
}
# shellcheck disable=SC2154 # whoever sources this sets $root
failed() { # the tests that failed, as pytest remembers them in $kept
  "$root/.venv/bin/python" -c "import json, pathlib, sys
found = pathlib.Path(sys.argv[1], 'v/cache/lastfailed')
sys.stdout.writelines(f'{each}\n' for each in sorted(json.loads(found.read_text()) if found.exists() else ()))" "$kept"
}
tell_luck() { [ -z "$luck" ] || printf 'passed only on the second try:\n%s' "$luck" >&2; }

# install LOCK: the locked set of that file, and this project, in .venv. Does nothing when nothing changed.
# Packages come as wheels alone: building one would run its own code before anybody looked at it.
install() {
  venv="$root/.venv"
  stamp="$venv/.$(basename "$1").stamp"
  if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -c pass >/dev/null 2>&1; then
    python=$(find_python) || stop "Python 3.11 or newer is needed: install the package python3 (and python3-venv)."
    "$python" -m venv "$venv" >/dev/null 2>&1 || "$python" -m venv --clear "$venv" >/dev/null 2>&1 ||
      stop "$python cannot make a virtual environment: install the package python3-venv (or ensurepip)."
  fi
  wanted=$(cat "$root/pyproject.toml" "$root/requirements-boot.lock" "$root/$1" | cksum)
  if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    say "Installing $1 into .venv …"
    if [ ! -x "$venv/bin/uv" ]; then
      "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
        -r "$root/requirements-boot.lock" ||
        stop "The packages could not be fetched: check the network or the package index, then run this again."
    fi
    # uv is faster; where it cannot reach the index (a company's certificates, a proxy), pip may.
    UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS:-1} "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" \
      --require-hashes --only-binary :all: --compile-bytecode -r "$root/$1" 2>"$venv/uv.log" ||
      "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
        --compile -r "$root/$1" ||
      stop "The locked packages could not be installed: see the lines above and .venv/uv.log, then run this again."
    "$root/scripts/panel" || stop "The panel could not be built: see the lines above."
    "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation -e "$root" ||
      stop "The project itself could not be installed: see the lines above."
    printf '%s\n' "$wanted" >"$stamp"
  fi
  "$root/scripts/panel" || stop "The panel could not be built: see the lines above."
  "$venv/bin/python" -m compileall -q "$root/src" >/dev/null 2>&1 || true
}
