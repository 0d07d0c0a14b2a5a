// Plots of the last ten minutes, and the small ones in tables.

import { compact, rate } from './format.js';
import { h, setAttribute, setText, svg } from './dom.js';
import { sum } from './history.js';

const WINDOW_SECONDS = 600;
const SHARES_MAX = 4;
const OTHERS = 'all others';
const schemes = ['(prefers-color-scheme: dark)', '(forced-colors: active)'].map((query) => matchMedia(query));

/** Requests, refused and failed a second, as lines. */
export class TotalsPlot {
  #plot;
  constructor() {
    const series = [
      { color: '--accent', fill: '--accent-faint' },
      { color: '--red', fill: '--red-faint' },
      { color: '--red', dash: [4, 3] },
    ];
    this.#plot = new Plot('Requests', series);
    this.element = this.#plot.element;
  }

  show(history) {
    const { requests, refused, failed } = history.totals;
    const values = [requests, refused, failed].map((numbers) => perSecond(numbers, history));
    this.#plot.show(history.times, values, values, ['Requests', 'Refused', 'Failed']);
  }

  close() {
    this.#plot.close();
  }
}

/** What is refused a second, stacked by policy or by route: the four that refused most, and all others. */
export class SharesPlot {
  #plot;
  #slots = new Array(SHARES_MAX).fill(null);
  constructor(title) {
    // Drawn from the top of the stack to its bottom, each area over the one before.
    const series = Array.from({ length: SHARES_MAX + 1 }, (_, i) => {
      const color = `--share-${SHARES_MAX - i}`;
      return { color: i === 0 ? '--muted' : '--red', fill: color, swatch: color };
    });
    this.#plot = new Plot(title, series, true);
    this.element = this.#plot.element;
  }

  /** Shows the refused requests of a map of series. */
  show(history, map) {
    this.#assign(map);
    const length = history.times.length;
    const zeros = new Array(length).fill(0);
    const shares = this.#slots.map((name) => perSecond(map.get(name)?.refused ?? zeros, history));
    shares.push(this.#others(map, history, length));
    const tops = [];
    for (const share of shares) tops.push(share.map((value, i) => value + (tops.at(-1)?.[i] ?? 0)));
    const hasOthers = sum(shares.at(-1)) > 0;
    const names = [...this.#slots, hasOthers ? OTHERS : null];
    this.#plot.show(history.times, tops.reverse(), shares.reverse(), names.reverse());
  }

  close() {
    this.#plot.close();
  }

  /** Gives places to the names that refused most; a name that keeps its place keeps its colour. */
  #assign(map) {
    const ranked = [...map].map(([name, series]) => ({ name, refused: sum(series.refused) }));
    const most = ranked.filter((item) => item.refused > 0).sort((a, b) => b.refused - a.refused);
    const wanted = most.slice(0, SHARES_MAX).map((item) => item.name);
    const news = wanted.filter((name) => !this.#slots.includes(name));
    this.#slots = this.#slots.map((name) => (wanted.includes(name) ? name : (news.shift() ?? null)));
  }

  #others(map, history, length) {
    const total = new Array(length).fill(0);
    for (const [name, series] of map) {
      if (this.#slots.includes(name)) continue;
      series.refused.forEach((value, i) => (total[i] += value));
    }
    return perSecond(total, history);
  }
}

const perSecond = (numbers, history) => numbers.map((number) => number / history.stepSeconds);

/** A figure: a title, a legend with the values under the cursor, and the plot. */
class Plot {
  #series;
  #legend;
  #box;
  #title;
  #chart = null;
  #times = [];
  #drawn = [];
  #values = [];
  #names = [];
  #at = null;
  #resize = new ResizeObserver(() => this.#fit());
  #redraw = () => this.#build();

  /** Series are drawn in their order; the legend of a stack begins at its bottom. */
  constructor(title, series, stacked = false) {
    this.#title = title;
    this.#box = h('div', { class: 'plot', role: 'img', 'aria-label': `${title}: no numbers yet` });
    this.#series = series;
    this.#legend = series.map(({ color, dash, swatch = color }) => ({
      swatch: h('span', { class: `swatch none ${swatch.slice(2)}${dash ? ' dashed' : ''}`, 'aria-hidden': 'true' }),
      name: h('span', { class: 'name' }),
      value: h('span', { class: 'number' }),
    }));
    const items = this.#legend.map((item) => h('li', null, item.swatch, item.name, item.value));
    this.element = h(
      'figure',
      null,
      h('figcaption', null, h('h2', null, title), h('span', { class: 'unit' }, 'a second, last 10 min')),
      h('ul', { class: 'legend' }, stacked ? items.reverse() : items),
      this.#box,
    );
    this.#resize.observe(this.#box);
    for (const scheme of schemes) scheme.addEventListener('change', this.#redraw);
  }

  /** `drawn` has the points of the lines, `values` the numbers that the legend shows, both by series. */
  show(times, drawn, values, names) {
    this.#times = times;
    this.#drawn = drawn;
    this.#values = values;
    this.#names = names;
    if (this.#chart) this.#chart.setData([times, ...drawn]);
    else this.#build();
    this.#label();
  }

  close() {
    this.#resize.disconnect();
    for (const scheme of schemes) scheme.removeEventListener('change', this.#redraw);
    this.#chart?.destroy();
  }

  #fit() {
    const { clientWidth: width, clientHeight: height } = this.#box;
    if (!this.#chart) this.#build();
    else if (width > 0) this.#chart.setSize({ width, height });
  }

  #build() {
    const { clientWidth: width, clientHeight: height } = this.#box;
    if (width === 0 || this.#times.length === 0) return;
    this.#chart?.destroy();
    this.#chart = new uPlot({ width, height, ...this.#options() }, [this.#times, ...this.#drawn], this.#box);
  }

  #options() {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const axis = {
      stroke: color('--muted'),
      font: '11px system-ui, sans-serif',
      grid: { stroke: color('--line'), width: 1 },
      ticks: { show: false },
    };
    return {
      padding: [6, 16, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { setScale: false }, points: { show: false }, sync: { key: 'now' } },
      hooks: { setCursor: [(chart) => this.#point(chart.cursor.idx)] },
      scales: {
        x: { time: true, range: () => [this.#times.at(-1) - WINDOW_SECONDS, this.#times.at(-1)] },
        y: { range: (_, low, high) => [0, Math.max(high * 1.1, 4)] },
      },
      axes: [
        { ...axis, size: 24, gap: 4, space: 64, values: (_, ticks) => ticks.map(hourAndMinute) },
        { ...axis, size: 44, gap: 6, space: 32, values: (_, ticks) => ticks.map(compact) },
      ],
      series: [
        {},
        ...this.#series.map((series) => ({
          stroke: color(series.color),
          fill: series.fill && color(series.fill),
          dash: series.dash,
          width: series.swatch ? 0.75 : 1.25,
          points: { show: false },
        })),
      ],
    };
  }

  #point(index) {
    if (index === this.#at) return;
    this.#at = index ?? null;
    this.#label();
  }

  #label() {
    const at = this.#at ?? this.#times.length - 1;
    this.#legend.forEach((item, i) => {
      const name = this.#names[i];
      setText(item.name, name ?? '');
      setAttribute(item.name, 'title', name);
      setText(item.value, name ? `${rate(this.#values[i]?.[at] ?? 0)}/s` : '');
      item.swatch.classList.toggle('none', !name);
    });
    if (this.#names.every((name) => !name)) setText(this.#legend.at(-1).name, 'Nothing refused');
    const words = this.#names.map((name, i) => name && `${name} ${rate(this.#values[i]?.at(-1) ?? 0)}`);
    setAttribute(this.#box, 'aria-label', `${this.#title}, a second: ${words.filter(Boolean).join(', ') || 'none'}`);
  }
}

const hourAndMinute = (seconds) =>
  new Date(seconds * 1_000).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });

// At least `top` refusals in ten seconds are needed to fill a small plot, so that single ones stay low.
const SPARK = { width: 120, height: 20, points: 60, steps: 300, top: 5 };

/** A small plot of refusals for a table. */
export function sparkline() {
  const { width, height } = SPARK;
  const area = svg('path', { class: 'spark-refused' });
  const base = svg('path', { class: 'spark-base', d: `M0,${height - 0.5}H${width}` });
  const box = { class: 'spark', viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' };
  const show = (numbers) => {
    const heights = condense(numbers);
    const most = Math.max(SPARK.top, ...heights);
    const outline = heights.map((number, i) => {
      const x = (i * width) / (SPARK.points - 1);
      return `${x.toFixed(1)},${(height - (number / most) * height).toFixed(1)}`;
    });
    setAttribute(area, 'd', `M0,${height}L${outline.join('L')}L${width},${height}Z`);
  };
  return { element: svg('svg', box, base, area), show };
}

/** Adds up neighbours, so that a series has as many numbers as there is room for. */
function condense(numbers) {
  const group = SPARK.steps / SPARK.points;
  const condensed = new Array(SPARK.points).fill(0);
  const start = SPARK.steps - numbers.length;
  numbers.forEach((number, i) => (condensed[Math.floor((start + i) / group)] += number));
  return condensed;
}
