/**
 * Signing in with GitHub. The tab keeps a state and a verifier, so that an answer counts only where the question was put,
 * and a code that somebody else sees is worth nothing.
 */
import { toBase64url } from './base64url.ts';

const KEPT = 'coilclaw.github';

export interface GitHubAnswer {
  code: string;
  verifier: string;
}

/** The address to open, from the one that the server names. */
export async function addressAtGitHub(address: string, kept: Storage): Promise<string> {
  const [state, verifier] = [random(), random()];
  kept.setItem(KEPT, JSON.stringify([state, verifier]));
  const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier));
  const more = new URLSearchParams({ state, code_challenge: toBase64url(hash), code_challenge_method: 'S256' });
  return `${address}&${more.toString()}`;
}

/** What GitHub sent this tab back with, once; null if this tab did not ask. */
export function answerOfGitHub(search: string, kept: Storage): GitHubAnswer | null {
  const query = new URLSearchParams(search);
  const [code, state] = [query.get('code'), query.get('state')];
  if (!code || !state) return null;
  const begun = kept.getItem(KEPT);
  kept.removeItem(KEPT);
  const [asked, verifier] = begun ? (JSON.parse(begun) as [string, string]) : ['', ''];
  return asked === state ? { code, verifier } : null;
}

function random(): string {
  return toBase64url(crypto.getRandomValues(new Uint8Array(32)));
}
