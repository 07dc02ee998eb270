/** What can be said of pull requests without a server: how each stands, which files are whose, its difference, its story. Pure. */
import type { AuditLine, ChangedFile, FileDiff, Job, JobShown, JobState, Json, MergeMode, PullShown, PullView, SetMode } from '../../api/types.ts';
import type { IconName } from '../../parts/icons.ts';
import type { Tone } from '../../parts/tone.ts';
import { address } from '../../route/match.ts';
import { titleOf } from '../../text/events.ts';
import { t } from '../../text/t.ts';
import { isOver, timeline, type Told } from './jobs.ts';

/** How a pull request stands, as people tell it apart. */
export type PullStand = 'waits' | 'prepared' | 'draft' | 'dormant' | 'merged' | 'deployed' | 'reverted' | 'closed';

export function standOf(pull: Pick<PullView, 'state' | 'action_id' | 'draft' | 'dormant' | 'deployed_at' | 'reason'> & Partial<Pick<PullShown, 'wanted'>>): PullStand {
  if (pull.state === 'CLOSED') return 'closed';
  // A merged one has a reason only when it was taken back.
  if (pull.state === 'MERGED') return pull.reason ? 'reverted' : pull.deployed_at ? 'deployed' : 'merged';
  if (pull.draft) return 'draft';
  if (pull.dormant) return 'dormant';
  // Its question was withdrawn when changes were asked for; it names that one until its job takes them up.
  return pull.action_id && !pull.wanted ? 'waits' : 'prepared';
}

const TONES: Record<PullStand, Tone> = { waits: 'warn', prepared: 'accent', draft: 'plain', dormant: 'plain', merged: 'accent', deployed: 'good', reverted: 'bad', closed: 'plain' };
const ICONS: Record<PullStand, IconName> = { waits: 'approve', prepared: 'refresh', draft: 'clock', dormant: 'clock', merged: 'refresh', deployed: 'check', reverted: 'undo', closed: 'close' };
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

export interface Deeds {
  changes: boolean;
  close: boolean;
  ask: boolean;
  revert: boolean;
  reopen: boolean;
}

/** What the owner can do with it beside answering its question. One whose job is over stays closed; in a repository of the owner’s nothing is reverted from here. */
export function deedsOf(pull: Pick<PullShown, 'state' | 'job_id' | 'dormant' | 'reason'> & Partial<Pick<PullShown, 'session_id'>>, job: Pick<Job, 'state'> | null): Deeds {
  const open = pull.state === 'OPEN';
  const reopen = pull.state === 'CLOSED' && (pull.job_id === null || (job !== null && !isOver(job)));
  return { changes: open && pull.job_id !== null, close: open, ask: open && pull.dormant, revert: pull.state === 'MERGED' && !pull.reason && !pull.session_id, reopen };
}

// --- the files ------------------------------------------------------------------------------------------------------

/** The three files that the runtime wrote about this very job: no other name counts, whoever chose it. */
function isRecord(path: string, job_id: string): boolean {
  if (path === `audit/jobs/${job_id}.jsonl` || path === `audit/evidence/${job_id}.json`) return true;
  return /^jobs\/\d{4}\/\d{2}\/[^/]+$/.test(path) && path.endsWith(`/${job_id}.md`);
}

/** What the job changed, and what the runtime wrote about it. */
export function parted(files: readonly ChangedFile[], job_id: string | null): { own: ChangedFile[]; records: ChangedFile[] } {
  const records = job_id === null ? [] : files.filter((file) => isRecord(file.path, job_id));
  return { own: files.filter((file) => !records.includes(file)), records };
}

/** A line of the tree: a file, or a folder with what is in it. */
export interface Branch {
  /** Below the folder it stands in; what is alone in a folder is named with it. */
  name: string;
  path: string;
  file: ChangedFile | null;
  inside: Branch[];
  /** The files in it, itself if it is one. */
  count: number;
}

/** Files by folder, folders first, in the order they came in. */
export function treeOf(files: readonly ChangedFile[], above = ''): Branch[] {
  const folders = new Map<string, ChangedFile[]>();
  const leaves: Branch[] = [];
  for (const file of files) {
    const [name, ...rest] = file.path.slice(above.length).split('/') as [string, ...string[]];
    if (!rest.length) leaves.push({ name, path: file.path, file, inside: [], count: 1 });
    else if (folders.get(name)?.push(file) === undefined) folders.set(name, [file]);
  }
  const branches = [...folders].map(([name, within]): Branch => {
    const path = `${above}${name}`;
    const inside = treeOf(within, `${path}/`);
    const [only] = inside;
    if (only && inside.length === 1) return { ...only, name: `${name}/${only.name}` };
    return { name, path, file: null, inside, count: within.length };
  });
  return [...branches, ...leaves];
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

const TOLD: Record<string, Tone> = {
  pr_opened: 'plain', pr_updated: 'plain', pr_checked: 'good', pr_merged: 'accent', pr_deployed: 'good', pr_closed: 'plain',
  approval_needed: 'warn', tool_approved: 'accent', tool_denied: 'bad', tool_failed: 'bad', tool_unknown: 'bad',
};
const HASH = 10;

function field(payload: Json, name: string): Json | undefined {
  return typeof payload === 'object' && payload !== null && !Array.isArray(payload) ? payload[name] : undefined;
}

/** From the request to what is in force, oldest first, each with where it can be looked at. Events come newest first. */
export function storyOf(job: StoryJob | null, events: readonly AuditLine[], asked: readonly AuditLine[] = []): Told[] {
  const told = [...(job ? ofJob(job) : []), ...[...events.toReversed(), ...asked.toReversed()].flatMap(ofEvent)];
  return told.toSorted((one, other) => Date.parse(one.at) - Date.parse(other.at));
}

export type StoryJob = Pick<JobShown, 'job_id' | 'thread_id' | 'schedule_id' | 'created_at' | 'spec' | 'events'>;

/** Who asked for it, when work began, and how the job ended. */
function ofJob(job: StoryJob): Told[] {
  const who = job.schedule_id ? 'schedule' : job.spec.by_agent ? 'agent' : 'owner';
  const from = job.schedule_id ? address('schedules', job.schedule_id) : address('chat', job.thread_id);
  const told = timeline(job.events);
  const states = job.events.filter((each) => each.type === 'state');
  const began = states.find((each) => field(each.payload, 'to') === 'EXECUTING');
  const ended = states.find((each) => isOver({ state: field(each.payload, 'to') as JobState }));
  const own = told.filter((line) => line.key === began?.event_id || line.key === ended?.event_id);
  return [
    { key: 'asked', at: job.created_at, text: t(`pulls.told.${who}`, { name: job.schedule_id ?? '' }), more: '', tone: 'plain', href: from },
    ...own.map((line) => ({ ...line, text: t('pulls.told.job', { what: line.text }), href: address('work', 'jobs', job.job_id) })),
  ];
}

function ofEvent(event: AuditLine): Told[] {
  const { event_type: type, payload } = event;
  const tone = TOLD[type];
  if (!tone) return [];
  const line: Told = { key: event.entry_id, at: event.created_at, text: titleOf(event), more: '', tone };
  if (event.entity_id.startsWith('act_')) {
    return [{ ...line, text: type === 'tool_approved' ? t('pulls.told.approved') : line.text, href: address('audit', 'story', event.entity_id) }];
  }
  if (type === 'pr_checked') {
    const passed = field(payload, 'passed') === true;
    return [{ ...line, more: t(passed ? 'pulls.checked.passed' : 'pulls.checked.failed'), tone: passed ? 'good' : 'bad' }];
  }
  if (type === 'pr_updated' && field(payload, 'reopened') === true) return [{ ...line, text: t('pulls.told.reopened') }];
  if (type === 'pr_deployed' && field(payload, 'taken_back') === true) return [{ ...line, text: t('pulls.told.reverted'), tone: 'bad' }];
  const commit = field(payload, 'commit');
  return [typeof commit === 'string' ? { ...line, more: t('pulls.told.commit', { commit: commit.slice(0, HASH) }) } : line];
}

// --- the merge mode -------------------------------------------------------------------------------------------------

/** The word that has to be typed before everything merges unasked. */
export const YOLO = 'yolo';
export const HOURS = [1, 4, 8, 24] as const;

/** What is sent to change the mode; null while it changes nothing or is not meant. */
export function modeWanted(now: MergeMode, mode: MergeMode, hours: number, word: string): SetMode | null {
  if (mode === 'yolo') return word.trim().toLowerCase() === YOLO ? { mode, hours } : null;
  return mode === now ? null : { mode };
}
