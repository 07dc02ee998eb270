/** The routes of the screens Audit, Settings and Overview. */
import { linkTo, type Body } from './address.ts';
import type { Client } from './client.ts';
import type { Assertion, AuditWanted, FileToTry, NewSubscription, ReceiptsWanted, SampleCall, SettingChange, UsageBy } from './types.ts';

/** Where the events that are asked for are, one JSON object a line; always a download. */
export function exportAddress(wanted: AuditWanted): string {
  return linkTo('/v1/audit/export', { query: wanted });
}

export function houseEndpoints(client: Client) {
  return {
    audit: {
      list: (wanted: AuditWanted, cursor: string | null = null, limit = 50) =>
        client.kept('/v1/audit', { query: { ...wanted, cursor, limit } }),
      story: (action_id: string) => client.kept('/v1/audit/{action_id}/story', { path: { action_id } }),
    },
    policy: {
      effective: () => client.kept('/v1/settings/policy'),
      check: (call: SampleCall, file: FileToTry | null = null) => client.post('/v1/policy/check', { body: { ...call, file } }),
      tools: () => client.kept('/tools'),
    },
    settings: {
      propose: (changes: SettingChange[], key: string) => client.post('/v1/settings', { body: { changes } }, key),
    },
    answers: {
      list: () => client.kept('/v1/answers', { query: { ended: true } }),
      revoke: (answer_id: string) => client.delete('/v1/answers/{answer_id}', { path: { answer_id } }),
    },
    policies: {
      list: () => client.kept('/v1/policies', { query: { limit: 200 } }),
      one: (name: string) => client.kept('/v1/policies/{name}', { path: { name } }),
      put: (name: string, content: string, if_sha256: string, key: string) =>
        client.put('/v1/policies/{name}', { path: { name }, body: { content, if_sha256 } }, key),
    },
    skills: {
      list: () => client.kept('/v1/skills', { query: { limit: 200 } }),
      one: (name: string) => client.kept('/v1/skills/{name}', { path: { name } }),
      put: (name: string, content: string, if_sha256: string, key: string) =>
        client.put('/v1/skills/{name}', { path: { name }, body: { content, if_sha256 } }, key),
    },
    prompt: {
      read: () => client.kept('/v1/system-prompt'),
      put: (content: string, if_sha256: string, key: string) => client.put('/v1/system-prompt', { body: { content, if_sha256 } }, key),
    },
    usage: (by: UsageBy, days: number) => client.kept('/v1/usage', { query: { by, days } }),
    providers: {
      list: () => client.kept('/v1/providers'),
      test: (name: string) => client.post('/v1/providers/{name}/test', { path: { name } }),
    },
    projects: {
      list: () => client.kept('/v1/projects'),
      add: (body: Body<'/v1/projects'>, key: string) => client.post('/v1/projects', { body }, key),
      vouch: (project_id: string, key: string) => client.post('/v1/projects/{project_id}/vouch', { path: { project_id } }, key),
      remove: (project_id: string) => client.delete('/v1/projects/{project_id}', { path: { project_id } }),
    },
    guests: {
      list: () => client.kept('/v1/guests'),
      one: (name: string) => client.kept('/v1/guests/{name}', { path: { name } }),
      look: (name: string, key: string) => client.post('/v1/guests/{name}/look', { path: { name } }, key),
      approve: (name: string, body: Body<'/v1/guests/{name}/approve'>, key: string) =>
        client.post('/v1/guests/{name}/approve', { path: { name }, body }, key),
      disable: (name: string) => client.post('/v1/guests/{name}/disable', { path: { name } }),
    },
    accounts: {
      list: () => client.kept('/v1/accounts'),
      signIn: (identity: string) => client.post('/v1/accounts/{identity}/sign-in', { path: { identity } }),
      signedIn: (identity: string, ended: string) => client.post('/v1/accounts/{identity}/signed-in', { path: { identity }, body: { address: ended } }),
      connect: (identity: string, key: string) => client.post('/v1/accounts/{identity}/connect', { path: { identity } }, key),
      disconnect: (identity: string, key: string) => client.post('/v1/accounts/{identity}/disconnect', { path: { identity } }, key),
    },
    doctor: (short: boolean) => client.kept('/v1/doctor', { query: { short } }),
    pairing: {
      code: (proof: Assertion | null = null) => client.post('/v1/pairing/code', { body: { mode: 'add', proof } }),
    },
    notices: {
      list: (cursor: string | null = null, limit = 50) => client.kept('/v1/notifications', { query: { cursor, limit } }),
      seen: (until: string) => client.post('/v1/notifications/seen', { body: { until } }),
    },
    push: {
      state: () => client.get('/v1/push'),
      add: (body: NewSubscription) => client.post('/v1/push/subscriptions', { body }),
      remove: (subscription_id: string) => client.delete('/v1/push/subscriptions/{subscription_id}', { path: { subscription_id } }),
    },
  };
}

/** What joins the routes of receipts. */
export function receiptEndpoints(client: Client) {
  return {
    list: (wanted: ReceiptsWanted, cursor: string | null = null, limit = 50) =>
      client.kept('/v1/receipts', { query: { ...wanted, cursor, limit } }),
    one: (receipt_id: string) => client.kept('/v1/receipts/{receipt_id}', { path: { receipt_id } }),
  };
}

/** What joins the routes of passkeys. */
export function passkeyEndpoints(client: Client) {
  return {
    rename: (passkey_id: string, name: string) => client.patch('/v1/passkeys/{passkey_id}', { path: { passkey_id }, body: { name } }),
    remove: (passkey_id: string, sign_out: boolean, proof: Assertion | null = null) =>
      client.post('/v1/passkeys/{passkey_id}/remove', { path: { passkey_id }, body: { proof, sign_out } }),
    clear: (passkey_id: string, proof: Assertion | null = null) =>
      client.post('/v1/passkeys/{passkey_id}/clear', { path: { passkey_id }, body: { proof } }),
  };
}
