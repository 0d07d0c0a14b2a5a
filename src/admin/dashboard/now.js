// The first screen: what is refused now, and why.

import { clientButtons } from './actions.js';
import { catalog } from './catalog.js';
import { h, nameOf, printable, setAttribute, setText, table, timeOf } from './dom.js';
import { clock, count, percent, quotasOf, range, rate } from './format.js';
import { headline, NOW_STEPS } from './headline.js';
import { sum } from './history.js';
import { live } from './live.js';
import { SharesPlot, sparkline, TotalsPlot } from './plots.js';
import { LiveRows } from './rows.js';
import { StatusStrip, TroubleTables } from './status.js';

const CLIENTS_MAX = 10;
const ROWS_MAX = 10;
const NOTIFICATIONS_MAX = 10;

export const title = 'Now';

/** Shows the view, and returns a function that ends it. */
export function mount(root) {
  const sentence = h('h1', { tabindex: -1 }, 'No numbers yet.');
  const detail = h('p', { class: 'lead-detail' });
  const strip = new StatusStrip();
  const plots = [new TotalsPlot(), new SharesPlot('Refused by policy'), new SharesPlot('Refused by route')];
  const parts = [refusedClients(), nearestClients(), policyRows(), routeRows(), notifications()];
  const trouble = new TroubleTables();
  root.append(
    h('div', { class: 'lead' }, sentence, detail),
    strip.element,
    h(
      'div',
      { class: 'plots' },
      plots.map((plot) => plot.element),
    ),
    h(
      'div',
      { class: 'quarters' },
      parts.slice(0, 4).map((part) => part.element),
    ),
    h('div', { class: 'thirds' }, parts[4].element, trouble.elements),
  );

  const show = () => {
    if (document.hidden) return;
    const { history, latest } = live;
    const now = headline(history, catalog.policies, live.problem);
    showSentence(sentence, now);
    setText(detail, now.detail);
    root.classList.toggle('stale', live.state === 'lost');
    if (history.times.length === 0) return;
    plots[0].show(history);
    plots[1].show(history, history.policies);
    plots[2].show(history, history.routes);
    if (!latest) return;
    strip.show(latest);
    trouble.show(latest);
    for (const part of parts) part.show(latest, history);
  };
  live.addEventListener('step', show);
  live.addEventListener('state', show);
  catalog.addEventListener('change', show);
  document.addEventListener('visibilitychange', show);
  show();
  return () => {
    live.removeEventListener('step', show);
    live.removeEventListener('state', show);
    catalog.removeEventListener('change', show);
    document.removeEventListener('visibilitychange', show);
    for (const plot of plots) plot.close();
  };
}

/** Shows the headline; the name of a policy is kept together. */
function showSentence(element, { before, name, after }) {
  const shown = printable(name, '');
  if (element.textContent !== before + shown + after) element.replaceChildren(before, h('bdi', null, shown), after);
}

/** A heading, a table, and what is shown while the table is empty. */
function section(id, name, hint, columns, empty, slots = 0) {
  const body = h('tbody');
  const none = h('p', { class: 'none', hidden: true }, empty);
  const heading = h('h2', { id }, name);
  const element = h(
    'section',
    { 'aria-labelledby': id },
    h('div', { class: 'section-head' }, heading, hint && h('span', { class: 'unit' }, hint)),
    h('div', { class: `slots slots-${slots}` }, table(name, columns, body), none),
  );
  const showNone = () => (none.hidden = body.childElementCount > 0);
  return { element, body, showNone };
}

/** Makes a table of clients; `numbers(item)` is shown between a client and its buttons, in one or two lines. */
function clientTable(part, numbers) {
  const key = (item) => `${item.policy} ${item.id}`;
  return new LiveRows(part.body, key, (item) => {
    const buttons = clientButtons();
    const number = h('span');
    const more = h('span', { class: 'sub' });
    const client = h(
      'th',
      { scope: 'row' },
      clientLink(item),
      h('span', { class: 'sub' }, policyName(item), buttons.note),
    );
    const update = (latest) => {
      buttons.update(latest);
      const [first, second = ''] = numbers(latest);
      setText(number, first);
      setText(more, second);
    };
    const cells = [h('td', { class: 'number' }, number, more), h('td', { class: 'actions' }, buttons.element)];
    return { row: h('tr', null, client, cells), update };
  });
}

const leftOf = ({ remaining, limit }) => `${count(remaining)} of ${count(limit)} left`;

const policyName = (item) => nameOf(item.policy, 'policy');

/** The client's name, which leads to all that is known about it. */
function clientLink(item) {
  const query = new URLSearchParams({ policy: item.policy, client: item.id });
  return h('a', { class: 'client', href: `#client?${query}` }, nameOf(item.client));
}

function refusedClients() {
  const columns = [{ title: 'Client' }, { title: 'Refused', class: 'number' }, { title: 'Actions', class: 'actions' }];
  const part = section('refused-most', 'Refused most', 'in 5 to 10 min', columns, 'No client is refused.', CLIENTS_MAX);
  const rows = clientTable(part, (item) => [range(item.at_least, item.at_most)]);
  const show = (step) => {
    rows.show(step.top.refused.slice(0, CLIENTS_MAX));
    part.showNone();
  };
  return { element: part.element, show };
}

function nearestClients() {
  const columns = [{ title: 'Client' }, { title: 'Used', class: 'number' }, { title: 'Actions', class: 'actions' }];
  const empty = 'No client is near to a quota.';
  const part = section('nearest', 'Nearest to a quota', 'when last seen', columns, empty, CLIENTS_MAX);
  const used = (item) => [percent(item.used_percent), leftOf(item)];
  const rows = clientTable(part, used);
  const show = (step) => {
    rows.show(step.top.nearest.slice(0, CLIENTS_MAX));
    part.showNone();
  };
  return { element: part.element, show };
}

/** A table of policies or routes: those with most refusals first; a button shows all of them. */
function seriesTable(part, describe, columns) {
  let all = false;
  const button = h('button', { type: 'button', class: 'quiet more', hidden: true, onclick: () => toggle() });
  part.element.append(button);
  const rows = new LiveRows(
    part.body,
    (item) => item.name,
    (first) => {
      const spark = sparkline();
      const cells = columns.map((column) => h('td', { class: column.class }));
      const { element, update } = describe(first);
      const row = h('tr', null, h('th', { scope: 'row' }, element), cells, h('td', { class: 'trend' }, spark.element));
      return {
        row,
        update: ({ name, series, history }) => {
          update({ name, series, history });
          columns.forEach((column, i) => showRate(cells[i], column, series, history));
          spark.show(series.refused);
        },
      };
    },
  );
  let latest = [];
  const draw = () => {
    rows.show(all ? latest : latest.slice(0, ROWS_MAX));
    const more = latest.length - ROWS_MAX;
    button.hidden = more <= 0;
    setText(button, all ? 'Show fewer' : `Show ${more} more`);
    part.showNone();
  };
  const toggle = () => {
    all = !all;
    draw();
  };
  return (map, history) => {
    latest = [...map].map(([name, series]) => ({ name, series, history })).sort(byRefused);
    draw();
  };
}

function byRefused(a, b) {
  return sum(b.series.refused) - sum(a.series.refused) || (a.name < b.name ? -1 : 1);
}

function showRate(cell, column, series, history) {
  const perSecond = sum(series[column.of], NOW_STEPS) / history.seconds(NOW_STEPS);
  setText(cell, rate(perSecond));
  cell.classList.toggle('bad', column.bad === true && perSecond > 0);
}

function policyRows() {
  const columns = [
    { title: 'Admitted/s', class: 'number', of: 'admitted' },
    { title: 'Refused/s', class: 'number', of: 'refused', bad: true },
    { title: 'Near limit/s', class: 'number wide', of: 'near_limit' },
  ];
  const heads = [{ title: 'Policy' }, ...columns, { title: 'Refused, 10 min', class: 'trend' }];
  const part = section('policies-now', 'Policies', 'mean of 10 s', heads, 'No policy has decided a request in 10 min.');
  const draw = seriesTable(part, describePolicy, columns);
  return { element: part.element, show: (_, history) => draw(history.policies, history) };
}

function describePolicy({ name }) {
  const sub = h('span', { class: 'sub' });
  const link = h('a', { class: 'client', href: `#policies?${new URLSearchParams({ find: name })}` }, nameOf(name));
  const update = ({ series, history }) => {
    const policy = catalog.policies.get(name);
    const notes = [
      policy && policy.mode !== 'enforce' && policy.mode,
      noteOf(series.would_refuse, history, 'would be refused'),
      noteOf(series.blocked, history, 'of them blocked'),
      noteOf(series.unanswered, history, 'decided without the store'),
    ];
    setText(sub, [quotasOf(policy), ...notes.filter(Boolean)].join(' · '));
    setAttribute(sub, 'title', sub.textContent);
  };
  return { element: [link, sub], update };
}

function noteOf(numbers, history, words) {
  const perSecond = sum(numbers, NOW_STEPS) / history.seconds(NOW_STEPS);
  return perSecond > 0 && `${rate(perSecond)}/s ${words}`;
}

function routeRows() {
  const columns = [
    { title: 'Requests/s', class: 'number', of: 'requests' },
    { title: 'Refused/s', class: 'number', of: 'refused', bad: true },
    { title: 'Failed/s', class: 'number', of: 'failed', bad: true },
  ];
  const heads = [{ title: 'Route' }, ...columns, { title: 'Refused, 10 min', class: 'trend' }];
  const part = section('routes-now', 'Routes', 'mean of 10 s', heads, 'No route has had a request in 10 min.');
  const describe = ({ name }) => ({ element: nameOf(name), update: () => {} });
  const draw = seriesTable(part, describe, columns);
  return { element: part.element, show: (_, history) => draw(history.routes, history) };
}

function notifications() {
  const columns = [{ title: 'At', class: 'when' }, { title: 'Client' }, { title: 'Reached', class: 'number' }];
  const empty = 'No client has reached a threshold of notify.';
  const part = section('notifications', 'Notifications', 'newest first', columns, empty, 5);
  const key = (item) => `${item.at} ${item.policy} ${item.id} ${item.threshold_percent}`;
  const rows = new LiveRows(part.body, key, (item) => {
    const sub = h('span', { class: 'sub', title: printable(item.quota) }, printable(item.quota));
    const row = h(
      'tr',
      null,
      h('td', { class: 'when' }, timeOf(item.at, clock(item.at))),
      h('th', { scope: 'row' }, clientLink(item), sub),
      h('td', { class: 'number' }, percent(item.threshold_percent), h('span', { class: 'sub' }, leftOf(item))),
    );
    return { row, update: () => {} };
  });
  const show = (step) => {
    rows.show(step.notifications.slice(0, NOTIFICATIONS_MAX));
    part.showNone();
  };
  return { element: part.element, show };
}
