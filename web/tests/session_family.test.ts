/** Which session began which, in rows. */
import { expect, test } from 'vitest';
import type { SessionView } from '../src/api/types.ts';
import { familyOf } from '../src/parts/sessions.ts';

function session(session_id: string, parent_id = ''): SessionView {
  return { session_id, parent_id } as SessionView;
}

function rows(...sessions: SessionView[]): string[] {
  return familyOf(sessions).map(({ depth, session }) => `${'-'.repeat(depth)}${session.session_id}`);
}

test('each session stands below the one that began it', () => {
  expect(rows(session('a'), session('b', 'a'), session('c', 'a'), session('d', 'b'))).toEqual(['a', '-b', '--d', '-c']);
});

test('a session whose parent was removed is not lost', () => {
  expect(rows(session('b', 'gone'), session('c', 'b'), session('e', 'e'))).toEqual(['b', '-c', 'e']);
});
