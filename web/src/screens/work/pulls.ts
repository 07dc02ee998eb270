/** What can be said of pull requests without a server: how each stands, which files are whose, its difference, its story. Pure. */
import type { AuditLine, FileDiff, PullShown, PullView } from '../../api/types.ts';
import type { IconName } from '../../parts/icons.ts';
import type { Tone } from '../../parts/tone.ts';
import { wordsOf } from '../../text/events.ts';
import { t } from '../../text/t.ts';
import type { Told } from './jobs.ts';

/** How a pull request stands, as people tell it apart. */
export type PullStand = 'waits' | 'prepared' | 'dormant' | 'merged' | 'deployed' | 'closed';

export function standOf(pull: Pick<PullView, 'state' | 'action_id' | 'dormant' | 'deployed_at'> & Partial<Pick<PullShown, 'wanted'>>): PullStand {
  if (pull.state === 'CLOSED') return 'closed';
  if (pull.state === 'MERGED') return pull.deployed_at ? 'deployed' : 'merged';
  if (pull.dormant) return 'dormant';
  // Its question was withdrawn when changes were asked for; it names that one until its job takes them up.
  return pull.action_id && !pull.wanted ? 'waits' : 'prepared';
}

const TONES: Record<PullStand, Tone> = { waits: 'warn', prepared: 'accent', dormant: 'plain', merged: 'accent', deployed: 'good', closed: 'plain' };
const ICONS: Record<PullStand, IconName> = { waits: 'approve', prepared: 'refresh', dormant: 'clock', merged: 'refresh', deployed: 'check', closed: 'close' };
const RISKS: Record<PullView['risk'], Tone> = { R0: 'plain', R1: 'plain', R2: 'warn', R3: 'bad' };

export function toneOf(stand: PullStand): Tone {
  return TONES[stand];
}

export function iconOf(stand: PullStand): IconName {
  return ICONS[stand];
}

export function riskTone(risk: PullView['risk']): Tone {
  return RISKS[risk];
}

/** How its checks ended, in words. */
export function checksWords(checks: PullView['checks']): string {
  return checks === 'not run' ? t('pulls.checks.none') : t(`pulls.checks.${checks}`);
}

/** Open ones first, each part newest first; one that was read twice is there once. */
export function sorted(pulls: readonly PullView[]): { open: PullView[]; over: PullView[] } {
  const each = [...new Map(pulls.map((pull) => [pull.number, pull])).values()].sort((one, other) => other.number - one.number);
  return { open: each.filter((pull) => pull.state === 'OPEN'), over: each.filter((pull) => pull.state !== 'OPEN') };
}

/** What the owner can do with it beside answering its question. */
export function deedsOf(pull: Pick<PullShown, 'state' | 'job_id' | 'dormant'>): { changes: boolean; close: boolean; ask: boolean; revert: boolean } {
  const open = pull.state === 'OPEN';
  return { changes: open && pull.job_id !== null, close: open, ask: open && pull.dormant, revert: pull.state === 'MERGED' };
}

// --- the files ------------------------------------------------------------------------------------------------------

/** The three files that the runtime wrote about this very job: no other name counts, whoever chose it. */
function isRecord(path: string, job_id: string): boolean {
  if (path === `audit/jobs/${job_id}.jsonl` || path === `audit/evidence/${job_id}.json`) return true;
  return /^jobs\/\d{4}\/\d{2}\/[^/]+$/.test(path) && path.endsWith(`/${job_id}.md`);
}

/** What the job changed, and what the runtime wrote about it. */
export function parted(files: readonly FileDiff[], job_id: string | null): { own: FileDiff[]; records: FileDiff[] } {
  const records = job_id === null ? [] : files.filter((file) => isRecord(file.path, job_id));
  return { own: files.filter((file) => !records.includes(file)), records };
}

const HUNK = '@@ -';

/** The difference of a file as the cards show one: without git's lines above it. Empty where no line of text changes. */
export function previewOf(file: Pick<FileDiff, 'path' | 'kind' | 'patch'>): string {
  const lines = file.patch.split('\n');
  const begins = lines.findIndex((line) => line.startsWith(HUNK));
  if (begins < 0) return '';
  const hunks = lines.slice(begins);
  if (hunks.at(-1) === '') hunks.pop();
  return [`--- ${file.kind === 'added' ? '/dev/null' : file.path}`, `+++ ${file.path}`, ...hunks].join('\n');
}

// --- the story ------------------------------------------------------------------------------------------------------

const TOLD: Record<string, Tone> = { pr_opened: 'plain', pr_updated: 'plain', pr_checked: 'good', pr_merged: 'accent', pr_deployed: 'good', pr_closed: 'plain' };

function flag(payload: AuditLine['payload'], name: string): boolean {
  return typeof payload === 'object' && payload !== null && !Array.isArray(payload) && payload[name] === true;
}

/** What happened to it, oldest first; events come newest first. */
export function storyOf(events: readonly AuditLine[]): Told[] {
  return events.toReversed().filter((event) => event.event_type in TOLD).map((event) => {
    const checked = event.event_type === 'pr_checked';
    const passed = flag(event.payload, 'passed');
    return {
      key: event.entry_id,
      at: event.created_at,
      text: wordsOf(event.event_type),
      more: checked ? t(passed ? 'pulls.checked.passed' : 'pulls.checked.failed') : '',
      tone: checked && !passed ? 'bad' : (TOLD[event.event_type] ?? 'plain'),
    };
  });
}
