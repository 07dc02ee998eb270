/** Routes as the compiler checks them: an address, what goes with it and what comes back, by what the server documents. */
import type { Routes } from './schema.ts';

export type Method = keyof Routes;
/** What may be asked: a path that is answered with JSON, spelled as in the document. */
export type Path<M extends Method> = {
  [P in keyof Routes[M]]: Routes[M][P] extends { answer: Response } ? never : P;
}[keyof Routes[M]] &
  string;
export type Answer<M extends Method, P extends keyof Routes[M]> = Routes[M][P] extends { answer: infer A } ? A : never;
/** What is asked in the query; what is empty is left out. */
export type Query<P extends keyof Routes['GET']> = Loose<Routes['GET'][P]>['query'];

/** What goes with a request, whatever the route. */
export interface Parts {
  path?: { [name: string]: string };
  query?: { [name: string]: string | number | boolean | null | undefined };
  body?: unknown;
}

type Loose<R> = { [K in keyof R as K extends 'answer' ? never : K]: K extends 'query' ? { [N in keyof R[K]]: R[K][N] | '' | undefined } : R[K] };
/** What has to be said with a request, and what may be; nothing may be left out that the route needs. */
type Said<R, More> = Record<never, never> extends Loose<R> ? [parts?: Loose<R>, more?: More] : [parts: Loose<R>, more?: More];
export type Asked<P extends keyof Routes['GET']> = Said<Routes['GET'][P], AbortSignal>;
/** The second is an Idempotency-Key. */
export type Sent<M extends Method, P extends keyof Routes[M]> = Said<Routes[M][P], string>;

function filled(path: string, holes: Parts['path'] = {}): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(holes[name] ?? ''));
}

/** A path with its holes filled and its query behind it. */
export function addressOf(path: string, { path: holes, query = {} }: Parts = {}): string {
  const asked = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '');
  const place = filled(path, holes);
  if (!asked.length) return place;
  return `${place}?${new URLSearchParams(asked.map(([name, value]) => [name, String(value)])).toString()}`;
}
