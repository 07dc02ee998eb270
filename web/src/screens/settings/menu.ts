/** The sections of the settings, in the order of the menu. */

export const MENU = {
  rules: ['policy', 'answers', 'policies', 'skills', 'prompt', 'projects', 'guests', 'programs'],
  model: ['providers', 'usage'],
  access: ['devices', 'passkeys', 'accounts'],
  house: ['notices', 'estop', 'doctor', 'appearance'],
} as const;

export type GroupName = keyof typeof MENU;
export type SectionName = (typeof MENU)[GroupName][number];

export const GROUPS = Object.keys(MENU) as GroupName[];

/** The section an address names; null when there is no such one. */
export function sectionOf(name: string | undefined): SectionName | null {
  return GROUPS.flatMap((group): readonly SectionName[] => MENU[group]).find((each) => each === name) ?? null;
}
