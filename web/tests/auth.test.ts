import { describe, expect, test } from 'vitest';
import { ApiError } from '../src/api/problem.ts';
import type { Assertion, Challenge, Purpose } from '../src/api/types.ts';
import { fromBase64url, toBase64url } from '../src/auth/base64url.ts';
import { addressAtGitHub, answerOfGitHub } from '../src/auth/github.ts';
import { bindRequest, codeInFragment, guessedName, normalisedCode, pairingText, spacedCode } from '../src/auth/pairing.ts';
import { creationOptions, requestOptions } from '../src/auth/passkey.ts';
import { newDeviceKey } from '../src/auth/devicekey.ts';
import { withProof } from '../src/auth/proof.ts';

describe('pairing codes', () => {
  test('are typed as people do', () => {
    expect(normalisedCode(' abcd-ef gh ')).toBe('ABCDEFGH');
    expect(['', 'ab', 'abcd', 'abcde', 'abcd-efghij'].map(spacedCode)).toEqual(['', 'AB', 'ABCD', 'ABCD-E', 'ABCD-EFGH']);
  });

  test('come with an address, and only from its fragment', () => {
    expect(codeInFragment('#pair=abcd-efgh')).toBe('ABCDEFGH');
    expect(codeInFragment('#pair=abcd%2Defgh')).toBe('ABCDEFGH');
    for (const other of ['', '#/', '#pair=', '#pair=<x>', '#/pair=ABCD', '#pair=%E0%A4%A']) expect(codeInFragment(other)).toBeNull();
  });

  test('the device signs the code and its own key', async () => {
    const request = await bindRequest('abcd-efgh', 'Phone', { publicKey: 'KEY', sign: async (text) => `signed(${text})` });
    expect(request).toEqual({ code: 'ABCDEFGH', name: 'Phone', public_key: 'KEY', proof_of_key: 'signed(coilclaw pairing 1\nABCDEFGH\nKEY)', wants: 'cookie' });
  });

  test("the device's key really signs, and cannot be taken out", async () => {
    const key = await newDeviceKey();
    const text = pairingText('ABCDEFGH', key.publicKey);
    const spki = await crypto.subtle.importKey('spki', fromBase64url(key.publicKey), { name: 'ECDSA', namedCurve: 'P-256' }, true, ['verify']);
    const signature = fromBase64url(await key.sign(text));
    expect(signature).toHaveLength(64);
    expect(await crypto.subtle.verify({ name: 'ECDSA', hash: 'SHA-256' }, spki, signature, new TextEncoder().encode(text))).toBe(true);
  });

  test('a device has a name to begin with', () => {
    expect(guessedName('Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605 Version/19 Mobile Safari/604')).toBe('iPhone (Safari)');
    expect(guessedName('Mozilla/5.0 (X11; Linux x86_64) Chrome/156 Safari/537')).toBe('Linux computer (Chrome)');
    expect(guessedName('odd')).toBe('Browser');
  });
});

describe('signing in with GitHub', () => {
  function tab(): Storage {
    const kept = new Map<string, string>();
    return {
      getItem: (name: string) => kept.get(name) ?? null,
      setItem: (name: string, value: string) => void kept.set(name, value),
      removeItem: (name: string) => void kept.delete(name),
    } as unknown as Storage;
  }

  test('the answer fits the tab that asked, once', async () => {
    const kept = tab();
    const asked = new URL(await addressAtGitHub('https://github.com/login/oauth/authorize?client_id=x', kept));
    const state = asked.searchParams.get('state') ?? '';
    const search = `?code=c1&state=${state}`;
    expect(answerOfGitHub(search, tab())).toBeNull();
    const answer = answerOfGitHub(search, kept);
    expect(answer?.code).toBe('c1');
    const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(answer?.verifier));
    expect(asked.searchParams.get('code_challenge')).toBe(toBase64url(hash));
    expect(asked.searchParams.get('code_challenge_method')).toBe('S256');
    expect(answerOfGitHub(search, kept)).toBeNull();
  });

  test('an answer with another state is none', async () => {
    const kept = tab();
    await addressAtGitHub('https://github.com/login/oauth/authorize?client_id=x', kept);
    for (const search of ['', '?code=c1', '?state=s', '?code=c1&state=guessed']) expect(answerOfGitHub(search, kept)).toBeNull();
  });
});

describe('passkeys without the JSON methods', () => {
  test('bytes survive base64url', () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, at) => at);
    expect(toBase64url(bytes)).not.toMatch(/[+/=]/);
    expect(fromBase64url(toBase64url(bytes))).toEqual(bytes);
  });

  test('options become what browsers take', () => {
    const wanted = requestOptions({ challenge: 'AQID', rpId: 'localhost', timeout: 5, userVerification: 'required', allowCredentials: [{ id: 'BAUG', type: 'public-key', transports: ['internal'] }] });
    expect(wanted.challenge).toEqual(new Uint8Array([1, 2, 3]));
    expect(wanted.allowCredentials?.[0]).toMatchObject({ id: new Uint8Array([4, 5, 6]), type: 'public-key', transports: ['internal'] });
    const made = creationOptions({ challenge: 'AQID', rp: { name: 'x' }, user: { id: 'BA', name: 'a', displayName: 'b' }, pubKeyCredParams: [], excludeCredentials: [{ id: 'BAUG', type: 'public-key' }] });
    expect(made.user.id).toEqual(new Uint8Array([4]));
    expect(made.excludeCredentials?.[0]?.id).toEqual(new Uint8Array([4, 5, 6]));
  });
});

describe('owner proof', () => {
  const assertion: Assertion = { challenge_id: 'ch', id: 'pk', response: { authenticatorData: '', clientDataJSON: '', signature: '', userHandle: null } };
  const needed = new ApiError({ status: 403, code: 'PROOF_NEEDED', detail: '' });

  function stage() {
    const asked: string[] = [];
    const passkeys = {
      challenge: async (purpose: Purpose, subject: string): Promise<Challenge> => {
        asked.push(`${purpose} ${subject}`);
        return {} as Challenge;
      },
    };
    return { asked, passkeys, sign: async () => assertion };
  }

  test('is asked for first where it is known to be needed', async () => {
    const { asked, passkeys, sign } = stage();
    const seen: (Assertion | undefined)[] = [];
    await withProof(passkeys, sign, { purpose: 'approve', subject: 'act_1', expected: true }, async (proof) => void seen.push(proof));
    expect(asked).toEqual(['approve act_1']);
    expect(seen).toEqual([assertion]);
  });

  test('is asked for once when the server wants it unexpectedly', async () => {
    const { asked, passkeys, sign } = stage();
    const answer = await withProof(passkeys, sign, { purpose: 'approve', subject: 'act_1', expected: false }, async (proof) => {
      if (!proof) throw needed;
      return 'done';
    });
    expect(answer).toBe('done');
    expect(asked).toHaveLength(1);
  });

  test('a proof that does not hold is not tried again', async () => {
    const { asked, passkeys, sign } = stage();
    const refused = withProof(passkeys, sign, { purpose: 'approve', subject: 'act_1', expected: true }, () => Promise.reject(needed));
    await expect(refused).rejects.toBe(needed);
    expect(asked).toHaveLength(1);
  });

  test('other refusals do not wake the passkey', async () => {
    const { asked, passkeys, sign } = stage();
    const conflict = new ApiError({ status: 409, code: 'CHANGED', detail: '' });
    await expect(withProof(passkeys, sign, { purpose: 'approve', subject: 'a', expected: false }, () => Promise.reject(conflict))).rejects.toBe(conflict);
    expect(asked).toEqual([]);
  });
});
