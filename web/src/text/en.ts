/** The catalogue: one file per screen, so that several people can write at once; keys are `screen.what`. */
import { accounts } from './en/accounts.ts';
import { approvals } from './en/approvals.ts';
import { audit } from './en/audit.ts';
import { chat } from './en/chat.ts';
import { codes } from './en/codes.ts';
import { evolve } from './en/evolve.ts';
import { files } from './en/files.ts';
import { guests } from './en/guests.ts';
import { home } from './en/home.ts';
import { pair } from './en/pair.ts';
import { parts } from './en/parts.ts';
import { pulls } from './en/pulls.ts';
import { runs } from './en/runs.ts';
import { schedules } from './en/schedules.ts';
import { patrols } from './en/patrols.ts';
import { sessions } from './en/sessions.ts';
import { settings } from './en/settings.ts';
import { shell } from './en/shell.ts';
import { work } from './en/work.ts';

export const en = {
  ...parts,
  ...codes,
  ...shell,
  ...pair,
  ...home,
  ...approvals,
  ...chat,
  ...files,
  ...work,
  ...pulls,
  ...runs,
  ...schedules,
  ...patrols,
  ...evolve,
  ...sessions,
  ...audit,
  ...settings,
  ...guests,
  ...accounts,
} as const;
