/** The keys of the approvals screen; pure, so that what they do can be told without a browser. */

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
  // An answer is one press: holding the key down must not answer what comes next.
  if (event.repeat && (deed === 'approve' || deed === 'reject')) return null;
  return deed;
}
