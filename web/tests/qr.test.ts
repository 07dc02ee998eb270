import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { qr, qrPath } from '../src/screens/settings/qr.ts';

const GOLDEN: [string, number, string][] = [
  ['http://localhost:8787/#pair=ABCD-EFGH', 0, '41468a6d67f36f24'],
  ['http://localhost:8787/#pair=ABCD-EFGH', 5, '9250a8285575a662'],
  ['grüße', 3, 'de26aebe1a37696c'],
  ['https://agent.example.ts.net/#pair=ABCD-EFGHyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy', 2, '200f0303288f844e'],
  ['zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz', 6, 'f3813a8ec85e9887'],
  ['qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq', 7, '7b1b65e89003250b'],
];

function digest(text: string, mask: number): string {
  const rows = qr(text, mask) ?? [];
  return createHash('sha256').update(rows.map((row) => row.map(Number).join('')).join('\n')).digest('hex').slice(0, 16);
}

describe('a QR code', () => {
  // Each was held against an encoder that is not ours, module by module.
  test.each(GOLDEN)('of %s with mask %i is as others draw it', (text, mask, wanted) => {
    expect(digest(text, mask)).toBe(wanted);
  });

  test('grows with its text', () => {
    expect(qr('a')?.length).toBe(21);
    expect(qr('x'.repeat(15))?.length).toBe(25);
    expect(qr('x'.repeat(213))?.length).toBe(57);
  });

  test('of a text that is too long there is none', () => {
    expect(qr('x'.repeat(214))).toBeNull();
  });

  test('is drawn with the quiet border that cameras need', () => {
    const rows = qr('a') ?? [];
    expect(qrPath(rows).startsWith('M4 4h1v1h-1z')).toBe(true);
  });
});
