/** Errors as the panel knows them: one class, with a stable code and what to do next. */
import type { Problem } from './types.ts';

export const OFFLINE = 'OFFLINE';
export const UNREADABLE = 'UNREADABLE';
export const UNPAIRED = 'UNPAIRED';
export const UNCONFIRMED = 'UNCONFIRMED';
export const PROOF_NEEDED = 'PROOF_NEEDED';
export const IN_PROGRESS = 'IN_PROGRESS';
export const CHANGED = 'CHANGED';

export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly remedy: string;
  /** Seconds after which another try makes sense; 0 when nothing was said. */
  readonly retryAfter: number;

  constructor(problem: Pick<Problem, 'status' | 'code' | 'detail'> & { remedy?: string }, retryAfter = 0) {
    super(`${problem.code}: ${problem.detail}`);
    this.status = problem.status;
    this.code = problem.code;
    this.detail = problem.detail;
    this.remedy = problem.remedy ?? '';
    this.retryAfter = retryAfter;
  }

  /** Nothing answered: the same request may go through later. */
  get offline(): boolean {
    return this.code === OFFLINE;
  }
}

function isProblem(value: unknown): value is Problem {
  const found = value as Partial<Problem> | null;
  return typeof found === 'object' && found !== null && typeof found.code === 'string' && typeof found.detail === 'string';
}

/** The error a response stands for. What is no problem+json (a proxy's page) keeps its status and says no more. */
export async function errorOf(response: Response): Promise<ApiError> {
  const retryAfter = Number(response.headers.get('Retry-After')) || 0;
  let body: unknown = null;
  try {
    body = await response.json();
  } catch {
    // Not ours, or cut off: the status alone has to do.
  }
  if (isProblem(body)) return new ApiError({ ...body, status: response.status }, retryAfter);
  return new ApiError({ status: response.status, code: `HTTP_${response.status}`, detail: response.statusText }, retryAfter);
}

/** Whatever was thrown, as an ApiError. A fetch that fails before an answer is a TypeError: we are offline. */
export function asApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  if (thrown instanceof TypeError) return new ApiError({ status: 0, code: OFFLINE, detail: '' });
  const detail = thrown instanceof Error ? thrown.message : String(thrown);
  return new ApiError({ status: 0, code: UNREADABLE, detail });
}

/** Whether somebody stopped it on purpose, which is no error. */
export function isAborted(thrown: unknown): boolean {
  return thrown instanceof DOMException && thrown.name === 'AbortError';
}
