/** The arithmetic of a chart: bars stacked by day. Pure. */

export interface Series {
  name: string;
  tone: 'accent' | 'good' | 'warn' | 'bad' | 'plain';
  values: readonly number[];
}

export interface Bar {
  at: number;
  tone: Series['tone'];
  x: number;
  y: number;
  width: number;
  height: number;
}

/** A round number at or above the largest value: the top of the scale. */
export function niceTop(largest: number): number {
  if (largest <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(largest));
  const step = [1, 2, 2.5, 5, 10].find((each) => each * power >= largest) ?? 10;
  return step * power;
}

export function stackedBars(series: readonly Series[], width: number, height: number, gap = 0.28): { bars: Bar[]; top: number } {
  const days = Math.max(0, ...series.map((each) => each.values.length));
  const sums = Array.from({ length: days }, (_, at) => series.reduce((sum, each) => sum + (each.values[at] ?? 0), 0));
  const top = niceTop(Math.max(0, ...sums));
  const slot = days ? width / days : width;
  const bars: Bar[] = [];
  for (let at = 0; at < days; at += 1) {
    let below = 0;
    for (const each of series) {
      const value = each.values[at] ?? 0;
      if (value <= 0) continue;
      const tall = (value / top) * height;
      bars.push({ at, tone: each.tone, x: at * slot + (slot * gap) / 2, y: height - below - tall, width: slot * (1 - gap), height: tall });
      below += tall;
    }
  }
  return { bars, top };
}
