/** What can be said of devices without a server. Pure. */
import type { Device } from '../../api/types.ts';

/** Whether an address leads to the computer it is opened on. */
export function isLocal(url: string): boolean {
  try {
    const { hostname } = new URL(url);
    return hostname === 'localhost' || hostname.endsWith('.localhost') || hostname.startsWith('127.') || hostname === '[::1]';
  } catch {
    return false;
  }
}

/** This one first, then those that wait, then by when they were last seen; the ended ones apart. */
export function sorted(devices: readonly Device[]): { active: Device[]; past: Device[] } {
  const weight = (each: Device): number => (each.current ? 0 : each.confirmed ? 2 : 1);
  const seen = (each: Device): string => each.last_seen_at ?? each.created_at;
  const active = devices.filter((each) => each.active).sort((a, b) => weight(a) - weight(b) || seen(b).localeCompare(seen(a)));
  return { active, past: devices.filter((each) => !each.active) };
}
