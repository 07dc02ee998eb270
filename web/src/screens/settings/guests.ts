/** What can be said of guests without a server: how each stands, what the owner chose, what differs. Pure. */
import type { ApprovalCard, AuditLine, GuestToolView, GuestView } from '../../api/types.ts';
import type { IconName } from '../../parts/icons.ts';
import type { Tone } from '../../parts/tone.ts';
import { t } from '../../text/t.ts';

/** What the owner says a tool does; `none` keeps it out. */
export type Choice = NonNullable<GuestToolView['kind']> | 'none';
export type Choices = Record<string, Choice>;

export const CHOICES: readonly Choice[] = ['reads', 'writes', 'sends', 'none'];

const CALLS: readonly string[] = ['guest_look', 'guest_sign_in', 'guest_approve'];
const TONES: Record<GuestView['state'], Tone> = { new: 'accent', approved: 'good', changed: 'warn', off: 'plain' };
const ICONS: Record<GuestView['state'], IconName> = { new: 'plus', approved: 'check', changed: 'warn', off: 'close' };

export function toneOf(guest: Pick<GuestView, 'state'>): Tone {
  return TONES[guest.state];
}

export function iconOf(guest: Pick<GuestView, 'state'>): IconName {
  return ICONS[guest.state];
}

/** What its state means for its tools. */
export function saysOf(guest: Pick<GuestView, 'state' | 'kind' | 'offer'>): string {
  if (guest.state === 'new' && !guest.offer) return t('guests.says.unseen');
  if (guest.state === 'changed' && guest.kind === 'plugin') return t('guests.says.changed.plugin');
  return t(`guests.says.${guest.state}`);
}

/** How many of its tools can be called now, and how many of those let in are withheld. */
export function toolsOf(guest: Pick<GuestView, 'state' | 'tools'>): { open: number; held: number } {
  const known = guest.state === 'off' ? [] : guest.tools.filter((tool) => tool.kind !== null);
  const held = known.filter((tool) => tool.withheld).length;
  return { open: known.length - held, held };
}

/** What became of it, the newest first; another thing may be called the same. */
export function logOf(events: readonly AuditLine[]): AuditLine[] {
  return events.filter((event) => event.event_type.startsWith('guest_'));
}

// --- the owner's words ----------------------------------------------------------------------------------------------

/** What each tool counts as: as chosen here, as approved, or, for a guest that is new, the most that it could do. */
export function choicesOf(guest: Pick<GuestView, 'approved_at' | 'counts_as' | 'tools'>, chosen: Choices): Choices {
  const unsaid: Choice = guest.approved_at === null ? guest.counts_as : 'none';
  return Object.fromEntries(guest.tools.map((tool) => [tool.original, chosen[tool.original] ?? tool.kind ?? unsaid]));
}

/** The tools that an approval would let in. */
export function classesOf(choices: Choices): Record<string, Exclude<Choice, 'none'>> {
  return Object.fromEntries(Object.entries(choices).filter((each): each is [string, Exclude<Choice, 'none'>] => each[1] !== 'none'));
}

/** Whether an approval would change anything: it is not in force as it is, or the owner says something else. */
export function canApprove(guest: GuestView, choices: Choices): boolean {
  if (!guest.offer) return false;
  return guest.state !== 'approved' || guest.difference !== '' || guest.tools.some((tool) => (tool.kind ?? 'none') !== choices[tool.original]);
}

/** The question about this guest that waits, if any: asked here, on another device, or before the page was loaded. */
export function questionOf(pending: readonly Pick<ApprovalCard, 'action_id' | 'tool_name' | 'args'>[], name: string): string | null {
  const about = pending.find((card) => CALLS.includes(card.tool_name) && nameIn(card.args) === name);
  return about?.action_id ?? null;
}

function nameIn(args: string): unknown {
  try {
    return (JSON.parse(args) as { name?: unknown } | null)?.name;
  } catch {
    return undefined;
  }
}

// --- what differs ---------------------------------------------------------------------------------------------------

export interface Piece {
  text: string;
  kind: 'same' | 'gone' | 'came';
}

/** What changed, and all that an approval covers. Only a guest that was approved before has something that changed. */
export function partsOf(difference: string, approved: boolean): { changed: string; covers: string } {
  const end = approved ? difference.indexOf('\n\n') : -1;
  return end < 0 ? { changed: '', covers: difference } : { changed: difference.slice(0, end), covers: difference.slice(end + 2) };
}

/** Text in which `[-…-]` went and `{+…+}` came, in pieces that together are the text. */
export function piecesOf(text: string): Piece[] {
  return text
    .split(/(\[-.*?-\]|\{\+.*?\+\})/)
    .filter(Boolean)
    .map((piece) => ({ text: piece, kind: /^\[-.*-\]$/.test(piece) ? 'gone' : /^\{\+.*\+\}$/.test(piece) ? 'came' : 'same' }));
}
