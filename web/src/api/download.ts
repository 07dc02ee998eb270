/** Downloads: a link cannot show the page's key, so what it leads to is fetched and then handed to the browser. */
import type { Client } from './client.ts';

/** The name a download is saved under; what the server says, or the end of its address. */
export function nameOf(response: Response, path: string): string {
  const told = /filename="([^"]+)"/.exec(response.headers.get('Content-Disposition') ?? '')?.[1];
  return told ?? path.split('?')[0]?.split('/').filter((part) => part && part !== 'content').pop() ?? 'download';
}

/** The address of ours that a click is on; null when it is none, or is meant otherwise. */
export function ours(event: MouseEvent): string | null {
  if (event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return null;
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  const path = link?.getAttribute('href') ?? '';
  return path.startsWith('/v1/') ? path : null;
}

/** Have every link to the API saved as a file; the answer stops it. */
export function followDownloads(client: Client, page: Document, failed: (error: unknown) => void): () => void {
  async function save(path: string): Promise<void> {
    const response = await client.open(path, {}, new AbortController().signal);
    const address = URL.createObjectURL(await response.blob());
    const link = page.createElement('a');
    link.href = address;
    link.download = nameOf(response, path);
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }

  function clicked(event: MouseEvent): void {
    const path = ours(event);
    if (!path) return;
    event.preventDefault();
    save(path).catch(failed);
  }

  page.addEventListener('click', clicked);
  return () => page.removeEventListener('click', clicked);
}
