import { describe, expect, test } from 'vitest';
import type { EffectivePolicy, EffectiveSetting, Probe } from '../src/api/types.ts';
import { Repairs, faultsOf } from '../src/state/repairs.svelte.ts';

const probe = (name: string, state: Probe['state'], detail = 'x'): Probe => ({ name, state, detail, remedy: '' });
const setting = (changes: boolean): EffectiveSetting => ({ key: 'security.autonomy', changes, next_value: null, value: null, source: 'default', description: '' });
const policy = (change: Partial<EffectivePolicy> = {}): EffectivePolicy => ({ autonomy: 'supervised', broken: '', faults: [], policy_hash: '', rules: [], settings: [setting(false)], ...change });

describe('what has to be mended', () => {
  test('is nothing while everything holds, or is only less than perfect', () => {
    expect(faultsOf(null, [])).toEqual([]);
    expect(faultsOf(policy(), [probe('workspace', 'warn', '/w can be read by other users'), probe('box', 'ok')])).toEqual([]);
  });

  test('is a broken policy file, a config.toml that cannot be read, and one that is newer than the process', () => {
    expect(faultsOf(policy({ broken: 'mine.json: no JSON' }), [])).toEqual([{ kind: 'policy' }]);
    expect(faultsOf(policy({ faults: ['line 3'] }), [])).toEqual([{ kind: 'faults' }]);
    expect(faultsOf(policy({ settings: [setting(true), setting(false), setting(true)] }), [])).toEqual([{ kind: 'changed', n: 2 }]);
    expect(faultsOf(policy({ settings: [{ ...setting(true), key: 'server.http_addr' }] }), [])).toEqual([]);
  });

  test('is a workspace that is not there, and not one that could be better', () => {
    const gone = probe('workspace', 'fail', 'the workspace /w is not there.');
    expect(faultsOf(null, [gone])).toEqual([{ kind: 'workspace', probe: gone }]);
    expect(faultsOf(null, [probe('workspace', 'warn', '/w is not a git repository')])).toEqual([]);
  });

  test('is a passkey that may have been copied, before everything else', () => {
    expect(faultsOf(policy({ broken: 'x' }), [], ['phone']).map((each) => each.kind)).toEqual(['passkey', 'policy']);
  });

  test('is said once: the chain and the policy have places of their own', () => {
    expect(faultsOf(policy({ broken: 'x' }), [probe('policy files', 'fail'), probe('ledger', 'fail'), probe('estop', 'warn')])).toEqual([{ kind: 'policy' }]);
  });

  test('comes with every other probe that fails, the worst first', () => {
    expect(faultsOf(policy({ broken: 'x' }), [probe('box', 'fail', 'no box')]).map((each) => each.kind)).toEqual(['probe', 'policy']);
  });
});

describe('the house is looked at', () => {
  const MINUTE = 60_000;

  function house(): { repairs: Repairs; examined: () => number; probes: Probe[]; state: { staleSince: number | null } } {
    let examined = 0;
    const probes: Probe[] = [];
    const state = { staleSince: null as number | null };
    const api = {
      passkeys: { list: async () => ({ data: { items: [] }, ...state }) },
      policy: { effective: async () => ({ data: policy({ broken: 'x' }), ...state }) },
      doctor: async () => {
        examined += 1;
        return { data: { checked_at: '', state: 'ok', probes: [...probes] }, ...state };
      },
    } as unknown as ConstructorParameters<typeof Repairs>[0];
    return { repairs: new Repairs(api), examined: () => examined, probes, state };
  }

  test('often, but examined seldom while it is well', async () => {
    const { repairs, examined } = house();
    for (const at of [0, 1, 5, 9]) await repairs.look(at * MINUTE);
    expect(examined()).toBe(1);
    await repairs.look(10 * MINUTE);
    expect(examined()).toBe(2);
    expect(repairs.faults).toEqual([{ kind: 'policy' }]);
  });

  test('each time while it is not, so that what was mended is no longer told', async () => {
    const { repairs, examined, probes } = house();
    probes.push(probe('workspace', 'fail'));
    await repairs.look(0);
    expect(repairs.faults.map((each) => each.kind)).toEqual(['workspace', 'policy']);
    probes.length = 0;
    await repairs.look(MINUTE);
    expect(examined()).toBe(2);
    expect(repairs.faults).toEqual([{ kind: 'policy' }]);
  });

  test('and nothing is taken from memory', async () => {
    const { repairs, state } = house();
    state.staleSince = 1;
    await repairs.look(0);
    expect(repairs.faults).toEqual([]);
  });
});
