/** Who can answer in a conversation. Pure. */
import type { ProviderListed } from '../../api/schema.ts';
import { t } from '../../text/t.ts';

export interface Choice {
  /** A provider's name; empty for whichever is the default one. */
  value: string;
  text: string;
}

/** The default first, then each provider by its name and model; one that is chosen and gone is named as such. */
export function choices(providers: readonly Pick<ProviderListed, 'name' | 'model' | 'default'>[], chosen: string | null): Choice[] {
  const words = (each: { name: string; model: string }): string => (each.model && each.model !== each.name ? t('chat.model.named', { name: each.name, model: each.model }) : each.name);
  const usual = providers.find((each) => each.default);
  const gone = chosen !== null && !providers.some((each) => each.name === chosen);
  return [
    { value: '', text: usual ? t('chat.model.default', { name: words(usual) }) : t('chat.model.default.none') },
    ...providers.map((each) => ({ value: each.name, text: words(each) })),
    ...(gone ? [{ value: chosen, text: t('chat.model.gone', { name: chosen }) }] : []),
  ];
}
