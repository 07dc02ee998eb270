/** What the made-up server begins with. */
import type { ApprovalCard, Message, Overview, OverviewDay, Thread } from '../src/api/types.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const at = (ahead: number): string => new Date(Date.now() + ahead).toISOString();

const DIFF = `--- notes/week.md
+++ notes/week.md
@@ -1,6 +1,8 @@
 # This week
 
-- [ ] Call the plumber
+- [x] Call the plumber (Tuesday, 10:00)
 - [ ] Tax papers
+- [ ] Book the train to Basel, window seat if there is one left, otherwise the one at 14:32
+- [ ] Water the plants
 
 ## Later`;

const base: ApprovalCard = {
  action_id: '',
  status: 'PENDING',
  tool_name: '',
  human_summary: '',
  target_entity: '',
  risk_class: 'WRITE',
  risk: 'R2',
  risk_word: 'medium',
  lane: 'A',
  reaches_out: false,
  preview_or_diff: '',
  source_type: 'chat',
  expires_at: '',
  reasons: [],
  provenance: [],
  marked: [],
  offers: [],
  digest: '',
  seen: 'seen_1',
  args: '{}',
  changed: false,
  secretive: false,
  proof: 'token',
  approved_by: null,
  rejection_reason: null,
  thread_id: 'conv_week',
  job_id: null,
  identity: null,
  session_id: '',
  asked: 'Please tidy up my notes',
  created_at: at(-4 * MINUTE),
};

export function approvals(): ApprovalCard[] {
  return [
    {
      ...base,
      action_id: 'act_webhook',
      tool_name: 'webhook_send',
      human_summary: 'Send “Invoice 2041 is overdue” to the webhook accounting',
      target_entity: 'accounting (https://hooks.example.com/t/accounting)',
      lane: 'B',
      risk_class: 'EXFILTRATION',
      preview_or_diff: '{\n  "text": "Invoice 2041 is overdue. Please pay CHF 1,240.00 to CH93 0076 2011 6238 5295 7 by Friday.",\n  "priority": "high"\n}',
      expires_at: at(42 * MINUTE),
      reasons: ['It sends something outside this machine, so it always asks.', 'Content from mail.example.com was read in this conversation.'],
      provenance: ['untrusted:mail.example.com'],
      marked: ['CH93 0076 2011 6238 5295 7', 'CHF 1,240.00'],
      digest: '7b1f2f5a9d3f4c0b8e6a1d2c3b4a59687f6e5d4c3b2a190817263544536271f0',
      args: '{"payload":{"priority":"high","text":"Invoice 2041 is overdue. Please pay CHF 1,240.00 to CH93 0076 2011 6238 5295 7 by Friday."},"target":"accounting"}',
      proof: 'passkey',
      thread_id: 'conv_mail',
    },
    {
      ...base,
      action_id: 'act_write',
      tool_name: 'file_write',
      human_summary: 'Write notes/week.md',
      target_entity: 'notes/week.md',
      preview_or_diff: DIFF,
      expires_at: at(22 * HOUR + 10 * MINUTE),
      reasons: ['Writing to the workspace asks while autonomy is supervised.'],
      digest: '19c2a7e05b8d4f3190aa71d2c3b4a59687f6e5d4c3b2a1908172635445362aa1',
      args: '{"content":"# This week\\n…","path":"notes/week.md"}',
    },
    {
      ...base,
      action_id: 'act_policy',
      tool_name: 'file_write',
      human_summary: 'Write policies/mail.json',
      target_entity: 'policies/mail.json',
      lane: 'C',
      risk: 'R3',
      risk_word: 'high',
      preview_or_diff: '--- policies/mail.json\n+++ policies/mail.json\n@@ -2,5 +2,5 @@\n   "version": 1,\n   "rules": [\n-    {"id": "mail", "when": {"tool": "webhook_send"}, "verdict": "deny"}\n+    {"id": "mail", "when": {"tool": "webhook_send"}, "verdict": "ask"}\n   ]\n }',
      expires_at: at(23 * HOUR),
      reasons: ['It changes a policy file.'],
      digest: 'e05b19c2a78d4f3190aa71d2c3b4a59687f6e5d4c3b2a1908172635445362bb2',
      args: '{"path":"policies/mail.json"}',
      proof: 'passkey',
    },
    {
      ...base,
      action_id: 'act_shell',
      tool_name: 'shell',
      human_summary: 'Run: git log --oneline -20 && make test',
      target_entity: 'git log --oneline -20 && make test',
      preview_or_diff: 'git log --oneline -20 && make test\n\n(Runs in a box without network. The approval binds this text, not the content of the files it uses.)',
      source_type: 'job',
      job_id: 'job_1',
      expires_at: at(23 * HOUR + 30 * MINUTE),
      reasons: ['make is not on the list of allowed commands.'],
      digest: 'aa71d2c3b4a59687f6e519c2a7e05b8d4f3190d4c3b2a1908172635445362cc3',
      args: '{"command":"git log --oneline -20 && make test"}',
    },
  ];
}

export function threads(): Thread[] {
  const thread = (id: string, title: string, words: string, minutes: number, more: Partial<Thread> = {}): Thread => ({
    thread_id: id,
    title,
    channel: 'panel',
    model: null,
    project: null,
    created_at: at(-minutes * MINUTE),
    updated_at: at(-minutes * MINUTE),
    messages: 6,
    last: { role: 'assistant', text: words, untrusted: false, created_at: at(-minutes * MINUTE) },
    came_of_it: null,
    running_turn_id: null,
    waiting_turns: 0,
    waiting_approvals: 0,
    ...more,
  });
  return [
    thread('conv_week', 'Plan the week', 'I have put the plumber on Tuesday and added the train.', 4, { waiting_approvals: 1 }),
    thread('conv_mail', 'What is in my inbox?', 'Three messages; one of them is a reminder for invoice 2041.', 18, { waiting_approvals: 1 }),
    thread('conv_log', 'Why did the nightly backup fail?', 'The disk was full. Nothing was lost; the next run succeeded.', 190),
    thread('conv_intel', 'Weekly report on the bot', 'The report is in intel/2026-11/week-46.md.', 60 * 26),
  ];
}

const message: Message = {
  message_id: '',
  turn_id: 'turn_1',
  role: 'user',
  content: '',
  label: 'owner',
  untrusted: false,
  created_at: at(-20 * MINUTE),
  provider: '',
  model: '',
  calls: [],
  call_id: '',
  action_id: null,
  success: null,
  code: '',
  receipt_id: null,
  artifact: null,
  cut: false,
  attachments: [],
  turn_state: '',
  summarised: 0,
};

/** What a model might be made to say. */
const HOSTILE = [
  'The **disk** was full.',
  '<img src="https://evil.example/x.png" onerror="document.title=1"><script>document.title=2</script><style>*{display:none}</style>',
  '![pixel](https://evil.example/p.png)',
  '[here](javascript:document.title=3) [settings](#/settings) [out](https://evil.example/)',
  '<form action="/v1/estop"><button>go</button></form><iframe src="/"></iframe><svg onload="document.title=4"></svg>',
].join('\n\n');

const call = { call_id: 'c1', summary: 'Read attachments/inbox.txt.', justification: '', reasons: [], allows: [], lane: 'A' as const, risk: 'R0' as const, code: 'OK', verdict: 'allow' as const, status: 'EXECUTED' as const, action_id: 'act_read', receipt_id: 'rcp_01HZX8N7Q4W3M2', reproposed_id: null, reproposed_status: null, undo_id: null, undo_status: null };

export function messages(): Map<string, Message[]> {
  return new Map([
    [
      'conv_mail',
      [
        { ...message, message_id: 'm1', content: 'What is in my inbox? The export is attached.', attachments: ['attachments/inbox.txt'] },
        { ...message, message_id: 'm2', role: 'assistant', label: 'internal', content: 'I will read the export first.', calls: [{ ...call, tool: 'file_read', arguments: '{"path":"attachments/inbox.txt"}' }] },
        { ...message, message_id: 'm3', role: 'tool', label: 'untrusted:mail.example.com', untrusted: true, call_id: 'c1', content: 'From: billing@mail.example.com\nSubject: Invoice 2041 is overdue\n\nPlease pay CHF 1,240.00 to CH93 0076 2011 6238 5295 7 by Friday.', success: true, receipt_id: 'rcp_01HZX8N7Q4W3M2' },
        {
          ...message,
          message_id: 'm4',
          role: 'assistant',
          label: 'untrusted:mail.example.com',
          untrusted: true,
          content: 'There are **three messages**:\n\n1. A reminder: *invoice 2041 is overdue*\n2. The train tickets to Basel\n3. A newsletter\n\nI can tell accounting about the first one. This leaves your machine, so it waits for you.',
          calls: [
            { ...call, call_id: 'c2', tool: 'webhook_send', summary: 'Send 37 bytes of JSON to the webhook accounting.', arguments: '{"target":"accounting","payload":{"text":"Invoice 2041 is overdue"}}', action_id: 'act_webhook', status: 'PENDING', verdict: 'ask', code: 'LANE_B_ASKS', reasons: ['It sends something outside this machine, so it always asks.'], lane: 'B', risk: 'R2', receipt_id: null },
            { ...call, call_id: 'c3', tool: 'shell', summary: 'Run `rm -rf ~`.', arguments: '{"command":"rm -rf ~"}', action_id: 'act_rm', status: 'REJECTED', verdict: 'deny', code: 'PATH_FORBIDDEN', reasons: ['The home is never touched.'], receipt_id: 'rcp_01HZX8P2R5K7J9' },
          ],
        },
        { ...message, message_id: 'm5', role: 'system', label: 'internal', content: 'webhook_send waits for the owner (act_webhook).', action_id: 'act_webhook' },
      ],
    ],
    ['conv_week', [{ ...message, message_id: 'w1', content: 'Plan the week' }, { ...message, message_id: 'w2', role: 'assistant', label: 'internal', content: 'I have put the plumber on Tuesday and added the train.' }]],
    ['conv_log', [{ ...message, message_id: 'h1', role: 'assistant', label: 'untrusted:evil.example', untrusted: true, content: HOSTILE }]],
    ['conv_intel', []],
  ]);
}

export function overview(fresh: boolean): Overview {
  const days = Array.from({ length: 14 }, (_, n): OverviewDay => {
    const wave = fresh ? 0 : Math.round(4 + 3 * Math.sin(n * 1.3));
    return {
      day: new Date(Date.now() - (13 - n) * 24 * HOUR).toISOString().slice(0, 10),
      completed: wave,
      failed: !fresh && n % 5 === 0 ? 1 : 0,
      cancelled: 0,
      open: 0,
      input_tokens: wave * 7_200,
      output_tokens: wave * 1_000,
      cost_millionths: null,
      unpriced_tokens: wave * 8_200,
    };
  });
  return {
    since: days[0]?.day ?? '',
    days,
    verdicts: fresh ? {} : { allow: 412, ask: 38, deny: 9 },
    risks: {},
    approvals: { asked: 38, approved: 29, rejected: 4, expired: 1, waiting: 4, median_wait_seconds: 74 },
    tools: [],
    schedules: { started: 12, succeeded: 11, failed: 1, cancelled: 0, running: 0, queued: 0, skipped_slots: 0, success_percent: 91.7 },
    evidence: { looked_at: 40, complete: 40, percent: 100 },
    waiting: { approvals: fresh ? 0 : 4, unknown_actions: fresh ? 0 : 1, paused_schedules: 0, paused_jobs: fresh ? 0 : 1, waiting_jobs: 1, notifications: 2 },
    budget: { daily_tokens: 500_000, used_today: fresh ? 0 : 61_400, left_today: 438_600 },
    estop: false,
  };
}
