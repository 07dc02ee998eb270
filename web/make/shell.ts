/** What the server may hand out and what the service worker keeps: written from the files that were really built. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { extname, join, relative, sep } from 'node:path';
import type { Plugin } from 'vite';

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.webmanifest': 'application/manifest+json',
};

interface Listed {
  path: string;
  file: string;
  type: string;
  immutable: boolean;
  sha256: string;
}

const sha256 = (data: Uint8Array | string): string => createHash('sha256').update(data).digest('hex');

function walk(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? walk(join(folder, entry.name)) : [join(folder, entry.name)],
  );
}

function listed(out: string, path: string): Listed {
  const file = relative(out, path).split(sep).join('/');
  const type = TYPES[extname(file)];
  if (!type) throw new Error(`${file}: no content type is known for it; add one in make/shell.ts`);
  return {
    path: file === 'index.html' ? '/' : `/${file}`,
    file,
    type,
    immutable: file.startsWith('assets/'),
    sha256: sha256(readFileSync(path)),
  };
}

/** Lists the build in files.json and tells the service worker what the shell is made of. */
export function shell(): Plugin {
  let out = '';
  return {
    name: 'coilclaw-shell',
    apply: 'build',
    configResolved: (config) => {
      out = config.build.outDir;
    },
    writeBundle: () => {
      const files = walk(out)
        .filter((path) => !path.endsWith('files.json'))
        .map((path) => listed(out, path))
        .sort((a, b) => (a.path < b.path ? -1 : 1));
      const kept = files.filter((each) => each.path !== '/sw.js');
      const worker = join(out, 'sw.js');
      const version = sha256(kept.map((each) => `${each.path} ${each.sha256}`).join('\n')).slice(0, 16);
      const code = readFileSync(worker, 'utf8')
        .replace('__SHELL_VERSION__', version)
        .replace('__SHELL_PATHS__', kept.map((each) => each.path).join(' '));
      writeFileSync(worker, code);
      const all = files.map((each) => (each.path === '/sw.js' ? { ...each, sha256: sha256(code) } : each));
      writeFileSync(join(out, 'files.json'), `${JSON.stringify({ version, files: all }, null, 1)}\n`);
    },
  };
}
