import { describe, expect, test } from 'vitest';
import { below, foldersOf } from '../src/screens/files/tree.ts';

describe('the tree of the workspace', () => {
  test('opens every folder on the way to a file', () => {
    expect(foldersOf('a/b/c.md')).toEqual(['a', 'a/b']);
    expect(foldersOf('c.md')).toEqual([]);
  });

  test('names what lies in the workspace itself without a folder', () => {
    expect([below('', 'a'), below('a', 'b')]).toEqual(['a', 'a/b']);
  });
});
