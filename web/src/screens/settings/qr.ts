/**
 * A QR code for an address (ISO/IEC 18004): bytes, error correction M, versions 1 to 10, which holds 213 bytes. The server
 * hands out the address alone, and a library would be larger than this. Pure.
 */

/** Per version: error correction bytes of a block, then [blocks, data bytes of each]. */
const BLOCKS: readonly (readonly [number, ...(readonly [number, number])[]])[] = [
  [10, [1, 16]], [16, [1, 28]], [26, [1, 44]], [18, [2, 32]], [24, [2, 43]],
  [16, [4, 27]], [18, [4, 31]], [22, [2, 38], [2, 39]], [22, [3, 36], [2, 37]], [26, [4, 43], [1, 44]],
];
const ALIGNED: readonly (readonly number[])[] = [
  [], [6, 18], [6, 22], [6, 26], [6, 30], [6, 34], [6, 22, 38], [6, 24, 42], [6, 26, 46], [6, 28, 50],
];
const MASKS: readonly ((row: number, column: number) => boolean)[] = [
  (r, c) => (r + c) % 2 === 0,
  (r) => r % 2 === 0,
  (_, c) => c % 3 === 0,
  (r, c) => (r + c) % 3 === 0,
  (r, c) => (Math.floor(r / 2) + Math.floor(c / 3)) % 2 === 0,
  (r, c) => ((r * c) % 2) + ((r * c) % 3) === 0,
  (r, c) => (((r * c) % 2) + ((r * c) % 3)) % 2 === 0,
  (r, c) => (((r + c) % 2) + ((r * c) % 3)) % 2 === 0,
];

/** The field with 256 elements, by its logarithms. */
const { EXP, LOG } = (() => {
  const exp = new Uint8Array(512);
  const log = new Uint8Array(256);
  let value = 1;
  for (let at = 0; at < 255; at += 1) {
    exp[at] = exp[at + 255] = value;
    log[value] = at;
    value = value & 0x80 ? ((value << 1) ^ 0x11d) & 0xff : value << 1;
  }
  return { EXP: exp, LOG: log };
})();

const times = (a: number, b: number): number => (a && b ? (EXP[(LOG[a] ?? 0) + (LOG[b] ?? 0)] ?? 0) : 0);

/** The remainder of Reed and Solomon. */
function correction(data: readonly number[], length: number): number[] {
  let generator = [1];
  for (let at = 0; at < length; at += 1) {
    const next = new Array<number>(generator.length + 1).fill(0);
    generator.forEach((each, place) => {
      next[place] = (next[place] ?? 0) ^ each;
      next[place + 1] = (next[place + 1] ?? 0) ^ times(each, EXP[at] ?? 0);
    });
    generator = next;
  }
  const rest = [...data, ...new Array<number>(length).fill(0)];
  for (let at = 0; at < data.length; at += 1) {
    const lead = rest[at] ?? 0;
    if (!lead) continue;
    generator.forEach((each, place) => (rest[at + place] = (rest[at + place] ?? 0) ^ times(each, lead)));
  }
  return rest.slice(data.length);
}

/** All bytes as they are laid out: data and correction of the blocks, interleaved. */
function codewords(bytes: Uint8Array, version: number): number[] {
  const [length, ...groups] = BLOCKS[version - 1] ?? [0];
  const room = groups.reduce((sum, [blocks, size]) => sum + blocks * size, 0);
  const bits: number[] = [];
  const put = (value: number, width: number): void => {
    for (let at = width - 1; at >= 0; at -= 1) bits.push((value >> at) & 1);
  };
  put(4, 4); // bytes follow
  put(bytes.length, version < 10 ? 8 : 16);
  bytes.forEach((each) => put(each, 8));
  put(0, Math.min(4, room * 8 - bits.length));
  while (bits.length % 8) bits.push(0);
  const data: number[] = [];
  for (let at = 0; at < bits.length; at += 8) data.push(bits.slice(at, at + 8).reduce((sum, bit) => sum * 2 + bit, 0));
  for (let pad = 0xec; data.length < room; pad ^= 0xec ^ 0x11) data.push(pad);

  const blocks: number[][] = [];
  let from = 0;
  for (const [count, size] of groups)
    for (let at = 0; at < count; at += 1, from += size) blocks.push(data.slice(from, from + size));
  const corrected = blocks.map((block) => correction(block, length));
  const woven: number[] = [];
  for (const lists of [blocks, corrected])
    for (let at = 0; at < Math.max(...lists.map((each) => each.length)); at += 1)
      for (const list of lists) {
        const value = list[at];
        if (value !== undefined) woven.push(value);
      }
  return woven;
}

/** Null where nothing stands yet. */
type Grid = (boolean | null)[][];

function frame(version: number): Grid {
  const size = 17 + 4 * version;
  const grid: Grid = Array.from({ length: size }, () => new Array<boolean | null>(size).fill(null));
  const set = (row: number, column: number, dark: boolean): void => {
    const line = grid[row];
    if (line && column >= 0 && column < size) line[column] = dark;
  };
  for (const [top, left] of [[0, 0], [0, size - 7], [size - 7, 0]] as const)
    for (let r = -1; r <= 7; r += 1)
      for (let c = -1; c <= 7; c += 1) {
        const ring = Math.max(Math.abs(r - 3), Math.abs(c - 3));
        set(top + r, left + c, ring !== 2 && ring !== 4);
      }
  for (const row of ALIGNED[version - 1] ?? [])
    for (const column of ALIGNED[version - 1] ?? []) {
      if (grid[row]?.[column] !== null) continue; // a corner
      for (let r = -2; r <= 2; r += 1) for (let c = -2; c <= 2; c += 1) set(row + r, column + c, Math.max(Math.abs(r), Math.abs(c)) !== 1);
    }
  for (let at = 8; at < size - 8; at += 1) {
    set(6, at, at % 2 === 0);
    set(at, 6, at % 2 === 0);
  }
  return grid;
}

/** A value with its check bits: what is left after division by the generator. */
function checked(value: number, bits: number, generator: number): number {
  let rest = value << bits;
  for (let at = 31 - Math.clz32(rest); at >= bits; at = 31 - Math.clz32(rest)) {
    rest ^= generator << (at - bits);
    if (!rest) break;
  }
  return (value << bits) | rest;
}

function format(grid: Grid, mask: number): void {
  const size = grid.length;
  const bits = checked(mask, 10, 0x537) ^ 0x5412; // level M is 00
  for (let at = 0; at < 15; at += 1) {
    const dark = ((bits >> at) & 1) === 1;
    const up = at < 6 ? at : at < 8 ? at + 1 : size - 15 + at;
    const across = at < 8 ? size - 1 - at : at < 9 ? 7 : 14 - at;
    const [column, row] = [grid[up], grid[8]];
    if (column) column[8] = dark;
    if (row) row[across] = dark;
  }
  const last = grid[size - 8];
  if (last) last[8] = true;
}

function versioned(grid: Grid, version: number): void {
  if (version < 7) return;
  const bits = checked(version, 12, 0x1f25);
  for (let at = 0; at < 18; at += 1) {
    const dark = ((bits >> at) & 1) === 1;
    const [near, far] = [Math.floor(at / 3), grid.length - 11 + (at % 3)];
    const [a, b] = [grid[near], grid[far]];
    if (a) a[far] = dark;
    if (b) b[near] = dark;
  }
}

/** How hard it is to read: runs, squares, what looks like a corner, too much of one shade. */
function penalty(grid: readonly (readonly boolean[])[]): number {
  const size = grid.length;
  const at = (r: number, c: number): boolean => grid[r]?.[c] ?? false;
  const LIKE = [0b10111010000, 0b00001011101];
  let sum = 0;
  let dark = 0;
  for (const turned of [false, true])
    for (let r = 0; r < size; r += 1) {
      let run = 0;
      let window = 0;
      for (let c = 0; c < size; c += 1) {
        const now = turned ? at(c, r) : at(r, c);
        run = c > 0 && now === (turned ? at(c - 1, r) : at(r, c - 1)) ? run + 1 : 1;
        if (run === 5) sum += 3;
        else if (run > 5) sum += 1;
        window = ((window << 1) | Number(now)) & 0x7ff;
        if (c >= 10 && LIKE.includes(window)) sum += 40;
        if (!turned && now) dark += 1;
      }
    }
  for (let r = 0; r < size - 1; r += 1)
    for (let c = 0; c < size - 1; c += 1) {
      const first = at(r, c);
      if (first === at(r, c + 1) && first === at(r + 1, c) && first === at(r + 1, c + 1)) sum += 3;
    }
  return sum + 10 * Math.floor(Math.abs((dark * 20) / (size * size) - 10));
}

/** The code as rows of modules, true where it is dark; null when the text is too long. `mask` only for tests. */
export function qr(text: string, mask?: number): boolean[][] | null {
  const bytes = new TextEncoder().encode(text);
  const version = BLOCKS.findIndex(([, ...groups], at) => groups.reduce((sum, [blocks, size]) => sum + blocks * size, 0) >= bytes.length + (at < 9 ? 2 : 3)) + 1;
  if (!version) return null;
  const grid = frame(version);
  versioned(grid, version);
  format(grid, 0); // keeps its place free
  const size = grid.length;
  const bits = codewords(bytes, version).flatMap((each) => [7, 6, 5, 4, 3, 2, 1, 0].map((at) => ((each >> at) & 1) === 1));
  const data: [number, number, boolean][] = [];
  let next = 0;
  let up = true;
  for (let right = size - 1; right > 0; right -= 2, up = !up) {
    if (right === 6) right = 5; // the timing column
    for (let step = 0; step < size; step += 1)
      for (const column of [right, right - 1]) {
        const row = up ? size - 1 - step : step;
        if (grid[row]?.[column] === null) data.push([row, column, bits[next++] ?? false]);
      }
  }
  const masked = (which: number): boolean[][] => {
    const made = grid.map((line) => line.map((each) => each ?? false));
    format(made, which);
    for (const [row, column, bit] of data) {
      const line = made[row];
      if (line) line[column] = bit !== (MASKS[which]?.(row, column) ?? false);
    }
    return made;
  };
  if (mask !== undefined) return masked(mask);
  return MASKS.map((_, which) => masked(which)).reduce((best, each) => (penalty(each) < penalty(best) ? each : best));
}

/** The dark modules as one path, a unit each, with a border of four. */
export function qrPath(rows: readonly (readonly boolean[])[]): string {
  const BORDER = 4;
  return rows.flatMap((row, r) => row.flatMap((dark, c) => (dark ? [`M${c + BORDER} ${r + BORDER}h1v1h-1z`] : []))).join('');
}
