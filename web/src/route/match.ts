/** Addresses after the `#`: pure matching, no browser. */

export interface Place {
  /** The route's name. */
  name: string;
  /** What its pattern left open, by name. */
  params: Record<string, string>;
  /** What stood after `?`. */
  query: URLSearchParams;
}

export interface Pattern {
  name: string;
  /** `/approvals/:id` */
  path: string;
}

/** The path and query of a fragment: `#/a/b?c=d`. */
export function parts(hash: string): { path: string[]; query: URLSearchParams } {
  const [path = '', query = ''] = hash.replace(/^#/, '').split('?', 2);
  return { path: path.split('/').filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

function decoded(piece: string): string {
  try {
    return decodeURIComponent(piece);
  } catch {
    return piece;
  }
}

/** The first pattern that fits; null when none does. */
export function match(hash: string, patterns: readonly Pattern[]): Place | null {
  const { path, query } = parts(hash);
  for (const { name, path: pattern } of patterns) {
    const wanted = pattern.split('/').filter(Boolean);
    if (wanted.length !== path.length) continue;
    const params: Record<string, string> = {};
    const fits = wanted.every((piece, at) => {
      if (!piece.startsWith(':')) return piece === path[at];
      params[piece.slice(1)] = path[at] ?? '';
      return true;
    });
    if (fits) return { name, params, query };
  }
  return null;
}

/** Whether a form lies over what the address names: `#/schedules?new`. */
export function isForm(query: URLSearchParams): boolean {
  return query.has('new') || query.has('edit');
}

/** One level up: the list that something stands in, or what a form lies over. */
export function upOf(hash: string): string {
  const { path, query } = parts(hash);
  return address(...(isForm(query) ? path : path.slice(0, -1)));
}

/** The card of an action, looked at on the way: once it is answered one is back here. */
export function review(action: string): string {
  return `${address('approvals', action)}?back=1`;
}

/** The address of a path made of pieces, each encoded: `address('approvals', id)`. */
export function address(...pieces: string[]): string {
  return `#/${pieces.map(encodeURIComponent).join('/')}`;
}
