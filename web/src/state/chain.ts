/** How the chain of receipts stands, as far as it is known here. Pure. */
import type { ChainState } from '../api/types.ts';

export type ChainStanding = 'valid' | 'broken' | 'unchecked' | 'none' | 'stale' | 'unknown';

/** Offline nobody can say that it still holds; one that was broken is not mended by that. */
export function chainStanding(chain: Pick<ChainState, 'verified' | 'size'> | null, offline: boolean): ChainStanding {
  if (!chain) return 'unknown';
  if (chain.verified && !chain.verified.valid) return 'broken';
  if (offline) return chain.verified ? 'stale' : 'unknown';
  if (!chain.size) return 'none';
  return chain.verified ? 'valid' : 'unchecked';
}
