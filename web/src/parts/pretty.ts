/**
 * JSON laid out on lines, every token as it stands: parsing and writing it again would round long numbers and drop keys that
 * stand twice, and what is shown would not be what runs. What is no JSON comes out as it went in, but for the layout. Pure.
 */
const TOKEN = /"(?:[^"\\]|\\[^])*"?|[{}[\],:]|[^\s"{}[\],:]+/g;
const CLOSES: Record<string, string> = { '{': '}', '[': ']' };

export function pretty(json: string): string {
  const tokens = json.match(TOKEN) ?? [];
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
