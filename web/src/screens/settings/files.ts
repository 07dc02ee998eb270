/** Files of the owner while they are edited: names, lines, and what is not saved yet. Pure, but for the drafts it holds. */
import type { CheckedCall, FaultyLine } from '../../api/types.ts';

const PLAIN = /^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$/;
const POLICY = /^[A-Za-z0-9][A-Za-z0-9._-]{0,74}\.json$/;

export type FileKind = 'policy' | 'skill' | 'prompt';

export function goodName(kind: FileKind, name: string): boolean {
  return kind === 'policy' ? POLICY.test(name) : PLAIN.test(name);
}

/** What a new file begins with. */
export const NEW: Record<FileKind, string> = {
  policy: `{
  "version": 1,
  "rules": [
    {
      "id": "ask-before-notes",
      "when": { "tool": "file_write", "path": ["notes/**"] },
      "verdict": "ask",
      "reason": "Notes are mine; ask before changing them."
    }
  ]
}
`,
  skill: `---
name: my-skill
description: What it is for, and when to use it.
metadata:
  coilclaw-triggers: words that call for it; other words
---

# How to do it

1. First …
`,
  prompt: '',
};

/** What saving takes: a refusal, no more than the press, a yes, or a passkey, which there may be none of. */
export type Takes = 'refused' | 'once' | 'approval' | 'passkey' | 'passkey_missing';

/** By what the gate forecasts. In lane A the owner's own request is the approval, so what it would ask for is written at once. */
export function takesOf({ decision, needs }: { decision: Pick<CheckedCall['decision'], 'verdict' | 'lane'>; needs: string }): Takes {
  if (decision.verdict === 'deny') return 'refused';
  if (needs === 'passkey' || needs === 'passkey_missing') return needs;
  return decision.lane === 'A' ? 'once' : 'approval';
}

/** Faults by the line they are on. */
export function byLine(faults: readonly FaultyLine[]): Map<number, string[]> {
  const lines = new Map<number, string[]>();
  for (const fault of faults) lines.set(fault.line, [...(lines.get(fault.line) ?? []), fault.text]);
  return lines;
}

/** Where a line (from 1) begins and ends in a text. */
export function lineSpan(text: string, line: number): [number, number] {
  let from = 0;
  for (let at = 1; at < line; at += 1) {
    const next = text.indexOf('\n', from);
    if (next < 0) break;
    from = next + 1;
  }
  const end = text.indexOf('\n', from);
  return [from, end < 0 ? text.length : end];
}

/** What was typed and not saved, until the page is closed: looking at something else must not lose it. */
export class Drafts {
  readonly #texts = new Map<string, { text: string; sha256: string }>();

  get(path: string): { text: string; sha256: string } | null {
    return this.#texts.get(path) ?? null;
  }

  keep(path: string, text: string, sha256: string): void {
    this.#texts.set(path, { text, sha256 });
  }

  drop(path: string): void {
    this.#texts.delete(path);
  }
}

export const drafts = new Drafts();
