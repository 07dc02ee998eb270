import { describe, expect, test } from 'vitest';
import { address, match, upOf } from '../src/route/match.ts';
import { Router } from '../src/route/router.svelte.ts';
import { PATTERNS, SCREENS, isDeep } from '../src/route/routes.ts';

describe('addresses', () => {
  test('every screen can be reached by its own address', () => {
    for (const [name, screen] of Object.entries(SCREENS)) expect(match(screen.home, PATTERNS)?.name).toBe(name);
  });

  test('what a pattern leaves open is handed on decoded', () => {
    expect(match('#/approvals/act%2F1?from=chat', PATTERNS)).toMatchObject({ name: 'approvals', params: { id: 'act/1' } });
    expect(match('#/chat/new?text=a%20b', PATTERNS)?.query.get('text')).toBe('a b');
  });

  test('an address nobody knows is nothing, not the first screen', () => {
    expect(match('#/nowhere', PATTERNS)).toBeNull();
    expect(match('#/approvals/a/b', PATTERNS)).toBeNull();
  });

  test('one level up is the list, or what a form lies over', () => {
    expect(['#/work/actions/act_1', '#/schedules?new', '#/schedules/s?edit', '#/approvals/a?back=1', '#/', ''].map(upOf)).toEqual(['#/work/actions', '#/schedules', '#/schedules/s', '#/approvals', '#/', '#/']);
  });

  test('what stands under a tab is no deeper than its screen; what is chosen there, and a form, are', () => {
    const deep = (hash: string): boolean => isDeep(match(hash, PATTERNS));
    expect(['#/', '#/work', '#/work/jobs', '#/work/procedures', '#/work/actions?q=a', '#/audit/receipts', '#/nowhere'].map(deep)).toEqual(Array(7).fill(false));
    expect(['#/work/jobs/job_1', '#/work/procedures/sop_1', '#/audit/story/act_1', '#/settings/devices', '#/chat/new', '#/schedules?new'].map(deep)).toEqual(Array(6).fill(true));
  });

  test('a broken encoding does not break the page', () => {
    expect(match('#/approvals/%E0%A4%A', PATTERNS)?.params['id']).toBe('%E0%A4%A');
  });

  test('an address made of pieces comes back as them', () => {
    expect(match(address('work', 'jobs', 'job/ä ?#'), PATTERNS)?.params).toEqual({ part: 'jobs', id: 'job/ä ?#' });
  });
});

test('back is where one came from; from outside it is the list above', () => {
  const visited: string[] = [];
  const entries: { hash: string; state: unknown }[] = [{ hash: '#/work/actions/act_1', state: null }];
  let at = 0;
  const listeners: (() => void)[] = [];
  const visit = (hash: string): void => {
    entries.splice(++at, entries.length, { hash, state: null });
    visited.push(hash);
    for (const each of listeners) each();
  };
  const now = (): { hash: string; state: unknown } => entries[at] as { hash: string; state: unknown };
  const on = {
    location: { get hash() { return now().hash; }, set hash(hash: string) { visit(hash); } },
    history: {
      get state() { return now().state; },
      replaceState: (state: unknown, _: string, hash?: string) => Object.assign(now(), { state, ...(hash ? { hash } : {}) }),
      back: () => { at -= 1; for (const each of listeners) each(); },
    },
    addEventListener: (_: string, heard: () => void) => listeners.push(heard),
    removeEventListener: () => undefined,
  };
  const router = new Router(PATTERNS, on as unknown as Window);
  router.start();
  router.back();
  expect(visited).toEqual(['#/work/actions']);
  router.go('#/chat/conv_1');
  router.go('#/approvals/act_2');
  router.go('#/approvals/act_3', { replace: true });
  router.back();
  expect(router.place).toMatchObject({ name: 'chat', params: { id: 'conv_1' } });
  router.back();
  router.back();
  expect(router.place?.params).toEqual({ part: 'actions', id: 'act_1' });
  router.back();
  expect(visited.at(-1)).toBe('#/work/actions');
});

test('the router follows the address, and can replace it without a step back', async () => {
  window.location.hash = '#/';
  const router = new Router(PATTERNS);
  const stop = router.start();
  expect(router.place?.name).toBe('home');
  const before = window.history.length;
  router.go(address('approvals', 'act_1'), { replace: true });
  expect(router.place).toMatchObject({ name: 'approvals', params: { id: 'act_1' } });
  expect(window.history.length).toBe(before);
  stop();
});
