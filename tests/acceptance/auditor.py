"""An auditor's own check of a clone: git, the standard library and `cryptography`, and nothing of the product.

    python auditor.py CLONE [KEY]

Prints what does not hold, a line each, and exits 1; otherwise what was verified, and 0. KEY is the name of the signing
key that you know to be the bot's (16 hexadecimal digits).
"""

import atexit
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

GENESIS = "0" * 64
GRACE = 2 * 86400
CLAIMS = {"Pull-Request", "Job", "Approved-By"}
DAY = re.compile(r"audit/(\d{4})/(\d\d)/(\d\d)\.jsonl")


class Git:
    """git over the objects of a clone alone: its configuration, attributes and grafts are never looked at."""

    def __init__(self, folder):
        place = tempfile.mkdtemp(prefix="auditor-")
        atexit.register(shutil.rmtree, place, ignore_errors=True)
        self.folder = folder
        objects = self.text("rev-parse", "--path-format=absolute", "--git-path", "objects").strip()
        kind = self.text("rev-parse", "--show-object-format").strip()
        tips = {name: self.branch(name) for name in ("main", "ledger")}
        self.folder = place
        self.run("init", "--quiet", "--bare", "--template=", f"--object-format={kind}")
        with open(os.path.join(self.folder, "objects", "info", "alternates"), "w", encoding="utf-8") as file:
            file.write(f"{objects}\n")
        for name, tip in tips.items():
            if tip:
                self.run("update-ref", f"refs/heads/{name}", tip)

    def run(self, *arguments, fails=False):
        environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C",
                   "GIT_NO_REPLACE_OBJECTS": "1", "GIT_ALLOW_PROTOCOL": "none"}  # fmt: skip
        options = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*"]
        done = subprocess.run(["git", *options, "-C", self.folder, *arguments], env=environ, capture_output=True)
        if done.returncode and not fails:
            raise ValueError(f"git {arguments[0]}: {done.stderr.decode('utf-8', 'replace').strip()[-200:]}")
        return done.returncode, done.stdout

    def text(self, *arguments):
        return self.run(*arguments)[1].decode("utf-8", "replace")

    def branch(self, name):
        for place in ("refs/heads", "refs/remotes/origin"):
            code, out = self.run("rev-parse", "--verify", "--quiet", f"{place}/{name}^{{commit}}", fails=True)
            if code == 0:
                return out.decode().strip()
        return ""

    def files(self, commit):
        """Every path of a commit with its mode and blob."""
        found = {}
        for record in self.run("ls-tree", "-r", "-z", "--full-tree", commit)[1].split(b"\0"):
            about, _, path = record.partition(b"\t")
            if path:
                mode, _, blob = about.decode().split()
                found[path.decode("utf-8", "surrogateescape")] = (mode, blob)
        return found

    def blob(self, blob):
        return self.run("cat-file", "blob", blob)[1]


def canonical(value):
    """RFC 8785, as far as the records need it: no fractions."""
    if isinstance(value, dict):
        items = sorted(value.items(), key=lambda item: item[0].encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{canonical(name)}:{canonical(each)}" for name, each in items) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def objects(data):
    """The lines of a file of records, each of them canonical."""
    if data and not data.endswith(b"\n"):
        raise ValueError("the last line is cut off")
    found = []
    for line in data.split(b"\n")[:-1]:
        value = json.loads(line)
        if not isinstance(value, dict) or canonical(value).encode() != line:
            raise ValueError("a line is not canonical")
        found.append(value)
    return found


def trailers(message):
    found = {}
    title, _, last = message.rstrip("\n").rpartition("\n\n")
    for line in last.split("\n") if title else ():
        name, colon, value = line.partition(": ")
        if not colon or not re.fullmatch(r"[A-Za-z][A-Za-z-]*", name):
            return {}
        found.setdefault(name.title(), []).append(value)
    return found


class Audit:
    """One audit."""

    def __init__(self, folder, key=""):
        self.git = Git(folder)
        self.key = key
        self.wrong, self.notes = [], []
        self.heads = {}
        self.merges, self.tools, self.approved, self.ends, self.until = {}, {}, {}, {}, ""
        self.jobs = self.days = self.events = self.commits = 0

    def say(self, where, words):
        self.wrong.append(f"{where}: {words}")

    def part(self, where, work, *arguments):
        try:
            return work(*arguments)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
            self.say(where, f"cannot be read ({error})"[:300])
            return None

    def run(self):
        self.part("objects", self.fsck)
        self.part("ledger", self.ledger)
        main = self.git.branch("main")
        if not main:
            self.say("main", "there is none")
            return self.wrong
        self.part("audit", self.audit, main)
        self.part("main", self.main, main)
        return self.wrong

    def fsck(self):
        code, out = self.git.run("fsck", "--strict", "--full", "--no-dangling", "--no-reflogs", fails=True)
        if code:
            self.say("objects", f"git fsck --strict fails: {out.decode('utf-8', 'replace').strip()[:200]}")

    # Signed heads

    def ledger(self):
        tip = self.git.branch("ledger")
        if not tip:
            self.say("ledger", "there is no such branch")
            return
        files = self.git.files(tip)
        keys = {}
        for path, (_, blob) in files.items():
            name = re.fullmatch(r"keys/([0-9a-f]{16})\.pub", path)
            if name:
                public = bytes.fromhex(self.git.blob(blob).decode().strip())
                if sha256(public)[:16] != name[1]:
                    self.say(path, "is not the key that its name says")
                keys[name[1]] = Ed25519PublicKey.from_public_bytes(public)
        before, last = [], None
        data = self.git.blob(files["heads.jsonl"][1])
        if not data.endswith(b"\n"):
            self.say("heads.jsonl", "the last line is cut off")
        for line in data.split(b"\n")[:-1]:
            head = json.loads(line)
            self.head(head, before, last, keys)
            before = [line] if head.get("previous") else [*before, line]
            last = head
            self.heads[head["size"]] = head

    def head(self, head, before, last, keys):
        where = f"heads.jsonl, receipt {head['size']}"
        names = ["size", "hash", "time", "key"]
        if head.get("previous"):
            names += ["audit", "audit_hash", "log", "heads", "previous"]
        if head.get("main"):
            names += ["main"]
        stated = {name: head.get(name, 0) for name in names}
        try:
            keys[head["key"]].verify(bytes.fromhex(head["signature"]), canonical(stated).encode())
        except (InvalidSignature, KeyError, ValueError):
            self.say(where, "is not signed by a key of the branch")
        if self.key and head["key"] != self.key:
            self.say(where, "is signed by another key than the bot's")
        if head.get("previous") and head["previous"] != (sha256(b"\n".join(before)) if before else GENESIS):
            self.say(where, "does not continue the head before it")
        if last is not None:
            if head["size"] <= last["size"] or head.get("audit", 0) < last.get("audit", 0):
                self.say(where, "is out of order")
            if head["key"] != last["key"]:
                self.say(where, "is signed by another key than the head before it")

    # Main

    def main(self, tip):
        known = {}
        for line in self.git.text("log", "--topo-order", "--reverse", "--format=%H %ct %P", tip).splitlines():
            known[line.split()[0]] = line
        newest = int(known[tip].split()[1])
        wanted = self.lines(known, [tip, *(head.get("main") for head in self.heads.values()), *self.merges])
        own = self.own([known[sha] for sha in known if sha in wanted], known, tip)
        for line in own:
            sha, time, *parents = line.split()
            self.commits += 1
            self.part(sha, self.commit, sha, parents, int(time) < newest - GRACE)
        self.recorded(tip, [line.split() for line in own])

    def lines(self, known, todo):
        """What leads to these by first parents, and by every parent of a merge that is not of a pull request."""
        found = set()
        while todo:
            sha = todo.pop()
            if sha not in known or sha in found:
                continue
            found.add(sha)
            first, *others = known[sha].split()[2:] or [""]
            todo += [first, *(others[1:] if others and self.is_pull(sha, others[0]) else others)]
        return found

    def is_pull(self, sha, head):
        return bool(CLAIMS & set(self.stated(sha))) or "Job" in self.stated(head)

    def own(self, lines, known, tip):
        """Those since the bot was made of a copy: what came before is another bot's, with another ledger."""
        start = ""
        while tip and not start:
            sha, time, *parents = known[tip].split()
            tip = parents[0] if parents else ""
            if not parents or self.stated(sha).get("Copied-From") != parents[:1]:
                continue
            begun = datetime.fromtimestamp(int(time), UTC).strftime("%Y-%m-%dT%H:%M:%S")
            before = self.git.text("rev-list", parents[0]).split()
            if any(head["time"] < begun or head.get("main") in before for head in self.heads.values()):
                self.say(sha, "says that the bot begins here, but heads are older")
            else:
                start = sha
        before = set(self.git.text("rev-list", start).split()) if start else ()
        return [line for line in lines if line.split()[0] not in before]

    def stated(self, sha):
        return trailers(self.git.text("cat-file", "commit", sha).partition("\n\n")[2])

    def commit(self, sha, parents, old):
        stated = self.stated(sha)
        for parent in parents[:1] if CLAIMS & set(stated) else parents:
            self.records(sha, parent)
        for word in stated.get("Ledger-Head", []):
            size, _, digest = word.partition(":")
            known = self.heads.get(int(size))
            if known is not None and known["hash"] != digest:
                self.say(sha, f"says another hash of receipt {size} than the signed head")
            if old and int(size) > max(self.heads, default=0):
                self.say(sha, f"speaks of receipt {size}, which no signed head covers")
        jobs = stated.get("Job") or (self.stated(parents[1]).get("Job") if len(parents) > 1 else None)
        if jobs:  # the owner's merges on GitHub say nothing themselves
            (job,) = jobs
            if not re.fullmatch(r"job_[0-9A-Za-z_-]+", job):
                raise ValueError(f"{job!r} is not the id of a job")
            self.jobs += 1
            self.job(sha, parents, job, stated)

    # Merges: recorded by the ledger, covered by a signed head, and with the files that their parents give

    def recorded(self, tip, lines):
        reachable = set(self.git.text("rev-list", tip).split())
        signed = ""
        for size, head in self.heads.items():
            if head.get("main") in reachable:
                signed = head["main"]
            elif head.get("main"):
                self.say(
                    head["main"], f"was main when the head at receipt {size} was signed, and is not on it any more"
                )
        for sha, about in self.merges.items():
            if sha not in reachable and "action" in about:
                self.say(sha, "is a merge of the ledger that main does not hold any more")
        covered = set(self.git.text("rev-list", signed).split()) if signed else reachable
        for sha, _, *parents in (line for line in lines if line[0] not in covered):
            touched = self.git.text("diff-tree", "-r", "--name-only", *parents[:1], sha).split("\n") if parents else []
            governs = any(re.match(r"(?i)(agent|policies|\.github)/|SYSTEM\.md$|CODEOWNERS$", path) for path in touched)
            more = ", and it changes what governs the agent" if governs else ""
            self.notes.append(f"{sha[:12]}: no signed head covers it yet, so nothing proves who made it{more}")
        last = max((place for place, line in enumerate(lines) if line[0] in self.merges), default=0)
        for place, (sha, time, *parents) in enumerate(lines):
            stated = self.stated(sha)
            day = datetime.fromtimestamp(int(time), UTC).strftime("%Y-%m-%d")
            must = place < last or day < self.until
            if CLAIMS & set(stated) or sha in self.merges:
                self.part(sha, self.merge, sha, parents, stated, must)
                if sha not in covered:
                    self.say(sha, "says that the gate merged it, but no signed head covers it")
            elif must:
                for action in stated.get("Action", ()):
                    if action not in self.tools:
                        self.say(sha, f"names {action}, which is no action of the ledger")
            for merge in stated.get("Takes-Back", ()):
                self.part(sha, self.takes_back, sha, parents, merge)

    def merge(self, sha, parents, stated, must):
        about = self.merges.get(sha)
        if about is None and must:
            self.say(sha, "says that the gate merged it, but the ledger records no such merge")
        claims = CLAIMS & set(stated)  # the owner's own merges on GitHub have none
        if about is not None and (
            parents[1:] != [about["head"]] or (claims and stated.get("Pull-Request") != [str(about["number"])])
        ):
            self.say(sha, "merges something else than the ledger recorded")
        if about is not None and claims and about.get("action") and stated.get("Action") != [about["action"]]:
            self.say(sha, "names another action than the ledger")
        for action in stated.get("Action", ()):
            if action not in self.tools:
                if must:
                    self.say(sha, f"names {action}, which is no action of the ledger")
                continue
            if self.tools[action] != "pr_merge":
                self.say(sha, f"names {action}, which is not a merge")
            if [each for each, known in self.merges.items() if known.get("action") == action and each != sha]:
                self.say(sha, f"names {action}, which merged something else")
            if self.ends.get(action) and not self.ends[action] & {"tool_completed", "tool_unknown"}:
                self.say(sha, f"names {action}, which was denied or failed")
            by, known = stated.get("Approved-By", []), self.approved.get(action)
            if by != [known] if known else not all(word.startswith("merge mode") for word in by):
                self.say(sha, f"names another approval of {action} than the ledger")
        self.joins(sha, parents)

    def joins(self, sha, parents):
        if len(parents) == 2:
            code, out = self.git.run("merge-tree", "--write-tree", "--no-messages", *parents, fails=True)
            if code or out.decode().strip() != self.git.text("rev-parse", f"{sha}^{{tree}}").strip():
                self.say(sha, "holds other files than merging its parents gives")

    def takes_back(self, sha, parents, merge):
        self.joins(sha, parents)
        own = parents[1] if len(parents) == 2 else sha
        before = self.git.files(f"{merge}^1")
        touched = self.git.run("diff-tree", "-r", "-z", "--no-renames", "--name-only", merge, own)[1]
        after = self.git.files(own)
        for path in filter(None, touched.decode("utf-8", "surrogateescape").split("\0")):
            if before.get(path) != after.get(path):
                self.say(sha, f"does more than take {merge} back: {path}")

    def event(self, event):
        kind, entity, about = event["event_type"], event["entity_id"], event["payload"]
        if kind == "tool_requested":
            self.tools[entity] = about["tool"]
        elif kind == "tool_approved":
            self.approved[entity] = about["by"]
        elif kind == "pr_merged" and not about.get("session_id"):
            self.merges[about["commit"]] = about
        elif kind in ("tool_completed", "tool_denied", "tool_failed", "tool_unknown"):
            self.ends.setdefault(entity, set()).add(kind)

    def records(self, sha, parent):
        """Records grow; no line of them goes, and none changes but by taking a secret out."""
        names = ("diff-tree", "-r", "-z", "--no-renames", parent, sha, "--", "audit", "jobs")
        words = self.git.run(*names)[1].split(b"\0")
        for about, name in zip(words[::2], words[1::2], strict=False):
            _, _, old, new, status = about.decode().split()
            path = name.decode("utf-8", "surrogateescape")
            if status == "D":
                self.say(sha, f"removes the record {path}")
            elif status != "A" and path.endswith(".jsonl"):
                before, after = (self.git.blob(blob).split(b"\n") for blob in (old, new))
                lost = set(before) - set(after)
                redacted = [line for line in set(after) - set(before) if b"[redacted:" in line]
                if len(after) < len(before) or len(lost) > len(redacted):
                    self.say(sha, f"changes lines of the record {path}")

    def job(self, sha, parents, job, stated):
        head = parents[1] if len(parents) > 1 else sha
        raw = self.git.text("cat-file", "commit", head)
        stated = {**trailers(raw.partition("\n\n")[2]), **stated}
        files = self.git.files(sha)
        (summary,) = [path for path in files if re.fullmatch(rf"jobs/\d{{4}}/\d\d/{job}\.md", path)]
        about = self.frontmatter(self.git.blob(files[summary][1]).decode())
        trail, proof = f"audit/jobs/{job}.jsonl", f"audit/evidence/{job}.json"
        numbers = [event["seq"] for event in objects(self.git.blob(files[trail][1]))]
        if numbers != sorted(set(numbers)):
            self.say(trail, "its events are not in order")
        evidence = self.evidence(proof, self.git.blob(files[proof][1]))
        digest = evidence["manifest_hash"]
        if stated.get("Evidence") != [digest] or about["evidence"]["manifest_hash"] != digest:
            self.say(sha, f"the evidence of {job} is not the one that its commit and its summary name")
        if about["job_id"] != job or evidence["job_id"] != job:
            self.say(sha, f"the records of {job} belong to another job")
        if not re.fullmatch(r"[0-9a-f]{64}", *stated["Policy-Hash"]):
            self.say(sha, "no policy is named")
        self.changed(sha, job, head, raw, evidence, (summary, trail, proof))

    def changed(self, sha, job, head, raw, evidence, own):
        """The job's own commit must hold exactly the files that its evidence names."""
        named = {each["path"]: each["sha256"] for each in evidence["files"]}
        files = self.git.files(head)
        for path, digest in named.items():
            real = sha256(self.git.blob(files[path][1])) if path in files else None
            if real != digest:
                self.say(sha, f"{path} is not the file that the evidence of {job} names")
        base = re.search(r"^parent ([0-9a-f]+)$", raw.partition("\n\n")[0], re.MULTILINE)
        if base and not evidence["files_left_out"]:
            touched = self.git.run("diff-tree", "-r", "-z", "--no-renames", "--name-only", base[1], head)[1]
            for path in touched.decode("utf-8", "surrogateescape").split("\0"):
                if path and path not in named and path not in own:
                    self.say(sha, f"{job} changed {path}, which its evidence does not name")

    def frontmatter(self, text):
        if not text.startswith("---\n"):
            raise ValueError("a summary without frontmatter")
        block = text[4:].partition("\n---\n")[0]
        return {name: json.loads(value) for name, _, value in (line.partition(": ") for line in block.split("\n"))}

    def evidence(self, path, data):
        (fields,) = objects(data)
        rest = {name: value for name, value in fields.items() if name != "manifest_hash"}
        if sha256(canonical(rest).encode()) != fields["manifest_hash"]:
            self.say(path, "the evidence does not match its own hash")
        return fields

    # The audit

    def audit(self, tip):
        files = self.git.files(tip)
        told, numbers = {}, []
        for path, (mode, blob) in sorted(files.items()):
            if any(part.lower() in (".git", "..", ".", "") for part in path.split("/")) or mode == "160000":
                self.say(path, "is no name for a file of the bot")
            if path.startswith("audit/jobs/"):
                for event in self.part(path, objects, self.git.blob(blob)) or ():
                    told[event["seq"]] = (event["id"], event["type"], event["time"])
            if path.startswith("audit/evidence/"):
                self.part(path, self.evidence, path, self.git.blob(blob))
        for path in sorted(path for path in files if DAY.fullmatch(path)):
            self.days += 1
            self.until = "-".join(DAY.fullmatch(path).groups())
            found = self.part(path, objects, self.git.blob(files[path][1])) or []
            own = [event["seq"] for event in found]
            if own != sorted(set(own)):
                self.say(path, "its events are not in order")
            numbers += own
            for event in found:
                self.event(event)
                said = (event["entry_id"], event["event_type"], event["created_at"])
                if told.get(event["seq"], said) != said:
                    self.say(path, f"the trail of a job says something else of event {event['seq']}")
                if event["created_at"][:10] < "-".join(DAY.fullmatch(path).groups()):
                    self.say(path, f"event {event['seq']} is of an earlier day")
        self.events = len(numbers)
        if numbers and sorted(numbers) != list(range(min(numbers), max(numbers) + 1)):
            self.say("audit", "numbers are missing or stand there twice")


def main(folder, key=""):
    check = Audit(folder, key)
    if check.run():
        sys.stdout.write("".join(f"{line}\n" for line in check.wrong))
        return 1
    sys.stdout.write(
        f"verified: {check.jobs} jobs in {check.commits} commits, {len(check.heads)} signed heads,"
        f" {check.events} audit events of {check.days} days\n"
    )
    sys.stdout.write("".join(f"note: {line}\n" for line in check.notes))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
