import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Fresh } from '../src/api/client.ts';
import { ApiError } from '../src/api/problem.ts';
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

test('who is told to come back soon does so by itself, and nothing is said to have failed', async () => {
  let asked = 0;
  const busy = new ApiError({ status: 429, code: 'TOO_MANY', detail: 'too many.' }, 4);
  const read = new Resource<number>(() => {
    asked += 1;
    return asked < 3 ? Promise.reject(busy) : Promise.resolve({ data: asked, staleSince: null });
  });
  await read.reload();
  expect([read.error, read.loading, read.data]).toEqual([null, true, null]);
  await vi.advanceTimersByTimeAsync(4_000);
  expect([asked, read.error]).toEqual([2, null]);
  await vi.advanceTimersByTimeAsync(4_000);
  expect([asked, read.loading, read.data]).toEqual([3, false, 3]);
});

test('who is told to come back much later is told so', async () => {
  const read = new Resource<number>(() => Promise.reject(new ApiError({ status: 429, code: 'TOO_MANY', detail: 'too many.' }, 600)));
  await read.reload();
  expect(read.error?.status).toBe(429);
});
