/** Pairing: a code from the terminal, signed with the device's own key. */
import type { BindRequest } from '../api/types.ts';
import type { DeviceKey } from './devicekey.ts';

export const CODE_LENGTH = 8;

/** The code as it is signed and sent: capitals, no dashes, no spaces. */
export function normalisedCode(typed: string): string {
  return typed.toUpperCase().replace(/[\s-]+/g, '');
}

/** The code as it is shown while it is typed: `ABCD-EFGH`. */
export function spacedCode(typed: string): string {
  const plain = normalisedCode(typed).slice(0, CODE_LENGTH);
  return plain.length > 4 ? `${plain.slice(0, 4)}-${plain.slice(4)}` : plain;
}

/** The code in an address such as `/#pair=ABCD-EFGH`; null when there is none. */
export function codeInFragment(hash: string): string | null {
  const found = /^#pair=([A-Za-z0-9%\s-]+)$/.exec(hash);
  if (!found?.[1]) return null;
  try {
    return normalisedCode(decodeURIComponent(found[1]));
  } catch {
    return null;
  }
}

/** What the device's key has to sign. */
export function pairingText(code: string, publicKey: string): string {
  return `coilclaw pairing 1\n${normalisedCode(code)}\n${publicKey}`;
}

export async function bindRequest(code: string, name: string, key: DeviceKey): Promise<BindRequest> {
  return {
    code: normalisedCode(code),
    name,
    public_key: key.publicKey,
    proof_of_key: await key.sign(pairingText(code, key.publicKey)),
    wants: 'cookie',
  };
}

/** A name to begin with, from what the browser says of itself. */
export function guessedName(agent: string): string {
  const system =
    /iPhone/.test(agent) ? 'iPhone'
    : /iPad/.test(agent) ? 'iPad'
    : /Android/.test(agent) ? 'Android phone'
    : /Macintosh/.test(agent) ? 'Mac'
    : /Windows/.test(agent) ? 'Windows PC'
    : /CrOS/.test(agent) ? 'Chromebook'
    : /Linux/.test(agent) ? 'Linux computer'
    : 'Browser';
  const browser =
    /Firefox\//.test(agent) ? 'Firefox'
    : /Edg\//.test(agent) ? 'Edge'
    : /Chrom(e|ium)\//.test(agent) ? 'Chrome'
    : /Safari\//.test(agent) ? 'Safari'
    : '';
  return browser ? `${system} (${browser})` : system;
}
