/** Where work happens: the workspace, or a folder of the owner's. Pure. */
import type { ProjectView } from '../api/types.ts';
import { t } from '../text/t.ts';

/** What can be chosen, the workspace first; one that is gone can still be named. None without any project. */
export function placesFor(projects: readonly Pick<ProjectView, 'name'>[], current = ''): { value: string; text: string }[] {
  const names = projects.map((each) => each.name);
  if (current && !names.includes(current)) names.push(current);
  return names.length ? [{ value: '', text: t('project.workspace') }, ...names.map((name) => ({ value: name, text: name }))] : [];
}
