/** What waits for the owner's word, and what became of the answers given since the page was opened. */
import type { Endpoints } from '../api/endpoints.ts';
import { asApiError, type ApiError } from '../api/problem.ts';
import { concerns } from '../api/topics.ts';
import type { ActionStatus, ApprovalCard, LiveEvent } from '../api/types.ts';
import { withProof, type Sign } from '../auth/proof.ts';
import { t } from '../text/t.ts';
import type { Live } from './live.svelte.ts';
import type { Toasts } from './toasts.svelte.ts';

export interface AnsweredItem {
  card: ApprovalCard;
  status: ActionStatus;
}

const CALM = 120;
const POLL = 4_000;
const OPEN: ReadonlySet<ActionStatus> = new Set(['PENDING', 'APPROVED']);

/** The soonest to expire first, and always in the same order. */
export function inOrder(cards: readonly ApprovalCard[]): ApprovalCard[] {
  return [...cards].sort((a, b) => a.expires_at.localeCompare(b.expires_at) || a.action_id.localeCompare(b.action_id));
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
  pending: ApprovalCard[] = $state.raw([]);
  /** There are more than were read. */
  more = $state(false);
  loaded = $state(false);
  error: ApiError | null = $state.raw(null);
  staleSince: number | null = $state(null);
  answered: AnsweredItem[] = $state.raw([]);
  #timer: ReturnType<typeof setTimeout> | undefined;

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

  async reload(): Promise<void> {
    try {
      const { data, staleSince } = await this.#api.approvals.list('pending');
      const gone = new Set(this.answered.map((each) => each.card.action_id));
      this.pending = inOrder(data.items.filter((each) => !gone.has(each.action_id)));
      this.more = data.next_cursor !== null;
      this.staleSince = staleSince;
      this.error = null;
      this.loaded = true;
    } catch (thrown) {
      this.error = asApiError(thrown);
    }
  }

  /** Say yes to exactly this card. Rejects when the passkey is not used or the server refuses; then nothing changed. */
  async approve(card: ApprovalCard): Promise<void> {
    const question = { purpose: 'approve', subject: card.action_id, expected: card.proof === 'passkey' } as const;
    const answer = await withProof(this.#api.passkeys, this.#sign, question, (proof) =>
      this.#api.approvals.approve(card.action_id, { digest: card.digest, seen: card.seen, ...(proof ? { proof } : {}) }),
    );
    this.#settle(card, answer.action.status, answer.held);
  }

  async reject(card: ApprovalCard, reason: string): Promise<void> {
    const answer = await this.#api.approvals.reject(card.action_id, reason);
    this.#settle(card, answer.action.status);
  }

  /** A newer card for the same action: the files it would change are not what they were. */
  replace(card: ApprovalCard): void {
    this.pending = inOrder(this.pending.map((each) => (each.action_id === card.action_id ? card : each)));
  }

  /** The status an answer given here has come to; null for what was not answered here. */
  statusOf(id: string): ActionStatus | null {
    return this.answered.find((each) => each.card.action_id === id)?.status ?? null;
  }

  #settle(card: ApprovalCard, status: ActionStatus, held = false): void {
    this.pending = this.pending.filter((each) => each.action_id !== card.action_id);
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
