/** Lists that grow by pages and stay right: every reading fetches all pages that are in sight. */
import type { Fresh } from '../api/client.ts';
import type { Page } from '../api/types.ts';

/** Short pages may have a next one: so many are read in a row to fill one in sight. */
const HOPS = 5;

/** The first `wanted` items and whether there are more. Stale as soon as one page is. */
export async function firstOf<T>(load: (cursor: string | null) => Promise<Fresh<Page<T>>>, wanted: number): Promise<Fresh<Page<T>>> {
  const items: T[] = [];
  let cursor: string | null = null;
  let staleSince: number | null = null;
  for (let hop = 0; hop === 0 || (cursor && items.length < wanted && hop < HOPS + wanted / 50); hop += 1) {
    let page: Fresh<Page<T>>;
    try {
      page = await load(cursor);
    } catch (error) {
      if (!items.length) throw error;
      break; // what was read is shown; the rest can be asked for again
    }
    items.push(...page.data.items);
    cursor = page.data.next_cursor;
    staleSince ??= page.staleSince;
  }
  return { data: { items, next_cursor: cursor }, staleSince };
}
