/** A button on every block of code that copies it, and nothing around it. */
import { t } from '../text/t.ts';
import { ICONS, type IconName } from './icons.ts';

const SVG = 'http://www.w3.org/2000/svg';

/** Put one beside each block under a node. */
export function addCopyButtons(root: ParentNode): void {
  for (const block of root.querySelectorAll('pre')) {
    const around = document.createElement('div');
    around.className = 'code';
    block.replaceWith(around);
    around.append(block, button(block));
  }
}

function button(block: HTMLElement): HTMLButtonElement {
  const made = document.createElement('button');
  made.type = 'button';
  made.className = 'copy';
  made.title = t('do.copy.code');
  made.setAttribute('aria-label', t('do.copy.code'));
  const picture = document.createElementNS(SVG, 'svg');
  picture.setAttribute('viewBox', '0 0 24 24');
  picture.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS(SVG, 'path');
  picture.append(path);
  made.append(picture);
  const show = (icon: IconName): void => path.setAttribute('d', ICONS[icon]);
  show('copy');
  made.addEventListener('click', () => {
    void navigator.clipboard?.writeText(block.textContent.replace(/\n$/, '')).then(() => {
      show('check');
      setTimeout(() => show('copy'), 1_500);
    }, () => undefined);
  });
  return made;
}
