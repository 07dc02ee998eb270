import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Arming, FOLLOWS, LOOK } from '../src/cards/arming.svelte.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('a yes counts once the card was in sight for its time', () => {
  const arming = new Arming();
  expect(arming.pressed()).toBe(false);
  arming.shown(LOOK);
  vi.advanceTimersByTime(LOOK - 1);
  expect(arming.armed).toBe(false);
  vi.advanceTimersByTime(1);
  expect([arming.armed, arming.pressed()]).toEqual([true, true]);
});

test('each press meanwhile begins the wait anew, however many there are', () => {
  const arming = new Arming();
  arming.shown(FOLLOWS);
  for (let tap = 0; tap < 40; tap += 1) {
    vi.advanceTimersByTime(FOLLOWS - 1);
    expect(arming.pressed()).toBe(false);
  }
  vi.advanceTimersByTime(FOLLOWS);
  expect(arming.pressed()).toBe(true);
});

test('a card that follows an answer waits longer than any two taps are apart', () => {
  const arming = new Arming();
  arming.shown(FOLLOWS);
  vi.advanceTimersByTime(1400);
  expect(arming.pressed()).toBe(false);
});

test('what becomes another card has to be looked at anew, and what is gone arms nothing', () => {
  const arming = new Arming();
  arming.shown(LOOK);
  vi.advanceTimersByTime(LOOK);
  arming.shown(FOLLOWS);
  expect(arming.armed).toBe(false);
  arming.gone();
  vi.advanceTimersByTime(10 * FOLLOWS);
  expect([arming.armed, arming.pressed()]).toEqual([false, false]);
  vi.advanceTimersByTime(10 * FOLLOWS);
  expect(arming.armed).toBe(false);
});
