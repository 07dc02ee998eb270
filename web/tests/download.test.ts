import { describe, expect, it } from 'vitest';
import { nameOf, ours } from '../src/api/download.ts';

function click(href: string, more: MouseEventInit = {}): string | null {
  document.body.replaceChildren();
  const link = document.createElement('a');
  link.setAttribute('href', href);
  const inner = document.createElement('span');
  link.append(inner);
  document.body.append(link);
  let found: string | null = null;
  const listen = (event: MouseEvent): void => {
    found = ours(event);
    event.preventDefault();
  };
  document.addEventListener('click', listen);
  inner.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, ...more }));
  document.removeEventListener('click', listen);
  return found;
}

describe('downloads', () => {
  it('are links to the API, clicked plainly', () => {
    expect(click('/v1/artifacts/a/content')).toBe('/v1/artifacts/a/content');
    expect(click('#/audit')).toBeNull();
    expect(click('/v1/audit/export', { ctrlKey: true })).toBeNull();
  });

  it('are named as the server says, or by their address', () => {
    const told = new Response('', { headers: { 'Content-Disposition': 'attachment; filename="report.md"' } });
    expect(nameOf(told, '/v1/artifacts/a/content')).toBe('report.md');
    expect(nameOf(new Response(''), '/v1/artifacts/art_1/content')).toBe('art_1');
    expect(nameOf(new Response(''), '/v1/audit/export?since=x')).toBe('export');
  });
});
