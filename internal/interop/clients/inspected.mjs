// A person who looks at an app in the MCP Inspector: node inspected.mjs CHROMIUM ADDRESS PICTURE. It connects, opens the one app that is offered,
// presses its button, and prints as JSON what the view showed of the first result and of the second. The picture is of the view, without the time.
import { chromium } from 'playwright-core';

const [executablePath, address, picture] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath,
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--disable-background-networking', '--hide-scrollbars',
    '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1'],
});
const page = await browser.newPage({ viewport: { width: 1000, height: 800 }, deviceScaleFactor: 1 });
page.setDefaultTimeout(60_000);
await page.goto(address);
// The page shows its switch before it listens to it, and a label lies above it: it is pressed until it is on.
const connect = page.getByRole('switch', { name: /^Connect or disconnect/ });
while (!(await connect.isChecked())) {
  await connect.evaluate((input) => input.click());
  await page.waitForTimeout(2000);
}
await page.getByText('Apps', { exact: true }).first().click();
await page.getByText(/get.time$/i).first().click();

// The Inspector shows a view in a frame of its sandbox, which is a frame of another origin.
const view = page.frameLocator('iframe').frameLocator('iframe');
const time = view.locator('#server-time');
const isTime = /^\d{4}-\d\d-\d\dT/;
const shown = async (from) => {
  for (;;) {
    const text = (await time.textContent()).trim();
    if (isTime.test(text) && text !== from) return text;
    await page.waitForTimeout(50);
  }
};
const first = await shown('');
await page.waitForTimeout(1100); // the time has seconds
await view.locator('#get-time-btn').click();
const second = await shown(first);
await time.evaluate((element) => { element.textContent = 'now'; }); // no two pictures are taken in the same second
await page.mouse.move(0, 0);
await time.evaluate(() => document.activeElement?.blur());
await page.waitForTimeout(500); // for what fades
await view.locator('body').screenshot({ path: picture });
await browser.close();
console.log(JSON.stringify({ first, second }));
