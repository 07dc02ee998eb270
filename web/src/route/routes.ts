/** Every route and the screen behind it. Screens come when they are first looked at; the service worker has them all. */
import type { Component } from 'svelte';
import type { IconName } from '../parts/icons.ts';
import type { Key } from '../text/t.ts';
import { isForm, type Pattern, type Place } from './match.ts';

export interface Screen {
  title: Key;
  icon: IconName;
  /** Where its menu entry leads. */
  home: string;
  load: () => Promise<{ default: Component }>;
}

export const SCREENS = {
  home: { title: 'nav.home', icon: 'home', home: '#/', load: () => import('../screens/home/Home.svelte') },
  approvals: { title: 'nav.approvals', icon: 'approve', home: '#/approvals', load: () => import('../screens/approvals/Approvals.svelte') },
  chat: { title: 'nav.chat', icon: 'chat', home: '#/chat', load: () => import('../screens/chat/Chat.svelte') },
  work: { title: 'nav.work', icon: 'work', home: '#/work', load: () => import('../screens/work/Work.svelte') },
  files: { title: 'nav.files', icon: 'folder', home: '#/files', load: () => import('../screens/files/Files.svelte') },
  schedules: { title: 'nav.schedules', icon: 'clock', home: '#/schedules', load: () => import('../screens/schedules/Schedules.svelte') },
  audit: { title: 'nav.audit', icon: 'audit', home: '#/audit', load: () => import('../screens/audit/Audit.svelte') },
  settings: { title: 'nav.settings', icon: 'settings', home: '#/settings', load: () => import('../screens/settings/Settings.svelte') },
} satisfies Record<string, Screen>;

export type ScreenName = keyof typeof SCREENS;

/** Parts of a screen that stand beside each other under its tabs: none of them lies deeper than the screen. */
const TABS: Partial<Record<string, readonly string[]>> = { work: ['jobs', 'sessions', 'patrols', 'evolve', 'pulls', 'intel', 'procedures', 'actions'], audit: ['receipts'] };

/** Whether there is a list above what is looked at, or something under a form. */
export function isDeep(place: Place | null): boolean {
  if (!place) return false;
  const { id, part } = place.params;
  return id !== undefined || (part !== undefined && !TABS[place.name]?.includes(part)) || isForm(place.query);
}

/** The name of a route is the name of its screen; a screen reads what follows from `panel.router.place.params`. */
export const PATTERNS: readonly (Pattern & { name: ScreenName })[] = [
  { name: 'home', path: '/' },
  { name: 'home', path: '/overview' },
  { name: 'home', path: '/overview/:part' },
  { name: 'approvals', path: '/approvals' },
  { name: 'approvals', path: '/approvals/:id' },
  { name: 'chat', path: '/chat' },
  { name: 'chat', path: '/chat/:id' },
  { name: 'work', path: '/work' },
  { name: 'work', path: '/work/:part' },
  { name: 'work', path: '/work/:part/:id' },
  { name: 'files', path: '/files' },
  { name: 'files', path: '/files/:id' },
  { name: 'schedules', path: '/schedules' },
  { name: 'schedules', path: '/schedules/:id' },
  { name: 'audit', path: '/audit' },
  { name: 'audit', path: '/audit/:part' },
  { name: 'audit', path: '/audit/:part/:id' },
  { name: 'settings', path: '/settings' },
  { name: 'settings', path: '/settings/:part' },
  { name: 'settings', path: '/settings/:part/:id' },
];
