/** Labels of content: where it came from. */
import type { Label } from '../api/types.ts';
import { lookup, t } from '../text/t.ts';

const UNTRUSTED = 'untrusted:';

/** Whether somebody other than the owner or the runtime wrote it; a label nobody knows is not trusted. */
export function isUntrusted(label: Label): boolean {
  return label !== 'owner' && label !== 'internal';
}

/** The sources an untrusted label names, each once, sorted. */
export function sourcesOf(labels: readonly Label[]): string[] {
  const names = labels
    .filter(isUntrusted)
    .flatMap((label) => label.replace(UNTRUSTED, '').split(','))
    .map((name) => name.trim() || t('label.unknown'));
  return [...new Set(names)].sort();
}

/** Who asked: what the runtime proposes goes the owner's way through the gate, for a job or as the merge of a change. */
export function askedBy(source: string, tool: string, job: string | null | undefined): string {
  const own = source === 'gateway' && (job || tool === 'pr_merge' || tool === 'evolve_merge');
  return lookup(`source.${own ? 'runtime' : source}`, source);
}

/** A source as it is said to the owner: hosts and guests go by their names. */
export function sourceWords(source: string): string {
  if (source.startsWith('guest:')) return t('guests.source', { name: source.slice('guest:'.length) });
  return lookup(`label.source.${source}`, source);
}
