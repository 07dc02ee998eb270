import { describe, expect, test } from 'vitest';
import type { AuditLine, FileDiff, PullView } from '../src/api/types.ts';
import { parseDiff } from '../src/parts/diff.ts';
import { checksWords, deedsOf, parted, previewOf, sorted, standOf, storyOf } from '../src/screens/work/pulls.ts';
import { yoloUntil } from '../src/state/yolo.ts';
import { placeOf } from '../src/text/events.ts';

const JOB = 'job_1';

function pull(change: Partial<PullView> = {}): PullView {
  return {
    number: 1, title: 'Write a note', state: 'OPEN', risk: 'R2', labels: [], tainted: false, checks: 'passed', job_id: JOB, branch: `job/${JOB}`, action_id: 'act_1',
    dormant: false, reason: '', opened_at: '2026-11-16T09:00:00Z', updated_at: '2026-11-16T09:00:00Z', deployed_at: null, ...change,
  };
}

function file(change: Partial<FileDiff> = {}): FileDiff {
  return { path: 'notes/a.md', kind: 'added', old_size: 0, new_size: 4, executable: false, binary: false, cut: false, patch: '', ...change };
}

describe('a pull request', () => {
  test('stands as people tell it apart', () => {
    expect(standOf(pull())).toBe('waits');
    expect(standOf(pull({ action_id: null }))).toBe('prepared');
    expect(standOf({ ...pull(), wanted: 'shorter' })).toBe('prepared');
    expect(standOf(pull({ action_id: null, dormant: true }))).toBe('dormant');
    expect(standOf(pull({ state: 'MERGED' }))).toBe('merged');
    expect(standOf(pull({ state: 'MERGED', deployed_at: '2026-11-16T09:01:00Z' }))).toBe('deployed');
    expect(standOf(pull({ state: 'CLOSED', action_id: null }))).toBe('closed');
  });

  test('is listed once, open ones first, newest first', () => {
    const { open, over } = sorted([pull({ number: 1 }), pull({ number: 4, state: 'CLOSED' }), pull({ number: 3 }), pull({ number: 1 }), pull({ number: 5, state: 'MERGED' })]);
    expect([open.map((each) => each.number), over.map((each) => each.number)]).toEqual([[3, 1], [5, 4]]);
  });

  test('can be sent back while a job stands behind it, and taken back once it is merged', () => {
    expect(deedsOf(pull())).toEqual({ changes: true, close: true, ask: false, revert: false });
    expect(deedsOf(pull({ job_id: null, dormant: true }))).toEqual({ changes: false, close: true, ask: true, revert: false });
    expect(deedsOf(pull({ state: 'MERGED' }))).toEqual({ changes: false, close: false, ask: false, revert: true });
    expect(Object.values(deedsOf(pull({ state: 'CLOSED' }))).some(Boolean)).toBe(false);
  });

  test('says how its checks ended', () => {
    expect((['passed', 'failed', 'not run'] as const).map(checksWords)).toEqual(['Checks passed', 'Checks failed', 'Not checked yet']);
  });

  test('is where its events lead', () => {
    expect(placeOf({ event_type: 'pr_merged', entity_id: 'pr_7', payload: {} })).toBe('#/work/pulls/7');
  });
});

describe('its files', () => {
  test('are those of the job; only the records of that very job are folded away', () => {
    const paths = [`audit/evidence/${JOB}.json`, `audit/jobs/${JOB}.jsonl`, 'audit/jobs/job_2.jsonl', `jobs/2026/11/${JOB}.md`, 'jobs/2026/11/job_2.md', `jobs/2026/${JOB}.md`, 'notes/a.md'];
    const files = paths.map((path) => file({ path }));
    const { own, records } = parted(files, JOB);
    expect(records.map((each) => each.path)).toEqual([paths[0], paths[1], paths[3]]);
    expect(own.map((each) => each.path)).toEqual([paths[2], paths[4], paths[5], paths[6]]);
    expect(parted(files, null).own).toHaveLength(paths.length);
  });

  test('are shown as cards show a difference, without the lines of git above it', () => {
    const patch = 'diff --git a/notes/a.md b/notes/a.md\nnew file mode 100644\nindex 000..111\n--- /dev/null\n+++ b/notes/a.md\n@@ -0,0 +1,2 @@\n+one\n+--- two\n\\ No newline at end of file\n';
    const read = parseDiff(previewOf(file({ patch })));
    expect(read).toMatchObject({ path: 'notes/a.md', created: true, whole: { added: 2, removed: 0 } });
    expect(read?.lines.map((line) => line.kind)).toEqual(['hunk', 'add', 'add', 'note']);
  });

  test('keep an empty line that stands in the text, and have nothing to show without a hunk', () => {
    const patch = '--- a/a\n+++ b/a\n@@ -1,2 +1,1 @@\n \n-gone\n';
    expect(parseDiff(previewOf(file({ kind: 'changed', path: 'a', patch })))?.whole).toEqual({ added: 0, removed: 1 });
    expect(previewOf(file({ patch: 'diff --git a/x b/x\nold mode 100644\nnew mode 100755\n' }))).toBe('');
    expect(previewOf(file())).toBe('');
  });
});

describe('its story', () => {
  const event = (event_type: string, payload: AuditLine['payload'], seq: number): AuditLine => ({ about: '', created_at: '2026-11-16T09:00:00Z', entity_id: 'pr_1', entry_id: `e${seq}`, event_type, payload, seq });

  test('is told oldest first, in words, and a failed check is told as one', () => {
    const told = storyOf([event('pr_deployed', {}, 5), event('pr_merged', {}, 4), event('pr_checked', { passed: true }, 3), event('pr_checked', { passed: false }, 2), event('pr_opened', {}, 1), event('other', {}, 0)]);
    expect(told.map((line) => [line.text, line.tone])).toEqual([
      ['Pull request opened', 'plain'], ['Pull request checked', 'bad'], ['Pull request checked', 'good'], ['Pull request merged', 'accent'], ['Merged change put in force', 'good'],
    ]);
    expect(told[1]?.more).toBe('A check failed.');
  });
});

describe('merging without a question', () => {
  const now = Date.parse('2026-11-16T09:00:00Z');

  test('is told until it ends by the clock', () => {
    expect(yoloUntil({ mode: 'yolo', yolo_until: '2026-11-16T10:00:00Z' }, now)).toBe(now + 3_600_000);
    expect(yoloUntil({ mode: 'yolo', yolo_until: '2026-11-16T09:00:00Z' }, now)).toBeNull();
    expect(yoloUntil({ mode: 'strict', yolo_until: null }, now)).toBeNull();
    expect(yoloUntil(null, now)).toBeNull();
  });
});
