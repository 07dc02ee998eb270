/** Runs of a schedule in words. Pure. */
import type { ScheduleRun } from '../../api/types.ts';
import type { Tone } from '../../parts/tone.ts';
import { span } from '../../text/format.ts';
import { count, lookup, t } from '../../text/t.ts';

/** How a run went: in a word, with a tone. */
export function endOf(run: Pick<ScheduleRun, 'state' | 'outcome' | 'slots'>): { text: string; tone: Tone } {
  if (run.state === 'QUEUED') return { text: t('schedules.run.QUEUED'), tone: 'plain' };
  if (run.state === 'STARTED') return { text: t('schedules.run.STARTED'), tone: 'accent' };
  if (run.state === 'SKIPPED') return { text: run.slots > 1 ? count('schedules.run.skipped', run.slots) : t('schedules.run.SKIPPED'), tone: 'plain' };
  const outcome = run.outcome ?? '';
  return { text: lookup(`work.state.${outcome}`, outcome || t('schedules.run.ENDED')), tone: outcome === 'DONE' ? 'good' : outcome === 'CANCELLED' ? 'plain' : 'bad' };
}

/** Why it ran when it did. */
export function causeOf(run: Pick<ScheduleRun, 'cause' | 'lateness_seconds'>): string {
  if (run.cause === 'late') return t('schedules.cause.late', { time: span(run.lateness_seconds * 1000) });
  return t(`schedules.cause.${run.cause}`);
}

/** When it began: by the clock, or when the owner asked for it. */
export function startOf(run: Pick<ScheduleRun, 'cause' | 'scheduled_at' | 'created_at'>): string {
  return run.cause === 'due' ? run.scheduled_at : run.created_at;
}

/** How long it took; empty while it is not over. */
export function tookOf(run: Pick<ScheduleRun, 'created_at' | 'ended_at'>): string {
  if (!run.ended_at) return '';
  const took = Date.parse(run.ended_at) - Date.parse(run.created_at);
  return took < 1000 ? t('schedules.took.instant') : t('schedules.took', { time: span(took) });
}

/** How the last run stands: the word the list has for it is a job's state or a run's. */
export function lastOf(status: string): { text: string; tone: Tone } {
  const text = lookup(`work.state.${status}`, lookup(`schedules.run.${status}`, status));
  const tone = status === 'DONE' ? 'good' : ['FAILED', 'TIMED_OUT', 'DENIED'].includes(status) ? 'bad' : status === 'STARTED' ? 'accent' : 'plain';
  return { text, tone };
}
