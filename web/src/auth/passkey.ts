/** Passkeys in the browser: JSON in, JSON out. Browsers without the JSON methods get them done by hand. */
import type { Assertion, Challenge, Registration, RegistrationChallenge } from '../api/types.ts';
import { fromBase64url, toBase64url } from './base64url.ts';

/** Why there was no answer: the owner turned away, or this browser has no passkeys. */
export class PasskeyError extends Error {
  override readonly name = 'PasskeyError';
  readonly why: 'cancelled' | 'unsupported' | 'known' | 'failed';

  constructor(why: PasskeyError['why'], message: string) {
    super(message);
    this.why = why;
  }
}

export function passkeysSupported(): boolean {
  return typeof PublicKeyCredential !== 'undefined' && 'credentials' in navigator;
}

type Descriptor = { id: string; type: string; transports?: string[] };

function descriptors(list: readonly Descriptor[] | undefined): PublicKeyCredentialDescriptor[] {
  return (list ?? []).map(
    (each) => ({ ...each, id: fromBase64url(each.id) }) as unknown as PublicKeyCredentialDescriptor,
  );
}

export function requestOptions(options: PublicKeyCredentialRequestOptionsJSON): PublicKeyCredentialRequestOptions {
  if (typeof PublicKeyCredential !== 'undefined' && 'parseRequestOptionsFromJSON' in PublicKeyCredential)
    return PublicKeyCredential.parseRequestOptionsFromJSON(options);
  return {
    ...(options as object),
    challenge: fromBase64url(options.challenge),
    allowCredentials: descriptors(options.allowCredentials),
  } as unknown as PublicKeyCredentialRequestOptions;
}

export function creationOptions(options: PublicKeyCredentialCreationOptionsJSON): PublicKeyCredentialCreationOptions {
  if (typeof PublicKeyCredential !== 'undefined' && 'parseCreationOptionsFromJSON' in PublicKeyCredential)
    return PublicKeyCredential.parseCreationOptionsFromJSON(options);
  return {
    ...(options as object),
    challenge: fromBase64url(options.challenge),
    user: { ...options.user, id: fromBase64url(options.user.id) },
    excludeCredentials: descriptors(options.excludeCredentials),
  } as unknown as PublicKeyCredentialCreationOptions;
}

function isPublicKey(credential: Credential | null): credential is PublicKeyCredential {
  return credential?.type === 'public-key';
}

function refused(error: unknown): PasskeyError {
  const name = error instanceof DOMException ? error.name : '';
  const message = error instanceof Error ? error.message : String(error);
  if (name === 'NotAllowedError' || name === 'AbortError') return new PasskeyError('cancelled', message);
  if (name === 'InvalidStateError') return new PasskeyError('known', message);
  if (name === 'NotSupportedError') return new PasskeyError('unsupported', message);
  return new PasskeyError('failed', message);
}

/** Ask a passkey to sign the challenge. */
export async function assertionFor(challenge: Challenge): Promise<Assertion> {
  if (!passkeysSupported()) throw new PasskeyError('unsupported', '');
  let credential: Credential | null;
  try {
    credential = await navigator.credentials.get({ publicKey: requestOptions(challenge.options) });
  } catch (error) {
    throw refused(error);
  }
  if (!isPublicKey(credential)) throw new PasskeyError('cancelled', '');
  const answer = credential.response as AuthenticatorAssertionResponse;
  return {
    challenge_id: challenge.challenge_id,
    id: credential.id,
    response: {
      authenticatorData: toBase64url(answer.authenticatorData),
      clientDataJSON: toBase64url(answer.clientDataJSON),
      signature: toBase64url(answer.signature),
      userHandle: answer.userHandle ? toBase64url(answer.userHandle) : null,
    },
  };
}

/** Make a new passkey: what the server takes of a RegistrationResponseJSON. */
export async function newCredential(challenge: RegistrationChallenge): Promise<Registration> {
  if (!passkeysSupported()) throw new PasskeyError('unsupported', '');
  let credential: Credential | null;
  try {
    credential = await navigator.credentials.create({ publicKey: creationOptions(challenge.options) });
  } catch (error) {
    throw refused(error);
  }
  if (!isPublicKey(credential)) throw new PasskeyError('cancelled', '');
  const answer = credential.response as AuthenticatorAttestationResponse;
  return {
    id: credential.id,
    response: {
      clientDataJSON: toBase64url(answer.clientDataJSON),
      attestationObject: toBase64url(answer.attestationObject),
      transports: typeof answer.getTransports === 'function' ? answer.getTransports() : [],
    },
  };
}
