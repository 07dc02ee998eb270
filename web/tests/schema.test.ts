/** What the compiler refuses: each line below would compile if the panel and the server's document could drift apart. */
import { describe, expect, test } from 'vitest';
import { linkTo } from '../src/api/address.ts';
import { Client } from '../src/api/client.ts';
import { Kept } from '../src/api/kept.ts';
import type { JobShown, Page, SignIn, Thread } from '../src/api/types.ts';

const nothing = (): void => undefined;
const fetch = (): Promise<Response> => Promise.resolve(Response.json({}));
const client = new Client({ fetch, kept: new Kept(undefined), now: () => 0, newKey: () => 'k', sleep: () => Promise.resolve(), hooks: { unpaired: nothing, unconfirmed: nothing, reached: nothing, skew: nothing } });

describe('the compiler knows', () => {
  test('every path, and which method it has', async () => {
    // @ts-expect-error there is no such path
    await client.get('/v1/job');
    // @ts-expect-error nothing is written there
    await client.put('/v1/jobs', { body: {} });
    // @ts-expect-error a stream is no JSON
    await client.get('/v1/events');
    expect(linkTo('/v1/events')).toBe('/v1/events');
  });

  test('what fills a path', async () => {
    // @ts-expect-error which job?
    await client.get('/v1/jobs/{job_id}');
    // @ts-expect-error its name is another
    await client.get('/v1/jobs/{job_id}', { path: { id: 'job_1' } });
    // @ts-expect-error nor is a link without it one
    expect(linkTo('/v1/artifacts/{artifact_id}/content')).toBe('/v1/artifacts//content');
  });

  test('what may be asked in a query', async () => {
    // @ts-expect-error no such status
    await client.kept('/v1/jobs', { query: { status: 'BORED' } });
    // @ts-expect-error no such filter
    await client.kept('/v1/jobs', { query: { colour: 'red' } });
    // @ts-expect-error a search without words
    await client.get('/v1/memory/search');
    await client.kept('/v1/jobs', { query: { status: '', since: null, cursor: undefined, limit: 5 } });
  });

  test('what has to be sent', async () => {
    // @ts-expect-error nothing is sent
    await client.post('/v1/approvals/{action_id}/approve', { path: { action_id: 'act_1' } });
    // @ts-expect-error half of it is sent
    await client.post('/v1/approvals/{action_id}/approve', { path: { action_id: 'act_1' }, body: { digest: '' } });
    // @ts-expect-error more is sent than is taken
    await client.post('/v1/estop', { body: { reason: '', loudly: true } });
    // @ts-expect-error nothing is taken
    await client.post('/v1/receipts/verify', { body: {} });
  });

  test('what is answered', async () => {
    const threads: Page<Thread> = (await client.kept('/v1/chat/threads')).data;
    const ended: undefined = await client.post('/v1/sign-in/end');
    // @ts-expect-error a job is not a sign-in
    const wrong: SignIn = await client.get('/v1/jobs/{job_id}', { path: { job_id: 'job_1' } });
    const right: JobShown = await client.get('/v1/jobs/{job_id}', { path: { job_id: 'job_1' } });
    expect([threads, ended, wrong, right]).toHaveLength(4);
  });
});
