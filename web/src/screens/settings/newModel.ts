/** A model that is to be added: what is typed about it, and the settings that follow. Pure. */
import type { SettingChange } from '../../api/types.ts';

export const KINDS = ['anthropic', 'openai-responses', 'openai-compatible'] as const;
export type Kind = (typeof KINDS)[number];

/** What its provider is called, and where its key usually is, unless the owner says otherwise. */
export const USUAL: Readonly<Record<Kind, { name: string; key: string }>> = {
  anthropic: { name: 'anthropic', key: 'ANTHROPIC_API_KEY' },
  'openai-responses': { name: 'openai', key: 'OPENAI_API_KEY' },
  'openai-compatible': { name: 'server', key: '' },
};

export interface NewModel {
  kind: Kind;
  name: string;
  model: string;
  /** Only of a server of one's own; the others have one address. */
  address: string;
  /** The name of the variable or stored secret that holds the key. */
  key: string;
  /** Whether it answers from now on. */
  answers: boolean;
}

/** The changes that add it, which are made together; null while something is missing or the name is taken. */
export function additions(wanted: NewModel, taken: readonly string[]): SettingChange[] | null {
  const [name, model, address, key] = [wanted.name, wanted.model, wanted.address, wanted.key].map((text) => text.trim()) as [string, string, string, string];
  const own = wanted.kind === 'openai-compatible';
  if (!/^[A-Za-z0-9_-]+$/.test(name) || taken.includes(name) || !model || (own && !address)) return null;
  const set = (last: string, value: string): SettingChange => ({ key: `providers.models.${name}.${last}`, op: 'set', value });
  return [
    set('kind', wanted.kind),
    set('model', model),
    ...(own ? [set('base_url', address)] : []),
    ...(key ? [set('api_key_env', key)] : []),
    ...(wanted.answers ? [{ key: 'default_provider', op: 'set', value: name } satisfies SettingChange] : []),
  ];
}
