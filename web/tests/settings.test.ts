import { describe, expect, test } from 'vitest';
import type { CheckedCall, Device, EffectiveSetting, ToolListed, UsageBill } from '../src/api/types.ts';
import { codedPieces } from '../src/parts/coded.ts';
import { isLocal, sorted } from '../src/screens/settings/devices.ts';
import { probeDetail, probeName } from '../src/screens/settings/doctor.ts';
import { coming, items, originOf, parts, shortKey, written } from '../src/screens/settings/effective.ts';
import { KINDS, changesOf, draftOf } from '../src/screens/settings/notify.ts';
import { changeOf, editorOf } from '../src/screens/settings/editable.ts';
import { Drafts, NEW, byLine, goodName, lineSpan, takesOf } from '../src/screens/settings/files.ts';
import { sectionOf } from '../src/screens/settings/menu.ts';
import { bookOf, isSettled, kindsOf, leadsTo } from '../src/screens/settings/notices.ts';
import { PRESET_NAMES, callOf, sameDecision, skeleton, typedOf } from '../src/screens/settings/sample.ts';
import { everyDay, share } from '../src/screens/settings/usage.ts';
import { cost } from '../src/text/format.ts';
import { stopReason } from '../src/text/who.ts';
import { toldOf } from '../src/sw/told.ts';
import { isMade } from '../src/parts/made.ts';
import { alertOf } from '../src/state/alerts.svelte.ts';

function setting(key: string, change: Partial<EffectiveSetting> = {}): EffectiveSetting {
  return { key, value: '', source: 'default', description: '', next_value: null, changes: false, ...change };
}

test('what the next start brings is told, and of what is shown in part that it is another', () => {
  expect(coming({ value: null, next_value: ['url = https://hooks.example/…', 'secret_env = TEAM_KEY'] })).toBe('From the next start: url = https://hooks.example/…, secret_env = TEAM_KEY');
  expect(coming({ value: 'https://hooks.example/…', next_value: 'https://hooks.example/…' })).toContain('Another one');
});

describe('the configuration in force', () => {
  test('says where a value comes from', () => {
    expect(originOf('default').kind).toBe('default');
    expect(originOf('config.toml').kind).toBe('file');
    expect(originOf('environment COILCLAW_HOME')).toEqual({ kind: 'environment', text: 'Environment COILCLAW_HOME' });
  });

  test('writes values as people read them', () => {
    expect([true, false, null, '', [], 100_000, 'ls'].map(written)).toEqual(['On', 'Off', 'Not set', 'Not set', 'Not set', '100,000', 'ls']);
  });

  test('folds long lists, and no list of one more', () => {
    expect(items(['1', '2', '3', '4', '5', '6', '7'])?.rest).toEqual([]);
    expect(items(['1', '2', '3', '4', '5', '6', '7', '8'])?.rest).toEqual(['7', '8']);
    expect(items([])).toBeNull();
  });

  const all = [setting('env'), setting('security.autonomy', { value: 'full', source: 'config.toml' }), setting('security.audit_log', { value: true })];

  test('is grouped by its first word', () => {
    expect(parts(all, '', false).map((part) => [part.title, part.settings.length])).toEqual([
      ['General', 1],
      ['Security', 2],
    ]);
  });

  test('is found by all the words typed, in any order', () => {
    expect(parts(all, 'full AUTONOMY', false).flatMap((part) => part.settings.map((each) => each.key))).toEqual(['security.autonomy']);
    expect(parts(all, 'nothing', false)).toEqual([]);
  });

  test('can be narrowed to what the owner set, or will have at the next start', () => {
    expect(parts([...all, setting('log.level', { changes: true })], '', true).flatMap((part) => part.settings.map((each) => each.key))).toEqual(['security.autonomy', 'log.level']);
  });

  test('loses only its group in the short name', () => {
    expect(shortKey('providers.models.local.kind')).toBe('models.local.kind');
    expect(shortKey('env')).toBe('env');
  });
});

describe('a sample call', () => {
  test('every example is a call', () => {
    expect(PRESET_NAMES.map((name) => callOf(typedOf(name))).every(Boolean)).toBe(true);
  });

  test('is none while its arguments are no object', () => {
    const typed = typedOf('write');
    for (const args of ['{', '[]', '"x"', 'null']) expect(callOf({ ...typed, args })).toBeNull();
    expect(callOf({ ...typed, args: '' })?.args).toEqual({});
  });

  test('carries what others wrote when it is told to', () => {
    expect(callOf({ ...typedOf('write'), tainted: true })?.taint).toEqual(['untrusted:example.com']);
  });

  test('begins with what its tool must be given', () => {
    const parameters = { properties: { path: { type: 'string' }, limit: { type: 'integer', default: 10 }, kind: { enum: ['a', 'b'] }, more: {} }, required: ['path', 'limit', 'kind'] };
    expect(JSON.parse(skeleton({ parameters } as unknown as ToolListed))).toEqual({ path: '…', limit: 10, kind: 'a' });
    expect(skeleton({ parameters: {} } as unknown as ToolListed)).toBe('{}');
  });

  test('is decided the same when verdict, code, rule and lane are', () => {
    const one = { decision: { verdict: 'ask', code: 'A', rule: 'r', lane: 'A', policy_hash: '1' }, faults: [] } as unknown as CheckedCall;
    expect(sameDecision(one, { ...one, decision: { ...one.decision, policy_hash: '2' } })).toBe(true);
    expect(sameDecision(one, { ...one, decision: { ...one.decision, verdict: 'deny' } })).toBe(false);
  });
});

describe('a file of the owner', () => {
  test('has a name that the server takes', () => {
    expect(goodName('policy', 'travel.json')).toBe(true);
    expect(goodName('skill', 'tidy-notes')).toBe(true);
    for (const name of ['travel', '../x.json', '.json', 'a b.json', '']) expect(goodName('policy', name)).toBe(false);
    for (const name of ['../x', 'a b', '.hidden', '']) expect(goodName('skill', name)).toBe(false);
  });

  test('saving it takes what the gate forecasts, and nothing is promised beyond that', () => {
    const asked = (lane: 'A' | 'B' | 'C', needs: string) => takesOf({ decision: { verdict: 'ask', lane }, needs });
    expect(asked('C', 'passkey')).toBe('passkey');
    expect(asked('C', 'passkey_missing')).toBe('passkey_missing');
    expect(asked('B', '')).toBe('approval');
    expect(asked('A', '')).toBe('once');
    expect(takesOf({ decision: { verdict: 'allow', lane: 'A' }, needs: '' })).toBe('once');
    expect(takesOf({ decision: { verdict: 'deny', lane: 'C' }, needs: '' })).toBe('refused');
  });

  test('a new policy is good JSON', () => {
    expect(JSON.parse(NEW.policy)).toMatchObject({ version: 1 });
  });

  test('faults are found by their line', () => {
    const lines = byLine([
      { line: 2, path: '$', text: 'one' },
      { line: 2, path: '$', text: 'two' },
    ]);
    expect(lines.get(2)).toEqual(['one', 'two']);
  });

  test('a line is found in the text, and beyond its end the last one', () => {
    expect(lineSpan('ab\ncd\nef', 2)).toEqual([3, 5]);
    expect(lineSpan('ab\ncd', 9)).toEqual([3, 5]);
    expect(lineSpan('', 1)).toEqual([0, 0]);
  });

  test('what is not saved is kept until it is', () => {
    const drafts = new Drafts();
    drafts.keep('SYSTEM.md', 'new', 'sha');
    expect(drafts.get('SYSTEM.md')).toEqual({ text: 'new', sha256: 'sha' });
    drafts.drop('SYSTEM.md');
    expect(drafts.get('SYSTEM.md')).toBeNull();
  });
});

describe('usage', () => {
  const bill: UsageBill = { group: '2026-03-01', answers: 1, input_tokens: 5, cached_tokens: 0, output_tokens: 2, estimated_tokens: 0, cost_millionths: null, unpriced_tokens: 7 };

  test('has every day of the span, also those nobody used', () => {
    const days = everyDay([bill], 3, Date.parse('2026-03-02T12:00:00Z'));
    expect(days.map((each) => [each.day, each.input])).toEqual([
      ['2026-02-28', 0],
      ['2026-03-01', 5],
      ['2026-03-02', 0],
    ]);
  });

  test('small costs do not vanish', () => {
    expect(cost(1_234_567)).toBe('1.23');
    expect(cost(1_200)).toBe('0.0012');
    expect(cost(0)).toBe('0.00');
  });

  test('a share is never more than all, and of no budget none', () => {
    expect([share(5, 10), share(20, 10), share(5, 0)]).toEqual([0.5, 1, 0]);
  });
});

describe('devices', () => {
  const device = (id: string, change: Partial<Device> = {}): Device => ({ device_id: id, name: id, current: false, active: true, confirmed: true, created_at: '2026-03-01T00:00:00Z', confirmed_at: null, last_seen_at: null, revoked_at: null, scope: '', ...change });

  test('this one stands first, then those that wait, the ended apart', () => {
    const { active, past } = sorted([device('old'), device('gone', { active: false }), device('waits', { confirmed: false }), device('this', { current: true }), device('new', { last_seen_at: '2026-03-02T00:00:00Z' })]);
    expect(active.map((each) => each.device_id)).toEqual(['this', 'waits', 'new', 'old']);
    expect(past.map((each) => each.device_id)).toEqual(['gone']);
  });

  test('an address of this computer is no use to another', () => {
    expect(['http://localhost:8787/#pair=A', 'http://127.0.0.1/', 'http://[::1]:1/'].every(isLocal)).toBe(true);
    expect(isLocal('https://agent.example.net/#pair=A')).toBe(false);
    expect(isLocal('nonsense')).toBe(false);
  });
});

describe('notifications', () => {
  test('lead to what they are about', () => {
    expect(leadsTo({ type: 'approval_needed', entity: 'action', entity_id: 'act_1', thread_id: 'c' })).toBe('#/approvals/act_1');
    expect(leadsTo({ type: 'job_failed', entity: 'job', entity_id: 'job_1', thread_id: 'c' })).toBe('#/work/jobs/job_1');
    expect(leadsTo({ type: 'proactive_reach_out', entity: 'job', entity_id: 'job_1', thread_id: 'conv_1' })).toBe('#/chat/conv_1');
    expect(leadsTo({ type: 'proactive_reach_out', entity: 'thread', entity_id: 'x', thread_id: 'conv_1' })).toBe('#/chat/conv_1');
  });

  const book = bookOf({
    actions: [
      { action_id: 'act_1', summary: 'Write a.md.', status: 'EXECUTED' },
      { action_id: 'act_2', summary: 'Write b.md.', status: 'PENDING' },
    ],
    jobs: [{ job_id: 'job_1', goal: 'Tidy up\n\nand more' }],
    threads: [{ thread_id: 'conv_1', title: 'Today' }],
  });

  test('are named after what they are about, in one line', () => {
    expect(['act_1', 'job_1', 'conv_1', 'act_9'].map((id) => book.get(id)?.name)).toEqual(['Write a.md.', 'Tidy up', 'Today', undefined]);
    expect([...kindsOf([{ entity: 'job' }, { entity: 'job' }])]).toEqual(['job']);
  });

  test('of a question are settled once nobody waits for the answer any more', () => {
    const asks = (entity_id: string) => ({ type: 'approval_needed', entity_id }) as const;
    expect(isSettled(asks('act_1'), book, null)).toBe(true);
    expect(isSettled(asks('act_2'), book, new Set(['act_2']))).toBe(false);
    expect(isSettled(asks('act_9'), book, new Set())).toBe(true);
    expect(isSettled(asks('act_9'), book, null)).toBe(false);
    expect(isSettled({ type: 'job_failed', entity_id: 'job_1' }, book, new Set())).toBe(false);
  });

  test('say that something waits, and never what', () => {
    const told = (type: string, id: string) => alertOf({ type: 'notification_added', id, data: { type } });
    expect(told('approval_needed', 'act_1')).toEqual({ words: 'Something waits for your approval', leads: '#/approvals/act_1' });
    const pairs = [['job_failed', 'job_1'], ['session_waiting', 'ses_1'], ['alert_raised', 'job_1'], ['proactive_reach_out', 'conv_1'], ['proactive_reach_out', 'job_1']] as const;
    expect(pairs.map(([type, id]) => told(type, id)?.leads)).toEqual(pairs.map(([type, entity_id]) => toldOf({ type, entity_id }).leads));
    expect(told('moon', 'act_1')).toBeNull();
    expect(alertOf({ type: 'tool_denied', id: 'act_1', data: {} })).toBeNull();
  });
});

describe('the doctor', () => {
  test('names what was tried as people do, and says what a tier is', () => {
    expect(probeName('estop')).toBe('Emergency stop');
    expect(probeName('policy files')).toBe('Policy files');
    expect(probeName('workflows')).toBe('Workflows of GitHub Actions');
    expect(probeName('adapter codex')).toBe('Coding program codex');
    expect(probeName('provider far')).toContain('far');
    expect(probeName('canary x via y')).toBe('canary x via y');
    expect(probeDetail({ name: 'box', detail: 'tier A' })).toContain('bubblewrap');
    expect(probeDetail({ name: 'tier B', detail: 'held' })).toMatch(/^Tier B.* held$/);
    expect(probeDetail({ name: 'home', detail: '/srv, private' })).toBe('/srv, private');
  });
});

test('a stop without a reason says none', () => {
  expect(stopReason('by device:dev_1m7hd186x94')).toBe('');
  expect(stopReason('smoke in the room')).toBe('smoke in the room');
});

test('what stands between backticks is code, and a lone one is a letter', () => {
  expect(codedPieces('Set `a` in `b`.').map((piece) => [piece.text, piece.code])).toEqual([
    ['Set ', false],
    ['a', true],
    [' in ', false],
    ['b', true],
    ['.', false],
  ]);
  expect(codedPieces('5` long')).toEqual([{ text: '5` long', code: false }]);
});

test('an address that names no section opens none', () => {
  expect(sectionOf('estop')).toBe('estop');
  expect(sectionOf('nowhere')).toBeNull();
  expect(sectionOf(undefined)).toBeNull();
});

describe('changing a setting', () => {
  test('only what is listed is edited here, and of a provider its key is only named', () => {
    expect(editorOf('security.autonomy')?.kind).toBe('choice');
    expect(editorOf('providers.models.gpt-4.1.model')?.kind).toBe('text');
    expect(['security.audit_log', 'providers.models.local.kind', 'server.http_addr', 'webhooks.a.url'].map(editorOf)).toEqual([null, null, null, null]);
  });

  test('a form asks for one change, and for none when nothing differs or nothing can be read', () => {
    const tokens = { key: 'budgets.daily_tokens', value: 5 };
    expect(changeOf(tokens, { kind: 'number' }, '1,000')).toEqual({ key: 'budgets.daily_tokens', op: 'set', value: 1000 });
    expect(['5', '', 'many'].map((text) => changeOf(tokens, { kind: 'number' }, text))).toEqual([null, null, null]);
    expect(changeOf({ key: 'security.allowed_domains', value: [] }, { kind: 'list' }, ' a.example ')).toEqual({ key: 'security.allowed_domains', op: 'add', value: 'a.example' });
  });
});

describe('the form of notifications', () => {
  const settings = [
    { key: 'notify.types', value: [...KINDS] },
    { key: 'notify.quiet', value: '22:00-07:00' },
    { key: 'notify.smtp.port', value: 587 },
    { key: 'notify.smtp.host', value: '' },
  ];

  test('asks for nothing while nothing is changed', () => {
    expect(draftOf(settings)).toMatchObject({ from: '22:00', to: '07:00', kinds: { job_failed: true }, lines: { 'notify.smtp.port': '587', 'notify.smtp.host': '' } });
    expect(changesOf(settings, draftOf(settings))).toEqual([]);
  });

  test('asks for what belongs together at once, and empties by going back to the default', () => {
    const draft = draftOf(settings);
    draft.kinds.job_completed = false;
    draft.from = draft.to = '';
    Object.assign(draft.lines, { 'notify.smtp.host': ' mail.example.net ', 'notify.smtp.port': '465', 'notify.smtp.from': 'a@example.net' });
    expect(changesOf(settings, draft)).toEqual([
      { key: 'notify.types', op: 'set', value: KINDS.filter((each) => each !== 'job_completed') },
      { key: 'notify.quiet', op: 'unset' },
      { key: 'notify.smtp.host', op: 'set', value: 'mail.example.net' },
      { key: 'notify.smtp.port', op: 'set', value: 465 },
      { key: 'notify.smtp.from', op: 'set', value: 'a@example.net' },
    ]);
  });

  test('cannot be sent with half of the quiet hours, or a port that is no number', () => {
    expect(changesOf(settings, { ...draftOf(settings), to: '' })).toBeNull();
    expect(changesOf(settings, { ...draftOf(settings), lines: { 'notify.smtp.port': 'smtp' } })).toBeNull();
  });
});

test('what a denial offers is made once every list has its item', () => {
  const offer = [{ key: 'security.allowed_domains', op: 'add' as const, value: 'a.example' }];
  const held = (...value: string[]) => [{ key: 'security.allowed_domains', value }];
  expect([isMade(offer, held('a.example')), isMade(offer, held('b.example')), isMade(offer, []), isMade([], held())]).toEqual([true, false, false, false]);
});
