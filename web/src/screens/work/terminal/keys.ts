/** Keys that a phone lacks, and Ctrl that holds for the next key. */
export const KEYS = { esc: '\x1b', tab: '\t', up: '\x1b[A', down: '\x1b[B', left: '\x1b[D', right: '\x1b[C', interrupt: '\x03' } as const;

/** What Ctrl makes of a key; the key itself where it makes nothing of it. */
export function withCtrl(key: string): string {
  if (!/^[a-zA-Z@[\\\]^_ ]$/.test(key)) return key;
  return String.fromCharCode(key.toUpperCase().charCodeAt(0) & 0x1f);
}
