/**
 * JSON laid out on lines, every token as it stands: parsing and writing it again would round long numbers and drop keys that
 * stand twice, and what is shown would not be what runs. What is no JSON comes out as it went in, but for the layout. Pure.
 */
const TOKEN = /"(?:[^"\\]|\\[^])*"?|[{}[\],:]|[^\s"{}[\],:]+/g;
const CLOSES: Record<string, string> = { '{': '}', '[': ']' };

export interface Entry {
  name: string;
  text: string;
}

/** The members of an object, each as text: strings as the lines they are, anything else laid out. Null for what is no object. */
export function entries(json: string): Entry[] | null {
  const tokens = json.match(TOKEN) ?? [];
  if (tokens[0] !== '{' || tokens.at(-1) !== '}') return null;
  const found: Entry[] = [];
  for (let at = 1; at < tokens.length - 1; ) {
    const name = read(tokens[at] ?? '');
    if (name === null || tokens[at + 1] !== ':') return null;
    let end = at + 2;
    for (let depth = 0; end < tokens.length - 1; end += 1) {
      const token = tokens[end] ?? '';
      if (depth === 0 && token === ',') break;
      if (token === '{' || token === '[') depth += 1;
      if (token === '}' || token === ']') depth -= 1;
    }
    const value = tokens.slice(at + 2, end);
    found.push({ name, text: (value.length === 1 ? read(value[0] ?? '') : null) ?? laid(value) });
    at = end + 1;
  }
  return found;
}

/** A string as it is meant; null for what is none. */
function read(token: string): string | null {
  if (!token.startsWith('"')) return null;
  try {
    const value: unknown = JSON.parse(token);
    return typeof value === 'string' ? value : null;
  } catch {
    return null;
  }
}

export function pretty(json: string): string {
  return laid(json.match(TOKEN) ?? []);
}

function laid(tokens: readonly string[]): string {
  let out = '';
  let depth = 0;
  const line = (): string => `\n${'  '.repeat(Math.min(depth, 40))}`;
  for (const [at, token] of tokens.entries()) {
    const before = tokens[at - 1] ?? '';
    const empty = CLOSES[before] === token;
    if (token === '}' || token === ']') depth = Math.max(0, depth - 1);
    if ((token === '}' || token === ']') && !empty) out += line();
    out += token;
    if (token === ':') out += ' ';
    if (token === '{' || token === '[') depth += 1;
    if (token === ',' || ((token === '{' || token === '[') && CLOSES[token] !== tokens[at + 1])) out += line();
  }
  return out;
}
