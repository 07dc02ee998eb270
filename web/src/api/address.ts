/** Routes as the compiler knows them: where they are, what goes with them and what comes back, as the server documents it. */
import type { Routes } from './schema.ts';

export type Method = keyof Routes;
type Gets = Routes['GET'];
type WithJson<R> = { [P in keyof R]: R[P] extends { answer: Response } ? never : P }[keyof R];

/** A path that is answered with JSON, spelled as in the document: `/v1/jobs/{job_id}`. */
export type Path<M extends Method> = WithJson<Routes[M]> & string;
export type Answer<M extends Method, P extends keyof Routes[M]> = Routes[M][P] extends { answer: infer A } ? A : never;

/** In a query, what is empty is left out. */
type OrEmpty<Q> = { [N in keyof Q]: Q[N] | '' | null | undefined };
type Needed<R> = { [K in keyof R as Exclude<K, 'answer'>]: K extends 'query' ? OrEmpty<R[K]> : R[K] };
/** What goes with a request, and one thing more; the first is left out where the route takes nothing, and may be where it needs nothing. */
type With<N, More> = [keyof N] extends [never] ? [parts?: undefined, more?: More] : object extends N ? [parts?: N, more?: More] : [parts: N, more?: More];

export type Query<P extends keyof Gets> = Gets[P] extends { query?: infer Q } ? OrEmpty<Q> : never;
export type Body<P extends keyof Routes['POST']> = Routes['POST'][P] extends { body: infer B } ? B : Record<string, never>;
export type Asked<P extends keyof Gets> = With<Needed<Gets[P]>, AbortSignal>;
/** What more there is: an Idempotency-Key. */
export type Sent<M extends Method, P extends keyof Routes[M]> = With<Needed<Routes[M][P]>, string>;

/** The same without the route it belongs to. */
export interface Parts {
  path?: { [name: string]: string };
  query?: { [name: string]: string | number | boolean | null | undefined };
  body?: unknown;
}

/** A path with its holes filled and its query behind it. */
export function addressOf(path: string, { path: holes = {}, query = {} }: Parts = {}): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(holes[name] ?? ''));
  const asked = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '');
  if (!asked.length) return filled;
  return `${filled}?${new URLSearchParams(asked.map(([name, value]) => [name, String(value)])).toString()}`;
}

/** The address of something to read, for a link or a stream. */
export function linkTo<P extends keyof Gets>(path: P, ...[parts]: Asked<P>): string {
  return addressOf(path, parts);
}
