/** Coding sessions: in which order they are listed, and what can be done with one. */
import type { SessionView } from '../api/types.ts';
import type { Tone } from './tone.ts';
import type { IconName } from './icons.ts';
import { lookup, t } from '../text/t.ts';

export type SessionState = SessionView['state'];
export const GROUPS = ['waits', 'working', 'idle', 'ended'] as const;
export type Group = (typeof GROUPS)[number];

const GROUP_OF: Record<SessionState, Group> = {
  WAITING_FOR_APPROVAL: 'waits', RUNNING: 'working', STOPPING: 'working', CREATED: 'idle', PREPARING_WORKSPACE: 'idle', STARTING_PROVIDER: 'idle', PAUSED_BY_HUMAN: 'idle', COMPLETED: 'ended', FAILED: 'ended',
};
const TONES: Record<Group, Tone> = { waits: 'warn', working: 'good', idle: 'plain', ended: 'plain' };
const ICONS: Record<Group, IconName> = { waits: 'approve', working: 'terminal', idle: 'clock', ended: 'check' };

export function groupOf(session: Pick<SessionView, 'state' | 'waiting'>): Group {
  return session.waiting.length ? 'waits' : GROUP_OF[session.state];
}

export function toneOf(session: Pick<SessionView, 'state' | 'waiting'>): Tone {
  return session.state === 'FAILED' ? 'bad' : TONES[groupOf(session)];
}

export function iconOf(session: Pick<SessionView, 'state' | 'waiting'>): IconName {
  return session.state === 'FAILED' ? 'warn' : ICONS[groupOf(session)];
}

/** Its state in words; one whose start waits for an answer says so. */
export function stateOf(session: Pick<SessionView, 'state' | 'waiting'>): string {
  return t(session.waiting.length ? 'sessions.state.WAITING_FOR_APPROVAL' : `sessions.state.${session.state}`);
}

/** What a list or a heading calls it. */
export function titleOf(session: Pick<SessionView, 'task' | 'provider' | 'repo'>): string {
  return session.task.title || t('sessions.untitled', { provider: lookup(`sessions.by.${session.provider}`, session.provider), repo: session.repo.name });
}

/** Those that wait for the owner first, then those that run; each part newest first. */
export function grouped(sessions: readonly SessionView[]): { group: Group; items: SessionView[] }[] {
  return GROUPS.map((group) => ({ group, items: sessions.filter((each) => groupOf(each) === group) })).filter(({ items }) => items.length > 0);
}

/** A family as rows: each below its parent, with how deep it is; one whose parent is not among them begins a row of its own. */
export function familyOf(sessions: readonly SessionView[]): { depth: number; session: SessionView }[] {
  const known = new Set(sessions.map((each) => each.session_id));
  const below = (parent: string, depth: number): { depth: number; session: SessionView }[] =>
    sessions
      .filter((each) => (known.has(each.parent_id) && each.parent_id !== each.session_id ? each.parent_id : '') === parent)
      .flatMap((session) => [{ depth, session }, ...below(session.session_id, depth + 1)]);
  return below('', 0);
}

/** Whether it has a terminal that can be joined now. */
export function isLive(session: Pick<SessionView, 'state'>): boolean {
  return ['RUNNING', 'WAITING_FOR_APPROVAL', 'PAUSED_BY_HUMAN', 'STOPPING'].includes(session.state);
}

export interface Deeds {
  pause: boolean;
  resume: boolean;
  stop: boolean;
  remove: boolean;
}

export function deedsOf(session: Pick<SessionView, 'state'>): Deeds {
  const over = session.state === 'COMPLETED' || session.state === 'FAILED';
  const runs = session.state === 'RUNNING' || session.state === 'WAITING_FOR_APPROVAL';
  return { pause: runs, resume: session.state === 'PAUSED_BY_HUMAN', stop: !over && session.state !== 'STOPPING', remove: over };
}
