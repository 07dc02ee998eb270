/** Whether the guide of the first run was begun and closed, as long as the page is open: approving leads away and back. */
import type { Live } from '../../state/live.svelte.ts';

export class Guide {
  begun = $state(false);
  closed = $state(false);
  /** The conversation in which the first thing was asked for. */
  asked: string | null = $state(null);
}

const made = new WeakMap<Live, Guide>();

/** The one of this page. */
export function guideOf(live: Live): Guide {
  const found = made.get(live) ?? new Guide();
  made.set(live, found);
  return found;
}
