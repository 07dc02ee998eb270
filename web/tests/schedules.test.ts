import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { flushSync, mount, unmount } from 'svelte';
import App from '../src/App.svelte';
import { FakeServer } from './fake.ts';
import { Kept } from '../src/api/kept.ts';
import type { PreviewAsk, SchedulePreview, ScheduleShown } from '../src/api/types.ts';
import { createPanel } from '../src/panel.ts';
import { ahead, clocks, ownDiffers, placeOf, zoneOf, zones } from '../src/screens/schedules/clocks.ts';
import { cronOf, daysOf } from '../src/screens/schedules/days.ts';
import { askOf, blank, changesOf, faultOf, formOf, meantOf, newOf, pickable } from '../src/screens/schedules/form.ts';
import Meaning from '../src/screens/schedules/Meaning.svelte';
import { PAUSE, Preview } from '../src/screens/schedules/preview.svelte.ts';
import { causeOf, endOf, lastOf, startOf, tookOf } from '../src/screens/schedules/runs.ts';
import { Update } from '../src/state/update.svelte.ts';

const NOW = Date.parse('2026-11-16T10:00:00Z');

describe('a run by two clocks', () => {
  test('shows the zone as the server wrote it, and UTC beside it', () => {
    expect(clocks('2026-12-31T07:30:00Z', '2026-12-31 2:30 AM America/New_York', NOW)).toEqual({ day: 'Thu 31 Dec', time: '02:30', zone: 'America/New_York', utc: '07:30 UTC', own: '07:30' });
  });

  test('names the day of UTC where it is another one, and the year where it is not this one', () => {
    expect(clocks('2027-02-24T01:00:00Z', '2027-02-23 5:00 PM America/Los_Angeles', NOW)).toEqual({ day: 'Tue 23 Feb 2027', time: '17:00', zone: 'America/Los_Angeles', utc: 'Wed 01:00 UTC', own: 'Wed 01:00' });
  });

  test('shows my own clock beside them where it tells another time', () => {
    expect(clocks('2026-11-16T03:30:00Z', '2026-11-16 9:00 AM Asia/Kolkata', NOW, 'Europe/Berlin').own).toBe('04:30');
    expect(clocks('2026-11-16T23:30:00Z', '2026-11-17 5:00 AM Asia/Kolkata', NOW, 'America/New_York').own).toBe('Mon 18:30');
    expect(ownDiffers('2026-11-16T03:30:00Z', 'Asia/Kolkata', 'Europe/Berlin')).toBe(true);
    expect(ownDiffers('2026-11-16T03:30:00Z', 'Europe/Paris', 'Europe/Berlin')).toBe(false);
    expect(ownDiffers('2026-11-16T03:30:00Z', 'Europe/Berlin', 'UTC')).toBe(false);
    expect(ownDiffers('2026-11-16T03:30:00Z', 'Mars/Crater', 'Europe/Berlin')).toBe(false);
  });

  test('takes a city in any case for its zone, and leaves alone what could be two', () => {
    const known = ['UTC', 'Europe/Berlin', 'America/New_York', 'America/Indiana/Vincennes', 'Other/Berlin2'];
    expect(zoneOf(' berlin ', known)).toBe('Europe/Berlin');
    expect(zoneOf('new york', known)).toBe('America/New_York');
    expect(zoneOf('europe/berlin', known)).toBe('Europe/Berlin');
    expect(zoneOf('utc', known)).toBe('UTC');
    expect(zoneOf('Atlantis', known)).toBe('Atlantis');
    expect(zoneOf('berlin', [...known, 'Mars/Berlin'])).toBe('berlin');
    expect(zoneOf('', known)).toBe('');
  });

  test('knows noon from midnight', () => {
    expect(clocks('2026-11-16T12:00:00Z', '2026-11-16 12:00 PM UTC', NOW).time).toBe('12:00');
    expect(clocks('2026-11-16T00:05:00Z', '2026-11-16 12:05 AM UTC', NOW).time).toBe('00:05');
  });

  test('shows a text it cannot read as it is', () => {
    expect(clocks('2026-11-16T12:00:00Z', 'tomorrow', NOW)).toMatchObject({ day: 'tomorrow', utc: 'Mon 16 Nov 12:00 UTC' });
  });

  test('says how far ahead it is in one unit', () => {
    expect(ahead(NOW + 20_000, NOW)).toBe('in 1 minute');
    expect(ahead(NOW + 2 * 3_600_000, NOW)).toBe('in 2 hours');
    expect(ahead(NOW + 45 * 86_400_000, NOW)).toBe('in 45 days');
    expect(ahead(NOW + 120 * 86_400_000, NOW)).toBe('in 4 months');
  });

  test('offers every zone the browser knows, and UTC', () => {
    expect(zones()).toContain('UTC');
    expect(zones()).toContain('Europe/Berlin');
    expect(placeOf('America/New_York')).toBe('New York');
  });
});

const shown: ScheduleShown = {
  schedule_id: 'month-end', origin: 'registry', state: 'waits', enabled: true, paused_reason: null, trigger: 'cron', cron: '30 2 31 * *', interval: null, at: null,
  timezone: 'America/New_York', cron_summary: '', plain_summary: '', plain_notes: [], cron_notes: null, next_run_utc: null, next_run_local: null, failures: 0, last_run: null, goal: 'Collect receipts', sop: null, project: null,
  labels: [], hash: 'h', steps: ['a'], constraints: { allowed_tools: ['file_read'], max_files_changed: 2 }, evidence: [], inputs: {},
  options: { misfire: 'run_once', catch_up_window: '1d', overlap: 'skip', stagger: '0s', max_failures: 5 },
  next_runs_utc: [], next_runs_local: [], due_at: null, tzdata_version: '', running: [], runs: [],
};

describe('the form of a schedule', () => {
  test('says of a new one only what is not usual', () => {
    const form = { ...blank('Europe/Berlin'), goal: ' list files ' };
    expect(newOf(form)).toEqual({ trigger: 'cron', cron: '0 9 * * 1-5', timezone: 'Europe/Berlin', goal: 'list files' });
    expect(newOf({ ...form, project: 'shop' }).project).toBe('shop');
    expect(newOf({ ...form, name: 'daily', steps: 'a\n\nb', overlap: 'queue_one', failures: '0', tools: 'time' })).toMatchObject({ schedule_id: 'daily', steps: ['a', 'b'], overlap: 'queue_one', max_failures: 0, constraints: { allowed_tools: ['time'] } });
  });

  test('changes nothing when nothing was changed, so that its time does not count anew', () => {
    const form = formOf(shown, 'UTC');
    expect(changesOf(form, { ...form })).toEqual({});
    expect(changesOf(form, { ...form, goal: 'Other' })).toEqual({ goal: 'Other' });
    expect(changesOf(form, { ...form, project: 'shop' })).toEqual({ project: 'shop' });
    expect(changesOf({ ...form, project: 'shop' }, form)).toEqual({ project: null });
  });

  test('sends a new time whole, and takes away what was emptied', () => {
    const form = formOf(shown, 'UTC');
    expect(changesOf(form, { ...form, kind: 'interval', interval: '90m' })).toEqual({ trigger: 'interval', interval: '90m' });
    expect(changesOf(form, { ...form, zone: 'UTC' })).toEqual({ trigger: 'cron', cron: '30 2 31 * *', timezone: 'UTC' });
    expect(changesOf(form, { ...form, catchUp: '', failures: '', tools: '', files: '' })).toEqual({ catch_up_window: null, max_failures: null, constraints: {} });
  });

  test('asks for the preview of the kind that is chosen; an interval needs no zone', () => {
    const form = { ...blank('Europe/Berlin'), interval: '2h' };
    expect(askOf(form)).toEqual({ trigger: 'cron', cron: '0 9 * * 1-5', timezone: 'Europe/Berlin', count: 5 });
    expect(askOf({ ...form, kind: 'interval' })).toEqual({ trigger: 'interval', interval: '2h', count: 5 });
  });

  test('puts a fault at its field, with the right spelling', () => {
    const preview = { valid: false, faults: [{ field: 'timezone', fault: "there is no time zone 'Berln'.", remedy: 'Did you mean Europe/Berlin?', meant: ['Europe/Berlin'] }] } as unknown as SchedulePreview;
    expect(faultOf(preview, 'timezone')).toBe("There is no time zone 'Berln'. Did you mean Europe/Berlin?");
    expect(meantOf(preview, 'timezone')).toEqual(['Europe/Berlin']);
    expect(meantOf(preview, 'cron')).toEqual([]);
    expect(faultOf(preview, 'cron')).toBe('');
    expect(faultOf(null, 'cron')).toBe('');
  });

  test('uses the picker only for a time that it can hold', () => {
    expect(pickable('')).toBe(true);
    expect(pickable('2027-03-01T08:00')).toBe(true);
    expect(pickable('2027-03-01T08:00+01:00')).toBe(false);
  });
});

describe('runs in words', () => {
  test('tell how each went and why it ran', () => {
    expect(endOf({ state: 'ENDED', outcome: 'DONE', slots: 1 })).toEqual({ text: 'Done', tone: 'good' });
    expect(endOf({ state: 'ENDED', outcome: 'TIMED_OUT', slots: 1 }).tone).toBe('bad');
    expect(endOf({ state: 'SKIPPED', outcome: null, slots: 3 }).text).toBe('3 times skipped');
    expect(causeOf({ cause: 'late', lateness_seconds: 3_900 })).toBe('Caught up, 1 h 05 min late');
    expect(startOf({ cause: 'due', scheduled_at: 'a', created_at: 'b' })).toBe('a');
    expect(startOf({ cause: 'manual', scheduled_at: 'a', created_at: 'b' })).toBe('b');
    expect(tookOf({ created_at: '2026-11-16T09:00:00Z', ended_at: '2026-11-16T09:01:05Z' })).toBe('took 1 min 05 s');
    expect(tookOf({ created_at: '2026-11-16T09:00:00.100Z', ended_at: '2026-11-16T09:00:00.900Z' })).toBe('took under 1 s');
    expect(tookOf({ created_at: '2026-11-16T09:00:00Z', ended_at: null })).toBe('');
    expect(lastOf('EXECUTING').text).toBe('Under way');
    expect(lastOf('STARTED')).toEqual({ text: 'Under way', tone: 'accent' });
  });
});

describe('the preview', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  const ask: PreviewAsk = { trigger: 'cron', cron: '0 9 * * *' };
  const good = (cron_summary: string): SchedulePreview => ({ valid: true, fault: '', remedy: '', faults: [], cron_summary, plain_summary: '', plain_notes: [], cron_notes: null, next_runs_utc: [], next_runs_local: [] });

  test('asks once after a pause, however much is typed', async () => {
    const asked: PreviewAsk[] = [];
    const preview = new Preview((each) => {
      asked.push(each);
      return Promise.resolve(good('Daily.'));
    });
    preview.soon({ ...ask, cron: '0' });
    preview.soon(ask);
    await vi.advanceTimersByTimeAsync(PAUSE);
    expect(asked).toEqual([ask]);
    expect(preview.said?.cron_summary).toBe('Daily.');
    expect(preview.asking).toBe(false);
  });

  test('lets no late answer stand in for a newer question', async () => {
    const answers: ((said: SchedulePreview) => void)[] = [];
    const preview = new Preview(() => new Promise((done) => answers.push(done)));
    preview.soon(ask);
    await vi.advanceTimersByTimeAsync(PAUSE);
    preview.soon({ ...ask, cron: '0 10 * * *' });
    await vi.advanceTimersByTimeAsync(PAUSE);
    answers[1]?.(good('Second.'));
    answers[0]?.(good('First.'));
    await vi.advanceTimersByTimeAsync(0);
    expect(preview.said?.cron_summary).toBe('Second.');
  });

  test('keeps the last one that made sense beside a fault', async () => {
    const said = [good('Daily.'), { ...good(''), valid: false }];
    const preview = new Preview(() => Promise.resolve(said.shift() ?? good('')));
    for (const cron of ['0 9 * * *', 'x']) {
      preview.soon({ ...ask, cron });
      await vi.advanceTimersByTimeAsync(PAUSE);
    }
    expect(preview.said?.valid).toBe(false);
    expect(preview.good?.cron_summary).toBe('Daily.');
  });
});

describe('days and a time', () => {
  test('are read from a calendar line that says no more than that', () => {
    expect(daysOf('0 9 * * 1-5')).toEqual({ days: [1, 2, 3, 4, 5], time: '09:00' });
    expect(daysOf('30 7 * * 0,6')).toEqual({ days: [6, 7], time: '07:30' });
    expect(daysOf('5 23 * * *')?.days).toHaveLength(7);
    for (const other of ['*/5 9 * * *', '0 9 1 * *', '0 9 * 2 1', '60 9 * * *', '0 24 * * *', '0 9 * * 5-1', '0 9 * * 8', '0 9 * * mon', '']) expect(daysOf(other)).toBeNull();
  });

  test('become the same line again', () => {
    for (const cron of ['0 9 * * 1-5', '30 7 * * 0,6', '5 23 * * *', '0 0 * * 1,3,5', '0 8 * * 0,1-4', '0 8 * * 1,2']) {
      const said = daysOf(cron);
      expect(said && cronOf(said)).toBe(cron);
    }
  });

  test('are no line while no day is chosen or the time is none', () => {
    expect(cronOf({ days: [], time: '09:00' })).toBe('');
    expect(cronOf({ days: [1], time: '' })).toBe('');
  });
});

describe('what the server says of a time', () => {
  const summary = 'At 2:30 AM,  every day <b>America/New_York</b> & no other.';
  const notes = '1) On 2027-03-14 there is no 2:30 AM;\u00a0it runs at <i>3:00 AM</i>. 2) "Twice" is never.';
  const schedule = {
    schedule_id: 'report', origin: 'registry', state: 'waits', enabled: true, failures: 0, goal: 'Report.', hash: 'h', labels: [],
    cron: '30 2 * * *', interval: null, at: null, trigger: 'cron', timezone: 'America/New_York', cron_summary: summary, cron_notes: notes,
    plain_summary: 'other words', plain_notes: ['other notes'], last_run: null, next_run_utc: null, next_run_local: null, next_runs_utc: [],
    next_runs_local: [], paused_reason: null, project: null, sop: null, constraints: {}, options: {}, inputs: {}, evidence: [], steps: [], runs: [], running: [],
    due_at: null, tzdata_version: '2026a',
  };
  const until = async (holds: () => boolean): Promise<void> => {
    for (let left = 2000; left > 0 && !holds(); left -= 1) {
      flushSync();
      await new Promise((done) => setTimeout(done, 15));
    }
    expect(holds(), document.body.textContent ?? '').toBe(true);
  };
  const textOf = (where: string): string | undefined => document.querySelector(where)?.textContent;

  test('is shown word for word in the list and on its page', async () => {
    const server = new FakeServer();
    const answers: Record<string, unknown> = {
      '/v1/schedules': { items: [schedule], followups: [], next_cursor: null, registry_broken: null, registry_changed: false, unreadable: [] },
      '/v1/schedules/report': schedule,
      '/v1/schedules/report/runs': { items: [], next_cursor: null },
    };
    const fetch = (input: string, init?: RequestInit): Promise<Response> => {
      const url = new URL(input, 'http://localhost/');
      const answer = answers[url.pathname];
      return answer === undefined ? server.fetch(url, init) : Promise.resolve(Response.json(answer));
    };
    const panel = createPanel({ fetch: fetch as typeof globalThis.fetch, kept: new Kept(undefined), sign: () => Promise.reject(new Error('nobody signs here')) });
    document.body.replaceChildren();
    panel.router.go('#/schedules/report', { replace: true });
    const app = mount(App, { target: document.body, props: { panel, update: new Update(), code: null } });
    await until(() => textOf('header .summary') !== undefined && textOf('li .summary') !== undefined);
    expect([textOf('li .summary'), textOf('header .summary'), textOf('.notes p')]).toEqual([summary, summary, notes]);
    await unmount(app);
    server.drop();
  });

  test('is shown word for word beside the form', async () => {
    document.body.replaceChildren();
    const preview = { said: { valid: true, cron_summary: summary, cron_notes: notes }, error: null, asking: false };
    const app = mount(Meaning, { target: document.body, props: { preview: preview as unknown as Preview, blank: false } });
    flushSync();
    expect([textOf('.meaning > p'), textOf('.notes p')]).toEqual([summary, notes]);
    await unmount(app);
  });
});
