"""A coding program without a mind, for trying things out and for tests. Standard library alone: it runs in a box.

It does what the lines of its prompt say, one after the other, and asks its hook before each as a real one does. Like a
real one it goes on when the hook fails, unless that ends with 2, and obeys a file of the repository, which is FAKE.md.

    run COMMAND · write PATH TEXT · read PATH · fetch ADDRESS · use TOOL · model TEXT · say TEXT · type · again COMMAND
    unannounced COMMAND · unguarded · sleep SECONDS
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

DENIED = 2
INSTRUCTIONS = "FAKE.md"


class FakeCli:
    """Carries out a script."""

    def __init__(self, hook: list[str], model: str, key: str) -> None:
        self._hook = hook
        self._model = model
        self._key = key
        self._calls = 0

    def tell(self, event: str, **about: object) -> bool:
        """Run the hook; whether it may go on."""
        if not self._hook:
            return True
        told = json.dumps({"hook_event_name": event, **about}).encode()
        ran = subprocess.run(self._hook, input=told, capture_output=True, check=False)  # noqa: S603
        if ran.returncode == DENIED:
            print(f"denied: {ran.stderr.decode(errors='replace').strip()}", flush=True)
        return ran.returncode != DENIED

    def use(self, tool: str, given: dict[str, str], act: Callable[[], str]) -> None:
        """Ask, act, tell what came of it."""
        self._calls += 1
        call = {"tool_name": tool, "tool_input": given, "tool_use_id": f"call-{self._calls}"}
        if self.tell("PreToolUse", **call):
            said = act()
            print(f"{tool}: {said}", flush=True)
            self.tell("PostToolUse", **call, tool_response=said)

    def run(self, command: str) -> str:
        """Run a command."""
        ran = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False)  # noqa: S603
        return f"exit {ran.returncode} {(ran.stdout + ran.stderr).decode(errors='replace').strip()}"

    def ask_model(self, text: str) -> str:
        """One turn with the model, by the Responses wire."""
        import urllib.error
        import urllib.request

        body = json.dumps({"model": "fake", "stream": False, "input": text}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        request = urllib.request.Request(f"{self._model}/v1/responses", body, headers)  # noqa: S310 - loopback
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
                return f"{answer.status} {answer.read(4096).decode(errors='replace')}"
        except urllib.error.HTTPError as error:
            return f"{error.code} {error.read(4096).decode(errors='replace')}"

    def line(self, line: str) -> None:
        """Do what one line says."""
        verb, _, rest = line.strip().partition(" ")
        path, _, text = rest.partition(" ")
        match verb:
            case "run" | "again":
                self.use("Bash", {"command": rest}, lambda: self.run(rest))
            case "write":
                self.use("Write", {"file_path": path, "content": text}, lambda: _write(path, text))
            case "read":
                self.use("Read", {"file_path": rest}, lambda: _read(rest))
            case "fetch":
                self.use("WebFetch", {"url": rest}, lambda: "fetched")
            case "use":
                self.use(path, {"text": text}, lambda: "used")
            case "model":
                print(f"model: {self.ask_model(rest)}", flush=True)
            case "unannounced":
                call = {"tool_name": "Bash", "tool_input": {"command": rest}, "tool_use_id": "never-asked"}
                self.tell("PostToolUse", **call, tool_response=self.run(rest))
            case "sleep":
                time.sleep(float(rest))
            case "type":
                self.script(iter(sys.stdin.readline, ""))
            case "say":
                print(rest, flush=True)
            case _:
                pass

    def script(self, lines: Iterator[str]) -> None:
        """All lines, until one says `end`."""
        for line in lines:
            if line.strip() == "end":
                return
            self.line(line)
            self.tell("Stop")


def _write(path: str, text: str) -> str:
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(text)
    return f"wrote {path}"


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        return file.read(200)


def main() -> None:
    """Do what the prompt says."""
    prompt = os.environ.get("FAKE_PROMPT", "")
    hook = [] if prompt.startswith("unguarded") else os.environ.get("FAKE_HOOK", "").split()
    cli = FakeCli(hook, os.environ.get("FAKE_MODEL", ""), os.environ.get("FAKE_KEY", ""))
    print("fake begins", flush=True)
    cli.tell("SessionStart")
    cli.script(iter(prompt.splitlines()))
    if os.path.isfile(INSTRUCTIONS):  # noqa: PTH113 - the standard library's lightest
        with open(INSTRUCTIONS, encoding="utf-8") as file:  # noqa: PTH123
            cli.script(iter(file.read(1 << 16).splitlines()))
    cli.tell("SessionEnd")
    print("fake is done", flush=True)


if __name__ == "__main__":
    main()
