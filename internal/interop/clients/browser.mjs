// A person with Chromium: node browser.mjs PORT CHROMIUM. POST /open?tenant=T with an address as the body goes there in a fresh profile, signs
// in at the company's provider as alice and allows what a page of the gateway asks. It answers with what was seen; GET /seen has all of that so far.
import { createServer } from 'node:http';
import { chromium } from 'playwright-core';

const [port, executablePath] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath, handleSIGTERM: false,
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-background-networking',
    // Nothing leaves the machine, whatever a page asks for.
    '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost'],
});

process.on('SIGTERM', async () => {
  await browser.close();
  process.exit(0);
});

// What a person does with a page: the first that fits.
const deeds = [
  ['sign in', 'input[name=login]', async (page) => {
    await page.fill('input[name=login]', 'alice');
    await page.fill('input[name=password]', 'any');
    return 'button[type=submit]';
  }],
  ['allow', 'button[value=allow]', async (page, { tenant }) => {
    const choice = page.locator(`input[name=tenant][value="${tenant}"]`);
    if (await choice.count()) await choice.check();
    return 'button[value=allow]';
  }],
  ['let the gateway ask', 'input[name=prompt][value=consent]', async () => 'button[type=submit]'],
];

// What all went through.
const seen = [];

async function visit(address, options) {
  let told = await once(address, options);
  // A busy machine may let the gateway wait too long for the provider. People are told to try again.
  for (let i = 0; i < 3 && told.pages.at(-1)?.title === 'The sign-in service does not answer'; i++) told = await once(address, options);
  seen.push(told);
  return told;
}

async function once(address, options) {
  const context = await browser.newContext({ locale: 'en-US' });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const told = { at: address, pages: [], errors: [] };
  page.on('console', (m) => m.type() === 'error' && told.errors.push(`${m.location().url}: ${m.text()}`));
  page.on('pageerror', (e) => told.errors.push(String(e)));
  try {
    await page.goto(address);
    for (let steps = 0; steps < 8; steps++) {
      const here = new URL(page.url());
      told.pages.push({ at: here.origin + here.pathname, title: await page.title(), text: await page.innerText('body') });
      const deed = await first(page);
      if (!deed) break;
      const button = await deed[2](page, options);
      await Promise.all([page.waitForEvent('framenavigated'), page.locator(button).first().click()]);
      await page.waitForLoadState();
      // The gateway's last page moves on by itself.
      const move = page.locator('meta[http-equiv=refresh]');
      if (await move.count()) {
        told.pages.push({ at: page.url().split('?')[0], title: await page.title(), text: await page.innerText('body') });
        await page.waitForURL((url) => !url.pathname.endsWith('/consent'), { waitUntil: 'commit' });
      }
    }
  } catch (e) {
    told.failed = String(e);
  }
  await context.close();
  return told;
}

async function first(page) {
  for (const deed of deeds) if (await page.locator(deed[1]).count()) return deed;
}

createServer((request, response) => {
  const url = new URL(request.url, 'http://browser');
  let body = '';
  request.on('data', (data) => (body += data));
  request.on('end', async () => {
    const answer = url.pathname === '/open' ? await visit(body, Object.fromEntries(url.searchParams)) : seen;
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify(answer));
  });
}).listen(Number(port), '127.0.0.1', () => console.log('listening'));
