import { describe, expect, it } from 'vitest';
import { checkedOf, saidOf, standingOf } from '../src/screens/work/session_log.ts';

describe('what the program of a session asked for', () => {
  it('is told without the words that every line would begin with', () => {
    expect(saidOf({ tool: 'session_command', summary: 'Run in a session: npm install left-pad' })).toEqual({ kind: 'command', text: 'npm install left-pad' });
    expect(saidOf({ tool: 'session_write', summary: 'Write in a session: a.py, b.py' })).toEqual({ kind: 'write', text: 'a.py, b.py' });
    expect(saidOf({ tool: 'session_fetch', summary: 'Reach https://example.com/ from a session' })).toEqual({ kind: 'fetch', text: 'https://example.com/' });
  });

  it('keeps words of a command that look like ours', () => {
    expect(saidOf({ tool: 'session_command', summary: 'Run in a session: echo Run in a session: x' }).text).toBe('echo Run in a session: x');
    expect(saidOf({ tool: 'constructor', summary: 'something' })).toEqual({ kind: 'request', text: 'something' });
  });
});

describe('whether a task is done', () => {
  const run = { type: 'TEST_RUN_FINISHED', passed: 3, failed: 0, skipped: 1 };

  it('is not known before anything was checked', () => {
    expect(checkedOf(undefined, [])).toMatchObject({ tone: 'plain' });
    expect(standingOf(checkedOf(undefined, []))).toBe('Not checked');
  });

  it('is what the last test run says', () => {
    expect(checkedOf(undefined, [{ ...run, failed: 2 }, run])).toEqual({ tone: 'good', text: 'Its last test run: 3 passed, 0 failed, 1 skipped.' });
    expect(standingOf(checkedOf(undefined, [run, { ...run, failed: 2 }]))).toBe('Not yet');
  });

  it('is what the patrol of its quest says before anything else', () => {
    expect(checkedOf({ state: 'taken', reason: 'Its patrol does not pass: failed.' }, [run])).toEqual({ tone: 'warn', text: 'Its patrol does not pass: failed.' });
    expect(checkedOf({ state: 'done', reason: '' }, [])).toMatchObject({ tone: 'good' });
  });
});
