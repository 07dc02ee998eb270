import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Fresh } from '../src/api/client.ts';
import { Resource } from '../src/state/resource.svelte.ts';

/** Answers that come when they are let go, in the order in which they were asked for. */
class Answers {
  readonly waiting: ((data: number) => void)[] = [];
  load = (): Promise<Fresh<number>> => new Promise((done) => this.waiting.push((data) => done({ data, staleSince: null })));

  async give(data: number): Promise<void> {
    this.waiting.shift()?.(data);
    await vi.advanceTimersByTimeAsync(0);
  }
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('events that never end do not keep an answer from being shown', async () => {
  const answers = new Answers();
  const read = new Resource(answers.load);
  void read.reload();
  for (let at = 0; at < 20; at += 1) {
    read.soon();
    await vi.advanceTimersByTimeAsync(100);
  }
  expect(answers.waiting).toHaveLength(1);
  await answers.give(1);
  expect(read.data).toBe(1);
  await vi.advanceTimersByTimeAsync(200);
  expect(answers.waiting).toHaveLength(1);
  await answers.give(2);
  expect(read.data).toBe(2);
});

test('what is put in place while something is read is shown, and read again', async () => {
  const answers = new Answers();
  const read = new Resource(answers.load);
  void read.reload();
  read.set(7);
  await answers.give(1);
  expect(read.data).toBe(7);
  await vi.advanceTimersByTimeAsync(200);
  await answers.give(8);
  expect(read.data).toBe(8);
  read.soon();
  await vi.advanceTimersByTimeAsync(200);
  await answers.give(9);
  expect(read.data).toBe(9);
});

test('nothing is read, and nothing taken, once nobody looks', async () => {
  const answers = new Answers();
  const read = new Resource(answers.load);
  void read.reload();
  read.soon();
  read.stop();
  await vi.advanceTimersByTimeAsync(500);
  await answers.give(1);
  expect([read.data, answers.waiting.length]).toEqual([null, 0]);
});
