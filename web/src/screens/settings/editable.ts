/** The settings that can be changed from here, and what each takes. Pure. */
import type { EffectiveSetting, Json, SettingChange } from '../../api/types.ts';

export type Editor = { kind: 'choice'; options: readonly string[] } | { kind: 'number' } | { kind: 'text' } | { kind: 'list' };

const NUMBERS = [
  'budgets.daily_tokens', 'budgets.job_tokens', 'budgets.tool_calls_per_minute', 'budgets.open_proposals', 'budgets.jobs_at_once', 'budgets.prs_per_day',
  'agent.max_tool_rounds', 'agent.turn_token_budget', 'agent.tool_timeout_seconds', 'agent.shell_timeout_seconds', 'agent.http_timeout_seconds',
  'approvals.ttl_hours', 'jobs.max_steps', 'jobs.max_hours', 'jobs.step_seconds', 'executor.max_attempts',
];
const EDITORS = new Map<string, Editor>([
  ['security.autonomy', { kind: 'choice', options: ['readonly', 'supervised', 'full'] }],
  ['approvals.lane_b_proof', { kind: 'choice', options: ['passkey', 'token'] }],
  ['security.allowed_domains', { kind: 'list' }],
  ['security.allowed_commands', { kind: 'list' }],
  ['default_provider', { kind: 'text' }],
  ['default_model', { kind: 'text' }],
  ['fallback_model', { kind: 'text' }],
  ...NUMBERS.map((key): [string, Editor] => [key, { kind: 'number' }]),
]);
/** Of a provider: what an owner changes now and then. Its key is only named. */
const OF_A_PROVIDER: Record<string, Editor> = { model: { kind: 'text' }, base_url: { kind: 'text' }, api_key_env: { kind: 'text' } };

/** How a setting is edited; null for one that is left to config.toml, or to a form of its own. */
export function editorOf(key: string): Editor | null {
  const own = EDITORS.get(key);
  if (own) return own;
  const provider = /^providers\.models\..+\.(\w+)$/.exec(key);
  return provider ? (OF_A_PROVIDER[provider[1] ?? ''] ?? null) : null;
}

/** What was typed as a value of that kind; null when it is none. */
export function valueOf(editor: Editor, text: string): string | number | null {
  if (editor.kind !== 'number') return editor.kind === 'list' && !text.trim() ? null : text.trim();
  const value = Number(text.trim().replace(/[\s,_]/g, ''));
  return text.trim() && Number.isFinite(value) ? value : null;
}

/** The value as it stands in the editor. */
export function typed(value: Json): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}

/** The change that a form asks for; null when it changes nothing or cannot be read. */
export function changeOf(setting: Pick<EffectiveSetting, 'key' | 'value'>, editor: Editor, text: string): SettingChange | null {
  const value = valueOf(editor, text);
  if (value === null) return null;
  if (editor.kind === 'list') return { key: setting.key, op: 'add', value };
  return value === setting.value ? null : { key: setting.key, op: 'set', value };
}
