import { describe, expect, test } from 'vitest';
import type { ChainState } from '../src/api/types.ts';
import { chainStanding } from '../src/state/chain.ts';

const chain = (valid: boolean | null, size = 3): Pick<ChainState, 'verified' | 'size'> => ({ size, verified: valid === null ? null : { valid, receipts: 3, heads: 1, broken: null, notes: [], at: '' } });

describe('the chain of receipts', () => {
  test('is said to hold only while somebody can say so', () => {
    expect(chainStanding(chain(true), false)).toBe('valid');
    expect(chainStanding(chain(true), true)).toBe('stale');
    expect(chainStanding(chain(null), true)).toBe('unknown');
  });

  test('stays broken, whoever is offline', () => {
    expect(chainStanding(chain(false), false)).toBe('broken');
    expect(chainStanding(chain(false), true)).toBe('broken');
  });

  test('is unchecked or not known before', () => {
    expect(chainStanding(chain(null), false)).toBe('unchecked');
    expect(chainStanding(null, false)).toBe('unknown');
  });

  test('is nothing to check while it is empty', () => {
    expect(chainStanding(chain(null, 0), false)).toBe('none');
  });
});
