/** Markdown as one line of plain words, for lists. Not for showing a message: what is dropped here may matter there. Pure. */
export function plainly(text: string): string {
  return text
    .replace(/`{3,}\w*/g, '')
    .replace(/^\s{0,3}(?:#{1,6}\s+|>\s?|[-*+]\s+|\d+[.)]\s+)/gm, '')
    .replace(/!?\[([^\]]*)\]\([^)\s]*\)/g, '$1')
    .replace(/(\*\*|__|~~|`+)(?=\S)(.*?\S)\1/g, '$2')
    .replace(/(^|[^\w*])\*(?=\S)([^*]*\S)\*(?!\w)/g, '$1$2')
    .replace(/\s+/g, ' ')
    .trim();
}
