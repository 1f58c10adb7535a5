// Looks at the pages of a sign-in as people do: node pages.mjs CHROMIUM ADDRESS PICTURES NAME…, which are paths at the address. It prints one line of
// JSON for each finding, and "done". PICTURES is a folder for a picture of each name, or "".
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const [executablePath, address, pictures, ...names] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const browser = await chromium.launch({
  executablePath,
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-background-networking',
    '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1'],
});
const find = (name, what) => console.log(JSON.stringify({ name, what }));

// with opens pages one after another, in a fresh profile.
async function with_(names, options, look) {
  let name;
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  page.on('console', (m) => ['error', 'warning'].includes(m.type()) && find(name, `console: ${m.text()}`));
  page.on('pageerror', (e) => find(name, `error: ${e}`));
  page.on('request', (r) => {
    // A browser asks for the icon of a site by itself.
    if (!r.isNavigationRequest() && !r.url().endsWith('/favicon.ico')) find(name, `loads ${r.url()}`);
  });
  for (name of names) {
    await page.goto(`${address}/${name}`);
    try {
      await look(page, name);
    } catch (e) {
      find(name, `cannot be used: ${e}`);
    }
  }
  await context.close();
}

// judge runs axe, which comes by the debugger's way and so past the page's policy.
async function judge(name, page) {
  await page.evaluate(axe);
  const result = await page.evaluate(() => globalThis.axe.run());
  for (const v of result.violations) find(name, `axe: ${v.id}: ${v.help}: ${v.nodes.map((n) => n.html).join(' ')}`);
  if (result.passes.length < 5) find(name, `axe looked at ${result.passes.length} rules alone`);
}

await with_(names, { colorScheme: 'light', viewport: { width: 560, height: 700 } }, async (page, name) => {
  await judge(name, page);
  if (pictures) {
    await page.setViewportSize({ width: 560, height: 100 });
    await page.screenshot({ path: `${pictures}/${name.replaceAll('/', '-').replace(/\?.*/, '')}.png`, fullPage: true });
    await page.setViewportSize({ width: 560, height: 700 });
  }
});
await with_(names, { colorScheme: 'dark', viewport: { width: 320, height: 600 } }, async (page, name) => {
  await judge(name, page);
  for (const size of ['100%', '200%']) {
    const [wide, window] = await page.evaluate((size) => {
      document.documentElement.style.fontSize = size;
      return [document.documentElement.scrollWidth, innerWidth];
    }, size);
    if (wide > window) find(name, `with ${size} text it is ${wide} px wide`);
  }
});
// With the keyboard alone all that can be used is reached, and it is seen where one is.
await with_(names, {}, async (page, name) => {
  const all = await page.locator('a[href], button, input:not([type=hidden])').evaluateAll((list) =>
    [...new Set(list.map((e) => (e.type === 'radio' ? e.name : e.innerText)))]);
  const reached = new Set();
  for (let i = 0; i < all.length + 2; i++) {
    await page.keyboard.press('Tab');
    const [what, outline] = await page.evaluate(() => {
      const e = document.activeElement;
      const style = getComputedStyle(e);
      return [e === document.body ? '' : e.type === 'radio' ? e.name : e.innerText, style.outlineStyle + style.outlineWidth];
    });
    if (!what) break;
    reached.add(what);
    if (outline === 'none0px' || outline.startsWith('none')) find(name, `${what} does not show that it has the focus`);
  }
  for (const one of all) if (!reached.has(one)) find(name, `the keyboard does not reach ${one}`);
});

// A form is answered with keys alone and without script, and the last page goes on by itself.
await with_(['consent-tenants'], { javaScriptEnabled: false }, async (page) => {
  await page.keyboard.press('Tab');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Tab');
  await Promise.all([page.waitForURL(`${address}/client?*`), page.keyboard.press('Enter')]);
});
// Two loads of a page do not void each other, and Back shows what was asked.
await with_(['consent'], { javaScriptEnabled: false }, async (page) => {
  const other = await page.context().newPage();
  await other.goto(`${address}/consent`);
  await Promise.all([page.waitForURL(`${address}/client?*`), page.locator('button[value=deny]').click()]);
});
console.log('done');
await browser.close();
