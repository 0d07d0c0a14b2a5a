// The last ten minutes in steps. It holds a bounded number of series of a bounded length.

const STEPS_MAX = 300;
const SERIES_MAX = 150;
const TOTALS = ['requests', 'refused', 'failed'];
const OF_POLICY = ['admitted', 'refused', 'blocked', 'would_refuse', 'unanswered', 'near_limit'];
const OF_ROUTE = ['requests', 'refused', 'failed'];

/** Counts per step, oldest first: of everything, of each policy, and of each route. */
export class History {
  constructor() {
    this.stepSeconds = 2;
    /** When each step ended, in seconds since 1970. */
    this.times = [];
    this.totals = emptySeries(TOTALS, 0);
    /** @type {Map<string, Object<string, number[]>>} */
    this.policies = new Map();
    /** @type {Map<string, Object<string, number[]>>} */
    this.routes = new Map();
  }

  /** Starts again with what the gateway has seen. */
  load(event) {
    const length = Math.min(event.totals.requests.length, STEPS_MAX);
    const until = Date.parse(event.until) / 1_000;
    this.stepSeconds = event.step_ms / 1_000;
    this.times = Array.from({ length }, (_, i) => until - (length - 1 - i) * this.stepSeconds);
    this.totals = copySeries(event.totals, TOTALS, length);
    this.policies = copyAll(event.policies, OF_POLICY, length);
    this.routes = copyAll(event.routes, OF_ROUTE, length);
  }

  /** Appends one step and forgets what is older than ten minutes. */
  push(step) {
    const length = this.times.length;
    append(this.times, Date.parse(step.time) / 1_000);
    appendTo(this.totals, step.totals);
    appendAll(this.policies, step.policies, OF_POLICY, length);
    appendAll(this.routes, step.routes, OF_ROUTE, length);
  }

  /** How many seconds the last `steps` steps cover. */
  seconds(steps) {
    return Math.min(steps, this.times.length) * this.stepSeconds;
  }
}

/** Adds up the last `steps` numbers of a series, or all. */
export function sum(numbers, steps = numbers.length) {
  let total = 0;
  for (let i = Math.max(0, numbers.length - steps); i < numbers.length; i += 1) total += numbers[i];
  return total;
}

function emptySeries(names, length) {
  return Object.fromEntries(names.map((name) => [name, new Array(length).fill(0)]));
}

function copySeries(source, names, length) {
  const series = emptySeries(names, length);
  for (const name of names) {
    if (source[name]) series[name] = source[name].slice(-length).map((number) => number ?? 0);
  }
  return series;
}

function copyAll(list, names, length) {
  return new Map(list.slice(0, SERIES_MAX).map((item) => [item.name, copySeries(item, names, length)]));
}

function append(numbers, number) {
  numbers.push(number);
  if (numbers.length > STEPS_MAX) numbers.shift();
}

function appendTo(series, values = {}) {
  for (const name of Object.keys(series)) append(series[name], values[name] ?? 0);
}

function appendAll(map, list, names, length) {
  const values = new Map(list.map((item) => [item.name, item]));
  for (const [name, series] of map) {
    appendTo(series, values.get(name));
    values.delete(name);
    if (Object.values(series).every((numbers) => sum(numbers) === 0)) map.delete(name);
  }
  for (const [name, item] of values) {
    if (map.size >= SERIES_MAX) map.delete(quietest(map));
    const series = emptySeries(names, length);
    appendTo(series, item);
    map.set(name, series);
  }
}

/** The name of the series with the fewest refusals. */
function quietest(map) {
  let least = null;
  for (const [name, series] of map) {
    const refused = sum(series.refused);
    if (least === null || refused < least.refused) least = { name, refused };
  }
  return least.name;
}
