/** Sample calls to try against the rules. Pure. */
import type { CheckedCall, Json, SampleCall, Source, ToolListed, Verdict } from '../../api/types.ts';

export const PRESETS = {
  write: { tool: 'file_write', args: { path: 'notes/today.md', content: 'Call the plumber' } },
  env: { tool: 'file_read', args: { path: '.env' } },
  command: { tool: 'shell', args: { command: 'ls -la' } },
  danger: { tool: 'shell', args: { command: 'rm -rf notes' } },
  fetch: { tool: 'http', args: { url: 'https://example.com/' } },
  webhook: { tool: 'webhook_send', args: { target: 'team', payload: { text: 'Hello' } } },
} as const satisfies Record<string, { tool: string; args: { [key: string]: Json } }>;

export type PresetName = keyof typeof PRESETS;
export const PRESET_NAMES = Object.keys(PRESETS) as PresetName[];
export const SOURCES: readonly Source[] = ['chat', 'job', 'schedule', 'sop', 'cli', 'gateway', 'session', 'mcp'];
/** What a turn that read a page of others carries. */
export const TAINT = 'untrusted:example.com';

/** What was said to a call, in short: as it is, and with the change. */
export interface TrialAnswer {
  name: string;
  now: Verdict;
  then: Verdict | null;
  /** Something was changed since, and it is being asked anew. */
  waits: boolean;
}

/** What somebody types into the form. */
export interface Typed {
  tool: string;
  args: string;
  source: Source;
  tainted: boolean;
}

export function typedOf(preset: PresetName): Typed {
  const { tool, args } = PRESETS[preset];
  return { tool, args: JSON.stringify(args, null, 2), source: 'chat', tainted: false };
}

/** The call that was typed; null while the arguments are no JSON object. */
export function callOf(typed: Typed): SampleCall | null {
  let args: unknown;
  try {
    args = JSON.parse(typed.args.trim() || '{}');
  } catch {
    return null;
  }
  if (typeof args !== 'object' || args === null || Array.isArray(args) || !typed.tool) return null;
  return { tool: typed.tool, args: args as { [key: string]: Json }, source: typed.source, taint: typed.tainted ? [TAINT] : [] };
}

function isObject(value: Json | undefined): value is { [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Arguments to begin with: what a tool must be given, with something of its type. */
export function skeleton(tool: ToolListed): string {
  const properties = tool.parameters['properties'];
  const required = tool.parameters['required'];
  if (!isObject(properties) || !Array.isArray(required)) return '{}';
  const args: { [key: string]: Json } = {};
  for (const name of required) {
    if (typeof name !== 'string') continue;
    const schema = properties[name];
    args[name] = isObject(schema) ? example(schema) : '';
  }
  return JSON.stringify(args, null, 2);
}

function example(schema: { [key: string]: Json }): Json {
  if (schema['default'] !== undefined && schema['default'] !== null) return schema['default'];
  if (Array.isArray(schema['enum'])) return schema['enum'][0] ?? '';
  const zero: { [type: string]: Json } = { integer: 1, number: 1, boolean: true, array: [], object: {} };
  return zero[String(schema['type'])] ?? '…';
}

/** Whether two decisions say the same to the owner. */
export function sameDecision(one: CheckedCall, other: CheckedCall): boolean {
  const [a, b] = [one.decision, other.decision];
  return a.verdict === b.verdict && a.code === b.code && a.rule === b.rule && a.lane === b.lane;
}
