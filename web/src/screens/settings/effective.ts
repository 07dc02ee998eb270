/** The configuration in force, as it is read by people. Pure. */
import type { EffectiveSetting, Json } from '../../api/types.ts';
import { lookup, number, t } from '../../text/t.ts';

/** Items of a list that are shown before the rest is counted. */
const SHOWN = 6;

export interface Origin {
  kind: 'default' | 'file' | 'environment';
  text: string;
}

export function originOf(source: string): Origin {
  if (source === 'default') return { kind: 'default', text: t('settings.from.default') };
  if (source.startsWith('environment')) return { kind: 'environment', text: t('settings.from.environment', { name: source.replace(/^environment\s*/, '') }) };
  return { kind: 'file', text: source === 'config.toml' ? t('settings.from.file') : source };
}

/** A value in words; lists are left to the page. */
export function written(value: Json): string {
  if (value === true) return t('settings.value.on');
  if (value === false) return t('settings.value.off');
  if (value === null || value === '' || (Array.isArray(value) && !value.length)) return t('settings.value.empty');
  if (typeof value === 'number') return number(value);
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return value.map(written).join(', ');
  return JSON.stringify(value);
}

/** What the next start brings; of what is only shown in part, that it is another. */
export function coming(setting: Pick<EffectiveSetting, 'value' | 'next_value'>): string {
  const next = written(setting.next_value);
  return next === written(setting.value) ? t('settings.value.another') : t('settings.value.next', { value: next });
}

/** The items of a list value: those shown at once, and the rest. Null for what is no list, or an empty one. */
export function items(value: Json): { first: string[]; rest: string[] } | null {
  if (!Array.isArray(value) || !value.length) return null;
  const all = value.map(written);
  // One more than shown is not worth a fold.
  return all.length <= SHOWN + 1 ? { first: all, rest: [] } : { first: all.slice(0, SHOWN), rest: all.slice(SHOWN) };
}

export interface Part {
  name: string;
  title: string;
  settings: EffectiveSetting[];
}

/** The first piece of a dotted name; what has none is general. */
function partOf(key: string): string {
  return key.includes('.') ? (key.split('.', 1)[0] ?? 'general') : 'general';
}

/** Those that fit, by part, in the order they came. */
export function parts(settings: readonly EffectiveSetting[], words: string, onlyChanged: boolean): Part[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const made = new Map<string, Part>();
  for (const setting of settings) {
    if (onlyChanged && setting.source === 'default' && !setting.changes) continue;
    const text = `${setting.key} ${titleOf(setting.key)} ${setting.description} ${written(setting.value)} ${setting.source}`.toLowerCase();
    if (!wanted.every((word) => text.includes(word))) continue;
    const name = partOf(setting.key);
    const part = made.get(name) ?? { name, title: lookup(`settings.part.${name}`, name), settings: [] };
    part.settings.push(setting);
    made.set(name, part);
  }
  return [...made.values()];
}

/** A setting's name in words, where it has one: those that are changed here do. Of all providers they are the same. */
export function titleOf(key: string): string {
  return lookup(`settings.key.${key.replace(/^providers\.models\..+\./, 'provider.')}`, '');
}

/** The name without its part. */
export function shortKey(key: string): string {
  return key.slice(key.indexOf('.') + 1);
}
