// What a person and an attacker do with an approval page in Chromium:
// browser.mjs CHROMIUM DIRECTORY BASE ID STEPS, where STEPS is JSON:
// [{"do": "sign in", "token": …}, {"do": "expand"}, {"do": "approve", "for": …}, {"do": "deny", "reason": …},
// {"do": "forge"}, {"do": "frame"}, {"do": "screenshot", "file": …}]. It writes what the
// browser shows after each step. TestApprovalPageInBrowser knows what it should show.
import { createServer } from 'node:http';
import { chromium } from 'playwright-core';

const [executablePath, directory, base, id, steps] = process.argv.slice(2);
const path = `${base}/approve/${id}`;

const context = await chromium.launchPersistentContext(directory, {
  executablePath,
  headless: true,
  chromiumSandbox: false,
  viewport: { width: 900, height: 1000 },
  args: ['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});
context.setDefaultTimeout(60_000);
const page = await context.newPage();
const complaints = []; // of the browser, such as a style that the policy of the page blocks
page.on('console', (message) => complaints.push(message.text()));
page.on('pageerror', (error) => complaints.push(String(error)));

async function shown(response) {
  return {
    status: response?.status(),
    url: page.url().replace(base, ''),
    title: await page.title(),
    text: await page.locator('body').innerText(),
    values: (await page.locator('pre').allInnerTexts()).join('\n'),
    buttons: await page.getByRole('button').allInnerTexts(),
    background: await page.evaluate(() => getComputedStyle(document.body).backgroundColor),
  };
}

// click presses a button and returns the answer to the form, after redirects.
async function click(name) {
  const [response] = await Promise.all([
    page.waitForResponse((r) => r.request().isNavigationRequest() && r.request().frame() === page.mainFrame() && r.status() !== 303),
    page.getByRole('button', { name, exact: true }).click(),
  ]);
  await page.waitForLoadState();
  return shown(response);
}

// attacker serves a page of another site, which posts the form, and frames the page.
async function attacker(html) {
  const server = createServer((_, res) => res.setHeader('Content-Type', 'text/html').end(html));
  await new Promise((done) => server.listen(0, 'localhost', done));
  return { url: `http://localhost:${server.address().port}/`, close: () => server.close() };
}

const doing = {
  async open() {
    return shown(await page.goto(path));
  },
  async 'sign in'({ token }) {
    await page.getByLabel('Token or API key').fill(token);
    return click('Sign in');
  },
  async approve({ for: scope }) {
    if (scope) await page.getByRole('radio', { name: scope }).check();
    return click('Approve');
  },
  async expand() {
    await page.locator('summary').first().click();
    return shown();
  },
  async deny({ reason }) {
    await page.getByLabel('Reason').fill(reason);
    return click('Deny');
  },
  'sign out': () => click('Sign out'),
  // A page of another site knows even the secret of the form.
  async forge() {
    const secret = await page.locator('input[name=secret]').inputValue();
    const evil = await attacker(`<form method="post" action="${path}">
      <input name="decision" value="approve"><input name="secret" value="${secret}"></form>`);
    const other = await context.newPage();
    await other.goto(evil.url);
    const fetched = await other.evaluate(
      ([to, body]) => fetch(to, { method: 'POST', mode: 'no-cors', credentials: 'include', headers: { 'Content-Type': 'application/x-www-form-urlencoded' }, body }).then(() => 'sent', String),
      [path, `decision=approve&secret=${encodeURIComponent(secret)}`],
    );
    const [response] = await Promise.all([
      other.waitForResponse((r) => r.url() === path && r.request().method() === 'POST' && r.request().isNavigationRequest()),
      other.evaluate(() => document.forms[0].submit()),
    ]);
    await other.waitForLoadState();
    const text = await other.locator('body').innerText();
    await other.close();
    evil.close();
    return { status: response.status(), text, fetched };
  },
  async frame() {
    const evil = await attacker(`<iframe src="${path}"></iframe>`);
    const other = await context.newPage();
    await other.goto(evil.url);
    await other.waitForLoadState('networkidle');
    const frame = other.frames()[1];
    const text = await frame.locator('body').innerText().catch(() => '');
    await other.close();
    evil.close();
    return { text };
  },
  async screenshot({ file, dark, width }) {
    await page.emulateMedia({ colorScheme: dark ? 'dark' : 'light' });
    if (width) await page.setViewportSize({ width, height: 1000 });
    await page.screenshot({ path: file, fullPage: true });
    return {};
  },
};

const results = [];
try {
  for (const step of JSON.parse(steps)) results.push(await doing[step.do](step));
} finally {
  await context.close();
}
console.log(JSON.stringify({ results, complaints }));
