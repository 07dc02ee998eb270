/** Which folders are open; kept while other screens are looked at. */
import { SvelteSet } from 'svelte/reactivity';

export const opened = new SvelteSet<string>();
