/** What is wrong with the house itself: a policy file, the workspace, a config.toml that is newer than the process. */
import type { Endpoints } from '../api/endpoints.ts';
import { concerns } from '../api/topics.ts';
import type { EffectivePolicy, Probe } from '../api/types.ts';
import type { Live } from './live.svelte.ts';

/** Files change without an event: they are looked at again after so long, while somebody looks at the page. */
const OFTEN = 60_000;
/** What is wrong is looked at again sooner: somebody may be mending it. */
const SOON = 15_000;
/** The check-up goes through the whole ledger: seldom, unless something was wrong. */
const SELDOM = 600_000;
/** So long after the page is there it is looked at for the first time. */
const FIRST = 1_500;

export type Fault =
  | { kind: 'policy' | 'faults' }
  | { kind: 'changed'; n: number }
  | { kind: 'passkey'; name: string }
  | { kind: 'workspace' | 'probe'; probe: Probe };

/** These are told elsewhere: by the policy, and by the chain that is always in sight. */
const ELSEWHERE: ReadonlySet<string> = new Set(['policy files', 'ledger', 'estop']);

/** Given at the command line (`coilclaw up --addr`) it differs from the file without any change to that. */
const COMMAND_LINE: ReadonlySet<string> = new Set(['server.http_addr']);

/** What has to be mended, the worst first. Pure. */
export function faultsOf(policy: Pick<EffectivePolicy, 'broken' | 'faults' | 'settings'> | null, probes: readonly Probe[], suspended: readonly string[] = []): Fault[] {
  const found: Fault[] = suspended.map((name) => ({ kind: 'passkey', name }));
  for (const probe of probes) {
    if (ELSEWHERE.has(probe.name)) continue;
    if (probe.state === 'fail') found.push({ kind: probe.name === 'workspace' ? 'workspace' : 'probe', probe });
  }
  if (policy?.broken) found.push({ kind: 'policy' });
  if (policy?.faults.length) found.push({ kind: 'faults' });
  const changed = policy?.settings.filter((each) => each.changes && !COMMAND_LINE.has(each.key)).length ?? 0;
  if (changed) found.push({ kind: 'changed', n: changed });
  return found;
}

export class Repairs {
  readonly #api: Pick<Endpoints, 'policy' | 'doctor' | 'passkeys'>;
  #policy: EffectivePolicy | null = $state.raw(null);
  #probes: readonly Probe[] = $state.raw([]);
  #suspended: readonly string[] = $state.raw([]);
  #probed = -Infinity;
  #looked = -Infinity;
  /** Of two answers only that to the later question counts. */
  #asked = 0;
  #examined = 0;
  readonly faults = $derived(faultsOf(this.#policy, this.#probes, this.#suspended));

  constructor(api: Pick<Endpoints, 'policy' | 'doctor' | 'passkeys'>) {
    this.#api = api;
  }

  /** Look now and then; the answer stops it. */
  start(live: Pick<Live, 'onEvent' | 'onAgain'>): () => void {
    const look = (): void => {
      if (!document.hidden) void this.look();
    };
    // The page itself comes first.
    let first: ReturnType<typeof setTimeout> | undefined = setTimeout(() => {
      first = undefined;
      look();
    }, FIRST);
    const timer = setInterval(() => {
      if (this.faults.length || Date.now() - this.#looked >= OFTEN) look();
    }, SOON);
    const offAgain = live.onAgain(() => {
      if (first !== undefined) return;
      this.#probed = -Infinity; // perhaps it was started anew
      look();
    });
    const offEvent = live.onEvent((event) => {
      if (concerns(event, 'settings') || concerns(event, 'device')) look();
    });
    document.addEventListener('visibilitychange', look);
    return () => {
      clearTimeout(first);
      clearInterval(timer);
      offAgain();
      offEvent();
      document.removeEventListener('visibilitychange', look);
    };
  }

  /** Read what there is to know. What cannot be read stays as it was: being offline is shown beside it. */
  async look(now = Date.now()): Promise<void> {
    this.#looked = now;
    const asked = ++this.#asked;
    await Promise.all([this.#readPolicy(asked), this.#readPasskeys(asked), this.#examine(now)]);
  }

  async #readPolicy(asked: number): Promise<void> {
    try {
      const { data, staleSince } = await this.#api.policy.effective();
      if (staleSince === null && asked === this.#asked) this.#policy = data;
    } catch {
      // As above.
    }
  }

  /** A passkey that may have been copied. */
  async #readPasskeys(asked: number): Promise<void> {
    try {
      const { data, staleSince } = await this.#api.passkeys.list();
      if (staleSince === null && asked === this.#asked) this.#suspended = data.items.filter((each) => each.suspended_at).map((each) => each.name);
    } catch {
      // As above.
    }
  }

  async #examine(now: number): Promise<void> {
    const ill = faultsOf(null, this.#probes).length > 0;
    if (!ill && now - this.#probed < SELDOM) return;
    this.#probed = now;
    const examined = ++this.#examined;
    try {
      const { data, staleSince } = await this.#api.doctor(true);
      if (staleSince === null && examined === this.#examined) this.#probes = data.probes;
    } catch {
      // As above.
    }
  }
}
