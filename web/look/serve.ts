/** Serves a build of the panel beside the made-up API, with the real headers: `node look/serve.ts BUILD [PORT]`. */
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { FakeServer, type FakeStart } from '../src/api/fake.ts';

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "font-src 'self'",
  "manifest-src 'self'",
  "worker-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  'trusted-types default coilclaw svelte-trusted-html',
].join('; ');

const [build = '', port = '0'] = process.argv.slice(2);
const { files } = JSON.parse(readFileSync(join(build, 'files.json'), 'utf8')) as {
  files: { path: string; file: string; type: string; immutable: boolean }[];
};
const assets = new Map(files.map((each) => [each.path, each]));
let server = new FakeServer();

async function body(request: IncomingMessage): Promise<Buffer<ArrayBuffer>> {
  const pieces: Buffer[] = [];
  for await (const piece of request) pieces.push(piece as Buffer);
  return Buffer.concat(pieces);
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '/', `http://${request.headers.host ?? 'localhost'}`);
  const asset = assets.get(url.pathname);
  if (asset && request.method === 'GET') {
    response.writeHead(200, {
      'Content-Type': asset.type,
      'Content-Security-Policy': POLICY,
      'Cache-Control': asset.immutable ? 'public, max-age=31536000, immutable' : 'no-cache',
    });
    response.end(readFileSync(join(build, asset.file)));
    return;
  }
  if (url.pathname === '/fake/start') {
    // Begin anew: `/fake/start` with {"paired": false} and the like.
    server.drop();
    server = new FakeServer(JSON.parse((await body(request)).toString() || '{}') as FakeStart);
    response.writeHead(204).end();
    return;
  }
  const data = await body(request);
  const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]));
  const made = await server.fetch(url, { method: request.method ?? 'GET', headers, ...(data.length ? { body: data } : {}) });
  response.writeHead(made.status, { ...Object.fromEntries(made.headers), 'Cache-Control': 'no-store' });
  if (!made.body) return void response.end();
  const reader = made.body.getReader();
  response.on('close', () => void reader.cancel().catch(() => undefined));
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    response.write(value);
  }
  response.end();
}

const listening = createServer((request, response) => {
  answer(request, response).catch((error: unknown) => {
    console.error(error);
    response.destroy();
  });
});
listening.listen(Number(port), '127.0.0.1', () => {
  const address = listening.address();
  console.log(`http://localhost:${typeof address === 'object' && address ? address.port : port}/`);
});
