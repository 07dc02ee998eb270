/** What a session to be started would be allowed, in words. Pure. */
import type { AdapterView, EffectiveSetting } from '../../api/types.ts';
import { listed } from '../../text/format.ts';
import { count, t } from '../../text/t.ts';

export const PROVIDERS = ['shell', 'codex', 'claude', 'gemini'] as const;
export type Provider = (typeof PROVIDERS)[number];

export interface Wanted {
  provider: Provider;
  mode: 'read' | 'write';
  network: 'restricted' | 'open';
  /** The only programs that run without asking; empty: those of the settings. */
  allow: readonly string[];
  deny: readonly string[];
}

/** What the configuration allows sessions. */
export interface Allowed {
  commands: readonly string[];
  domains: readonly string[];
  waitSeconds: number;
}

const NAMED = 8;
const WAIT = 600;

/** Names as people type them: with commas, spaces or one a line. */
export function namesOf(text: string): string[] {
  return [...new Set(text.split(/[\s,]+/).filter(Boolean))];
}

/** One condition a line. */
export function linesOf(text: string): string[] {
  return text.split('\n').map((each) => each.trim()).filter(Boolean);
}

export function allowedBy(settings: readonly EffectiveSetting[]): Allowed {
  const value = (key: string): unknown => settings.find((each) => each.key === key)?.value;
  const names = (key: string): string[] => {
    const found = value(key);
    return Array.isArray(found) ? found.filter((each): each is string => typeof each === 'string') : [];
  };
  const wait = value('runner.approval_wait_seconds');
  return { commands: names('security.allowed_commands'), domains: names('security.allowed_domains'), waitSeconds: typeof wait === 'number' ? wait : WAIT };
}

/** What starting it would mean, a sentence each. */
export function meaningOf(wanted: Wanted, allowed: Allowed): string[] {
  const asks = wanted.provider !== 'shell';
  const runs = wanted.allow.length ? wanted.allow : allowed.commands;
  const minutes = Math.max(1, Math.round(allowed.waitSeconds / 60));
  const reach = allowed.domains.length ? t(asks ? 'sessions.means.open.asks' : 'sessions.means.open', { hosts: listed(allowed.domains, NAMED) }) : t('sessions.means.open.none');
  return [
    t(wanted.mode === 'read' ? 'sessions.means.read' : 'sessions.means.write'),
    wanted.network === 'open' ? reach : t('sessions.means.closed'),
    ...(asks ? [runs.length ? t('sessions.means.runs', { names: listed(runs, NAMED) }) : t('sessions.means.runs.none')] : []),
    ...(wanted.deny.length ? [t('sessions.means.never', { names: listed(wanted.deny, NAMED) })] : []),
    ...(asks ? [t('sessions.means.always'), count('sessions.means.wait', minutes)] : []),
    t('sessions.means.leaves'),
  ];
}

/** The version of a program that a new session gets; empty when none is installed. */
export function versionOf(adapters: readonly AdapterView[], provider: string): string {
  return adapters.find((each) => each.name === provider)?.versions.find((each) => each.in_use)?.version ?? '';
}
