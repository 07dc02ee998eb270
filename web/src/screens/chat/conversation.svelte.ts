/** One conversation while it is looked at: what was said, what is being said, and saying something. */
import { ApiError, asApiError } from '../../api/problem.ts';
import type { CommandOutput, LiveEvent, Message, TextDelta, Thread } from '../../api/types.ts';
import type { Panel } from '../../panel.ts';
import { t } from '../../text/t.ts';
import { isSaid, joined, withOutput, withPiece, type Output, type Partial } from './transcript.ts';

const CALM = 60;

export interface Outgoing {
  key: string;
  text: string;
  attachments: string[];
}

export class Conversation {
  readonly id: string;
  readonly #panel: Panel;
  thread: Thread | null = $state.raw(null);
  messages: Message[] = $state.raw([]);
  before: string | null = $state(null);
  loaded = $state(false);
  error: ApiError | null = $state.raw(null);
  staleSince: number | null = $state(null);
  partial: Partial | null = $state.raw(null);
  /** What running commands write, by action. */
  outputs: Record<string, Output> = $state.raw({});
  /** The turn that is being answered, and whether it has begun. */
  turn: { id: string; begun: boolean } | null = $state.raw(null);
  /** Sent, and not yet in the list. */
  outgoing: Outgoing[] = $state.raw([]);
  stopping = $state(false);
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(panel: Panel, id: string) {
    this.#panel = panel;
    this.id = id;
  }

  start(): () => void {
    void this.reload();
    const { live } = this.#panel;
    const off = [
      live.onEvent((event) => this.#heard(event)),
      live.onText(this.id, (delta) => this.#written(delta)),
      live.onOutput(this.id, (output) => this.#ran(output)),
      live.onAgain(() => this.#soon()),
    ];
    return () => {
      clearTimeout(this.#timer);
      this.#timer = undefined;
      for (const each of off) each();
    };
  }

  async reload(): Promise<void> {
    const { api } = this.#panel;
    try {
      const [thread, page] = await Promise.all([api.chat.thread(this.id), api.chat.messages(this.id)]);
      const known = this.messages.length > 0;
      const list = joined(this.messages, page.data.items);
      if (!known || list.length === page.data.items.length) this.before = page.data.before;
      this.thread = thread.data;
      this.messages = list;
      this.staleSince = page.staleSince;
      this.error = null;
      this.loaded = true;
      this.outgoing = this.outgoing.filter((each) => !list.some((message) => message.role === 'user' && message.content === each.text));
      if (thread.data.running_turn_id) this.turn = { id: thread.data.running_turn_id, begun: true };
      else if (!thread.data.waiting_turns && page.staleSince === null) this.#over();
      if (this.partial && isSaid(this.partial, list)) this.partial = null;
    } catch (thrown) {
      this.error = asApiError(thrown);
    }
  }

  /** Older messages, before those that are shown. */
  async earlier(): Promise<void> {
    if (!this.before) return;
    try {
      const { data } = await this.#panel.api.chat.messages(this.id, this.before);
      this.messages = [...data.items, ...this.messages];
      this.before = data.before;
    } catch (error) {
      this.#panel.toasts.fail(error);
    }
  }

  /** Say something. Throws when it could not be sent, so that the words stay where they were written. */
  async say(text: string, attachments: string[], key: string): Promise<void> {
    const sent = { key, text, attachments };
    this.outgoing = [...this.outgoing.filter((each) => each.key !== key), sent];
    try {
      const posted = await this.#panel.api.chat.post(this.id, text, attachments, key);
      this.turn ??= { id: posted.turn_id, begun: posted.state === 'RUNNING' };
    } catch (error) {
      this.outgoing = this.outgoing.filter((each) => each.key !== key);
      throw error;
    }
    this.#soon();
  }

  async stop(): Promise<void> {
    if (!this.turn) return;
    this.stopping = true;
    try {
      await this.#panel.api.chat.stop(this.turn.id);
    } catch (error) {
      this.#panel.toasts.fail(error);
    } finally {
      this.stopping = false;
      this.#soon();
    }
  }

  #over(): void {
    this.turn = null;
    this.partial = null;
  }

  #soon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.reload();
    }, CALM);
  }

  #heard(event: LiveEvent): void {
    if (event.thread_id !== this.id) return;
    if (event.type === 'turn_started') this.turn = { id: event.id, begun: true };
    if (event.type === 'turn_queued') this.turn ??= { id: event.id, begun: false };
    this.#soon();
  }

  #written(delta: TextDelta): void {
    const next = withPiece(this.partial, delta.turn_id, delta.offset, delta.text);
    this.turn = { id: delta.turn_id, begun: true };
    if (next) this.partial = next;
    else void this.#catchUp(delta.turn_id);
  }

  #ran({ action_id, offset, piece }: CommandOutput): void {
    const missed = (count: number): string => t('chat.call.missed', { count });
    this.outputs = { ...this.outputs, [action_id]: withOutput(this.outputs[action_id], offset, piece, missed) };
  }

  /** A piece is missing: the server knows all that was said so far. */
  async #catchUp(turn: string): Promise<void> {
    try {
      const { partial } = await this.#panel.api.chat.turn(turn);
      if (partial) this.partial = { turn_id: turn, text: partial, length: [...partial].length };
    } catch {
      // The finished answer will come with the messages.
    }
  }
}
