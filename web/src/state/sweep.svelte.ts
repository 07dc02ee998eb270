/** Many questions of one job or conversation refused together: one after the other, in sight, until somebody stops it. */
import type { Endpoints } from '../api/endpoints.ts';
import { asApiError } from '../api/problem.ts';
import type { ApprovalCard } from '../api/types.ts';
import { inFull } from '../text/problem.ts';

export type Whose = { job_id: string } | { thread_id: string };

/** From so many questions of one origin on they can be refused together: fewer are better read. */
export const CROWD = 6;
/** So many crowds are offered at once, the largest first. */
const OFFERED = 3;
const STEP = 50;
/** Of so many that could not be refused it is said why. */
const TOLD = 20;
/** How often the server may ask for patience in a row. */
const PATIENCE = 10;

/** Jobs and conversations that ask a lot, by what was read of the queue. A job's questions are the job's. */
export function crowdsOf(cards: readonly ApprovalCard[]): Whose[] {
  const found = new Map<string, { whose: Whose; count: number }>();
  for (const { job_id, thread_id } of cards) {
    if (!job_id && !thread_id) continue;
    const whose: Whose = job_id ? { job_id } : { thread_id };
    const key = JSON.stringify(whose);
    found.set(key, { whose, count: (found.get(key)?.count ?? 0) + 1 });
  }
  const large = [...found.values()].filter((each) => each.count >= CROWD).sort((a, b) => b.count - a.count);
  return large.slice(0, OFFERED).map((each) => each.whose);
}

export interface Unrefused {
  id: string;
  what: string;
  why: string;
}

export class Sweep {
  readonly #api: Endpoints;
  readonly #sleep: (milliseconds: number) => Promise<void>;
  state: 'ready' | 'running' | 'stopped' | 'over' = $state('ready');
  /** How many are to be refused: as many as waited when it began. */
  of = $state(0);
  done = $state(0);
  failures = $state(0);
  /** The first of those that could not be refused. */
  told: Unrefused[] = $state.raw([]);
  /** Why it ended before its end; empty when it did not, or somebody stopped it. */
  broken = $state('');
  #stopping = false;

  constructor(api: Endpoints, sleep: (milliseconds: number) => Promise<void> = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds))) {
    this.#api = api;
    this.#sleep = sleep;
  }

  /** It ends before the next question, not in the middle of one. */
  stop(): void {
    this.#stopping = true;
  }

  /** Refuse as many as were counted, the soonest to expire first; what was asked since waits on. */
  async run(whose: Whose, of: number, reason: string): Promise<void> {
    if (this.state !== 'ready') return;
    this.state = 'running';
    this.of = of;
    try {
      for (let cursor: string | null = null, first = true; (first || cursor) && this.#goesOn; first = false) {
        const { data, staleSince } = await this.#api.approvals.waiting(whose, cursor, STEP);
        if (staleSince !== null) throw new TypeError('offline'); // a memory of questions is none to answer
        for (const card of data.items) if (this.#goesOn) await this.#refuse(card, reason);
        cursor = data.next_cursor;
      }
    } catch (error) {
      this.broken = inFull(error);
    }
    this.state = this.broken || (this.#stopping && this.#left > 0) ? 'stopped' : 'over';
  }

  get #left(): number {
    return this.of - this.done - this.failures;
  }

  get #goesOn(): boolean {
    return !this.#stopping && this.#left > 0;
  }

  /** One no. What only this question stands in the way of is told; what would stop every other is thrown. */
  async #refuse(card: ApprovalCard, reason: string): Promise<void> {
    for (let waited = 0; ; waited += 1) {
      try {
        await this.#api.approvals.reject(card.action_id, reason);
        this.done += 1;
        return;
      } catch (thrown) {
        const error = asApiError(thrown);
        if (error.status === 429 && waited < PATIENCE) {
          await this.#sleep(Math.max(error.retryAfter, 1) * 1000);
          if (this.#stopping) return;
          continue;
        }
        if (error.status !== 404 && error.status !== 409) throw error;
        this.failures += 1;
        if (this.told.length < TOLD) this.told = [...this.told, { id: card.action_id, what: card.human_summary, why: inFull(error) }];
        return;
      }
    }
  }
}
