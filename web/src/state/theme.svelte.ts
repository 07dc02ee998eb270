/** Light, dark, or as the system has it; public/theme.js applies it before the first paint. */

export type ThemeName = 'system' | 'light' | 'dark';
const NAME = 'coilclaw.theme';

function read(): ThemeName {
  try {
    const found = localStorage.getItem(NAME);
    return found === 'light' || found === 'dark' ? found : 'system';
  } catch {
    return 'system';
  }
}

export class Theme {
  name: ThemeName = $state(read());

  choose(name: ThemeName): void {
    this.name = name;
    if (name === 'system') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = name;
    try {
      if (name === 'system') localStorage.removeItem(NAME);
      else localStorage.setItem(NAME, name);
    } catch {
      // It holds until the page is closed.
    }
  }
}
