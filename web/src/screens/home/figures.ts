/** The figures of the overview. Pure. */
import type { ActionSummary, Overview } from '../../api/types.ts';
import { codeWords, t } from '../../text/t.ts';

export interface Bar {
  name: string;
  value: number;
  tone: 'accent' | 'good' | 'warn' | 'bad' | 'plain';
  href?: string;
}

const percents = new Intl.NumberFormat('en', { style: 'percent', maximumFractionDigits: 0 });

/** A share in whole percent, never 0 % or 100 % of something that is not nothing or all. */
export function percent(part: number, all: number): string {
  if (all <= 0) return percents.format(0);
  const share = part / all;
  if (part > 0 && share < 0.01) return percents.format(0.01);
  if (part < all && share > 0.99) return percents.format(0.99);
  return percents.format(share);
}

/** What the gate said, by what it said. */
export function verdictBars(overview: Overview): { bars: Bar[]; all: number; alone: number } {
  const { allow = 0, ask = 0, deny = 0 } = overview.verdicts;
  return {
    bars: [
      { name: t('home.alone.allow'), value: allow, tone: 'good' },
      { name: t('home.alone.ask'), value: ask, tone: 'accent' },
      { name: t('home.alone.deny'), value: deny, tone: 'bad' },
    ],
    all: allow + ask + deny,
    alone: allow,
  };
}

export function riskBars(overview: Overview): Bar[] {
  const { R0 = 0, R1 = 0, R2 = 0, R3 = 0 } = overview.risks;
  return [
    { name: t('home.risk.R0'), value: R0, tone: 'plain' },
    { name: t('home.risk.R1'), value: R1, tone: 'plain' },
    { name: t('home.risk.R2'), value: R2, tone: 'warn' },
    { name: t('home.risk.R3'), value: R3, tone: 'bad' },
  ];
}

export function answerBars(overview: Overview): Bar[] {
  const { approved, rejected, expired } = overview.approvals;
  return [
    { name: t('home.answers.approved'), value: approved, tone: 'good' },
    { name: t('home.answers.rejected'), value: rejected, tone: 'bad' },
    { name: t('home.answers.expired'), value: expired, tone: 'plain' },
  ];
}

export function toolBars(overview: Overview, most: number): Bar[] {
  return overview.tools.slice(0, most).map((each) => ({
    name: each.tool,
    value: each.calls,
    tone: 'accent' as const,
    href: `#/work/actions?${new URLSearchParams({ tool: each.tool }).toString()}`,
  }));
}

/** Why something was refused: the rule's code, or the owner. */
function whyRefused(action: Pick<ActionSummary, 'refusal' | 'code'>): string {
  if (action.refusal === 'denied' || action.refusal === null) return codeWords(action.code);
  return t(`home.refused.${action.refusal}`);
}

/** Refused actions since a day, by the reason, most first. */
export function refusalBars(actions: readonly ActionSummary[], since: string, most: number): Bar[] {
  const counts = new Map<string, Bar>();
  for (const action of actions) {
    if (action.created_at.slice(0, 10) < since.slice(0, 10)) continue;
    const name = whyRefused(action);
    const value = (counts.get(name)?.value ?? 0) + 1;
    counts.set(name, { name, value, tone: 'bad', href: `#/work/actions?refusal=${action.refusal ?? 'denied'}` });
  }
  return [...counts.values()].sort((a, b) => b.value - a.value || a.name.localeCompare(b.name)).slice(0, most);
}

/** What it cost: money where prices are known, tokens where they are not. */
export function spendOf(overview: Overview): { priced: boolean; values: number[]; total: number } {
  const priced = overview.days.some((each) => each.cost_millionths !== null);
  const values = overview.days.map((each) => (priced ? (each.cost_millionths ?? 0) : each.input_tokens + each.output_tokens));
  return { priced, values, total: values.reduce((sum, each) => sum + each, 0) };
}

// --- first run ------------------------------------------------------------------------------------------------------

export interface FirstRun {
  passkey: boolean;
  asked: boolean;
  waiting: string | null;
  done: boolean;
}

/** Which of the five steps comes next, from 1; 6 when all are done. A passkey is no condition for what stays here. */
export function stepOf(run: FirstRun): number {
  if (run.done) return 6;
  if (run.waiting) return 4;
  return run.asked ? 4 : 3;
}

/** Whether the guide is shown: nothing was ever approved, and there is little to lose it among. */
export function isFirstRun(approved: number, threads: number): boolean {
  return approved === 0 && threads <= 2;
}
