/**
 * Colours for code: comments, texts, numbers and keywords of the usual languages, told apart by a pattern for each family.
 * Loaded with the first code that is shown. Every character stays; of an unknown language, all of it is plain.
 */
export type Kind = 'comment' | 'string' | 'number' | 'keyword' | 'added' | 'removed' | 'place';

export interface Piece {
  text: string;
  kind: Kind | null;
}

type Family = 'python' | 'shell' | 'script' | 'braces' | 'sql' | 'data' | 'style' | 'markup' | 'diff';

/** More than this stays plain: no file may keep the page from answering. */
export const MOST = 64_000;

const NAMES: Readonly<Record<Family, string>> = {
  python: 'python py pyi python3',
  shell: 'sh bash shell zsh console dockerfile containerfile make makefile',
  script: 'js javascript ts typescript jsx tsx mjs cjs php',
  braces: 'c h cpp c++ cc hpp cs csharp java kotlin kt go rust rs swift scala zig proto',
  sql: 'sql sqlite postgres postgresql mysql',
  data: 'json jsonc yaml yml toml ini cfg conf env properties',
  style: 'css scss less',
  markup: 'html xml svg svelte vue',
  diff: 'diff patch',
};

const WORDS: Readonly<Partial<Record<Family, string>>> = {
  python:
    'and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match None nonlocal not or pass raise return True False try while with yield',
  shell: 'if then elif else fi for in do done while until case esac function return local export set exit cd echo',
  script:
    'abstract as async await break case catch class const continue default delete do else enum export extends false finally for from function if implements import in instanceof interface let new null of private protected public readonly return static super switch this throw true try type typeof undefined var void while yield',
  braces:
    'as async auto await bool break case catch char class const continue default defer do double else enum extern false fn final float for func go goto if impl import int interface let long loop map match mod mut new nil null nullptr package private protected pub public range return self short signed static string struct super switch this throw trait true try type typedef union unsigned use var void volatile where while',
  sql: 'add all alter and as asc between by case create delete desc distinct drop else end exists foreign from group having if in index inner insert into is join key left like limit not null on or order outer primary references right select set table then union unique update values view when where with',
  data: 'true false null none yes no on off',
  style: 'important media import supports',
};

/** How a comment looks, and a text that may have line breaks in it. */
const COMMENTS: Readonly<Record<Exclude<Family, 'diff'>, string>> = {
  python: '#[^\\n]*',
  shell: '(?<!\\S)#[^\\n]*',
  script: '//[^\\n]*|/\\*[^]*?(?:\\*/|$)',
  braces: '//[^\\n]*|/\\*[^]*?(?:\\*/|$)',
  sql: '--[^\\n]*|/\\*[^]*?(?:\\*/|$)',
  data: '(?<!\\S)[#;][^\\n]*',
  style: '/\\*[^]*?(?:\\*/|$)',
  markup: '<!--[^]*?(?:-->|$)',
};
const LONG: Readonly<Partial<Record<Family, string>>> = {
  python: '"""[^]*?(?:"""|$)|\'\'\'[^]*?(?:\'\'\'|$)|',
  script: '`(?:[^`\\\\]|\\\\[^])*(?:`|$)|',
};

const FAMILY = new Map(Object.entries(NAMES).flatMap(([family, names]) => names.split(' ').map((name) => [name, family as Family])));
const KEYWORDS = new Map(Object.entries(WORDS).map(([family, words]) => [family, new Set(words.split(' '))]));
const patterns = new Map<Family, RegExp>();

/** What a file is written in, by its name; empty when nobody knows. */
export function languageOf(path: string): string {
  const name = (path.split('/').at(-1) ?? '').toLowerCase();
  const end = name.includes('.') ? (name.split('.').at(-1) ?? '') : name;
  return FAMILY.has(end) ? end : '';
}

function patternOf(family: Exclude<Family, 'diff'>): RegExp {
  let pattern = patterns.get(family);
  if (!pattern) {
    // Elsewhere than in a text, 'a stands for itself: a lifetime, or an apostrophe.
    const single = family === 'braces' ? "'(?:[^'\\\\\\s]|\\\\.){1,8}'" : "(?<!\\w)'(?:[^'\\\\\\n]|\\\\.)*'";
    pattern = new RegExp(
      [
        `(?<comment>${COMMENTS[family]})`,
        `(?<string>${LONG[family] ?? ''}"(?:[^"\\\\\\n]|\\\\.)*"?|${single})`,
        ...(family === 'markup' ? ['(?<tag></?[A-Za-z][\\w:.-]*|/?>)'] : []),
        '(?<number>(?<![\\w.])(?:0[xXbo][\\da-fA-F_]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?)(?!\\w))',
        '(?<word>[\\p{L}_][\\p{L}\\p{N}_]*)',
      ].join('|'),
      'gu',
    );
    patterns.set(family, pattern);
  }
  return pattern;
}

function kindOf(family: Family, found: RegExpExecArray): Kind | null {
  const groups = found.groups ?? {};
  if (groups['comment'] !== undefined) return 'comment';
  if (groups['string'] !== undefined) return 'string';
  if (groups['number'] !== undefined) return 'number';
  if (groups['tag'] !== undefined) return 'keyword';
  const word = family === 'sql' || family === 'data' ? found[0].toLowerCase() : found[0];
  return KEYWORDS.get(family)?.has(word) ? 'keyword' : null;
}

function difference(text: string): Piece[] {
  return (text.match(/[^\n]*\n|[^\n]+$/g) ?? []).map((line) => {
    if (line.startsWith('+++') || line.startsWith('---')) return { text: line, kind: null };
    const kinds: Readonly<Record<string, Kind>> = { '+': 'added', '-': 'removed', '@': 'place' };
    return { text: line, kind: kinds[line.charAt(0)] ?? null };
  });
}

/** The text in pieces, each with its kind. */
export function pieces(text: string, language: string): Piece[] {
  const family = FAMILY.get(language.toLowerCase());
  if (!family || text.length > MOST) return text ? [{ text, kind: null }] : [];
  if (family === 'diff') return difference(text);
  const made: Piece[] = [];
  let at = 0;
  for (const found of text.matchAll(patternOf(family))) {
    const kind = kindOf(family, found);
    if (!kind) continue;
    if (found.index > at) made.push({ text: text.slice(at, found.index), kind: null });
    made.push({ text: found[0], kind });
    at = found.index + found[0].length;
  }
  if (at < text.length) made.push({ text: text.slice(at), kind: null });
  return made;
}

/** Nodes that show a text in colours, and read like the text itself. */
export function coloured(text: string, language: string): DocumentFragment {
  const nodes = document.createDocumentFragment();
  for (const piece of pieces(text, language)) {
    if (!piece.kind) {
      nodes.append(piece.text);
      continue;
    }
    const span = document.createElement('span');
    span.className = `hl-${piece.kind}`;
    span.textContent = piece.text;
    nodes.append(span);
  }
  return nodes;
}
