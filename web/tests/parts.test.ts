import { piecesOf } from '../src/parts/words.ts';
import { describe, expect, test } from 'vitest';
import { niceTop, stackedBars } from '../src/parts/chart.ts';
import { parseDiff } from '../src/parts/diff.ts';
import { atAGlance } from '../src/parts/fold.ts';
import { askedBy, isUntrusted, sourceWords, sourcesOf } from '../src/parts/label.ts';
import { plainly } from '../src/parts/plain.ts';
import { entries, pretty } from '../src/parts/pretty.ts';
import { segments } from '../src/parts/segments.ts';
import { shareOf } from '../src/parts/share.ts';
import { ago, listed, size, span } from '../src/text/format.ts';

test('a line of markdown in a list is plain words', () => {
  expect(plainly('# Today\n\n1. The **list** is in `shopping.md`.\n- *soon*, [see](https://example.com/x) 2 * 3 * 4')).toBe(
    'Today The list is in shopping.md. soon, see 2 * 3 * 4',
  );
  expect(plainly('So it is: ```python print(1)\n``` and more')).toBe('So it is: print(1) and more');
  expect(plainly('snake_case and a__b and **open')).toBe('snake_case and a__b and **open');
});

describe('JSON on lines', () => {
  test('has every token as it stands', () => {
    expect(pretty('{"a":[1,{"b":"x, {y}: \\"z\\""}],"c":{},"d":[]}')).toBe('{\n  "a": [\n    1,\n    {\n      "b": "x, {y}: \\"z\\""\n    }\n  ],\n  "c": {},\n  "d": []\n}');
    expect(pretty('{"n":9007199254740993,"n":1.0,"__proto__":2e400}')).toBe('{\n  "n": 9007199254740993,\n  "n": 1.0,\n  "__proto__": 2e400\n}');
  });

  test('loses nothing of what is no JSON', () => {
    const bare = (text: string): string => text.replace(/\s/g, '');
    for (const odd of ['{"a":"never ends', '}}]', 'plain words', '{"a" "b"]', '', '"', '"\\']) expect(bare(pretty(odd))).toBe(bare(odd));
  });

  test('is read member by member, strings as the lines they are', () => {
    expect(entries('{"path":"a.sh","content":"one\\ntwo \\"x\\"","n":9007199254740993,"list":[1,{"a":2}]}')).toEqual([
      { name: 'path', text: 'a.sh' },
      { name: 'content', text: 'one\ntwo "x"' },
      { name: 'n', text: '9007199254740993' },
      { name: 'list', text: '[\n  1,\n  {\n    "a": 2\n  }\n]' },
    ]);
    expect(entries('{}')).toEqual([]);
    for (const odd of ['[1]', 'words', '{"a"}', '{"a":1', '']) expect(entries(odd)).toBeNull();
  });

  test('is not slowed down by depth', () => {
    expect(pretty('['.repeat(5000) + ']'.repeat(5000)).length).toBeLessThan(2_000_000);
  });
});

describe('a preview at a glance', () => {
  test('is the preview when nothing has to be left out', () => {
    for (const whole of ['', 'make', 'a\n\n\nb', '--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y', Array.from({ length: 30 }, () => 'x').join('\n')]) expect(atAGlance(whole)).toBe(whole);
  });

  test('counts what is left out of a difference', () => {
    const lines = ['--- a', '+++ a', '@@ -1,150 +1,100 @@', ...Array.from({ length: 150 }, (_, at) => `-old ${at}`), ...Array.from({ length: 100 }, (_, at) => `+new ${at}`)];
    const diff = parseDiff(atAGlance(lines.join('\n')));
    expect(diff).toMatchObject({ left: 53, whole: { added: 100, removed: 150 } });
  });

  test('counts what is left out of a text, and of a line', () => {
    const lines = [...Array.from({ length: 20 }, () => 'echo a'), 'mv data gone', ...Array.from({ length: 20 }, () => 'echo b')];
    expect(atAGlance(lines.join('\n')).split('\n')[18]).toBe('… 15 more lines …');
    expect(atAGlance('x'.repeat(401))).toBe(`${'x'.repeat(400)}… 1 more characters`);
    expect(atAGlance('\n'.repeat(100) + 'rm')).toContain('… 75 more lines …');
  });
});

describe('a diff', () => {
  const text = '--- a.md\n+++ a.md\n@@ -3,3 +3,4 @@ head\n same\n-old\n+new\n+-- odd\n last\n… 4 more lines: 2 added, 1 removed';

  test('what only begins like one is shown as the text it is', () => {
    expect(parseDiff('--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n\n(Runs in a box without network.)')).toBeNull();
    expect(parseDiff('--- a\n+++ a\n@@ -1 +1 @@\n+y\n… 4 more lines: 4 added, 0 removed\n+z')).toBeNull();
    expect(parseDiff('--- a\n+++ a\n@@ -1 +1 @@\n+y\n… and so on')).toBeNull();
  });

  test('that is all here counts all of it', () => {
    const diff = parseDiff('--- a\n+++ a\n@@ -1,2 +1,3 @@\n-x\n+y\n+z\n same\n@@ -9 +10 @@\n-p\n+q\n\\ No line break at the end of the file');
    expect(diff).toMatchObject({ left: 0, whole: { added: 3, removed: 2 } });
  });

  test('of which a part is left out counts that part too', () => {
    expect(parseDiff(text)).toMatchObject({ left: 4, whole: { added: 4, removed: 2 } });
    expect(parseDiff('--- /dev/null\n+++ b.md\n@@ -0,0 +1,412 @@\n+x\n+y\n… 410 more lines: 410 added, 0 removed')).toMatchObject({ created: true, left: 410, whole: { added: 412, removed: 0 } });
    expect(parseDiff('--- a\n+++ a\n@@ -1,9 +1,9 @@\n same\n… 1 more line: 0 added, 1 removed')).toMatchObject({ left: 1, whole: { added: 0, removed: 1 } });
  });

  test('that says it is longer without saying by how much, or miscounts itself, has no total to show', () => {
    expect(parseDiff('--- a\n+++ a\n@@ -1,90 +1,99 @@\n same\n+new\n… 97 more lines')).toBeNull();
    expect(parseDiff('--- a\n+++ a\n@@ -1,90 +1,99 @@\n same\n+new\n… 5 more lines: 4 added, 3 removed')).toBeNull();
    expect(parseDiff('--- a\n+++ a\n@@ -1,90 +1,99 @@\n same\n+new\n… 5 more lines: 4 added, -3 removed')).toBeNull();
  });

  test('tells lines apart and numbers them', () => {
    const diff = parseDiff(text);
    expect(diff).toMatchObject({ path: 'a.md', created: false });
    expect(diff?.lines.map((each) => [each.kind, each.before, each.after, each.text])).toEqual([
      ['hunk', null, null, '@@ -3,3 +3,4 @@ head'],
      ['same', 3, 3, 'same'],
      ['del', 4, null, 'old'],
      ['add', null, 4, 'new'],
      ['add', null, 5, '-- odd'],
      ['same', 5, 6, 'last'],
    ]);
  });

  test('of a new file says so', () => {
    expect(parseDiff('--- /dev/null\n+++ b.md\n@@ -0,0 +1 @@\n+x')).toMatchObject({ created: true, path: 'b.md', whole: { added: 1, removed: 0 } });
  });

  test('what is none is left as it is', () => {
    for (const other of ['', 'rm -rf ~', '--- a\n+++ b', '--- a\n+++ b\nno hunk', '{"a": 1}']) expect(parseDiff(other)).toBeNull();
  });
});

describe('marked values', () => {
  const shown = (text: string, values: string[]): string => segments(text, values).map((each) => (each.marked ? `[${each.text}]` : each.text)).join('');

  test('stand out wherever they stand, whatever their case', () => {
    expect(shown('pay CHF 10 to Eve, eve!', ['EVE'])).toBe('pay CHF 10 to [Eve], [eve]!');
  });

  test('the longest wins, and what looks like a pattern is none', () => {
    expect(shown('a+b a+b+c', ['a+b', 'a+b+c'])).toBe('[a+b] [a+b+c]');
  });

  test('nothing is lost of the text', () => {
    const text = 'x'.repeat(50) + '(.*)' + 'y'.repeat(50);
    expect(segments(text, ['(.*)', 'xy']).map((each) => each.text).join('')).toBe(text);
  });

  test('words too short to mean anything mark nothing', () => {
    expect(shown('a of it', ['of'])).toBe('a of it');
  });
});

describe('labels', () => {
  test('what nobody knows is not trusted', () => {
    expect(['owner', 'internal', 'untrusted:a', 'friend', ''].map(isUntrusted)).toEqual([false, false, true, true, true]);
  });

  test('are said in words where they are no names of hosts', () => {
    expect(['attachment', 'workspace', 'shop.example'].map(sourceWords)).toEqual(['an attachment', 'a file influenced by others', 'shop.example']);
  });

  test('who asked: the owner in the panel, or the runtime for a job or with a merge', () => {
    const said = [['gateway', 'undo', null], ['gateway', 'evolve_merge', ''], ['gateway', 'pr_merge', null], ['gateway', 'patrol_run', 'job_1'], ['chat', 'pr_merge', null]] as const;
    expect(said.map(([source, tool, job]) => askedBy(source, tool, job))).toEqual(['Panel', 'CoilClaw itself', 'CoilClaw itself', 'CoilClaw itself', 'Chat']);
  });

  test('name each source once', () => {
    expect(sourcesOf(['owner', 'untrusted:b.example,a.example', 'untrusted:b.example'])).toEqual(['a.example', 'b.example']);
  });
});

describe('times', () => {
  const now = Date.UTC(2026, 10, 16, 12);
  const minute = 60_000;

  test('a span names its two largest units', () => {
    expect([0, 9_400, 245_000, 86_399_000, 200_000_000, -5].map(span)).toEqual(['0 s', '9 s', '4 min 05 s', '23 h 59 min', '2 d 7 h', '0 s']);
  });

  test('the past is told as people do', () => {
    expect(ago(now - 20_000, now)).toBe('just now');
    expect(ago(now - 5 * minute, now)).toBe('5 minutes ago');
    expect(ago(now - 23 * 60 * minute, now)).toBe('yesterday');
    expect(ago(now + 3 * 60 * minute, now)).toBe('in 3 hours');
    expect(ago(now - 400 * 24 * 60 * minute, now)).toContain('2025');
  });

  test('sizes are short', () => {
    expect([999, 1_500, 45_000, 2_000_000].map(size)).toEqual(['999 B', '1.5 kB', '45 kB', '2.0 MB']);
  });
});

test('of many names the first are said, and how many others there are', () => {
  expect([[], ['a'], ['a', 'b'], ['a', 'b', 'c'], ['a', 'b', 'c', 'd', 'e']].map((names) => listed(names))).toEqual(['', 'a', 'a and b', 'a, b, and c', 'a, b, and 3 others']);
});

test('a share stays between nothing and all', () => {
  expect([shareOf(1, 4), shareOf(9, 4), shareOf(-1, 4), shareOf(1, 0), shareOf(1, -3)].map((each) => each.percent)).toEqual([25, 100, 0, 0, 0]);
  expect(shareOf(9, 4)).toEqual({ part: 4, whole: 4, percent: 100 });
});

describe('charts', () => {
  test('the scale ends at a round number', () => {
    expect([0, 0.3, 1, 7, 12, 23, 260, 900].map(niceTop)).toEqual([1, 0.5, 1, 10, 20, 25, 500, 1000]);
  });

  test('bars stand on each other and stay in the picture', () => {
    const { bars, top } = stackedBars([{ name: 'a', tone: 'accent', values: [1, 0] }, { name: 'b', tone: 'bad', values: [3, 2] }], 100, 50);
    expect(top).toBe(5);
    expect(bars.map((bar) => [bar.at, bar.tone, bar.y, bar.height])).toEqual([[0, 'accent', 40, 10], [0, 'bad', 10, 30], [1, 'bad', 30, 20]]);
    expect(bars.every((bar) => bar.x >= 0 && bar.x + bar.width <= 100)).toBe(true);
  });

  test('nothing draws nothing', () => {
    expect(stackedBars([], 100, 50).bars).toEqual([]);
  });
});

test('what others write is never the key of a list: said twice it would break the page', () => {
  const found = import.meta.glob('../src/**/*.svelte', { query: '?raw', import: 'default', eager: true }) as Record<string, string>;
  const keyed = Object.entries(found).flatMap(([path, text]) => [...text.matchAll(/\{#each (.+?) as \{?[^({]*?\(([^)]+)\)\}/g)].map(([, list = '', key = '']) => ({ path, list, key })));
  expect(keyed.length).toBeGreaterThan(60);
  const sure = (list: string, key: string): boolean =>
    key === 'at' || /(?:_id|\.id|\.seq|\.number|\.key|\.name|\.value|\.href|\.day|\.moment|\.status|\.group|place)$/.test(key) || /^[A-Z_]+\b/.test(list);
  const ours = new Set(['names', 'known', 'tools', 'files']);
  expect(keyed.filter(({ list, key }) => !sure(list, key) && !ours.has(list)).map(({ path, list, key }) => `${path}: ${list} (${key})`)).toEqual([]);
  expect(keyed.filter(({ key }) => key.endsWith('call_id'))).toEqual([]);
});

test('screens do not know each other: what two of them need lives in a room below', () => {
  const found = import.meta.glob('../src/screens/**/*.{ts,svelte}', { query: '?raw', import: 'default', eager: true }) as Record<string, string>;
  expect(Object.keys(found).length).toBeGreaterThan(80);
  const crossing = Object.entries(found).flatMap(([path, text]) =>
    [...text.matchAll(/from '\.\.\/([a-z]+)\//g)].map((match) => `${path} → ${match[1] ?? ''}`),
  );
  expect(crossing).toEqual([]);
});

test('a path is kept whole, and the pieces of a sentence are the sentence', () => {
  const sentence = 'Write 332  bytes to daily-check.txt, not to a well-known\nplace in notes-2/a.md.';
  const pieces = piecesOf(sentence);
  expect(pieces.map((each) => each.text).join('')).toBe(sentence);
  expect(pieces.filter((each) => each.path).map((each) => each.text)).toEqual(['daily-check.txt,', 'notes-2/a.md.']);
  expect(piecesOf('\u05d0-\u05d1.txt').some((each) => each.path)).toBe(false);
});
