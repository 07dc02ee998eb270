import { describe, expect, test } from 'vitest';
import { coloured, languageOf, MOST, pieces } from '../src/parts/highlight.ts';

const kinds = (text: string, language: string): [string, string][] =>
  pieces(text, language).flatMap((piece) => (piece.kind ? [[piece.text, piece.kind] as [string, string]] : []));

describe('code in its colours', () => {
  test.each([
    ['python', "def f(x=0x1F): # don't", [['def', 'keyword'], ['0x1F', 'number'], ["# don't", 'comment']]],
    ['py', 'x = """one\ndef two""" + 1', [['"""one\ndef two"""', 'string'], ['1', 'number']]],
    ['sh', 'echo a#b # c', [['echo', 'keyword'], ['# c', 'comment']]],
    ['rust', "fn f<'a>(x: &'a str) -> 'b'", [['fn', 'keyword'], ["'b'", 'string']]],
    ['ts', 'const a = `x\ny`; // z', [['const', 'keyword'], ['`x\ny`', 'string'], ['// z', 'comment']]],
    ['SQL', 'SELECT 1 -- all', [['SELECT', 'keyword'], ['1', 'number'], ['-- all', 'comment']]],
    ['json', '{"a": true}', [['"a"', 'string'], ['true', 'keyword']]],
    ['diff', '--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new', [['@@ -1 +1 @@\n', 'place'], ['-old\n', 'removed'], ['+new', 'added']]],
    ['c', '/* never closed', [['/* never closed', 'comment']]],
    ['klingon', 'def f(): pass', []],
    ['', 'def f(): pass', []],
  ])('%s: %j', (language, text, found) => {
    expect(kinds(text, language)).toEqual(found);
    expect(pieces(text, language).map((piece) => piece.text).join('')).toBe(text);
  });

  test('what is hostile stays text, and is read as it stands', () => {
    const text = '<img src=x onerror=alert(1)> "</span><script>" \u202e // x';
    for (const language of ['html', 'js', 'python', 'diff']) {
      const nodes = coloured(text, language);
      expect(nodes.textContent).toBe(text);
      expect([...nodes.querySelectorAll('*')].every((node) => node.tagName === 'SPAN' && node.attributes.length === 1)).toBe(true);
    }
  });

  test('a text that would take long stays plain, and none takes long', () => {
    expect(pieces('x'.repeat(MOST + 1), 'js')).toHaveLength(1);
    for (const part of ['"\\', "'", '/*', '`', '<!--', '"""', '0x', 'é']) {
      for (const language of ['python', 'ts', 'rust', 'html', 'sql', 'toml']) expect(pieces(part.repeat(8_000), language).map((p) => p.text).join('')).toHaveLength(part.length * 8_000);
    }
  });

  test('a file tells its language by its name', () => {
    expect(['a/b.py', 'Makefile', 'x.tar.gz', 'noend', 'A.JSON', '.env', 'py'].map(languageOf)).toEqual(['py', 'makefile', '', '', 'json', 'env', 'py']);
  });
});
