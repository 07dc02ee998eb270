/** What an empty conversation suggests: only what the one that answers can do. Pure. */
import type { ProviderList } from '../../api/schema.ts';

const IDEAS = ['chat.idea.1', 'chat.idea.2', 'chat.idea.3'] as const;
/** The built-in mock knows a few plain requests and nothing else. */
const OF_THE_MOCK = ['chat.idea.1', 'chat.idea.2', 'chat.idea.mock'] as const;

export function ideasFor(providers: readonly Pick<ProviderList['items'][number], 'default' | 'kind'>[]): typeof IDEAS | typeof OF_THE_MOCK {
  return providers.some((each) => each.default && each.kind === 'mock') ? OF_THE_MOCK : IDEAS;
}
