/** Who we are to the server, and so what may be shown. */
import type { Endpoints } from '../api/endpoints.ts';
import type { Kept } from '../api/kept.ts';
import { UNCONFIRMED, asApiError, type ApiError } from '../api/problem.ts';
import type { SignIn as SignInData } from '../api/types.ts';
import { forgetDeviceKey } from '../auth/devicekey.ts';

export type Phase = 'booting' | 'unreachable' | 'unpaired' | 'unconfirmed' | 'passkey' | 'ready';

export class SignIn {
  readonly #api: Endpoints;
  readonly #kept: Kept;
  readonly #ended: () => Promise<void>;
  data: SignInData | null = $state.raw(null);
  error: ApiError | null = $state.raw(null);
  /** The owner put the first passkey off; asked again at the next visit. */
  putOff = $state(false);
  #unpaired = $state(false);
  #unconfirmed = $state(false);

  /** `ended` is told when the owner signed out here. */
  constructor(api: Endpoints, kept: Kept, ended: () => Promise<void>) {
    this.#api = api;
    this.#kept = kept;
    this.#ended = ended;
  }

  get phase(): Phase {
    if (this.#unpaired) return 'unpaired';
    if (!this.data) return this.error ? 'unreachable' : 'booting';
    if (this.#unconfirmed || !this.data.confirmed) return 'unconfirmed';
    if (this.data.passkeys === 0 && this.data.passkey_window_ends_at && !this.putOff) return 'passkey';
    return 'ready';
  }

  /** Ask the server who we are. */
  async load(): Promise<void> {
    try {
      const { data } = await this.#api.signIn.read();
      this.#unpaired = this.#unconfirmed = false;
      this.error = null;
      this.data = data;
    } catch (thrown) {
      const error = asApiError(thrown);
      if (error.status === 401) this.lost();
      else if (error.code === UNCONFIRMED) this.waits();
      else this.error = error;
    }
  }

  /** The cookie is no longer good: what was kept is forgotten. */
  lost(): void {
    if (this.#unpaired) return;
    this.#unpaired = true;
    this.data = null;
    this.putOff = false;
    void this.#kept.clear();
  }

  waits(): void {
    this.#unconfirmed = true;
  }

  /** Sign out here; the server forgets this device's token. */
  async end(): Promise<void> {
    await this.#api.signIn.end();
    await forgetDeviceKey();
    // A browser that cannot end it keeps a subscription that nobody sends to.
    await this.#ended().catch(() => undefined);
    this.lost();
  }
}
