import { expect, test } from 'vitest';
import { nextStep, TOUR } from '../src/talk/tour.ts';

const said = (...words: string[]) => words.flatMap((content) => [{ role: 'user' as const, content }, { role: 'assistant' as const, content: 'Done.' }]);

test('after each step the next one is offered, and after the last none', () => {
  const all = TOUR.map((step) => step.message);
  expect(all.map((_, at) => nextStep(said(...all.slice(0, at + 1))))).toEqual([1, 2, 3, 4, null]);
});

test('another conversation is left alone', () => {
  expect(nextStep([])).toBeNull();
  expect(nextStep(said('Hello', 'Undo that'))).toBeNull();
  expect(nextStep(said(TOUR[0].message, 'something else'))).toBeNull();
});
