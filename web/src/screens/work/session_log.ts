/** What the program of a session asked for, and what has been checked of its task. Pure. */
import type { ActionSummary, Json, QuestView } from '../../api/types.ts';
import type { Tone } from '../../parts/tone.ts';
import { number, t } from '../../text/t.ts';

const KINDS = { session_command: 'command', session_write: 'write', session_secret: 'secret', session_fetch: 'fetch', session_deploy: 'deploy', session_push: 'push' } as const;
export type AskedKind = (typeof KINDS)[keyof typeof KINDS] | 'request';

/** What it wanted to do, without the words that every line of the log would begin with. */
export function saidOf(action: Pick<ActionSummary, 'tool' | 'summary'>): { kind: AskedKind; text: string } {
  const kind = Object.hasOwn(KINDS, action.tool) ? KINDS[action.tool as keyof typeof KINDS] : 'request';
  const text = action.summary.replace(/^(Run|Write|Read a secret) in a session: /, '').replace(/^Reach (.*) from a session$/s, '$1');
  return { kind, text };
}

export interface Checked {
  tone: Tone;
  text: string;
}

/** The same in two words. */
export function standingOf(checked: Checked): string {
  if (checked.tone === 'good') return t('sessions.accept.good');
  return checked.tone === 'plain' ? t('sessions.accept.open') : t('sessions.accept.not');
}

/** How far it is known that the task is done. Words of the program itself count for nothing. */
export function checkedOf(quest: Pick<QuestView, 'state' | 'reason'> | undefined, events: readonly Record<string, Json>[]): Checked {
  if (quest?.state === 'done') return { tone: 'good', text: t('sessions.accept.passed') };
  if (quest?.state === 'in_review') return { tone: 'plain', text: t('sessions.accept.review') };
  if (quest?.reason) return { tone: 'warn', text: quest.reason };
  const run = events.findLast((each) => each['type'] === 'TEST_RUN_FINISHED');
  if (!run) return { tone: 'plain', text: t('sessions.accept.none') };
  const [passed, failed, skipped] = ['passed', 'failed', 'skipped'].map((name) => number(Number(run[name] ?? 0)));
  const tone = Number(run['failed'] ?? 0) > 0 ? 'bad' : 'good';
  return { tone, text: t('sessions.accept.tests', { passed: passed ?? '', failed: failed ?? '', skipped: skipped ?? '' }) };
}
