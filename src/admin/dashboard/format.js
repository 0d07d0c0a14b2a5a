// Numbers, times and durations as people read them.

const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const ONE_DIGIT = new Intl.NumberFormat('en', { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const COMPACT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const CLOCK = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const DAY = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });

/** 12,345 */
export const count = (number) => WHOLE.format(number);

/** 12.3K: for axes and narrow places. */
export const compact = (number) => COMPACT.format(number);

/** A rate without its unit: one digit after the point if it is below 10. */
export function rate(perSecond) {
  if (perSecond === 0) return '0';
  if (perSecond < 0.05) return '<0.1';
  return perSecond < 9.95 ? ONE_DIGIT.format(perSecond) : WHOLE.format(perSecond);
}

/** 41.5 %, or 100 %. */
export function percent(number) {
  return `${Number.isInteger(number) ? number : ONE_DIGIT.format(number)} %`;
}

/** One number if both are equal, otherwise the range. */
export function range(atLeast, atMost) {
  return atLeast === atMost ? count(atLeast) : `${count(atLeast)}–${count(atMost)}`;
}

const UNITS = [
  [86_400, 'd'],
  [3_600, 'h'],
  [60, 'min'],
  [1, 's'],
];

/** The two largest units of a duration: 2 d 9 h, 4 min 43 s, 12 s. */
export function duration(seconds) {
  if (seconds < 1) return seconds <= 0 ? '0 s' : '<1 s';
  let rest = Math.round(seconds);
  const parts = [];
  for (const [size, unit] of UNITS) {
    const whole = Math.floor(rest / size);
    rest -= whole * size;
    if (whole > 0) parts.push(`${whole} ${unit}`);
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.join(' ');
}

/** A duration in microseconds: 412 µs, 1.2 ms, 2.3 s. */
export function microseconds(us) {
  if (us < 1_000) return `${count(us)} µs`;
  if (us < 1_000_000) return `${ONE_DIGIT.format(us / 1_000)} ms`;
  return `${ONE_DIGIT.format(us / 1_000_000)} s`;
}

/** The time of day, with the date if it is not today; in the browser's time zone. */
export function clock(iso, now = new Date()) {
  const date = new Date(iso);
  return date.toDateString() === now.toDateString() ? CLOCK.format(date) : DAY.format(date);
}

/** How long ago something was, or until it is. */
export const secondsSince = (iso, now = Date.now()) => (now - Date.parse(iso)) / 1_000;

/** One thing or several: plural(2, 'client') is "2 clients". */
export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? '' : 's'}`;

/** The quotas of a policy as one line: "20 per second, 600 per minute". */
export function quotasOf(policy) {
  if (!policy) return '';
  if (policy.quotas.length === 0) return policy.without_override;
  return policy.quotas.map((quota) => quota.quota).join(', ');
}
