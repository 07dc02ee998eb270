/** A terminal on the page: xterm.js with nothing that reaches beyond it. Loaded when a session is looked at. */
import { FitAddon } from '@xterm/addon-fit';
import { SearchAddon } from '@xterm/addon-search';
import { Terminal } from '@xterm/xterm';
import '@xterm/xterm/css/xterm.css';
import { terminalDocument } from './sheets.ts';

export interface Size {
  rows: number;
  columns: number;
}

export interface ScreenParts {
  typed: (data: string) => void;
  dark: boolean;
  label: string;
}

export interface Screen {
  write: (data: Uint8Array, done: () => void) => void;
  reset: () => void;
  /** The size that fits; null while it is not shown. */
  fit: () => Size | null;
  /** Show exactly this size, whatever fits: of somebody else's terminal. */
  resize: (size: Size) => void;
  focus: () => void;
  search: (words: string, back: boolean) => boolean;
  /** Everything on it as text, the oldest line first. */
  text: () => string;
  selection: () => string;
  setDark: (dark: boolean) => void;
  dispose: () => void;
}

const DARK = { background: '#1d1d1b', foreground: '#edece8', cursor: '#edece8', selectionBackground: '#3d5a80' };
const LIGHT = {
  background: '#ffffff', foreground: '#1d1c1a', cursor: '#1d1c1a', selectionBackground: '#b5d0ff',
  black: '#1b1d21', red: '#a1260d', green: '#1f6f2b', yellow: '#7a5200', blue: '#0b4fa8', magenta: '#8a1f8a', cyan: '#0f6a73', white: '#5c6066',
  brightBlack: '#5c6066', brightRed: '#a1260d', brightGreen: '#1f6f2b', brightYellow: '#7a5200', brightBlue: '#0b4fa8', brightMagenta: '#8a1f8a', brightCyan: '#0f6a73', brightWhite: '#3a3d42',
};
const SCROLLBACK = 5_000;
/** Sequences of the operating system that reach beyond the screen: titles, clipboard, notifications, links, colours asked for. */
const OSC = [0, 1, 2, 4, 7, 8, 9, 10, 11, 12, 52, 99, 133, 777, 1337];

export function openScreen(host: HTMLElement, parts: ScreenParts): Screen {
  const sheets = terminalDocument(document);
  const terminal = new Terminal({
    allowProposedApi: false,
    cursorBlink: false,
    documentOverride: sheets.document,
    fontFamily: 'ui-monospace, SFMono-Regular, Menlo, Consolas, monospace',
    fontSize: 13,
    minimumContrastRatio: 4.5,
    screenReaderMode: false,
    scrollback: SCROLLBACK,
    theme: parts.dark ? DARK : LIGHT,
    windowOptions: {},
  });
  const fit = new FitAddon();
  const search = new SearchAddon();
  terminal.loadAddon(fit);
  terminal.loadAddon(search);
  for (const number of OSC) terminal.parser.registerOscHandler(number, () => true);
  terminal.parser.registerDcsHandler({ final: 'q' }, () => true);
  terminal.parser.registerDcsHandler({ intermediates: '$', final: 'q' }, () => true);
  // Window operations, and every question that a terminal would answer by typing: several pages may show one session.
  const asked = [
    { final: 't' }, { final: 'n' }, { prefix: '?', final: 'n' }, { final: 'c' }, { prefix: '>', final: 'c' }, { prefix: '=', final: 'c' },
    { prefix: '>', final: 'q' }, { prefix: '?', final: 'u' }, { intermediates: '$', final: 'p' }, { prefix: '?', intermediates: '$', final: 'p' },
  ];
  for (const each of asked) terminal.parser.registerCsiHandler(each, () => true);
  sheets.during(() => terminal.open(host));
  terminal.textarea?.setAttribute('aria-label', parts.label);
  terminal.onData((data) => parts.typed(data));
  terminal.onBinary((data) => parts.typed(data));
  return {
    write: (data, done) => terminal.write(data, done),
    reset: () => terminal.reset(),
    fit: () => {
      const found = fit.proposeDimensions();
      if (!found || !Number.isFinite(found.cols) || !Number.isFinite(found.rows)) return null;
      return { rows: Math.max(2, found.rows), columns: Math.max(2, found.cols) };
    },
    resize: ({ rows, columns }) => terminal.resize(columns, rows),
    focus: () => terminal.focus(),
    search: (words, back) => (back ? search.findPrevious(words) : search.findNext(words)),
    text: () => {
      const buffer = terminal.buffer.active;
      const lines: string[] = [];
      for (let at = 0; at < buffer.length; at += 1) lines.push(buffer.getLine(at)?.translateToString(true) ?? '');
      return lines.join('\n').trimEnd();
    },
    selection: () => terminal.getSelection(),
    setDark: (dark) => {
      terminal.options.theme = dark ? DARK : LIGHT;
    },
    dispose: () => {
      terminal.dispose();
      sheets.dispose();
    },
  };
}
