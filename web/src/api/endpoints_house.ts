/** The routes of the screens Audit, Settings and Overview. */
import { withQuery, type Client, type Fresh, type Query } from './client.ts';
import type * as T from './types.ts';
import type * as H from './types_house.ts';

const id = encodeURIComponent;

/** Where the events of a span are, one JSON object a line; always a download. */
export function exportAddress(wanted: Pick<H.AuditWanted, 'since' | 'until'>): string {
  return withQuery('/v1/audit/export', { since: wanted.since, until: wanted.until });
}

export function houseEndpoints(client: Client) {
  return {
    audit: {
      list: (wanted: H.AuditWanted, cursor: string | null = null, limit = 50): Promise<Fresh<T.Page<H.AuditEvent>>> =>
        client.kept('/v1/audit', { ...wanted, cursor, limit } satisfies Query),
      story: (action: string): Promise<Fresh<H.WholeStory>> => client.kept(`/v1/audit/${id(action)}/story`),
    },
    policy: {
      effective: (): Promise<Fresh<H.EffectivePolicy>> => client.kept('/v1/settings/policy'),
      check: (call: H.SampleCall, file?: { name: string; content: string }) =>
        client.post<H.CheckedCall>('/v1/policy/check', { ...call, ...(file ? { file } : {}) }),
      tools: (): Promise<Fresh<{ items: H.ToolListed[] }>> => client.kept('/tools'),
    },
    policies: {
      list: (): Promise<Fresh<T.Page<H.PolicyFileListed>>> => client.kept('/v1/policies', { limit: 200 }),
      one: (name: string): Promise<Fresh<H.PolicyFileShown>> => client.kept(`/v1/policies/${id(name)}`),
      put: (name: string, content: string, if_sha256: string, key: string) =>
        client.put<H.Edited>(`/v1/policies/${id(name)}`, { content, if_sha256 }, key),
    },
    skills: {
      list: (): Promise<Fresh<T.Page<H.SkillListed>>> => client.kept('/v1/skills', { limit: 200 }),
      one: (name: string): Promise<Fresh<H.SkillShown>> => client.kept(`/v1/skills/${id(name)}`),
      put: (name: string, content: string, if_sha256: string, key: string) =>
        client.put<H.Edited>(`/v1/skills/${id(name)}`, { content, if_sha256 }, key),
    },
    prompt: {
      read: (): Promise<Fresh<H.OwnerFile>> => client.kept('/v1/system-prompt'),
      put: (content: string, if_sha256: string, key: string) => client.put<H.Edited>('/v1/system-prompt', { content, if_sha256 }, key),
    },
    usage: (by: H.UsageBy, days: number): Promise<Fresh<H.UsageReport>> => client.kept('/v1/usage', { by, days }),
    providers: {
      list: (): Promise<Fresh<{ items: H.Provider[] }>> => client.kept('/v1/providers'),
      test: (name: string) => client.post<H.ProviderTried>(`/v1/providers/${id(name)}/test`),
    },
    doctor: (short: boolean): Promise<Fresh<H.Checkup>> => client.kept('/v1/doctor', { short }),
    pairing: {
      code: (proof?: T.Assertion) => client.post<H.PairingCode>('/v1/pairing/code', { mode: 'add', ...(proof ? { proof } : {}) }),
    },
    notices: {
      list: (cursor: string | null = null, limit = 50): Promise<Fresh<H.Notices>> => client.kept('/v1/notifications', { cursor, limit }),
      seen: (until: string) => client.post<{ seen: number; unseen: number }>('/v1/notifications/seen', { until }),
    },
  };
}

/** What joins the routes of receipts. */
export function receiptEndpoints(client: Client) {
  return {
    list: (wanted: H.ReceiptsWanted, cursor: string | null = null, limit = 50): Promise<Fresh<T.Page<H.NumberedReceipt>>> =>
      client.kept('/v1/receipts', { ...wanted, cursor, limit } satisfies Query),
    one: (receipt: string): Promise<Fresh<H.ReceiptDetail>> => client.kept(`/v1/receipts/${id(receipt)}`),
  };
}

/** What joins the routes of passkeys. */
export function passkeyEndpoints(client: Client) {
  return {
    rename: (passkey: string, name: string) => client.patch<T.Passkey>(`/v1/passkeys/${id(passkey)}`, { name }),
    remove: (passkey: string, proof?: T.Assertion) => client.post<T.Passkey>(`/v1/passkeys/${id(passkey)}/remove`, proof ? { proof } : {}),
  };
}
