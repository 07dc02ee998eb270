/** The kinds of questions that are told apart: pure. */
import type { Lane } from '../../api/types.ts';

export interface Kind {
  /** null: all of them. */
  kind: Exclude<Lane, 'A'> | null;
  count: number;
}

/** All, and those that weigh more, with how many wait; none when only one kind waits, for then there is nothing to tell apart. */
export function kindsOf(lanes: Readonly<Record<Lane, number>>, total: number): Kind[] {
  if (Object.values(lanes).filter((count) => count > 0).length < 2) return [];
  const heavy = (['B', 'C'] as const).map((kind) => ({ kind, count: lanes[kind] })).filter((each) => each.count > 0);
  return [{ kind: null, count: total }, ...heavy];
}
