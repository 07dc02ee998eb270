/**
 * Characters that hide, or turn others around, shown by their number wherever they come onto the page, whoever wrote them. One place for
 * all screens: what is drawn there is looked at before it is painted. Parts of an emoji stay together.
 */
const HIDDEN =
  /(?![\n\t])\p{Cc}|(?!\u200d)\p{Cf}|(?<!\p{Extended_Pictographic}\ufe0f?|\p{Emoji_Modifier})\u200d|[\p{Zl}\p{Zp}\p{Cs}\p{Co}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufe00-\ufe0e]|(?<![\p{Emoji}])\ufe0f|[\u{e0100}-\u{e01ef}]/gu;
const ATTRIBUTES = ['title', 'aria-label', 'placeholder'];

/** The text with every such character as ⟨U+202E⟩. */
export function visibly(text: string): string {
  return text.replace(HIDDEN, (found) => `⟨U+${found.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')}⟩`);
}

/** Which lines of a text hold such characters, counted from 1, and which. */
export function hiddenIn(text: string): Map<number, string[]> {
  const found = new Map<number, string[]>();
  for (const [at, line] of text.split('\n').entries()) {
    const signs = [...new Set([...line.matchAll(HIDDEN)].map(([sign]) => visibly(sign).slice(1, -1)))];
    if (signs.length) found.set(at + 1, signs);
  }
  return found;
}

/** Show them in everything under a node, now and whenever something changes there. */
export function keepVisible(root: HTMLElement): MutationObserver {
  const observer = new MutationObserver((changes) => {
    for (const change of changes) for (const node of change.type === 'childList' ? change.addedNodes : [change.target]) reveal(node);
  });
  observer.observe(root, { subtree: true, childList: true, characterData: true, attributeFilter: ATTRIBUTES });
  reveal(root);
  return observer;
}

function reveal(node: Node): void {
  if (node instanceof Text) {
    const shown = visibly(node.data);
    if (shown !== node.data && node.parentElement?.tagName !== 'TEXTAREA') node.data = shown;
    return;
  }
  if (!(node instanceof Element)) return;
  for (const name of ATTRIBUTES) {
    const said = node.getAttribute(name);
    if (said !== null && visibly(said) !== said) node.setAttribute(name, visibly(said));
  }
  for (const child of node.childNodes) reveal(child);
}
