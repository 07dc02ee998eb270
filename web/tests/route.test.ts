import { describe, expect, test } from 'vitest';
import { address, match } from '../src/route/match.ts';
import { Router } from '../src/route/router.svelte.ts';
import { PATTERNS, SCREENS } from '../src/route/routes.ts';

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

  test('a broken encoding does not break the page', () => {
    expect(match('#/approvals/%E0%A4%A', PATTERNS)?.params['id']).toBe('%E0%A4%A');
  });

  test('an address made of pieces comes back as them', () => {
    expect(match(address('work', 'jobs', 'job/ä ?#'), PATTERNS)?.params).toEqual({ part: 'jobs', id: 'job/ä ?#' });
  });
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
