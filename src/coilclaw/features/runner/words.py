"""Sessions in plain words, for cards and lists."""

from typing import TYPE_CHECKING

from coilclaw.features.runner.box import domains_for, secrets_for
from coilclaw.features.runner.spec import SessionPolicy, StartSession
from coilclaw.packets.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coilclaw.runtime.runtime import Runtime

ALWAYS_ASK = ("merge", "deps_add", "secrets", "deploy")
PROGRAMS = {"codex": "Codex", "claude": "Claude Code", "gemini": "Gemini", "fake": "the fake coding program"}


def start_words(app: "Runtime", wanted: StartSession, *, spawned: bool = False) -> str:
    """What starting a session means; `spawned` by a model."""
    ref = f" at {one_line(wanted.checkout.ref)}" if wanted.checkout.ref else ""
    kind = "that cannot be changed" if wanted.mode == "read" else "of its own"
    what = "Open a shell" if wanted.provider == "shell" else f"Let {PROGRAMS[wanted.provider]} work"
    lines = [f"{what} in a box, in a checkout {kind} of {one_line(wanted.repo.text)}{ref}."]
    domains = domains_for(app, wanted)
    lines.append(f"It can reach {', '.join(domains)}." if domains else "It has no network.")
    if secrets := secrets_for(app, wanted.org_id, spawned=spawned):
        lines.append(f"It is given these secrets of {wanted.org_id}: {', '.join(secrets)}.")
    lines += _shell_words(wanted.policy) if wanted.provider == "shell" else _program_words(app, wanted)
    if wanted.thread_id:
        lines.append(f"It belongs to conversation {one_line(wanted.thread_id)}.")
    if wanted.job_id:
        lines.append(f"It belongs to job {one_line(wanted.job_id)}.")
    if wanted.task.title or wanted.task.goal:
        lines.append(f"For: {one_line(wanted.task.title or wanted.task.goal)[:500]}")
    return "\n".join(lines)


def _shell_words(policy: SessionPolicy) -> "Iterator[str]":
    if policy.shell_allowlist is not None:
        yield f"Its only programs are {', '.join(map(one_line, policy.shell_allowlist))} and its shell."
    absent = [one_line(each) for each in policy.shell_denylist if " " not in each]
    refused = [one_line(each) for each in policy.shell_denylist if " " in each]
    if absent:
        yield f"It has none of {', '.join(absent)}."
    if refused:
        yield f"Lines of input with these words are refused; what is typed key by key is not: {', '.join(refused)}."


def _program_words(app: "Runtime", wanted: StartSession) -> "Iterator[str]":
    """What a coding program does without asking, what it asks for, and what it cannot do."""
    policy = wanted.policy
    names = app.config.security.allowed_commands if policy.shell_allowlist is None else policy.shell_allowlist
    listed = ", ".join(map(one_line, names[:12])) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    writes = "changes nothing" if wanted.mode == "read" else "changes files of its checkout"
    if domains_for(app, wanted):
        yield f"It {writes}; because it has a network, it asks you before every command."
    else:
        yield f"It {writes} and runs {listed or 'no program'} without asking. Any other program asks you first."
    if wanted.structured:
        yield "It has no screen: it does its task, tells in lines what it does, and ends."
    yield "It also asks before it adds packages, reads files that usually hold secrets, or deploys."
    if named := [each for each in policy.requires_approval_for if each not in ALWAYS_ASK]:
        yield f"Its policy asks before every {', '.join(map(one_line, named))}."
    if policy.shell_denylist:
        yield f"It is never allowed {', '.join(map(one_line, policy.shell_denylist))}."
    yield "Its commits stay in the checkout until you take them out with `coilclaw session pr`. It is given no key."
