#!/usr/bin/env python3
"""The agent: asks the model, runs the tools it calls, sleeps to the next interval. Standard library only.

It runs in a container without network. The model answers at EVOLVE_MODEL; the only way out is git, at /mnt/remote.
Change it on a branch of your own: the branch that runs is read-only.
"""

import http.client
import http.server
import json
import os
import re
import signal as signals
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import urlsplit

BOT = Path(os.environ.get("EVOLVE_BOT", "/bot"))
REMOTE = os.environ.get("EVOLVE_REMOTE", "/mnt/remote")
BRANCH = os.environ.get("EVOLVE_BRANCH", "main")
MODEL = os.environ.get("EVOLVE_MODEL", "http://127.0.0.1:3130/v1/chat/completions")
INTERVAL = float(os.environ.get("EVOLVE_INTERVAL", "600"))
CONTEXT_TOKENS = int(os.environ.get("EVOLVE_CONTEXT_TOKENS", "32768"))
HERE = Path(__file__).resolve().parent.parent
ROUNDS = 200
BASH_SECONDS = MODEL_SECONDS = 540  # COMMS.md is read again at least every ten minutes
OUTPUT_CHARACTERS = 20_000
PUSHES = 3


def text(description):
    return {"type": "string", "description": description}


def tool(name, description, **arguments):
    schema = {"type": "object", "properties": arguments, "required": list(arguments), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS = [
    tool("read_file", "Read a file.", path=text("Its path.")),
    tool("write_file", "Write a file, with the folders it needs.", path=text("Its path."), content=text("All of it.")),
    tool("bash", "Run a shell command.", command=text("The command.")),
    tool(
        "bootstrap",
        "Restart from a branch that you have pushed. From your own branch, `main` asks for the merge into main.",
        branch=text("The branch, such as agent/faster-start."),
    ),
    tool("rollback", "Go back to an earlier commit, on a new branch at it, and restart.", ref=text("The commit.")),
]


class Restart(Exception):
    """The watcher was told to start something else: this process ends."""


class NoAnswer(Exception):
    """The model did not answer."""


def say(words):
    print(f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ} {words}", flush=True)


def git(*words, folder=None):
    command = ["git", *(("-C", str(folder)) if folder else ()), *words]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300)


# Starting


def log_bootstrap(word):
    """One line in logs/bootstrap.log; the watcher reads it."""
    found = git("rev-parse", "--verify", "--quiet", "HEAD", folder=HERE)
    if found.returncode:
        found = git(f"--git-dir={REMOTE}", "rev-parse", "--verify", "--quiet", f"refs/heads/{BRANCH}")
    sha = found.stdout.strip() or "unknown"
    (BOT / "logs").mkdir(exist_ok=True)
    with (BOT / "logs" / "bootstrap.log").open("a", encoding="utf-8") as log:
        log.write(f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ} {word} {BRANCH} {sha}\n")
        log.flush()
        os.fsync(log.fileno())


def prompt(dropped=0):
    """SYSTEM.md, then COMMS.md as it is on main now."""
    shown = git(f"--git-dir={REMOTE}", "show", "refs/heads/main:COMMS.md")
    comms = shown.stdout if shown.returncode == 0 else (HERE / "COMMS.md").read_text(encoding="utf-8")
    system = (HERE / "SYSTEM.md").read_text(encoding="utf-8")
    note = f"\n\n[{dropped} earlier rounds of this conversation were dropped to stay within the context.]\n"
    return f"{system}\n\n{shortened(comms)}{note if dropped else ''}"


def shortened(comms):
    """COMMS.md, within a quarter of the context: of a longer one without the oldest lines of Reports and Watcher."""
    lines, items, heading = comms.split("\n"), {"## Reports": [], "## Watcher": []}, ""
    for number, line in enumerate(lines):
        heading = line.strip() if line.startswith("## ") else heading
        if line.startswith("- ") and heading in items:
            items[heading].append(number)
    oldest = sorted((-age, number) for each in items.values() for age, number in enumerate(reversed(each)))
    size, gone = len(comms), set()
    for _, number in oldest:
        if size <= CONTEXT_TOKENS:  # four characters are about a token
            break
        gone.add(number)
        size -= len(lines[number]) + 1
    if not gone:
        return comms
    kept = "\n".join(line for number, line in enumerate(lines) if number not in gone)
    return f"{kept}\n[{len(gone)} older lines are left out; `git --git-dir={REMOTE} show main:COMMS.md` has them.]\n"


# The model


def ask(messages):
    """One answer of the model."""
    url = urlsplit(MODEL)
    body = json.dumps({"model": "", "messages": messages, "tools": TOOLS}).encode()
    try:
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=MODEL_SECONDS)
        connection.request("POST", url.path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        if answer.status == 200:
            return dict(json.loads(body)["choices"][0]["message"])
    except (OSError, ValueError, TypeError, LookupError, http.client.HTTPException) as error:
        raise NoAnswer(f"{type(error).__name__}: {error}") from error
    raise NoAnswer(f"{answer.status}: {body[:2000].decode(errors='replace')}")


def fitted(rounds):
    """The newest rounds that fit into half of the context, and how many were dropped."""
    room, kept = CONTEXT_TOKENS * 2, []  # four characters are about a token
    for number, each in enumerate(reversed(rounds)):
        room -= len(json.dumps(each))
        if room < 0 and number:
            break
        kept.insert(0, each)
    return kept, len(rounds) - len(kept)


def work():
    """One unit of work: until the model calls no more tools."""
    rounds = []
    for _ in range(ROUNDS):
        kept, dropped = fitted(rounds)
        asked = [{"role": "system", "content": prompt(dropped)}, {"role": "user", "content": "Continue."}]
        message = ask([*asked, *(each for one in kept for each in one)])
        calls = message.get("tool_calls") or []
        if message.get("content"):
            say(f"model: {message['content']}")
        if not calls:
            return
        results = []
        for call in calls:
            done = run(call["function"]["name"], call["function"].get("arguments") or "{}")
            results.append({"role": "tool", "tool_call_id": call["id"], "content": done})
        rounds.append([{"role": "assistant", "content": message.get("content"), "tool_calls": calls}, *results])


# The tools


def run(name, arguments):
    """What came of a call, as text for the model."""
    say(f"tool: {name} {arguments[:2000]}")
    try:
        given = json.loads(arguments)
        result = {
            "read_file": read_file, "write_file": write_file, "bash": bash, "bootstrap": bootstrap, "rollback": rollback,
        }[name](**given)  # fmt: skip
    except Restart:
        raise
    except KeyError:
        result = f"There is no tool {name}."
    except Exception as error:  # the model must hear of it, whatever it is
        result = f"Failed: {type(error).__name__}: {error}"
    if len(result) > OUTPUT_CHARACTERS:
        half = OUTPUT_CHARACTERS // 2
        result = f"{result[:half]}\n[… {len(result) - 2 * half} characters left out …]\n{result[-half:]}"
    return result


def read_file(path):
    return (HERE / path).read_text(encoding="utf-8", errors="replace")


def write_file(path, content):
    place = HERE / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content, encoding="utf-8")
    return f"Wrote {len(content)} characters to {place}."


def bash(command):
    """Run a command; what it prints goes to a file, so that nothing it leaves running is waited for."""
    with tempfile.TemporaryFile(dir=BOT) as out:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=HERE,
            start_new_session=True,
        )  # fmt: skip
        try:
            came = f"[exit code {process.wait(BASH_SECONDS)}]"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signals.SIGKILL)
            process.wait()
            came = f"[It took longer than {BASH_SECONDS} seconds and was ended.]"
        size = out.seek(0, os.SEEK_END)
        out.seek(0)
        printed = out.read(4 * OUTPUT_CHARACTERS)
        out.seek(max(out.tell(), size - 4 * OUTPUT_CHARACTERS))
        left = f"\n[… {out.tell() - len(printed)} bytes left out …]\n" if out.tell() > len(printed) else ""
        return f"{printed.decode(errors='replace')}{left}{out.read().decode(errors='replace')}\n{came}"


def bootstrap(branch):
    """Clone the branch into its folder, tell the watcher, end."""
    if branch != "main":
        if not re.fullmatch(r"agent/[A-Za-z0-9][A-Za-z0-9._-]{0,62}", branch):
            return "Branches of yours are called agent/NAME."
        if branch == BRANCH:
            return f"{branch} runs already."
        place = BOT / branch / "coilclaw"
        if place.exists():
            if git("status", "--porcelain", "--untracked-files=no", folder=place).stdout.strip():
                return f"Commit what you changed in {place} first."
            if refused := push(branch, place):
                report(f"{branch} could not be pushed: {refused}")
                return f"{branch} could not be pushed, which is reported: {refused}"
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            cloned = git("clone", "--quiet", "--branch", branch, REMOTE, str(place))
            if cloned.returncode:
                return f"{branch} cannot be cloned. Commit and push it first: {cloned.stderr.strip()}"
    elif BRANCH == "main":
        return "main runs already. Put changes on a branch agent/NAME, push it, and bootstrap that."
    signal("bootstrap", branch)


def push(branch, place):
    """Push what is checked out, over what was pushed meanwhile; why it was refused, or nothing."""
    for _ in range(PUSHES):
        pushed = git("push", "--quiet", REMOTE, f"HEAD:refs/heads/{branch}", folder=place)
        if not pushed.returncode:
            return ""
        fetched = git("fetch", "--quiet", REMOTE, branch, folder=place)
        if not fetched.returncode and git("rebase", "--quiet", "FETCH_HEAD", folder=place).returncode:
            git("rebase", "--abort", folder=place)
            return "its commits and those pushed meanwhile change the same lines"
    return " ".join(pushed.stderr.split())


def report(line):
    """Put a line under Reports, on a branch of its own; the watcher takes it over into main."""
    say(line)
    with tempfile.TemporaryDirectory(dir=BOT) as name:
        git("clone", "--quiet", REMOTE, name)
        comms = Path(name) / "COMMS.md"
        if comms.is_file():
            comms.write_text(re.sub(r"^## Reports$", lambda head: f"{head[0]}\n\n- {line}", comms.read_text(), 1, re.M))
        git("commit", "--quiet", "--all", "--message=Report", folder=name)
        git("push", "--quiet", "--force", REMOTE, "HEAD:refs/heads/agent/reports", folder=name)


def rollback(ref):
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,200}", ref):
        return "Name a commit or a branch."
    signal("rollback", ref)


def signal(name, word):
    """Tell the watcher by a file, written whole or not at all."""
    folder = BOT / ".signal"
    folder.mkdir(exist_ok=True)
    fresh = folder / f".{name}.new"
    with fresh.open("w", encoding="utf-8") as file:
        file.write(word + "\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(folder / name)
    raise Restart(f"{name} {word}")


# The loop


def main():
    log_bootstrap("BOOTSTRAPPING")
    prompt()
    log_bootstrap("SUCCESS")
    say(f"{BRANCH} runs")
    while True:
        try:
            work()
        except Restart as reason:
            say(f"ending for: {reason}")
            return 0
        except NoAnswer as error:
            print(f"The model did not answer: {error}", file=sys.stderr, flush=True)
        now = time.time()
        time.sleep(INTERVAL - now % INTERVAL)


# Checking itself


class CheckedTurn(http.server.BaseHTTPRequestHandler):
    """A model that calls a tool, and then has nothing to do."""

    asked = []

    def do_POST(self):
        self.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"])
        message = {"content": "Nothing to do."}
        if len(self.asked) == 1:
            call = {"name": "bash", "arguments": json.dumps({"command": "echo checked"})}
            message = {"content": None, "tool_calls": [{"id": "1", "type": "function", "function": call}]}
        body = json.dumps({"choices": [{"message": message}]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        return


def check():
    """One turn on a model of its own: whether prompt, tools and loop work. It starts nothing and asks nobody else."""
    global MODEL
    with http.server.HTTPServer(("127.0.0.1", 0), CheckedTurn) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        MODEL = f"http://127.0.0.1:{server.server_port}/v1/chat/completions"
        work()
        server.shutdown()
    (system, user), (*_, result) = CheckedTurn.asked
    works = system["content"].startswith((HERE / "SYSTEM.md").read_text(encoding="utf-8"))
    works = works and user["content"] == "Continue." and result["content"].startswith("checked")
    print("The runner works." if works else "The runner does not do what spec/SPEC_AGENT.md says.", flush=True)
    return 0 if works else 1


if __name__ == "__main__":
    sys.exit(check() if sys.argv[1:] == ["--check"] else main())
