/** An error as it is said to the owner: what happened, and what to do next. */
import { asApiError } from '../api/problem.ts';
import { PasskeyError } from '../auth/passkey.ts';
import { lookup, t } from './t.ts';

export interface Said {
  what: string;
  remedy: string;
}

/** Our own words where the catalogue has them for the code, the server's otherwise. */
export function said(thrown: unknown): Said {
  if (thrown instanceof PasskeyError) return { what: t(`passkey.${thrown.why}`), remedy: t(`passkey.${thrown.why}.remedy`) };
  const error = asApiError(thrown);
  return {
    what: lookup(`error.${error.code}`, sentence(error.detail) || t('error.other', { code: error.code })),
    remedy: lookup(`error.${error.code}.remedy`, error.remedy),
  };
}

/** Both in one line. */
export function inFull(thrown: unknown): string {
  const { what, remedy } = said(thrown);
  return `${what} ${remedy}`.trim();
}

/** It begins with a capital letter, unless its first word is a path or a name of something. */
function sentence(text: string): string {
  if (/^\S*[/._]\S*\s/.test(text)) return text;
  return text.charAt(0).toUpperCase() + text.slice(1);
}
