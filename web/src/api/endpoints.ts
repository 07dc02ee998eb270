/**
 * Every route the panel calls, by subject. Screens call these and never write a path themselves. What is asked, sent and
 * answered is checked against schema.ts: nothing here says its own types.
 */
import type { Body, Query } from './address.ts';
import type { Client } from './client.ts';
import { houseEndpoints, passkeyEndpoints, receiptEndpoints } from './endpoints_house.ts';
import { actionEndpoints, workEndpoints } from './endpoints_work.ts';
import type { Assertion, Purpose } from './types.ts';

/** Whose questions. */
type Of = Pick<Query<'/v1/approvals'>, 'lane' | 'job_id' | 'thread_id'>;

export function endpoints(client: Client) {
  return {
    signIn: {
      read: () => client.kept('/v1/sign-in'),
      end: () => client.post('/v1/sign-in/end'),
      /** For one WebSocket, which can show no header; it is never asked for again with the same key. */
      ticket: () => client.post('/v1/sign-in/ticket', undefined, ''),
      /** Where to sign in with GitHub; empty where that is not set up. */
      atGitHub: () => client.get('/v1/pairing/github'),
      /** A pairing code for whoever did. */
      codeOfGitHub: (body: Body<'/v1/pairing/github'>) => client.post('/v1/pairing/github', { body }),
      bind: (body: Body<'/v1/pairing/bind'>) => client.post('/v1/pairing/bind', { body }),
    },
    devices: {
      list: () => client.kept('/v1/devices'),
      rename: (device_id: string, name: string) => client.patch('/v1/devices/{device_id}', { path: { device_id }, body: { name } }),
      revoke: (device_id: string, proof: Assertion | null = null) =>
        client.post('/v1/devices/{device_id}/revoke', { path: { device_id }, body: { proof } }),
      confirm: (device_id: string, proof: Assertion | null = null) =>
        client.post('/v1/devices/{device_id}/confirm', { path: { device_id }, body: { proof } }),
    },
    passkeys: {
      challenge: (purpose: Purpose, subject: string) =>
        client.post('/v1/passkeys/challenge', { body: { purpose, subject, ...(purpose === 'device.add' ? { mode: 'add' as const } : {}) } }),
      registration: () => client.post('/v1/passkeys/registration'),
      register: (body: Body<'/v1/passkeys'>) => client.post('/v1/passkeys', { body }),
      list: () => client.kept('/v1/passkeys'),
      ...passkeyEndpoints(client),
    },
    approvals: {
      /** What waits, the soonest to expire first: of all, of a lane, of a job or conversation. */
      waiting: (of: Of, cursor: string | null, limit: number) =>
        client.kept('/v1/approvals', { query: { order: 'expiring', ...of, limit, cursor } }),
      count: (of: Pick<Of, 'job_id' | 'thread_id'> = {}) => client.kept('/v1/approvals/waiting', { query: of }),
      one: (action_id: string) => client.kept('/v1/approvals/{action_id}', { path: { action_id } }),
      approve: (action_id: string, body: Body<'/v1/approvals/{action_id}/approve'>) =>
        client.post('/v1/approvals/{action_id}/approve', { path: { action_id }, body }),
      reject: (action_id: string, reason: string) =>
        client.post('/v1/approvals/{action_id}/reject', { path: { action_id }, body: { reason } }),
    },
    actions: {
      one: (action_id: string) => client.get('/v1/actions/{action_id}', { path: { action_id } }),
      ...actionEndpoints(client),
    },
    chat: {
      /** Those that somebody began; with `all` those of jobs, schedules and procedures too. */
      threads: (q = '', cursor: string | null = null, all = false) =>
        client.kept('/v1/chat/threads', { query: { q, cursor, limit: 50, talks: !all } }),
      thread: (thread_id: string) => client.kept('/v1/chat/threads/{thread_id}', { path: { thread_id } }),
      create: (key?: string, project = '') => client.post('/v1/chat/threads', { body: project ? { project } : {} }, key),
      rename: (thread_id: string, title: string) =>
        client.patch('/v1/chat/threads/{thread_id}', { path: { thread_id }, body: { title } }),
      /** Who answers in it from now on; null for the default one. */
      answerBy: (thread_id: string, model: string | null) =>
        client.patch('/v1/chat/threads/{thread_id}', { path: { thread_id }, body: { model } }),
      /** How full the model's window is with it. */
      context: (thread_id: string) => client.get('/v1/chat/threads/{thread_id}/context', { path: { thread_id } }),
      compact: (thread_id: string) => client.post('/v1/chat/threads/{thread_id}/compact', { path: { thread_id } }),
      remove: (thread_id: string) => client.delete('/v1/chat/threads/{thread_id}', { path: { thread_id } }),
      messages: (thread_id: string, before: string | null = null) =>
        client.kept('/v1/chat/threads/{thread_id}/messages', { path: { thread_id }, query: { limit: 50, before } }),
      post: (thread_id: string, text: string, attachments: string[], key: string) =>
        client.post('/v1/chat/threads/{thread_id}/messages', { path: { thread_id }, body: { text, attachments } }, key),
      turn: (turn_id: string) => client.get('/v1/chat/turns/{turn_id}', { path: { turn_id } }),
      stop: (turn_id: string) => client.post('/v1/chat/turns/{turn_id}/stop', { path: { turn_id } }),
      upload: (file: File) => {
        const body = new FormData();
        body.append('file', file, file.name);
        return client.post('/v1/files', { body });
      },
    },
    files: {
      show: (path: string, key: string) => client.post('/v1/files/show', { body: { path } }, key),
      list: (folder: string) => client.kept('/v1/files/list', { query: { folder } }),
      /** Takes back what an action wrote, or the last writing of a file. */
      undo: (what: { action_id: string } | { path: string }, key: string) => client.post('/v1/files/undo', { body: what }, key),
      vouch: (path: string, sha256: string, key: string) => client.post('/v1/files/vouch', { body: { path, sha256 } }, key),
    },
    estop: {
      read: () => client.get('/v1/estop'),
      engage: (reason: string) => client.post('/v1/estop', { body: { reason } }),
      clear: (proof: Assertion | null = null) => client.post('/v1/estop/clear', { body: { proof } }),
    },
    receipts: {
      head: () => client.get('/v1/receipts/head'),
      verify: () => client.post('/v1/receipts/verify'),
      ...receiptEndpoints(client),
    },
    ...workEndpoints(client),
    ...houseEndpoints(client),
    overview: (days: number) => client.kept('/v1/overview', { query: { days } }),
  };
}

export type Endpoints = ReturnType<typeof endpoints>;
