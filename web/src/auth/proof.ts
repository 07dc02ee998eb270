/** Owner proof: what a lane or a switch asks for, got from a passkey exactly once per question. */
import type { Endpoints } from '../api/endpoints.ts';
import { ApiError, PROOF_NEEDED } from '../api/problem.ts';
import type { Assertion, Challenge, Purpose } from '../api/types.ts';

export type Sign = (challenge: Challenge) => Promise<Assertion>;

/**
 * Do something that may need a passkey. `expected` says whether it will: then the passkey is asked first. If the server
 * wants one unexpectedly (the rules changed meanwhile), it is asked then, once.
 */
export async function withProof<T>(
  passkeys: Pick<Endpoints['passkeys'], 'challenge'>,
  sign: Sign,
  question: { purpose: Purpose; subject: string; expected: boolean },
  act: (proof?: Assertion) => Promise<T>,
): Promise<T> {
  const ask = async (): Promise<Assertion> => sign(await passkeys.challenge(question.purpose, question.subject));
  if (question.expected) return act(await ask());
  try {
    return await act();
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== PROOF_NEEDED) throw error;
    return act(await ask());
  }
}
