/** What waits for the owner's word, and what became of the answers given since the page was opened. */
import type { Endpoints } from '../api/endpoints.ts';
import { asApiError, type ApiError } from '../api/problem.ts';
import { concerns } from '../api/topics.ts';
import type { ActionStatus, ApprovalCard, FromNowOn, Lane, LiveEvent } from '../api/types.ts';
import { withProof, type Sign } from '../auth/proof.ts';
import { t } from '../text/t.ts';
import type { Live } from './live.svelte.ts';
import { firstOf } from './pages.ts';
import type { Toasts } from './toasts.svelte.ts';

export interface AnsweredItem {
  card: ApprovalCard;
  status: ActionStatus;
}

const CALM = 120;
const POLL = 4_000;
/** So many are read at a time. */
const STEP = 50;
/** So many are held at most: every event reads again what is held. Those beyond come up as these are answered. */
export const MOST = 500;
const NONE: Readonly<Record<Lane, number>> = { A: 0, B: 0, C: 0 };
const OPEN: ReadonlySet<ActionStatus> = new Set(['PENDING', 'APPROVED']);

/** Each once, in the order they came in, without those that are gone: pages are read one after the other, and things move. */
export function onceEach(cards: readonly ApprovalCard[], gone: ReadonlySet<string>): ApprovalCard[] {
  const seen = new Set(gone);
  return cards.filter((each) => !seen.has(each.action_id) && seen.add(each.action_id));
}

/** Which one to look at once `id` is answered: the one after it, or the one before it at the end. */
export function neighbour(cards: readonly ApprovalCard[], id: string): string | null {
  const at = cards.findIndex((each) => each.action_id === id);
  const rest = cards.filter((each) => each.action_id !== id);
  if (!rest.length) return null;
  return rest[Math.min(Math.max(at, 0), rest.length - 1)]?.action_id ?? null;
}

export class Queue {
  readonly #api: Endpoints;
  readonly #toasts: Toasts;
  readonly #sign: Sign;
  /** Those that were read, of the kind that is looked at; the soonest to expire first. */
  pending: ApprovalCard[] = $state.raw([]);
  /** There are more than were read. */
  more = $state(false);
  /** How many wait, whether they were read or not. */
  total = $state(0);
  lanes: Readonly<Record<Lane, number>> = $state.raw(NONE);
  /** The only lane that is looked at; null for all. */
  kind: Lane | null = $state(null);
  loaded = $state(false);
  error: ApiError | null = $state.raw(null);
  staleSince: number | null = $state(null);
  answered: AnsweredItem[] = $state.raw([]);
  #timer: ReturnType<typeof setTimeout> | undefined;
  #wanted = STEP;
  #reading: Promise<void> | null = null;
  #again = false;

  constructor(api: Endpoints, toasts: Toasts, sign: Sign) {
    this.#api = api;
    this.#toasts = toasts;
    this.#sign = sign;
  }

  start(live: Live): () => void {
    void this.reload();
    const offEvent = live.onEvent((event) => this.#heard(event));
    const offAgain = live.onAgain(() => this.#soon());
    const poll = setInterval(() => void this.#followUp(), POLL);
    return () => {
      offEvent();
      offAgain();
      clearInterval(poll);
      clearTimeout(this.#timer);
      this.#timer = undefined;
    };
  }

  /** How many there are of the kind that is looked at. */
  get ofKind(): number {
    return this.kind ? this.lanes[this.kind] : this.total;
  }

  /** Everything that waits is here. */
  get complete(): boolean {
    return this.loaded && !this.more && this.kind === null;
  }

  /** There are more, and room for them. */
  get canGrow(): boolean {
    return this.more && this.#wanted < MOST;
  }

  /** Read what is held again. One reading at a time: who asks meanwhile gets one more after it. */
  reload(): Promise<void> {
    this.#again = true;
    this.#reading ??= this.#readAll().finally(() => (this.#reading = null));
    return this.#reading;
  }

  /** Read further on. */
  async grow(): Promise<void> {
    if (!this.canGrow) return;
    this.#wanted += STEP;
    await this.reload();
  }

  /** Look at one lane alone, or at all. */
  choose(kind: Lane | null): void {
    if (kind === this.kind) return;
    this.kind = kind;
    this.#wanted = STEP;
    this.pending = this.pending.filter((each) => kind === null || each.lane === kind);
    void this.reload();
  }

  async #readAll(): Promise<void> {
    while (this.#again) {
      this.#again = false;
      await this.#read();
    }
  }

  async #read(): Promise<void> {
    const { kind } = this;
    try {
      const [listed, counted] = await Promise.all([
        firstOf((cursor) => this.#api.approvals.waiting({ lane: kind }, cursor, STEP), this.#wanted),
        this.#api.approvals.count().catch(() => null), // what is listed is worth more than how much there is
      ]);
      if (kind !== this.kind) return; // it is being read anew
      this.pending = onceEach(listed.data.items, new Set(this.answered.map((each) => each.card.action_id))).slice(0, MOST);
      this.more = listed.data.next_cursor !== null;
      this.staleSince = listed.staleSince;
      this.error = null;
      this.loaded = true;
      if (counted) this.lanes = counted.data.lanes;
      // A list that is whole has been counted by itself, and nothing that was answered just now is in it.
      this.total = this.complete ? this.pending.length : (counted?.data.total ?? Math.max(this.total, this.pending.length));
      if (kind && counted && !this.lanes[kind]) this.choose(null);
    } catch (thrown) {
      this.error = asApiError(thrown);
    }
  }

  /** Say yes to exactly this card. Rejects when the passkey is not used or the server refuses; then nothing changed. */
  async approve(card: ApprovalCard, fromNowOn?: FromNowOn): Promise<void> {
    const question = { purpose: 'approve', subject: card.action_id, expected: card.proof === 'passkey' } as const;
    const answer = await withProof(this.#api.passkeys, this.#sign, question, (proof) =>
      this.#api.approvals.approve(card.action_id, { digest: card.digest, seen: card.seen, ...(proof ? { proof } : {}), ...(fromNowOn ? { from_now_on: fromNowOn } : {}) }),
    );
    this.#settle(card, answer.action.status, answer.held);
  }

  async reject(card: ApprovalCard, reason: string): Promise<void> {
    const answer = await this.#api.approvals.reject(card.action_id, reason);
    this.#settle(card, answer.action.status);
  }

  /** The status an answer given here has come to; null for what was not answered here. */
  statusOf(id: string): ActionStatus | null {
    return this.answered.find((each) => each.card.action_id === id)?.status ?? null;
  }

  #settle(card: ApprovalCard, status: ActionStatus, held = false): void {
    if (this.pending.some((each) => each.action_id === card.action_id)) {
      this.pending = this.pending.filter((each) => each.action_id !== card.action_id);
      this.total = Math.max(this.total - 1, this.pending.length);
      this.lanes = { ...this.lanes, [card.lane]: Math.max(this.lanes[card.lane] - 1, 0) };
    }
    this.answered = [{ card, status }, ...this.answered.filter((each) => each.card.action_id !== card.action_id)];
    if (status === 'APPROVED') this.#toasts.show('plain', held ? t('approvals.toast.held') : t('approvals.toast.approved'), '', card.action_id);
    else this.#announce(card, status);
    void this.#followUp();
  }

  #announce(card: ApprovalCard, status: ActionStatus): void {
    const what = card.human_summary;
    if (status === 'EXECUTED') this.#toasts.show('good', t('approvals.toast.executed', { what }), '', card.action_id);
    if (status === 'FAILED') this.#toasts.show('bad', t('approvals.toast.failed', { what }), '', card.action_id);
    if (status === 'UNKNOWN') this.#toasts.show('bad', t('approvals.toast.unknown', { what }), '', card.action_id);
    if (status === 'REJECTED') this.#toasts.show('plain', t('approvals.toast.rejected'));
  }

  /** Ask what became of answers that are not at their end: nothing counts as done before the server says so. */
  async #followUp(): Promise<void> {
    for (const item of this.answered.filter((each) => OPEN.has(each.status))) {
      try {
        const { status } = (await this.#api.actions.one(item.card.action_id)).action;
        if (status === item.status || this.statusOf(item.card.action_id) !== item.status) continue;
        this.answered = this.answered.map((each) => (each.card === item.card ? { ...each, status } : each));
        this.#announce(item.card, status);
      } catch {
        return; // asked again soon
      }
    }
  }

  #heard(event: LiveEvent): void {
    if (concerns(event, 'approval') || concerns(event, 'action')) this.#soon();
  }

  /** Many wishes in a row are one, and none is put off for ever. */
  #soon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.reload();
      void this.#followUp();
    }, CALM);
  }
}
