import { describe, expect, test } from 'vitest';
import { opens } from '../src/parts/outward.ts';
import { questionOf } from '../src/screens/settings/accounts.ts';
import { leadsTo } from '../src/screens/settings/notices.ts';
import { toldOf } from '../src/sw/told.ts';
import { placeOf } from '../src/text/events.ts';

describe('an account', () => {
  test('finds the question about itself alone', () => {
    const asks = (tool_name: string, account: string) => ({ action_id: `act_${account}`, tool_name, args: JSON.stringify({ account }) });
    expect(questionOf([asks('google_connect', 'bot')], 'user')).toBeNull();
    expect(questionOf([asks('gmail_send_draft', 'user')], 'user')).toBeNull();
    expect(questionOf([asks('google_disconnect', 'user')], 'user')).toBe('act_user');
  });

  test('opens only what can be a sign-in page', () => {
    expect(['https://accounts.google.com/o', 'http://127.0.0.1:4600/o'].map(opens)).toEqual([true, true]);
    expect(['javascript:alert(1)', 'http://evil.example/', 'data:text/html,x', 'no address'].map(opens)).toEqual([false, false, false, false]);
  });

  test('is where its notification and its events lead', () => {
    expect(leadsTo({ type: 'proactive_reach_out', entity: 'account', entity_id: 'account_google_bot', thread_id: null })).toBe('#/settings/accounts');
    expect(toldOf({ type: 'proactive_reach_out', entity_id: 'account_google_bot' }).leads).toBe('#/settings/accounts');
    expect(placeOf({ event_type: 'oauth_connected', entity_id: 'google (bot)', payload: {} })).toBe('#/settings/accounts');
  });
});
