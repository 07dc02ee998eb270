/** What the doctor tried, in words. Pure. */
import type { Probe } from '../../api/types.ts';
import { lookup, t } from '../../text/t.ts';

/** The name people know it by; that of the doctor for what the catalogue does not know. */
export function probeName(name: string): string {
  const provider = /^provider (.+)$/.exec(name);
  if (provider?.[1]) return t('settings.probe.provider', { name: provider[1] });
  const guest = /^guest (.+)$/.exec(name);
  if (guest?.[1]) return t('guests.probe', { name: guest[1] });
  const program = /^adapter (.+)$/.exec(name);
  if (program?.[1]) return t('settings.probe.program', { name: program[1] });
  return lookup(`settings.probe.name.${name.replaceAll(' ', '_')}`, name);
}

/** What was found; where that is a tier, or the probe is of one, with what the tier means. */
export function probeDetail(probe: Pick<Probe, 'name' | 'detail'>): string {
  const found = /^tier (A|B|unsafe)$/.exec(probe.detail)?.[1];
  if (probe.name === 'box' && found) return lookup(`settings.tier.${found}`, probe.detail);
  const of = /^tier (A|B)$/.exec(probe.name)?.[1];
  return of ? `${lookup(`settings.tier.${of}`, '')} ${probe.detail}`.trim() : probe.detail;
}
