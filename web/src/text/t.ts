/** All words of the panel come from one catalogue. A key that is not there, or a gap left unfilled, does not compile. */
import { en } from './en.ts';

export type Key = keyof typeof en;

type Gaps<S extends string> = S extends `${string}{${infer Gap}}${infer Rest}` ? Gap | Gaps<Rest> : never;
type Values<K extends Key> = Record<Gaps<(typeof en)[K]>, string | number>;
type Filled<K extends Key> = [Gaps<(typeof en)[K]>] extends [never] ? [] : [values: Values<K>];

/** The keys that have a form for one and a form for other numbers. */
export type CountKey = { [K in Key]: K extends `${infer Stem}.one` ? (`${Stem}.other` extends Key ? Stem : never) : never }[Key];

const plural = new Intl.PluralRules('en');

export function t<K extends Key>(key: K, ...[values]: Filled<K>): string {
  const text: string = en[key];
  if (!values) return text;
  return text.replace(/\{(\w+)\}/g, (gap, name: string) => String((values as Record<string, string | number>)[name] ?? gap));
}

/** A text that depends on how many: `{n}` stands for the number. */
export function count(stem: CountKey, n: number): string {
  const key = `${stem}.${plural.select(n) === 'one' ? 'one' : 'other'}` as Key;
  return (en[key] as string).replace('{n}', number(n));
}

const numbers = new Intl.NumberFormat('en');

export function number(n: number): string {
  return numbers.format(n);
}

/** Why the gate decided as it did, or how a call ended, in a few words; a code nobody gave words to, as it is. */
export function codeWords(code: string): string {
  return lookup(`code.${code}`, code);
}

/** A key made at run time (an error code, a status); `otherwise` when the catalogue has no word for it. */
export function lookup(key: string, otherwise: string): string {
  return key in en ? en[key as Key] : otherwise;
}
