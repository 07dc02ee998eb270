/**
 * Markdown to nodes, loaded when the first message is shown. What a model writes is untrusted: it passes a sanitiser that
 * knows a short list of elements, keeps no style, no image, no form, and opens links outside only when they are clicked.
 */
import DOMPurify from 'dompurify';
import { Marked } from 'marked';

const TAGS = [
  'p', 'br', 'hr', 'strong', 'em', 'del', 'code', 'pre', 'blockquote', 'ul', 'ol', 'li', 'a',
  'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'table', 'thead', 'tbody', 'tr', 'th', 'td',
];
const LINK = /^https?:\/\//i;

function refuse(): never {
  throw new TypeError('no scripts from text');
}

// The policy never leaves this module: only the sanitiser is handed it, and only to read what it then cleans.
const policy = window.trustedTypes?.createPolicy('coilclaw', {
  createHTML: (text) => text,
  createScript: refuse,
  createScriptURL: refuse,
});

const purifier = DOMPurify(window);

purifier.addHook('afterSanitizeAttributes', (node) => {
  if (node.tagName !== 'A') return;
  const href = node.getAttribute('href') ?? '';
  if (LINK.test(href)) {
    node.setAttribute('target', '_blank');
    node.setAttribute('rel', 'noopener noreferrer');
  } else {
    node.removeAttribute('href'); // our own addresses are not for others to point at
  }
});

const ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
const escaped = (text: string): string => text.replace(/[&<>"']/g, (letter) => ESCAPES[letter] ?? letter);

// HTML in a message is shown as the text it is, and a picture by its words: the sanitiser is the second wall, not the first.
const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: { html: ({ text }) => escaped(text), image: ({ text, href }) => escaped(text || href) },
});

/** Safe nodes for a text. */
export function markdown(text: string): DocumentFragment {
  const html = marked.parse(text, { async: false });
  return purifier.sanitize(html, {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ['href', 'start'],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    KEEP_CONTENT: true,
    RETURN_DOM_FRAGMENT: true,
    ...(policy ? { TRUSTED_TYPES_POLICY: policy } : {}),
  });
}
