// One sentence about what is refused now, and why.

import { sum } from './history.js';
import { count, quotasOf, rate } from './format.js';

/** How many steps "now" is: ten seconds. */
export const NOW_STEPS = 5;

/**
 * Says what is refused now. Returns the sentence as `before`, the name of a policy or nothing, and `after`; `detail`
 * has the last ten minutes, and `kind` changes when screen readers should be told.
 */
export function headline(history, policies, problem = '') {
  const seconds = history.seconds(NOW_STEPS);
  const now = Object.fromEntries(Object.entries(history.totals).map(([name, n]) => [name, sum(n, NOW_STEPS)]));
  if (seconds === 0) return { ...sentence('No numbers yet.'), detail: problem, kind: 'waiting' };
  const detail = lastMinutes(history);
  if (now.requests === 0) return { ...sentence(`No requests in the last ${seconds}\u00a0s.`), detail, kind: 'idle' };
  const culprit = strictest(history);
  const words = refusedPart(now, seconds, culprit, policies);
  const state = `${now.refused > 0 ? `refuses by ${culprit?.name}` : 'admits'}${now.failed > 0 ? ', fails' : ''}`;
  return { ...words, after: words.after + failedPart(now, seconds), detail, kind: state };
}

const sentence = (before, name = '', after = '') => ({ before, name, after });

function refusedPart(now, seconds, culprit, policies) {
  if (now.refused === 0) {
    return now.failed === 0
      ? sentence(`Nothing is refused: all ${amount(now.requests, seconds)} are let through.`)
      : sentence(`Nothing is refused of ${amount(now.requests, seconds)}.`);
  }
  const many = now.refused >= seconds && now.requests >= 10 * seconds;
  const share = many
    ? `${count(now.refused / seconds)} of ${count(now.requests / seconds)} requests a second are refused`
    : `${count(now.refused)} of ${count(now.requests)} requests in the last ${seconds}\u00a0s were refused`;
  if (!culprit) return sentence(`${share}.`);
  const how =
    culprit.count >= now.refused ? 'all' : culprit.count * 2 > now.refused ? 'most' : 'more than by any other';
  if (culprit.blocks) return sentence(`${share}, ${how} because clients are blocked under `, culprit.name, '.');
  const quotas = quotasOf(policies.get(culprit.name));
  return sentence(`${share}, ${how} by `, culprit.name, `${quotas && ` (${quotas})`}.`);
}

function failedPart(now, seconds) {
  return now.failed === 0 ? '' : ` ${amount(now.failed, seconds, false)} failed.`;
}

/** A number of requests: per second if there are many, otherwise the total. */
function amount(number, seconds, named = true) {
  const noun = named ? (number === 1 ? ' request' : ' requests') : '';
  return number >= 10 * seconds
    ? `${count(number / seconds)}${noun} a second`
    : `${count(number)}${noun} in the last ${seconds}\u00a0s`;
}

/** The policy that refuses most now. */
function strictest(history) {
  let most = null;
  for (const [name, series] of history.policies) {
    const refused = sum(series.refused, NOW_STEPS);
    const blocks = sum(series.blocked, NOW_STEPS) * 2 > refused;
    if (refused > (most?.count ?? 0)) most = { name, count: refused, blocks };
  }
  return most;
}

function lastMinutes(history) {
  const { requests, refused, failed } = history.totals;
  const minutes = Math.max(1, Math.round(history.seconds(Infinity) / 60));
  const perSecond = sum(requests) / history.seconds(Infinity);
  const words = [`${count(sum(requests))} requests (${rate(perSecond)}/s)`, `${count(sum(refused))} refused`];
  return `Last ${minutes === 1 ? 'minute' : `${minutes} minutes`}: ${words.join(', ')}, ${count(sum(failed))} failed.`;
}
