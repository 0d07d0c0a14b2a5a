// The night of an operator: one client is refused a lot, and everything is done by the page. `scripts/drill/dashboard`
// runs it, with traffic through GATEWAY in which the client with `X-Api-Key: noisy` is refused a lot by a policy that is
// partitioned by that header.
//
// It prints how many clicks and seconds each step took. It fails on findings of axe, on errors in the console, on
// violations of the Content-Security-Policy, and if a step does not do what it says. URL is the admin port, SHOTS where
// screenshots go, CHROMIUM the browser, and MODULES the folder that has playwright-core and axe-core.

import assert from 'node:assert/strict';
import { mkdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';

const { URL: ADMIN, TOKEN, GATEWAY, SHOTS, CHROMIUM, MODULES } = process.env;
const require = createRequire(`${resolve(MODULES)}/`);
const { chromium } = require('playwright-core');

const NOISY = 'noisy';
const OTHER = 'drill-other';
// How the log shows a key: its first four characters and a digest.
const SHOWN = new RegExp(`${NOISY.slice(0, 4)}~[0-9a-f]{8}`);
const WIDTHS = [390, 1280, 2560];
const HEIGHTS = { 390: 844, 1280: 800, 2560: 1440 };
const SCHEMES = ['light', 'dark'];
const PATIENCE_MS = 20_000;

let clicks = 0;
const findings = [];

async function main() {
  await mkdir(SHOTS, { recursive: true });
  const axe = await readFile(require.resolve('axe-core/axe.min.js'), 'utf8');
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
  try {
    const page = await watchedPage(browser);
    await night(page);
    await tour(page, axe);
  } finally {
    await browser.close();
  }
  for (const finding of findings) console.log(`finding: ${finding}`);
  assert.equal(findings.length, 0, 'there are findings');
  console.log('no findings');
}

/** A page whose errors become findings. */
async function watchedPage(browser) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  await page.addInitScript(() => {
    addEventListener('securitypolicyviolation', (event) => {
      console.error(`CSP violation: ${event.violatedDirective} ${event.blockedURI}`);
    });
  });
  page.on('console', (message) => {
    // The answers that make the page ask for the token.
    const expected = message.text().includes('401');
    if (message.type() === 'error' && !expected) findings.push(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => findings.push(`exception: ${error.message}`));
  page.on('dialog', (dialog) => {
    findings.push(`a client's name ran as a script: ${dialog.message()}`);
    dialog.dismiss();
  });
  return page;
}

async function night(page) {
  await step('open the page and enter the token', async () => {
    await page.goto(ADMIN);
    await page.fill('#token', TOKEN);
    await click(page.getByRole('button', { name: 'Continue' }));
    await page.locator('#connection[data-state=open]').waitFor();
  });

  await step('read the headline', async () => {
    const headline = page.locator('h1', { hasText: /refused/ });
    await headline.waitFor();
    const text = await headline.innerText();
    assert.match(text, /\d+ of \d+ requests .*refused/, text);
    return text;
  });

  const row = page.locator('section[aria-labelledby=refused-most] tbody tr', { hasText: SHOWN });
  await step('find the client that is refused most', async () => {
    await row.first().waitFor();
    return (await row.first().locator('th').innerText()).replace('\n', ', ');
  });
  const key = page.locator('.view-keys tbody tr', { hasText: SHOWN });

  await step('block it for an hour', async () => {
    await click(row.first().getByRole('button', { name: 'Block…' }));
    await click(page.getByRole('radio', { name: '1 hour' }));
    await click(page.getByRole('button', { name: 'Block for 1 hour' }));
    await page.locator('#notice', { hasText: /^Blocked .* until/ }).waitFor();
    await row.first().getByRole('button', { name: 'Unblock' }).waitFor();
  });
  await step('it gets 403, and another client 200', async () => {
    await statusBecomes(NOISY, (status) => status === 403);
    await statusBecomes(OTHER, (status) => status === 200);
  });

  await step('find it under Keys and unblock it', async () => {
    await click(page.getByRole('link', { name: 'Keys' }));
    await click(key.getByRole('button', { name: 'Unblock' }));
    await page.locator('#notice', { hasText: /^Ended the block/ }).waitFor();
  });
  await step('it is not blocked any more', () => statusBecomes(NOISY, (status) => status === 200 || status === 429));

  await step('raise its quota for an hour, and end that', async () => {
    await click(page.getByRole('link', { name: 'Now' }));
    await row.first().waitFor();
    await click(row.first().getByRole('button', { name: 'Raise…' }));
    await click(page.getByRole('button', { name: 'Raise for 1 hour' }));
    await page.locator('#notice', { hasText: /until/ }).waitFor();
    await click(page.getByRole('link', { name: 'Keys' }));
    await click(key.getByRole('button', { name: 'End override' }));
    await key.waitFor({ state: 'detached' });
  });
}

/** Visits every view at every width in both schemes, looks for findings, and takes screenshots. */
async function tour(page, axe) {
  for (const scheme of SCHEMES) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: HEIGHTS[width] });
      for (const [name, prepare] of Object.entries(VIEWS)) {
        await prepare(page);
        await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
        await page.screenshot({ path: join(SHOTS, `${name}-${width}-${scheme}.png`), fullPage: true });
        await check(page, axe, `${name} at ${width} in ${scheme}`);
      }
    }
  }
}

const visit = (hash) => async (page) => {
  await page.evaluate((to) => (location.hash = to), hash);
  await page.locator('main h1').waitFor();
  await page.waitForFunction(() => !document.querySelector('[aria-busy]'));
};

const VIEWS = {
  now: async (page) => {
    await visit('now')(page);
    await page.locator('section[aria-labelledby=refused-most] tbody tr').first().waitFor();
  },
  block: async (page) => {
    await page
      .getByRole('button', { name: /^Block…/ })
      .first()
      .click();
    await page.locator('dialog[open]').waitFor();
  },
  clients: async (page) => {
    await page.keyboard.press('Escape');
    await visit('clients')(page);
  },
  client: async (page) => {
    await visit('now')(page);
    await page.locator('section[aria-labelledby=refused-most] a.client').first().click();
    await page.locator('.client-facts').waitFor();
  },
  policies: visit('policies'),
  keys: visit('keys'),
  explain: async (page) => {
    await visit('explain')(page);
    await page.fill('#url', new URL(GATEWAY).pathname);
    await page.fill('#headers', `x-api-key: ${NOISY}`);
    await page.getByRole('button', { name: 'Explain' }).click();
    await page.locator('.verdict').waitFor();
  },
  trace: async (page) => {
    await visit('trace')(page);
    await page.fill('#count', '3');
    await page.getByRole('button', { name: 'Start' }).click();
    await page.locator('.traces summary').first().click();
    await page.locator('.trace-steps').first().waitFor();
  },
};

async function check(page, axe, where) {
  await page.evaluate(`${axe};0`);
  const violations = await page.evaluate(async () => (await globalThis.axe.run(document)).violations);
  for (const { id, nodes } of violations) findings.push(`${where}: ${id} at ${nodes[0].target.join(' ')}`);
  const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (wider > 0) findings.push(`${where}: the page is ${wider} px wider than the window`);
}

async function click(locator) {
  clicks += 1;
  await locator.click();
}

/** Does a step, and prints what it took. */
async function step(name, act) {
  clicks = 0;
  const start = performance.now();
  const result = await act();
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`${seconds.padStart(5)} s  ${String(clicks).padStart(2)} clicks  ${name}${result ? `: ${result}` : ''}`);
  return result;
}

async function statusBecomes(key, isRight) {
  const until = Date.now() + PATIENCE_MS;
  let status = 0;
  while (Date.now() < until) {
    const response = await fetch(GATEWAY, { headers: { 'x-api-key': key } });
    await response.arrayBuffer();
    status = response.status;
    if (isRight(status)) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  assert.fail(`${key} gets ${status}`);
}

await main();
