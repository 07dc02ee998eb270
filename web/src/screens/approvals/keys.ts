/**
 * The keys of the approvals screen; pure, so that what they do can be told without a browser. No single key answers anything:
 * `a` goes to the button, `r` opens the dialog. They can be turned off, for who dictates or leans on the keyboard.
 */

export type KeyDeed = 'next' | 'previous' | 'approve' | 'reject';

const DEEDS: Record<string, KeyDeed> = { j: 'next', k: 'previous', a: 'approve', r: 'reject' };

interface Pressed {
  key: string;
  ctrlKey: boolean;
  metaKey: boolean;
  altKey: boolean;
  repeat: boolean;
  target: EventTarget | null;
}

/** What a key means here; null while somebody types, holds a modifier, or leans on the key. */
export function deedOf(event: Pressed): KeyDeed | null {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  if (event.target instanceof Element && event.target.closest('input, textarea, select, dialog, [contenteditable]')) return null;
  const deed = DEEDS[event.key] ?? null;
  if (event.repeat && (deed === 'approve' || deed === 'reject')) return null;
  return deed;
}

const NAME = 'coilclaw.keys';

/** Whether the keys are on; they are until somebody turns them off on this device. */
export function keysOn(): boolean {
  try {
    return localStorage.getItem(NAME) !== 'off';
  } catch {
    return true;
  }
}

export function turnKeys(on: boolean): void {
  try {
    if (on) localStorage.removeItem(NAME);
    else localStorage.setItem(NAME, 'off');
  } catch {
    // It holds until the page is closed.
  }
}
