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

/** How the last run stands: the word the list has for it is a job's state or a run's. */
export function lastOf(status: string): { text: string; tone: Tone } {
  const text = lookup(`work.state.${status}`, lookup(`schedules.run.${status}`, status));
  const tone = status === 'DONE' ? 'good' : ['FAILED', 'TIMED_OUT', 'DENIED'].includes(status) ? 'bad' : status === 'STARTED' ? 'accent' : 'plain';
  return { text, tone };
}
