import { afterEach, expect, test } from 'vitest';
import { hiddenIn, keepVisible, visibly } from '../src/parts/visible.ts';

afterEach(() => document.body.replaceChildren());

test('what hides or turns around is shown by its number', () => {
  expect(visibly('pay \u202e001\u2066\u200b\u00ad\u061c\ufeff\u{e0041}')).toBe('pay ⟨U+202E⟩001⟨U+2066⟩⟨U+200B⟩⟨U+00AD⟩⟨U+061C⟩⟨U+FEFF⟩⟨U+E0041⟩');
  expect(visibly('a\u001b[2J\u0000\u0085\u2028')).toBe('a⟨U+001B⟩[2J⟨U+0000⟩⟨U+0085⟩⟨U+2028⟩');
  expect(visibly('a\u200db \ufe0f\u{e0100}')).toBe('a⟨U+200D⟩b ⟨U+FE0F⟩⟨U+E0100⟩');
});

test('words, accents, other scripts, lines and emoji stay as they are', () => {
  for (const plain of ['', 'a\tb\nc', 'Küche e\u0301', '日本 שלום العربية', '❤️ 👩‍💻 👍🏽 🏳️‍🌈', '1\u00a0234']) expect(visibly(plain)).toBe(plain);
});

test('an editor is told which lines hold them', () => {
  expect([...hiddenIn('fine\nx\u202ey\u202e\u200b\n')]).toEqual([[2, ['U+202E', 'U+200B']]]);
});

test('whatever comes onto the page is shown, and what changes later too', async () => {
  const root = document.body.appendChild(document.createElement('div'));
  root.innerHTML = '<p title="a\u202eb">x\u202ey</p>';
  const observer = keepVisible(root);
  expect(root.querySelector('p')?.textContent).toBe('x⟨U+202E⟩y');
  expect(root.querySelector('p')?.title).toBe('a⟨U+202E⟩b');
  const later = root.appendChild(document.createElement('b'));
  later.textContent = 'z\u2066';
  await Promise.resolve();
  expect(later.textContent).toBe('z⟨U+2066⟩');
  observer.disconnect();
});
