import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse, type AST } from 'svelte/compiler';
import { describe, expect, test } from 'vitest';
import { ApiError } from '../src/api/problem.ts';
import { PasskeyError } from '../src/auth/passkey.ts';
import { en } from '../src/text/en.ts';
import { inFull, said } from '../src/text/problem.ts';
import { count, lookup, t } from '../src/text/t.ts';

const SOURCE = join(import.meta.dirname, '..', 'src');

function files(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((each) => (each.isDirectory() ? files(join(folder, each.name)) : [join(folder, each.name)]));
}

const sources = files(SOURCE).filter((path) => /\.(ts|svelte)$/.test(path) && !path.includes('/text/en'));
const SPOKEN = new Set(['aria-label', 'title', 'placeholder', 'alt', 'label', 'hint', 'lead', 'more', 'question', 'note']);
/** Letters in markup that are no words: a code as it looks, keys. */
const LETTERS = /\p{L}{2,}/u;
const NOT_WORDS = new Set(['ABCD-EFGH', 'UTC']);

/** Every piece of text in the markup of a component that did not come from the catalogue. */
function bare(path: string): string[] {
  const found: string[] = [];
  const look = (node: unknown): void => {
    if (Array.isArray(node)) return node.forEach(look);
    if (typeof node !== 'object' || node === null) return;
    const each = node as AST.SvelteNode & { type: string };
    if (each.type === 'Text' && LETTERS.test(each.data)) found.push(each.data.trim());
    if (each.type === 'Attribute') {
      const pieces = Array.isArray(each.value) ? each.value : [];
      if (SPOKEN.has(each.name)) for (const piece of pieces) if (piece.type === 'Text' && LETTERS.test(piece.data)) found.push(`${each.name}=${piece.data}`);
      return; // classes and the like
    }
    for (const [name, value] of Object.entries(each)) if (name !== 'css' && name !== 'instance' && name !== 'module') look(value);
  };
  look(parse(readFileSync(path, 'utf8'), { modern: true }).fragment);
  return found.filter((text) => !NOT_WORDS.has(text.replace(/^.*?=/, '')));
}

describe('the catalogue', () => {
  test('has every word of every component', () => {
    const outside = sources.filter((path) => path.endsWith('.svelte')).flatMap((path) => bare(path).map((text) => `${path.slice(SOURCE.length + 1)}: ${text}`));
    expect(outside).toEqual([]);
  });

  test('has no word that nobody says', () => {
    const code = sources.map((path) => readFileSync(path, 'utf8')).join('\n');
    // Keys are written out, or made from a beginning: `status.${status}`.
    const begun = [...code.matchAll(/[`'"]([a-z][\w.]*\.)\$\{/g)].map((found) => found[1] ?? '');
    const spoken = (key: string): boolean => code.includes(`'${key}'`) || code.includes(`\`${key}\``) || begun.some((stem) => key.startsWith(stem));
    const unsaid = Object.keys(en).filter((key) => !spoken(key) && !spoken(key.replace(/\.(one|other)$/, '')));
    expect(unsaid).toEqual([]);
  });

  test('has both forms of what is counted', () => {
    const keys = Object.keys(en);
    const halves = keys.filter((key) => key.endsWith('.other') && key !== 'error.other' && !keys.includes(key.replace(/other$/, 'one')));
    expect(halves).toEqual([]);
  });

  test('says nothing twice under one key, and nothing empty', () => {
    const counted = files(join(SOURCE, 'text', 'en')).flatMap((path) => [...readFileSync(path, 'utf8').matchAll(/^\s*'([\w.]+)':/gm)].map((found) => found[1] ?? ''));
    expect(counted.filter((key, at) => counted.indexOf(key) !== at)).toEqual([]);
    expect(Object.entries(en).filter(([, text]) => !text.trim())).toEqual([]);
  });

  test('fills gaps and counts', () => {
    expect(t('approvals.position', { at: 2, of: 5 })).toBe('2 of 5');
    expect([0, 1, 1234].map((n) => count('chain.size', n))).toEqual(['0 receipts', '1 receipt', '1,234 receipts']);
    expect(lookup('error.NO_SUCH', 'other words')).toBe('other words');
  });
});

describe('errors in words', () => {
  test("the server's own words, and what to do next", () => {
    expect(said(new ApiError({ status: 409, code: 'THREAD_BUSY', detail: 'something still goes on.', remedy: 'Stop it first.' }))).toEqual({ what: 'Something still goes on.', remedy: 'Stop it first.' });
  });

  test('a sentence that begins with a path leaves it as it is', () => {
    expect(said(new ApiError({ status: 409, code: 'CHANGED_X', detail: 'skills/a/SKILL.md is not what it was.' })).what).toBe('skills/a/SKILL.md is not what it was.');
  });

  test('are one line where there is room for one', () => {
    expect(inFull(new ApiError({ status: 409, code: 'THREAD_BUSY', detail: 'it goes on.', remedy: 'Stop it first.' }))).toBe('It goes on. Stop it first.');
    expect(inFull(new ApiError({ status: 502, code: 'X', detail: 'odd.' }))).toBe('Odd.');
  });

  test('our words where nothing answered', () => {
    expect(said(new TypeError('Failed to fetch')).what).toBe(t('error.OFFLINE'));
  });

  test('a code where there is nothing else', () => {
    expect(said(new ApiError({ status: 502, code: 'HTTP_502', detail: '' })).what).toContain('HTTP_502');
  });

  test('a passkey that was not used is no failure of anything', () => {
    expect(said(new PasskeyError('cancelled', 'x'))).toEqual({ what: t('passkey.cancelled'), remedy: t('passkey.cancelled.remedy') });
  });
});
