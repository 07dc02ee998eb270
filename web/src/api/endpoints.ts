/** Every route the panel calls, by subject. Screens call these and never write a path themselves. */
import type { Client, Fresh } from './client.ts';
import { houseEndpoints, passkeyEndpoints, receiptEndpoints } from './endpoints_house.ts';
import { actionEndpoints, workEndpoints } from './endpoints_work.ts';
import type * as T from './types.ts';

const id = encodeURIComponent;

export function endpoints(client: Client) {
  return {
    session: {
      read: () => client.kept<T.Session>('/v1/session'),
      end: () => client.post<void>('/v1/session/end'),
      bind: (request: T.BindRequest) => client.post<T.Bound>('/v1/pairing/bind', request),
    },
    devices: {
      list: (): Promise<Fresh<T.Page<T.Device>>> => client.kept('/v1/devices'),
      rename: (device: string, name: string) => client.patch<T.Device>(`/v1/devices/${id(device)}`, { name }),
      revoke: (device: string, proof?: T.Assertion) => client.post<void>(`/v1/devices/${id(device)}/revoke`, { proof }),
      confirm: (device: string, proof: T.Assertion) => client.post<T.Device>(`/v1/devices/${id(device)}/confirm`, { proof }),
    },
    passkeys: {
      challenge: (purpose: T.Purpose, subject: string) =>
        client.post<T.Challenge>('/v1/passkeys/challenge', { purpose, subject }),
      registration: () => client.post<T.RegistrationChallenge>('/v1/passkeys/registration'),
      register: (registration: T.Registration) => client.post<T.Passkey>('/v1/passkeys', registration),
      list: (): Promise<Fresh<T.Page<T.Passkey>>> => client.kept('/v1/passkeys'),
      ...passkeyEndpoints(client),
    },
    approvals: {
      list: (status: string, cursor: string | null = null): Promise<Fresh<T.Page<T.Approval>>> =>
        client.kept('/v1/approvals', { status, limit: 100, cursor }),
      one: (action: string): Promise<Fresh<T.Approval>> => client.kept(`/v1/approvals/${id(action)}`),
      approve: (action: string, request: T.ApproveRequest) =>
        client.post<T.Answered>(`/v1/approvals/${id(action)}/approve`, request),
      reject: (action: string, reason: string) => client.post<T.Answered>(`/v1/approvals/${id(action)}/reject`, { reason }),
    },
    actions: {
      one: (action: string) => client.get<T.ActionDetail>(`/v1/actions/${id(action)}`),
      ...actionEndpoints(client),
    },
    chat: {
      threads: (q = '', cursor: string | null = null): Promise<Fresh<T.Page<T.Thread>>> =>
        client.kept('/v1/chat/threads', { q, cursor, limit: 50 }),
      thread: (thread: string): Promise<Fresh<T.Thread>> => client.kept(`/v1/chat/threads/${id(thread)}`),
      create: (key?: string) => client.post<T.Thread>('/v1/chat/threads', {}, key),
      rename: (thread: string, title: string) => client.patch<T.Thread>(`/v1/chat/threads/${id(thread)}`, { title }),
      remove: (thread: string) => client.delete(`/v1/chat/threads/${id(thread)}`),
      messages: (thread: string, before: string | null = null): Promise<Fresh<T.Messages>> =>
        client.kept(`/v1/chat/threads/${id(thread)}/messages`, { limit: 50, before }),
      post: (thread: string, text: string, attachments: string[], key: string) =>
        client.post<T.Posted>(`/v1/chat/threads/${id(thread)}/messages`, { text, attachments }, key),
      turn: (turn: string) => client.get<T.Turn>(`/v1/chat/turns/${id(turn)}`),
      stop: (turn: string) => client.post<T.Turn>(`/v1/chat/turns/${id(turn)}/stop`),
      upload: (file: File) => {
        const form = new FormData();
        form.append('file', file, file.name);
        return client.post<T.Uploaded>('/v1/files', form);
      },
    },
    estop: {
      read: () => client.get<T.EstopState>('/v1/estop'),
      engage: (reason: string) => client.post<T.EstopState>('/v1/estop', { reason }),
      clear: (proof?: T.Assertion) => client.post<T.EstopState>('/v1/estop/clear', { proof }),
    },
    receipts: {
      head: () => client.get<T.ChainState>('/v1/receipts/head'),
      verify: () => client.post<T.Verification>('/v1/receipts/verify'),
      ...receiptEndpoints(client),
    },
    ...workEndpoints(client),
    ...houseEndpoints(client),
    overview: (days: number): Promise<Fresh<T.Overview>> => client.kept('/v1/overview', { days }),
  };
}

export type Endpoints = ReturnType<typeof endpoints>;
