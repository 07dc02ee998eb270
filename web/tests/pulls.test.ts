import { describe, expect, test } from 'vitest';
import type { AuditLine, FileDiff, Job, JobShown, PullView } from '../src/api/types.ts';
import { parseDiff } from '../src/parts/diff.ts';
import { byFolder, nameOf } from '../src/screens/work/intel.ts';
import { checksWords, deedsOf, modeWanted, parted, previewOf, sorted, standOf, storyOf, treeOf, type Branch, type StoryJob } from '../src/screens/work/pulls.ts';
import { yoloUntil } from '../src/state/yolo.ts';
import { placeOf } from '../src/text/events.ts';

const JOB = 'job_1';

function pull(change: Partial<PullView> = {}): PullView {
  return {
    number: 1, title: 'Write a note', state: 'OPEN', risk: 'R2', labels: [], tainted: false, checks: 'passed', job_id: JOB, session_id: null, repository: '', target: '', draft: false,
    branch: `job/${JOB}`, action_id: 'act_1',
    dormant: false, reason: '', opened_at: '2026-11-16T09:00:00Z', updated_at: '2026-11-16T09:00:00Z', deployed_at: null, ...change,
  };
}

function job(change: Partial<StoryJob & Pick<Job, 'state'>> = {}): StoryJob & Pick<Job, 'state'> {
  const spec = { by_agent: false } as JobShown['spec'];
  return { job_id: JOB, thread_id: 'conv_1', schedule_id: null, created_at: '2026-11-16T09:00:00Z', state: 'EXECUTING', events: [], spec, ...change };
}

function file(change: Partial<FileDiff> = {}): FileDiff {
  return { path: 'notes/a.md', kind: 'added', old_size: 0, new_size: 4, executable: false, binary: false, cut: false, patch: '', ...change };
}

describe('the files of a pull request', () => {
  const lines = (branches: readonly Branch[], depth = 0): string[] => branches.flatMap((each) => [`${' '.repeat(depth)}${each.name} ${each.count}`, ...lines(each.inside, depth + 1)]);

  test('stand in their folders, and what is alone in one is named with it', () => {
    const paths = ['README.md', 'a/b/c.md', 'notes/x.md', 'notes/old/1.md', 'notes/old/2.md', 'notes/y.md'];
    expect(lines(treeOf(paths.map((path) => file({ path }))))).toEqual(['a/b/c.md 1', 'notes 4', ' old 2', '  1.md 1', '  2.md 1', ' x.md 1', ' y.md 1', 'README.md 1']);
    expect(treeOf([])).toEqual([]);
  });

  test('of the same name are both there', () => {
    expect(treeOf([file({ path: 'a/x' }), file({ path: 'a/x' })])[0]).toMatchObject({ name: 'a', count: 2, inside: [{ path: 'a/x' }, { path: 'a/x' }] });
  });
});

describe('a pull request', () => {
  test('stands as people tell it apart', () => {
    expect(standOf(pull())).toBe('waits');
    expect(standOf(pull({ action_id: null }))).toBe('prepared');
    expect(standOf({ ...pull(), wanted: 'shorter' })).toBe('prepared');
    expect(standOf(pull({ action_id: null, dormant: true }))).toBe('dormant');
    expect(standOf(pull({ state: 'MERGED' }))).toBe('merged');
    expect(standOf(pull({ state: 'MERGED', deployed_at: '2026-11-16T09:01:00Z' }))).toBe('deployed');
    expect(standOf(pull({ state: 'MERGED', deployed_at: '2026-11-16T09:01:00Z', reason: 'cron/jobs.json: not JSON' }))).toBe('reverted');
    expect(standOf(pull({ state: 'CLOSED', action_id: null }))).toBe('closed');
  });

  test('is listed once, open ones first, newest first', () => {
    const { open, over } = sorted([pull({ number: 1 }), pull({ number: 4, state: 'CLOSED' }), pull({ number: 3 }), pull({ number: 1 }), pull({ number: 5, state: 'MERGED' })]);
    expect([open.map((each) => each.number), over.map((each) => each.number)]).toEqual([[3, 1], [5, 4]]);
  });

  test('can be sent back while a job stands behind it, and taken back once it is merged', () => {
    const none = { changes: false, close: false, ask: false, revert: false, reopen: false };
    expect(deedsOf(pull(), job())).toEqual({ ...none, changes: true, close: true });
    expect(deedsOf(pull({ job_id: null, dormant: true }), null)).toEqual({ ...none, close: true, ask: true });
    expect(deedsOf(pull({ state: 'MERGED' }), job())).toEqual({ ...none, revert: true });
    expect(deedsOf(pull({ state: 'MERGED', job_id: null, session_id: 'sess_1' }), null)).toEqual(none);
    expect(deedsOf(pull({ state: 'MERGED', reason: 'cron/jobs.json: not JSON' }), job())).toEqual(none);
  });

  test('is opened again unless its job is over', () => {
    const closed = pull({ state: 'CLOSED' });
    expect(deedsOf(closed, job({ state: 'EXECUTING' })).reopen).toBe(true);
    expect(deedsOf(closed, job({ state: 'CANCELLED' })).reopen).toBe(false);
    expect(deedsOf(closed, null).reopen).toBe(false);
    expect(deedsOf({ ...closed, job_id: null }, null).reopen).toBe(true);
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
  const event = (event_type: string, payload: AuditLine['payload'], seq: number, entity_id = 'pr_1'): AuditLine => ({ about: '', created_at: `2026-11-16T09:00:0${seq}Z`, entity_id, entry_id: `e${seq}`, event_type, payload, seq });
  const merged = [event('pr_deployed', {}, 8), event('pr_merged', { commit: '0123456789abcdef' }, 7), event('pr_checked', { passed: true }, 4), event('pr_checked', { passed: false }, 3), event('pr_opened', {}, 2), event('other', {}, 2)];

  test('is told oldest first, in words, and a failed check is told as one', () => {
    const told = storyOf(null, merged);
    expect(told.map((line) => [line.text, line.tone])).toEqual([
      ['Pull request opened', 'plain'], ['Pull request checked', 'bad'], ['Pull request checked', 'good'], ['Pull request merged', 'accent'], ['Merged change put in force', 'good'],
    ]);
    expect([told[1]?.more, told[3]?.more]).toEqual(['A check failed.', 'Commit 0123456789']);
  });

  test('goes from the request to what is in force, and leads to each', () => {
    const state = (to: string, at: number) => ({ event_id: `s${at}`, type: 'state', created_at: `2026-11-16T09:00:0${at}Z`, payload: { from: 'PLANNED', to } }) as JobShown['events'][number];
    const asked = [event('tool_approved', {}, 6, 'act_1'), event('approval_needed', {}, 5, 'act_1'), event('tool_requested', {}, 5, 'act_1')];
    const told = storyOf(job({ events: [state('EXECUTING', 1), state('WAITING_APPROVAL', 5), state('DONE', 9)] }), merged, asked);
    expect(told.map((line) => [line.text, line.href])).toEqual([
      ['You asked for it', '#/chat/conv_1'], ['Job: Started', '#/work/jobs/job_1'], ['Pull request opened', undefined], ['Pull request checked', undefined], ['Pull request checked', undefined],
      ['You were asked', '#/audit/story/act_1'], ['Merge approved', '#/audit/story/act_1'], ['Pull request merged', undefined], ['Merged change put in force', undefined], ['Job: Done', '#/work/jobs/job_1'],
    ]);
    expect(storyOf(job({ schedule_id: 'weekly' }), [])[0]).toMatchObject({ text: 'Schedule weekly asked for it', href: '#/schedules/weekly' });
  });

  test('says when it was opened again', () => {
    expect(storyOf(null, [event('pr_updated', { reopened: true }, 1)])[0]?.text).toBe('Pull request reopened');
  });
});

describe('the merge mode', () => {
  test('is sent when it changes something; everything unasked only with the word', () => {
    expect(modeWanted('strict', 'strict', 1, '')).toBeNull();
    expect(modeWanted('strict', 'whitelist', 1, '')).toEqual({ mode: 'whitelist' });
    expect(modeWanted('strict', 'yolo', 8, '')).toBeNull();
    expect(modeWanted('strict', 'yolo', 8, ' Yolo ')).toEqual({ mode: 'yolo', hours: 8 });
    expect(modeWanted('yolo', 'strict', 8, '')).toEqual({ mode: 'strict' });
  });
});

describe('findings', () => {
  test('are listed in their order under their folders', () => {
    const items = ['intel/README.md', 'intel/2026-11/b.md', 'intel/2026-11/a.md', 'intel/2026-10/z.md'].map((path) => ({ path, size: 1 }));
    expect(byFolder(items).map(({ folder, items: listed }) => [folder, ...listed.map(({ path }) => nameOf(path))])).toEqual([['intel/2026-11', 'b.md', 'a.md'], ['intel/2026-10', 'z.md'], ['intel', 'README.md']]);
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
