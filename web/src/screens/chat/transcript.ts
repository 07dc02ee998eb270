/** A conversation as it is shown: answers with their calls, each call with its result. Pure. */
import type { ActionStatus, Call, Label, Message } from '../../api/types.ts';
import { Influences, type Drawn } from './influence.ts';
import { planOf, type PlanStep } from './plan.ts';

export interface ShownCall {
  call: Call;
  result: Message | null;
  /** What came of it later, when it had to wait for an answer. */
  outcome: Outcome | null;
  /** The agent's plan as it is now: a turn has one, where it was first told. */
  plan: PlanStep[] | null;
}

/** What became of an action that had waited. */
export interface Outcome {
  message: Message;
  action: string;
  tool: string;
  words: string;
}

export interface Said {
  kind: 'said';
  message: Message;
  calls: ShownCall[];
  /** What of others the answer rests on: told once, where it ends. */
  drawn: Drawn | null;
}

export type Item =
  | Said
  /** What came of a call that is not in sight. */
  | { kind: 'outcome'; message: Message; outcome: Outcome }
  /** From the runtime: the end of a turn, a notice. */
  | { kind: 'note'; message: Message }
  /** A result whose call is not in sight. */
  | { kind: 'result'; message: Message };

export function transcript(messages: readonly Message[]): Item[] {
  const items: Item[] = [];
  const open = new Map<string, ShownCall>();
  const byAction = new Map<string, ShownCall>();
  const influences = new Influences();
  const answers = new Map<string, { last: Said; labels: Label[] }>();
  const plans = new Map<string, ShownCall>();
  for (const message of messages) {
    if (message.role === 'tool') {
      const shown = open.get(`${message.turn_id} ${message.call_id}`);
      if (shown && message.untrusted) influences.took(message.label, shown.call.arguments);
      if (shown && !shown.result) shown.result = message;
      else items.push({ kind: 'result', message });
    } else if (message.role === 'system' && message.attachments.length) {
      if (message.untrusted) influences.attached(message.label, message.attachments);
      continue; // for the model: the owner's own message names the files
    } else if (message.role === 'system') {
      const asked = byAction.get(message.action_id ?? '') ?? null;
      const outcome = outcomeOf(message);
      if (asked && outcome) {
        asked.outcome = outcome; // told where it was asked for, not a second time below
        if (message.untrusted) influences.took(message.label, asked.call.arguments);
      } else {
        items.push(outcome ? { kind: 'outcome', message, outcome } : { kind: 'note', message });
      }
    } else {
      const calls = message.calls.map((call): ShownCall => ({ call, result: null, outcome: null, plan: planOf(call) }));
      for (const each of calls) {
        open.set(`${message.turn_id} ${each.call.call_id}`, each);
        if (each.call.action_id) byAction.set(each.call.action_id, each);
        if (each.call.reproposed_id) byAction.set(each.call.reproposed_id, each);
      }
      const kept = calls.filter((each) => !updates(plans, message.turn_id, each));
      if (calls.length && !kept.length && !message.content.trim()) continue; // nothing but news of a plan above
      const said: Said = { kind: 'said', message, calls: kept, drawn: null };
      items.push(said);
      if (message.role !== 'assistant' || !message.untrusted) continue;
      const before = answers.get(message.turn_id);
      if (before) before.last.drawn = null;
      const labels = [...(before?.labels ?? []), message.label];
      said.drawn = influences.of(labels);
      answers.set(message.turn_id, { last: said, labels });
    }
  }
  return items;
}

/** Whether a call tells how far the plan of its turn is: it stands above, and is told anew there. */
function updates(plans: Map<string, ShownCall>, turn: string, shown: ShownCall): boolean {
  if (!shown.plan) return false;
  const first = plans.get(turn);
  if (first) first.plan = shown.plan;
  else plans.set(turn, shown);
  return first !== undefined;
}

/** The step that the plan of a turn is at; empty when there is none. */
export function stepAt(items: readonly Item[], turn: string): string {
  const calls = items.flatMap((item) => (item.kind === 'said' && item.message.turn_id === turn ? item.calls : []));
  return calls.find((each) => each.plan)?.plan?.find((step) => step.state === 'doing')?.title ?? '';
}

/** Whether the owner can have it shown to approve: the gate's code says so, never somebody's words. */
export function isHeldBack(call: Call): boolean {
  return call.action_id !== null && call.status === 'REJECTED' && call.verdict === 'deny' && call.code === 'POLICY_BLOCKED_UNTRUSTED_TURN';
}

/** Whether the owner is asked: what is allowed or denied is pending for a moment too, before it runs or is refused. */
export function isAsked(call: Call, status: ActionStatus | null): boolean {
  return call.action_id !== null && status === 'PENDING' && call.verdict === 'ask';
}

/** Calls of one answer that wait for the owner together. */
export function waitingOf(calls: readonly ShownCall[], statusOf: (id: string) => ActionStatus | null): ShownCall[] {
  return calls.filter(({ call }) => isAsked(call, (call.action_id && statusOf(call.action_id)) || call.status));
}

/** The runtime names an outcome by its tool and its action, which must be the one that the message is about. */
function outcomeOf(message: Message): Outcome | null {
  const [, tool, action, words] = /^([\w.-]+) \((\w+)\): ([\s\S]*)$/.exec(message.content) ?? [];
  if (!tool || !action || words === undefined || action !== message.action_id) return null;
  return { message, action, tool, words };
}

/** What a call gave: its outcome if it had to wait; nothing while it waits. */
export function yieldOf(shown: ShownCall): { message: Message; words: string } | null {
  if (shown.outcome) return shown.outcome;
  if (!shown.result || shown.result.code === 'APPROVAL_NEEDED') return null;
  return { message: shown.result, words: shown.result.content };
}

/** Whether it runs: what the gate allowed waits for nobody, and what the owner allowed runs once it has written something. */
export function isRunning(shown: ShownCall, status: ActionStatus | null, output: Output | undefined): boolean {
  if (yieldOf(shown)) return false;
  return shown.call.verdict === 'allow' ? status === 'APPROVED' || status === 'PENDING' : status === 'APPROVED' && output !== undefined;
}

/** What tells most about a call, in this order. */
const TELLING = ['path', 'command', 'url', 'target', 'query', 'name', 'title'];

/** Whose tool it is: a guest's is called `guest.tool`, and no tool of our own has a dot. */
export function guestOf(tool: string): string | null {
  return tool.includes('.') ? tool.slice(0, tool.indexOf('.')) : null;
}

/** The arguments of a call in a few words. */
export function briefly(args: unknown): string {
  if (typeof args !== 'object' || args === null) return '';
  const values = args as Record<string, unknown>;
  const found = [...TELLING.map((name) => values[name]), ...Object.values(values)].find((value) => typeof value === 'string');
  return typeof found === 'string' ? (found.split('\n', 1)[0] ?? '') : '';
}

/** Earlier pages and the newest one, as one list. Where they do not meet, only the newest is certain. */
export function joined(known: readonly Message[], page: readonly Message[]): Message[] {
  const first = page[0];
  if (!first) return [];
  const meets = known.findIndex((each) => each.message_id === first.message_id);
  return meets < 0 ? [...page] : [...known.slice(0, meets), ...page];
}

/** Text that is being written. Places are counted in characters as the server counts them: code points. */
export interface Partial {
  turn_id: string;
  text: string;
  length: number;
}

/** The text with a piece put in its place; null when something before it was missed. */
export function withPiece(partial: Partial | null, turn: string, offset: number, piece: string): Partial | null {
  const now = partial?.turn_id === turn ? partial : { turn_id: turn, text: '', length: 0 };
  if (offset > now.length) return null;
  const kept = offset === now.length ? now.text : [...now.text].slice(0, offset).join('');
  return { turn_id: turn, text: kept + piece, length: offset + [...piece].length };
}

/** How much of a running command's output is shown: its end. */
const SHOWN_OUTPUT = 8_000;

/** What a running command has written, as far as it is shown; `length` counts all of it, in code points. */
export interface Output {
  text: string;
  length: number;
}

/** The output with a piece behind it; what was told before is not shown twice, what was missed is said. */
export function withOutput(known: Output | undefined, offset: number, piece: string, missed: (count: number) => string): Output {
  const now = known ?? { text: '', length: 0 };
  const points = [...piece];
  const fresh = offset < now.length ? points.slice(now.length - offset).join('') : piece;
  const gap = known && offset > now.length ? `\n${missed(offset - now.length)}\n` : '';
  return { text: (now.text + gap + fresh).slice(-SHOWN_OUTPUT), length: Math.max(now.length, offset + points.length) };
}

/** Whether what was being written stands in the conversation by now. */
export function isSaid(partial: Partial, messages: readonly Message[]): boolean {
  const begun = partial.text.trim();
  return messages.some(
    (each) => each.role === 'assistant' && each.turn_id === partial.turn_id && each.content.trim().startsWith(begun),
  );
}
