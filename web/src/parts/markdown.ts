/**
 * Markdown to nodes, loaded when the first message is shown. What a model writes is untrusted: it passes a sanitiser that
 * knows a short list of elements, keeps no style, no image, no form, and opens links outside only when they are clicked.
 */
import DOMPurify from 'dompurify';
import MarkdownIt from 'markdown-it';
import { coloured } from './highlight.ts';

/** More than this is shown as the text it is: no text may keep the page, and the switch on it, from answering. */
export const MOST = 20_000;

const TAGS = [
  'p', 'br', 'hr', 'strong', 'em', 's', 'code', 'pre', 'blockquote', 'ul', 'ol', 'li', 'a',
  'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'table', 'thead', 'tbody', 'tr', 'th', 'td',
];
const LINK = /^https?:\/\//i;
/** Other names of this machine: what answers there may be us. */
const LOOPBACK: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]']);
/** Nested so deep that the reader gives up, and would drop what is inside. */
export const DEEP = /^(?:[ \t]*(?:>|[-*+]|\d{1,9}[.)])){20}|^[ \t]{80}/m;
/** An address in running text; what ends a sentence or stands in brackets around it is not part of it. */
const BARE = /https?:\/\/[^\s<>"'“”‘’`]*[^\s<>"'“”‘’`.,;:!?)\]}]/gi;

function refuse(): never {
  throw new TypeError('no scripts from text');
}

// The policy never leaves this module: only the sanitiser is handed it, and only to read what it then cleans.
const policy = window.trustedTypes?.createPolicy('coilclaw', {
  createHTML: (text) => text,
  createScript: refuse,
  createScriptURL: refuse,
});

/** Our own addresses are not for others to point at. */
function leadsOut(href: string): boolean {
  const url = LINK.test(href) ? URL.parse(href) : null;
  if (!url) return false;
  const { origin, port } = window.location;
  return url.origin !== origin && !(url.port === port && LOOPBACK.has(url.hostname));
}

const purifier = DOMPurify(window);

purifier.addHook('afterSanitizeAttributes', (node) => {
  if (node.tagName === 'A' && !leadsOut(node.getAttribute('href') ?? '')) node.removeAttribute('href');
});

// HTML in a message is shown as the text it is, and a picture by its words: the sanitiser is the second wall, not the first.
const reader = new MarkdownIt({ html: false, breaks: true, linkify: false });
reader.renderer.rules['image'] = (tokens, at) => {
  const token = tokens[at];
  return reader.utils.escapeHtml(token?.content || String(token?.attrGet('src') ?? ''));
};

/** Safe nodes for a text. */
export function markdown(text: string): DocumentFragment {
  const tokens = reader.parse(text, {});
  const nodes = purifier.sanitize(reader.renderer.render(tokens, reader.options, {}), {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ['href', 'start'],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    KEEP_CONTENT: true,
    RETURN_DOM_FRAGMENT: true,
    ...(policy ? { TRUSTED_TYPES_POLICY: policy } : {}),
  });
  // The languages are told by the reader: what the sanitiser lets through has no classes.
  const languages = tokens.filter((token) => token.type === 'fence' || token.type === 'code_block').map((token) => token.info.trim());
  nodes.querySelectorAll('pre > code').forEach((block, at) => {
    const language = languages[at]?.split(/\s/)[0];
    if (language) block.replaceChildren(coloured(block.textContent, language));
  });
  linkBare(nodes);
  for (const link of nodes.querySelectorAll('a[href]')) lead(link as HTMLAnchorElement);
  return nodes;
}

function linkBare(nodes: DocumentFragment): void {
  const walker = document.createTreeWalker(nodes, NodeFilter.SHOW_TEXT);
  const found: Text[] = [];
  while (walker.nextNode()) {
    const node = walker.currentNode as Text;
    if (!node.parentElement?.closest('a, code, pre') && node.data.includes('://')) found.push(node);
  }
  for (const node of found) {
    const pieces: (string | Node)[] = [];
    let at = 0;
    for (const match of node.data.matchAll(BARE)) {
      if (!leadsOut(match[0])) continue;
      const link = document.createElement('a');
      link.href = link.textContent = match[0];
      pieces.push(node.data.slice(at, match.index), link);
      at = match.index + match[0].length;
    }
    node.replaceWith(...pieces, node.data.slice(at));
  }
}

/** A link opens beside the panel, and says where it leads unless its words are just that. */
function lead(link: HTMLAnchorElement): void {
  link.target = '_blank';
  link.rel = 'noopener noreferrer';
  const host = hostOf(link.href, link.textContent);
  if (!host) return;
  const told = document.createElement('span');
  told.className = 'host';
  told.textContent = ` (${host})`;
  link.append(told);
}

/** The host to be told; empty when the words of the link are its address and nothing in it misleads. */
function hostOf(href: string, words: string): string {
  const url = URL.parse(href);
  if (!url) return '';
  const plain = !url.username && !url.password && !url.host.includes('xn--');
  const bare = (text: string): string => text.trim().replace(LINK, '').replace(/\/$/, '');
  return plain && bare(words) === bare(url.href) ? '' : url.host;
}
