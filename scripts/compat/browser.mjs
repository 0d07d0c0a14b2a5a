// An API, a page of another origin, and the browser that shows it. Prints what the page has seen, as JSON.
//
//     browser.mjs GATEWAY API APP      the ports of the gateway, and those to serve the API and the page at
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const { chromium } = createRequire(process.cwd() + "/")("playwright-core");
const [, , gateway, api, app] = process.argv;
const origin = {};
// Without these, Chromium connects to hosts of its own.
const QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

// The API says who may read its answers, and responds to preflights, as every API that pages of other origins call.
const served = createServer((request, response) => {
  origin[request.method] = (origin[request.method] ?? 0) + 1;
  response.setHeader("Access-Control-Allow-Origin", `http://localhost:${app}`);
  response.setHeader("Access-Control-Allow-Headers", "x-api-key");
  response.setHeader("Vary", "Origin");
  response.end(request.method === "OPTIONS" ? undefined : "an item");
}).listen(Number(api), "127.0.0.1");

const PAGE = `<!doctype html><title>app</title><p id="shown">…</p><script>
  const call = async (fields) => {
    const response = await fetch("http://127.0.0.1:${gateway}/items", { headers: fields }).catch((error) => error);
    // The page may not know more.
    if (response instanceof Error) return { status: response.name };
    const told = ["retry-after", "ratelimit", "ratelimit-policy"].map((name) => [name, response.headers.get(name)]);
    return { status: response.status, ...Object.fromEntries(told) };
  };
  const untilRefused = async () => {
    for (let admitted = 0; admitted < 1000; admitted += 1) {
      const limited = await call({ "x-api-key": "demo" });
      if (limited.status !== 200) {
        const shown = admitted + " items, then " + limited.status + ": wait " + limited["retry-after"] + " s";
        document.getElementById("shown").textContent = shown;
        return { admitted, limited };
      }
    }
  };
</script>`;
const pages = createServer((_, response) => response.setHeader("Content-Type", "text/html").end(PAGE))
  .listen(Number(app), "127.0.0.1");

const profile = mkdtempSync(join(tmpdir(), "tollgate-browser-"));
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: "/usr/bin/chromium", headless: true, args: QUIET,
});
try {
  const page = await browser.newPage();
  await page.goto(`http://localhost:${app}/`);
  const { admitted, limited } = await page.evaluate("untilRefused()");
  const unknown = await page.evaluate("call({})");
  const shown = await page.textContent("#shown");
  // The same page under another name is of another origin.
  await page.goto(`http://127.0.0.1:${app}/`);
  const stranger = await page.evaluate("call({})");
  const version = `Chromium ${browser.browser()?.version() ?? ""}`.trim();
  console.log(JSON.stringify({ browser: version, admitted, limited, unknown, stranger, shown, origin }));
} finally {
  await browser.close();
  rmSync(profile, { recursive: true, force: true });
  served.close();
  pages.close();
}
