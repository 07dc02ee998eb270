/** The device's own key: P-256, made here, never leaves the browser. IndexedDB holds a handle, not the key's bytes. */
import { toBase64url } from './base64url.ts';

const DATABASE = 'coilclaw';
const STORE = 'keys';
const NAME = 'device';
const ALGORITHM: EcKeyGenParams = { name: 'ECDSA', namedCurve: 'P-256' };

export interface DeviceKey {
  /** SPKI, base64url. */
  publicKey: string;
  /** Raw r‖s, base64url. */
  sign: (text: string) => Promise<string>;
}

function opened(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error('indexedDB'));
  });
}

function stored<T>(mode: IDBTransactionMode, work: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  return opened().then(
    (database) =>
      new Promise<T>((resolve, reject) => {
        const transaction = database.transaction(STORE, mode);
        const request = work(transaction.objectStore(STORE));
        transaction.oncomplete = () => {
          database.close();
          resolve(request.result);
        };
        transaction.onabort = transaction.onerror = () => {
          database.close();
          reject(transaction.error ?? new Error('indexedDB'));
        };
      }),
  );
}

async function freshPair(): Promise<CryptoKeyPair> {
  const pair = await crypto.subtle.generateKey(ALGORITHM, false, ['sign', 'verify']);
  try {
    await stored('readwrite', (store) => store.put(pair, NAME));
  } catch {
    // Without storage (a private window) the key lives as long as the page: pairing works, the next visit pairs again.
  }
  return pair;
}

/** The key as long as this page is open; where nothing can be stored, for no longer. */
let held: CryptoKeyPair | null = null;

/** A new key for a new pairing; the one before it is forgotten. */
export async function newDeviceKey(): Promise<DeviceKey> {
  held = await freshPair();
  return usable(held);
}

/** The key this browser was paired with; null when there is none. */
export async function ownDeviceKey(): Promise<DeviceKey | null> {
  try {
    held ??= ((await stored('readonly', (store) => store.get(NAME))) as CryptoKeyPair | undefined) ?? null;
  } catch {
    // No storage: what this page made itself is all there is.
  }
  return held ? usable(held) : null;
}

async function usable(pair: CryptoKeyPair): Promise<DeviceKey> {
  const publicKey = toBase64url(await crypto.subtle.exportKey('spki', pair.publicKey));
  const sign = async (text: string): Promise<string> =>
    toBase64url(await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, pair.privateKey, new TextEncoder().encode(text)));
  return { publicKey, sign };
}

/** Forget the key, at sign-out. */
export async function forgetDeviceKey(): Promise<void> {
  held = null;
  try {
    await stored('readwrite', (store) => store.delete(NAME));
  } catch {
    // There was none.
  }
}
