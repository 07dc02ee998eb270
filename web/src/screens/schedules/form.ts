/** A schedule while it is being written: from what there is, to what is sent. Pure. */
import type { EditSchedule, Misfire, NewSchedule, Overlap, PreviewAsk, PreviewField, SchedulePreview, ScheduleShown, TriggerKind, WorkLimits } from '../../api/types.ts';
import { linesOf, namesOf, wholeOf } from '../../parts/typed.ts';
import { zoneOf } from './clocks.ts';

export interface ScheduleForm {
  name: string;
  kind: TriggerKind;
  cron: string;
  interval: string;
  at: string;
  zone: string;
  /** Empty for the workspace. */
  project: string;
  does: 'goal' | 'sop';
  goal: string;
  sop: string;
  steps: string;
  tools: string;
  domains: string;
  files: string;
  evidence: string;
  misfire: Misfire;
  catchUp: string;
  overlap: Overlap;
  stagger: string;
  failures: string;
}

export const KINDS: readonly TriggerKind[] = ['cron', 'interval', 'at'];
export const MISFIRES: readonly Misfire[] = ['run_once', 'run_all', 'skip'];
export const OVERLAPS: readonly Overlap[] = ['skip', 'queue_one', 'allow', 'replace'];

export function blank(zone: string): ScheduleForm {
  return {
    name: '', kind: 'cron', cron: '0 9 * * 1-5', interval: '', at: '', zone, project: '', does: 'goal', goal: '', sop: '', steps: '',
    tools: '', domains: '', files: '', evidence: '', misfire: 'run_once', catchUp: '', overlap: 'skip', stagger: '', failures: '',
  };
}

/** What there is, as it can be written over. */
export function formOf(schedule: ScheduleShown, zone: string): ScheduleForm {
  const { options, constraints } = schedule;
  return {
    name: schedule.schedule_id,
    kind: schedule.trigger,
    cron: schedule.cron ?? '',
    interval: schedule.interval ?? '',
    at: schedule.at ?? '',
    zone: schedule.timezone || zone,
    project: schedule.project ?? '',
    does: schedule.sop === null ? 'goal' : 'sop',
    goal: schedule.sop === null ? schedule.goal : '',
    sop: schedule.sop ?? '',
    steps: schedule.steps.join('\n'),
    tools: (constraints.allowed_tools ?? []).join(', '),
    domains: (constraints.allowed_domains ?? []).join(', '),
    files: constraints.max_files_changed?.toString() ?? '',
    evidence: schedule.evidence.join(', '),
    misfire: options.misfire,
    catchUp: options.catch_up_window ?? '',
    overlap: options.overlap,
    stagger: /^0(s|m|h)?$/.test(options.stagger) ? '' : options.stagger,
    failures: String(options.max_failures),
  };
}

/** What the preview is asked. */
export function askOf(form: Pick<ScheduleForm, 'kind' | 'cron' | 'interval' | 'at' | 'zone'>, known: readonly string[] = []): PreviewAsk {
  return { trigger: form.kind, [form.kind]: form[form.kind].trim(), ...(form.kind === 'interval' ? {} : { timezone: zoneOf(form.zone, known) }), count: 5 };
}

/** What is wrong with a field, and how to write it. */
export function faultOf(preview: SchedulePreview | null, field: PreviewField): string {
  const found = preview?.faults.find((each) => each.field === field);
  return found ? `${capital(found.fault)} ${found.remedy}`.trim() : '';
}

/** What could be written in a field instead. */
export function meantOf(preview: SchedulePreview | null, field: PreviewField): string[] {
  return preview?.faults.find((each) => each.field === field)?.meant ?? [];
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function limitsOf(form: ScheduleForm): WorkLimits {
  const most = wholeOf(form.files);
  return {
    ...(namesOf(form.tools).length ? { allowed_tools: namesOf(form.tools) } : {}),
    ...(namesOf(form.domains).length ? { allowed_domains: namesOf(form.domains) } : {}),
    ...(most === null ? {} : { max_files_changed: most }),
  };
}

/** When and what, as it is declared. */
function whenOf(form: ScheduleForm): Pick<EditSchedule, 'trigger' | 'cron' | 'interval' | 'at' | 'timezone'> {
  return { trigger: form.kind, [form.kind]: form[form.kind].trim(), ...(form.kind === 'interval' ? {} : { timezone: form.zone.trim() }) };
}

function whatOf(form: ScheduleForm): Pick<EditSchedule, 'goal' | 'sop'> {
  return form.does === 'sop' ? { sop: form.sop } : { goal: form.goal.trim() };
}

/** A new schedule. What is usual is not said. */
export function newOf(form: ScheduleForm): NewSchedule {
  const made: NewSchedule = { ...whenOf(form), ...whatOf(form) };
  if (form.name.trim()) made.schedule_id = form.name.trim();
  if (form.project) made.project = form.project;
  if (form.does === 'goal' && linesOf(form.steps).length) made.steps = linesOf(form.steps);
  if (Object.keys(limitsOf(form)).length) made.constraints = limitsOf(form);
  if (namesOf(form.evidence).length) made.evidence = namesOf(form.evidence);
  if (form.misfire !== 'run_once') made.misfire = form.misfire;
  if (form.overlap !== 'skip') made.overlap = form.overlap;
  if (form.catchUp.trim()) made.catch_up_window = form.catchUp.trim();
  if (form.stagger.trim()) made.stagger = form.stagger.trim();
  const failures = wholeOf(form.failures);
  if (failures !== null) made.max_failures = failures;
  return made;
}

/** Only what was changed: what is left out stays as it is, and a time that stays does not count anew. */
export function changesOf(before: ScheduleForm, after: ScheduleForm): EditSchedule {
  const made: EditSchedule = {};
  const same = (...names: (keyof ScheduleForm)[]): boolean => names.every((name) => before[name].trim() === after[name].trim());
  if (!same('kind', after.kind, ...(after.kind === 'interval' ? [] : (['zone'] as const)))) Object.assign(made, whenOf(after));
  if (!same('does', after.does === 'sop' ? 'sop' : 'goal')) Object.assign(made, whatOf(after));
  if (!same('project')) made.project = after.project || null;
  if (after.does === 'goal' && !same('steps')) made.steps = linesOf(after.steps);
  if (!same('tools', 'domains', 'files')) made.constraints = limitsOf(after);
  if (!same('evidence')) made.evidence = namesOf(after.evidence);
  if (!same('misfire')) made.misfire = after.misfire;
  if (!same('overlap')) made.overlap = after.overlap;
  if (!same('catchUp')) made.catch_up_window = after.catchUp.trim() || null;
  if (!same('stagger')) made.stagger = after.stagger.trim() || null;
  if (!same('failures')) made.max_failures = wholeOf(after.failures);
  return made;
}

/** Whether an `at` can be chosen with the browser's own picker. */
export function pickable(at: string): boolean {
  return at === '' || /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}$/.test(at);
}
