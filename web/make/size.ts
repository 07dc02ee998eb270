/** Fails when the first load, gzipped, is over its limit: what index.html names and what that needs before anything shows. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const LIMIT = 120_000;
const out = process.argv[2] ?? '';
const weigh = (file: string): number => gzipSync(readFileSync(join(out, file)), { level: 9 }).length;
const index = readFileSync(join(out, 'index.html'), 'utf8');

/** Everything a module imports, and what those import; not what is imported when it is needed. */
function needed(file: string, seen: Set<string>): void {
  if (seen.has(file)) return;
  seen.add(file);
  if (!file.endsWith('.js')) return;
  const code = readFileSync(join(out, file), 'utf8');
  for (const [, path] of code.matchAll(/(?:^|[;}])\s*(?:import|export)(?:[^'"()]*?from)?\s*["']\.\/([\w.-]+\.js)["']/g)) needed(`assets/${path}`, seen);
}

const first = new Set<string>(['index.html']);
for (const [, path] of index.matchAll(/(?:src|href)="\/((?:assets\/)?[\w.-]+\.(?:js|css))"/g)) needed(path ?? '', first);
const sizes = [...first].map((file) => [file, weigh(file)] as const).sort((a, b) => b[1] - a[1]);
const sum = sizes.reduce((total, [, size]) => total + size, 0);
for (const [file, size] of sizes) console.log(`${String(size).padStart(8)}  ${file}`);
console.log(`${String(sum).padStart(8)}  first load, gzipped (limit ${LIMIT})`);
if (sum > LIMIT) {
  console.error('The first load is over its limit: load something later, or leave it out.');
  process.exit(1);
}
