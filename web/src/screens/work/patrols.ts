/** Patrols: which tone a state has, what comes first, and the trend. Pure. */
import type { AlertView, BuildingView, QuestView, RunView, TrendPoint } from '../../api/types.ts';
import type { Tone } from '../../parts/tone.ts';
import { stamp } from '../../text/format.ts';
import { count, lookup, number, t } from '../../text/t.ts';

export type { AlertView, BuildingView, QuestView };

export type RunState = TrendPoint['state'];

const TONES: Record<RunState, Tone> = { running: 'plain', passed: 'good', failed: 'bad', not_audited: 'warn', error: 'warn' };
const SEVERITIES: Record<AlertView['severity'], Tone> = { info: 'plain', warning: 'warn', error: 'bad', critical: 'bad' };

export function toneOfRun(state: RunState): Tone {
  return TONES[state];
}

export function toneOfAlert(alert: Pick<AlertView, 'severity' | 'state'>): Tone {
  return alert.state === 'muted' ? 'plain' : SEVERITIES[alert.severity];
}

/** What a patrol does, in a word. */
export function kindWords(kind: string): string {
  return lookup(`patrols.kind.${kind}`, kind);
}

const LEAST = 0.3;

/** Bars of a trend: runs that found nothing are low, those that found most are full. */
export function barsOf(points: readonly TrendPoint[]): { tone: Tone; share: number; title: string }[] {
  const found = (each: TrendPoint): number => Math.max(each.findings, each.failed);
  const most = Math.max(1, ...points.map(found));
  return points.map((each) => ({
    tone: toneOfRun(each.state),
    share: LEAST + (1 - LEAST) * (found(each) / most),
    title: `${stamp(Date.parse(each.at), Date.now())}: ${t(`patrols.state.${each.state}`)}`,
  }));
}

/** How a run went, in a line. */
export function runWords(run: Pick<RunView, 'passed' | 'failed' | 'skipped' | 'findings' | 'state' | 'reason'>): string {
  if (run.state === 'error' || run.state === 'not_audited') return run.reason;
  const tests = run.passed || run.failed ? [t('patrols.tests', { passed: number(run.passed), failed: number(run.failed), skipped: number(run.skipped) })] : [];
  const findings = tests.length && run.findings === run.failed ? [] : [count('patrols.findings', run.findings)];
  return [...tests, ...findings].join(', ');
}

const WORST: readonly AlertView['severity'][] = ['critical', 'error', 'warning', 'info'];

/** The worst first, then the newest. */
export function gravest(alerts: readonly AlertView[]): AlertView[] {
  return [...alerts].sort((one, other) => WORST.indexOf(one.severity) - WORST.indexOf(other.severity) || other.last_seen.localeCompare(one.last_seen));
}

/** Where in the repository an alert points: a path and perhaps a line. */
export function placeOf(alert: Pick<AlertView, 'evidence'>): string {
  const { path, line } = alert.evidence;
  if (typeof path !== 'string' || !path) return '';
  return typeof line === 'number' && line > 0 ? `${path}:${line}` : path;
}

const STATES: readonly QuestView['state'][] = ['in_review', 'taken', 'offered', 'done'];

/** Quests in the order in which they need somebody; dropped ones are left out. */
export function openFirst(quests: readonly QuestView[]): QuestView[] {
  return quests.filter((each) => each.state !== 'dropped').sort((one, other) => STATES.indexOf(one.state) - STATES.indexOf(other.state) || other.updated_at.localeCompare(one.updated_at));
}

/** Unknown is not good. */
export function toneOfHealth(health: number | null): Tone {
  if (health === null) return 'plain';
  if (health >= 80) return 'good';
  return health >= 50 ? 'warn' : 'bad';
}

export function healthText(health: number | null): string {
  return health === null ? t('patrols.health.unknown') : t('patrols.health', { health: String(health) });
}

/** The worst first; those nobody can tell before those that are well. */
export function worstFirst(buildings: readonly BuildingView[]): BuildingView[] {
  const rank = (each: BuildingView): number => each.health ?? 99.5;
  return [...buildings].sort((one, other) => rank(one) - rank(other) || one.building.localeCompare(other.building));
}
