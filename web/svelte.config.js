import { vitePreprocess } from '@sveltejs/vite-plugin-svelte';

/** Runes everywhere; what the compiler warns of is an error in `scripts/panel test`. */
export default {
  preprocess: vitePreprocess(),
  compilerOptions: { runes: true },
};
