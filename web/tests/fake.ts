/**
 * A made-up server, for looking at screens and for tests: never part of the build. It answers the routes the panel calls
 * with the shapes the real one has, keeps its state in memory, and lets things happen (an approval is carried out, an
 * answer is streamed) so that live behaviour can be seen.
 */
import { approvals, messages, overview, threads } from './fake_data.ts';
import type * as T from '../src/api/types.ts';

type Handler = (request: Request, id: string) => Promise<unknown> | unknown;

const moment = (ahead = 0): string => new Date(Date.now() + ahead).toISOString();
const random = (): string => crypto.randomUUID().replaceAll('-', '');
const challenge = (): string => btoa(random()).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');

class Refusal extends Error {
  readonly problem: T.Problem;

  constructor(status: number, code: string, detail: string, remedy = '') {
    super(code);
    this.problem = { type: `/problems/${code}`, title: code, status, detail, code, remedy };
  }
}

export interface FakeStart {
  paired?: boolean;
  passkeys?: number;
  /** Nothing has happened yet. */
  fresh?: boolean;
  engaged?: boolean;
}

export class FakeServer {
  paired: boolean;
  passkeys: number;
  estop: T.EstopState;
  pending: T.ApprovalCard[];
  /** What was said to hold from now on. */
  always: T.FromNowOn[] = [];
  threads: T.Thread[];
  messages: Map<string, T.Message[]>;
  actions = new Map<string, T.ActionSummary>();
  chain: T.ChainState;
  /** Milliseconds an effect takes. */
  effect = 1_500;
  /** So many answers are put off before one is taken. */
  busy = 0;
  /** Questions that somebody else is answering. */
  readonly held = new Set<string>();
  readonly #fresh: boolean;
  /** By the action that was held back: what the owner made of it. */
  readonly #reproposed = new Map<string, string>();
  readonly #streams = new Set<ReadableStreamDefaultController<Uint8Array>>();
  #seq = 100;
  readonly #routes: [string, RegExp, Handler][];

  constructor(start: FakeStart = {}) {
    this.paired = start.paired ?? true;
    this.passkeys = start.passkeys ?? 1;
    this.#fresh = start.fresh ?? false;
    this.estop = { engaged: start.engaged ?? false, since: start.engaged ? moment(-240_000) : null, reason: start.engaged ? 'looks wrong' : '', clear_needs: 'passkey', recorded: true };
    this.pending = this.#fresh ? [] : approvals();
    this.threads = this.#fresh ? [] : threads();
    this.messages = this.#fresh ? new Map() : messages();
    this.chain = {
      size: this.#fresh ? 0 : 1284,
      hash: 'c0ffee'.repeat(10),
      sealed_size: this.#fresh ? 0 : 1280,
      sealed_at: moment(-30_000),
      verified: { valid: true, receipts: 1284, heads: 20, broken: null, notes: [], at: moment(-60_000) },
    };
    this.#routes = this.#table();
  }

  /** Answer a request as the server would. */
  readonly fetch = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const request = new Request(input, init);
    const { pathname } = new URL(request.url);
    try {
      if (!this.paired && pathname !== '/v1/pairing/bind')
        throw new Refusal(401, 'UNPAIRED', 'this request is not from a signed-in device.', 'Pair this device.');
      for (const [method, pattern, handler] of this.#routes) {
        const found = method === request.method ? pattern.exec(pathname) : null;
        if (!found) continue;
        const answer = await handler(request, decodeURIComponent(found[1] ?? ''));
        if (answer instanceof Response) return answer;
        return answer === undefined ? new Response(null, { status: 204 }) : Response.json(answer);
      }
      throw new Refusal(404, 'NOT_FOUND', 'there is no such path.');
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return Response.json(error.problem, { status: error.problem.status });
    }
  };

  /** Tell every stream that something happened. */
  tell(event: T.Topic, type: string, id: string, thread_id = '', data: T.Json = {}): void {
    this.#seq += 1;
    const told: T.LiveEvent = { seq: this.#seq, event, topics: [event], type, id, at: moment(), thread_id, data };
    this.#send(`id: ${this.#seq}\nevent: ${event}\ndata: ${JSON.stringify(told)}\n\n`);
  }

  /** End every stream, as a server that goes away does. */
  drop(): void {
    for (const stream of this.#streams) stream.close();
    this.#streams.clear();
  }

  #send(text: string): void {
    const bytes = new TextEncoder().encode(text);
    for (const stream of this.#streams) {
      try {
        stream.enqueue(bytes);
      } catch {
        this.#streams.delete(stream);
      }
    }
  }

  #table(): [string, RegExp, Handler][] {
    return [
      ['POST', /^\/v1\/pairing\/bind$/, async (request) => this.#bind((await request.json()) as T.BindRequest)],
      ['GET', /^\/v1\/sign-in$/, () => this.#signIn()],
      ['POST', /^\/v1\/sign-in\/end$/, () => void (this.paired = false)],
      ['POST', /^\/v1\/passkeys\/registration$/, () => this.#registration()],
      ['POST', /^\/v1\/passkeys\/challenge$/, async (request) => this.#challenge((await request.json()) as T.Question)],
      ['POST', /^\/v1\/passkeys$/, () => ({ passkey_id: 'pk_1', name: 'Passkey', n: (this.passkeys += 1) })],
      ['GET', /^\/v1\/approvals$/, (request) => this.#waiting(new URL(request.url).searchParams)],
      ['GET', /^\/v1\/approvals\/waiting$/, (request) => this.#counted(new URL(request.url).searchParams)],
      ['GET', /^\/v1\/approvals\/([^/]+)$/, (_, id) => this.#approval(id)],
      ['POST', /^\/v1\/approvals\/([^/]+)\/approve$/, async (request, id) => this.#approve(id, (await request.json()) as T.Approve)],
      ['POST', /^\/v1\/approvals\/([^/]+)\/reject$/, async (request, id) => this.#reject(id, ((await request.json()) as { reason: string }).reason)],
      ['POST', /^\/v1\/actions\/([^/]+)\/repropose$/, (_, id) => this.#repropose(id)],
      ['GET', /^\/v1\/actions\/([^/]+)$/, (_, id) => ({ action: this.#known(id), args: {}, card: null, outcome: null, story: null, fault: '' })],
      ['GET', /^\/v1\/chat\/threads$/, (request) => this.#listed(new URL(request.url).searchParams.get('q') ?? '')],
      ['POST', /^\/v1\/chat\/threads$/, () => this.#newThread()],
      ['GET', /^\/v1\/chat\/threads\/([^/]+)$/, (_, id) => this.#thread(id)],
      ['GET', /^\/v1\/chat\/threads\/([^/]+)\/messages$/, (_, id) => ({ items: this.#said(id), before: null, after: 'x' })],
      ['POST', /^\/v1\/chat\/threads\/([^/]+)\/messages$/, async (request, id) => this.#post(id, (await request.json()) as { text: string; attachments: string[] })],
      ['GET', /^\/v1\/chat\/turns\/([^/]+)$/, (_, id) => ({ turn_id: id, partial: '' })],
      ['POST', /^\/v1\/chat\/turns\/([^/]+)\/stop$/, (_, id) => ({ turn_id: id, state: 'STOPPED' })],
      ['POST', /^\/v1\/files$/, () => ({ path: 'attachments/notes.txt', size: 120, sha256: '00', label: 'untrusted:attachment', action_id: 'act_up', receipt_id: 'rcp_up' })],
      ['GET', /^\/v1\/estop$/, () => this.estop],
      ['POST', /^\/v1\/estop$/, async (request) => this.#engage(((await request.json()) as { reason: string }).reason)],
      ['POST', /^\/v1\/estop\/clear$/, async (request) => this.#clear((await request.json()) as T.ClearEstop)],
      ['GET', /^\/v1\/receipts\/head$/, () => this.chain],
      ['GET', /^\/v1\/overview$/, () => overview(this.#fresh)],
      ['GET', /^\/v1\/events$/, () => this.#stream()],
    ];
  }

  #bind(request: T.BindRequest): T.Paired {
    if (request.code !== 'ABCDEFGH') throw new Refusal(403, 'PAIRING_REFUSED', 'the code is wrong, used or too old.', 'Get a new code: `coilclaw pair` at the terminal.');
    this.paired = true;
    return { device: this.#signIn().device, token: null, expires_at: moment(1e9) };
  }

  #signIn(): T.SignIn {
    const device = { device_id: 'dev_fake', name: 'This browser', current: true, active: true, confirmed: true, created_at: moment(-86_400_000), confirmed_at: moment(), last_seen_at: moment(), revoked_at: null, scope: '' as const };
    return { device, way: 'cookie', confirmed: true, passkeys: this.passkeys, passkey_window_ends_at: this.passkeys ? null : moment(540_000), version: '0.1.0', estop: this.estop.engaged, origin: '' };
  }

  #registration(): unknown {
    const options = {
      challenge: challenge(),
      timeout: 300_000,
      rp: { id: 'localhost', name: 'CoilClaw' },
      user: { id: challenge(), name: 'owner', displayName: "CoilClaw's owner" },
      pubKeyCredParams: [{ type: 'public-key', alg: -7 }],
      authenticatorSelection: { residentKey: 'preferred', userVerification: 'required' },
      excludeCredentials: [],
    };
    return { challenge_id: random(), expires_at: moment(300_000), proof_needed: false, options };
  }

  #challenge(question: T.Question): unknown {
    const options = { challenge: challenge(), timeout: 300_000, rpId: 'localhost', allowCredentials: [], userVerification: 'required' };
    return { challenge_id: random(), expires_at: moment(300_000), options, question };
  }

  #of(asked: URLSearchParams): T.ApprovalCard[] {
    const wanted = (['lane', 'job_id', 'thread_id'] as const).filter((name) => asked.has(name));
    return this.pending.filter((card) => wanted.every((name) => card[name] === asked.get(name)));
  }

  /** A cursor is the place after which to go on. */
  #waiting(asked: URLSearchParams): T.Page<T.ApprovalCard> {
    const order = (card: T.ApprovalCard): string => `${card.expires_at} ${card.action_id}`;
    const after = asked.get('cursor') ?? '';
    const limit = Number(asked.get('limit') ?? 50);
    const cards = this.#of(asked).sort((a, b) => (order(a) < order(b) ? -1 : 1)).filter((card) => order(card) > after);
    const items = cards.slice(0, limit);
    return { items, next_cursor: cards.length > limit ? order(items.at(-1) as T.ApprovalCard) : null };
  }

  #counted(asked: URLSearchParams): T.Waiting {
    const lanes = { A: 0, B: 0, C: 0 };
    for (const card of this.#of(asked)) lanes[card.lane] += 1;
    return { total: lanes.A + lanes.B + lanes.C, lanes };
  }

  #approval(id: string): T.ApprovalCard {
    const found = this.pending.find((each) => each.action_id === id);
    if (found) return found;
    const [known] = approvals().filter((each) => each.action_id === id);
    if (!known) throw new Refusal(404, 'NOT_FOUND', 'there is no such action.');
    return { ...known, status: this.actions.get(id)?.status ?? 'EXECUTED', proof: 'none', preview_or_diff: '' };
  }

  #known(id: string): T.ActionSummary {
    const found = this.actions.get(id);
    if (!found) throw new Refusal(404, 'NOT_FOUND', 'there is no such action.');
    return found;
  }

  /** What was held back becomes a card, marked with what was read; the conversation knows of it from then on. */
  #repropose(id: string): T.ActionSummary {
    const [like] = approvals().filter((each) => each.lane === 'B');
    if (!like) throw new Refusal(404, 'NOT_FOUND', 'there is no such action.');
    const card = { ...like, action_id: `${id}_again`, provenance: ['untrusted:mail.example.com'] };
    if (!this.pending.some((each) => each.action_id === card.action_id)) this.pending = [...this.pending, card];
    this.#reproposed.set(id, card.action_id);
    this.tell('approval', 'tool_reproposed', card.action_id, card.thread_id);
    return { action_id: card.action_id, status: 'PENDING', tool: card.tool_name, lane: card.lane } as T.ActionSummary;
  }

  #approve(id: string, request: T.Approve): T.Answered {
    const card = this.#approval(id);
    if (card.status !== 'PENDING') throw new Refusal(409, 'ANSWERED', `${id} no longer waits.`, 'Nothing was done.');
    if (request.digest !== card.digest || request.seen !== card.seen) throw new Refusal(409, 'CHANGED', 'the card has changed since it was shown; nothing was done.', 'Review the card again, then answer.');
    if (card.proof === 'passkey' && !request.proof) throw new Refusal(403, 'PROOF_NEEDED', 'this needs your passkey.', 'Approve it with your passkey.');
    if (request.from_now_on) this.always.push(request.from_now_on);
    setTimeout(() => this.#end(card, 'EXECUTED', 'tool_completed'), this.effect);
    return this.#answer(card, 'APPROVED', 'tool_approved');
  }

  #reject(id: string, reason: string): T.Answered {
    if (this.busy > 0) {
      this.busy -= 1;
      throw new Refusal(429, 'TOO_MANY_REQUESTS', 'too many requests.');
    }
    if (this.held.has(id)) throw new Refusal(409, 'IN_OTHER_HANDS', `${id} is being answered elsewhere.`, 'Answer it there.');
    return this.#answer({ ...this.#approval(id), rejection_reason: reason }, 'REJECTED', 'tool_denied');
  }

  #answer(card: T.ApprovalCard, status: T.ActionStatus, type: string): T.Answered {
    this.pending = this.pending.filter((each) => each.action_id !== card.action_id);
    const action = { action_id: card.action_id, status, tool: card.tool_name, lane: card.lane } as T.ActionSummary;
    this.actions.set(card.action_id, action);
    this.tell('action', type, card.action_id, card.thread_id);
    return { action, outcome: null, held: this.estop.engaged };
  }

  #end(card: T.ApprovalCard, status: T.ActionStatus, type: string): void {
    const action = this.actions.get(card.action_id);
    if (action) this.actions.set(card.action_id, { ...action, status });
    this.chain = { ...this.chain, size: this.chain.size + 1 };
    this.tell('action', type, card.action_id, card.thread_id);
  }

  #listed(words: string): T.Page<T.Thread> {
    return { items: this.threads.filter((each) => each.title.toLowerCase().includes(words.toLowerCase())), next_cursor: null };
  }

  #newThread(): T.Thread {
    const thread: T.Thread = { thread_id: `conv_${random().slice(0, 8)}`, title: '', channel: 'panel', model: null, project: null, created_at: moment(), updated_at: moment(), messages: 0, last: null, came_of_it: null, running_turn_id: null, waiting_turns: 0, waiting_approvals: 0 };
    this.threads = [thread, ...this.threads];
    return thread;
  }

  #thread(id: string): T.Thread {
    const found = this.threads.find((each) => each.thread_id === id);
    if (!found) throw new Refusal(404, 'NOT_FOUND', 'there is no such conversation.');
    return found;
  }

  #said(id: string): T.Message[] {
    this.#thread(id);
    const stands = (call: T.Call): T.Call => {
      const made = this.#reproposed.get(call.action_id ?? '');
      return made ? { ...call, reproposed_id: made, reproposed_status: this.actions.get(made)?.status ?? 'PENDING' } : call;
    };
    return (this.messages.get(id) ?? []).map((each) => ({ ...each, calls: each.calls.map(stands) }));
  }

  #post(id: string, { text, attachments }: { text: string; attachments: string[] }): T.Posted {
    const thread = this.#thread(id);
    const turn = `turn_${random().slice(0, 8)}`;
    const said = { turn_id: turn, label: 'owner', untrusted: false, created_at: moment(), provider: '', model: '', calls: [], call_id: '', action_id: null, success: null, code: '', receipt_id: null, artifact: null, turn_state: '', summarised: 0, cut: false };
    const list = [...(this.messages.get(id) ?? []), { ...said, message_id: random(), role: 'user' as const, content: text, attachments }];
    this.messages.set(id, list);
    this.threads = this.threads.map((each) => (each.thread_id === id ? { ...each, title: thread.title || text, running_turn_id: turn, updated_at: moment() } : each));
    this.tell('thread', 'turn_started', turn, id);
    const words = 'There are **three files** in the workspace:\n\n- `hello.md`\n- `notes/today.md`\n- `shopping.md`\n\nSay which one you want to see.';
    const pieces = words.match(/.{1,6}/gs) ?? [];
    pieces.forEach((piece, at) => setTimeout(() => this.#send(`event: text\ndata: ${JSON.stringify({ thread_id: id, turn_id: turn, offset: at * 6, text: piece })}\n\n`), 300 + at * 40));
    setTimeout(() => {
      this.messages.set(id, [...list, { ...said, message_id: random(), role: 'assistant', content: words, label: 'internal', attachments: [] }]);
      this.threads = this.threads.map((each) => (each.thread_id === id ? { ...each, running_turn_id: null, updated_at: moment() } : each));
      this.tell('thread', 'message_added', id, id);
      this.tell('thread', 'turn_ended', turn, id);
    }, 500 + pieces.length * 40);
    return { thread_id: id, turn_id: turn, message_id: list.at(-1)?.message_id ?? '', state: 'RUNNING' };
  }

  #engage(reason: string): T.EstopState {
    this.estop = { engaged: true, since: moment(), reason, clear_needs: 'passkey', recorded: true };
    this.tell('estop', 'estop_engaged', 'estop');
    return this.estop;
  }

  #clear({ proof }: T.ClearEstop): T.EstopState {
    if (!proof) throw new Refusal(403, 'PROOF_NEEDED', 'clearing needs your passkey.', 'Use your passkey.');
    this.estop = { engaged: false, since: null, reason: '', clear_needs: 'passkey', recorded: true };
    this.tell('estop', 'estop_cleared', 'estop');
    return this.estop;
  }

  #stream(): Response {
    let mine: ReadableStreamDefaultController<Uint8Array>;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        mine = controller;
        this.#streams.add(controller);
        const hello = JSON.stringify({ seq: this.#seq, version: '0.1.0', now: moment() });
        controller.enqueue(new TextEncoder().encode(`retry: 2000\nid: ${this.#seq}\nevent: hello\ndata: ${hello}\n\n`));
      },
      cancel: () => void this.#streams.delete(mine),
    });
    return new Response(body, { headers: { 'Content-Type': 'text/event-stream' } });
  }
}
