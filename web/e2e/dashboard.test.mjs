// The dashboard in Chromium, against a real server and a real receiver.
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, test } from "node:test";
import { counted, launch, live, openTab, serious } from "./browser.mjs";
import { seed, until } from "./seed.mjs";
import { startReceiver, startServer } from "./server.mjs";

const key = "open-sesame-0123456789";

let browser;
let receiver;
before(async () => {
  browser = await launch();
  receiver = await startReceiver();
});
after(async () => {
  await browser?.close();
  await receiver?.stop();
});

const open = (options) => openTab(browser, options);

describe("without keys", () => {
  let server;
  let ids;
  let tab;
  before(async () => {
    server = await startServer();
    ids = await seed(server, receiver);
    await until("the refunds are unknown", async () => (await counted(server.call, ["JOB_STATE_NEEDS_RESOLUTION"])) >= 13);
    tab = await open();
  });
  beforeEach(() => tab.faults.splice(0));
  after(async () => {
    await tab?.context.close();
    await server?.stop();
  });

  test("a double click is one job and one effect, seen live", async () => {
    const { page, faults } = tab;
    await page.goto(`${server.url}/new?connection=orders`);
    await page.getByLabel("URL", { exact: true }).fill(`${receiver.url}/ok/double`);
    await page.getByLabel("Body").fill('{"big": 9007199254740993}');
    const before = await counted(server.call, []);
    await page.getByRole("button", { name: "Send now" }).dblclick();
    await page.getByText("It took effect").waitFor({ timeout: 5000 });
    assert.equal((await counted(server.call, [])) - before, 1);
    await page.getByRole("link", { name: "All about this job" }).click();
    await page.getByText('"big": 9007199254740993').waitFor();
    assert.deepEqual(faults, []);
  });

  test("a form is checked while it is typed", async () => {
    const { page, faults } = tab;
    await page.goto(`${server.url}/new?connection=orders`);
    await page.getByLabel("URL", { exact: true }).fill("ftp://example.org/x");
    await page.locator("[aria-invalid=true]").waitFor();
    await page.getByLabel("URL", { exact: true }).fill(`${receiver.url}/ok/typed`);
    await page.locator("[aria-invalid=true]").waitFor({ state: "detached" });
    await page.getByRole("radio", { name: "At a time" }).click();
    await page.getByLabel("Zone").selectOption("America/New_York");
    await page.getByLabel("Time", { exact: true }).fill("2027-03-14T02:30");
    await page.getByText("The clocks skip that time on that day").waitFor();
    assert.deepEqual(faults, []);
  });

  test("an e-mail and a post are written, previewed and scheduled", async () => {
    const { page, faults } = tab;
    const later = async () => {
      await page.getByRole("radio", { name: "At a time" }).click();
      await page.getByLabel("Time", { exact: true }).fill("2027-06-01T09:00");
      await page.getByRole("button", { name: "Schedule" }).click();
      await page.getByText("It is scheduled").waitFor();
    };
    await page.goto(`${server.url}/new?connection=mail`);
    await page.getByLabel("From").fill("Shop <shop@example.org>");
    await page.getByLabel("To", { exact: true }).fill('"Lovelace, Ada" <ada@example.org>, grace@example.org');
    await page.getByLabel("Subject").fill("Your order");
    await page.getByLabel("Text").fill("It is on its way.");
    await page.getByLabel("Preview").getByText("Your order").waitFor();
    await later();
    await page.goto(`${server.url}/new?connection=mastodon`);
    await page.getByLabel("Text").fill("We are open again. #shop");
    await page.getByLabel("Preview").getByText("#shop").waitFor();
    await later();
    const { jobs } = await server.call("fireonce.v1.JobService/ListJobs", { filter: { connectionKeys: ["mail", "mastodon"] } });
    const full = await Promise.all(jobs.map((j) => server.call("fireonce.v1.JobService/GetJob", { jobId: j.jobId }).then((r) => r.job.payload)));
    assert.deepEqual(full.find((p) => p.email).email.to, ['"Lovelace, Ada" <ada@example.org>', "grace@example.org"]);
    assert.equal(full.find((p) => p.socialPost).socialPost.text, "We are open again. #shop");
    assert.deepEqual(faults, []);
  });

  test("one unknown outcome is decided by a person, whose note stays", async () => {
    const { page, faults } = tab;
    await page.goto(`${server.url}/jobs/${ids["refund-900"]}`);
    await page.getByRole("banner").or(page.locator("header")).getByRole("button", { name: "Decide" }).first().click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("It was sent").click();
    await dialog.getByLabel("Note").fill("Seen in the ledger.");
    await dialog.getByRole("button", { name: "It was sent" }).click();
    await page.getByText("A person decided so.").waitFor();
    await page.getByText("Seen in the ledger.").first().waitFor();
    const { job } = await server.call("fireonce.v1.JobService/GetJob", { jobId: ids["refund-900"] });
    assert.equal(job.state, "JOB_STATE_SUCCEEDED");
    assert.equal(job.resolution.note, "Seen in the ledger.");
    assert.deepEqual(faults, []);
  });

  test("a job that changed meanwhile is not decided", async () => {
    const { page } = tab;
    await page.goto(`${server.url}/jobs/${ids["reminder-7"]}`);
    await page.getByRole("button", { name: "Cancel" }).click();
    const { job } = await server.call("fireonce.v1.JobService/GetJob", { jobId: ids["reminder-7"] });
    await server.call("fireonce.v1.JobService/UpdateJob", { jobId: job.jobId, etag: job.etag, updateMask: "labels", labels: { changed: "yes" } });
    await page.getByRole("button", { name: "Cancel the job" }).click();
    await page.getByText("The job changed while this window was open").waitFor();
    const after = await server.call("fireonce.v1.JobService/GetJob", { jobId: ids["reminder-7"] });
    assert.equal(after.job.state, "JOB_STATE_SCHEDULED");
  });

  test("an incident is decided at once, after its dry run", async () => {
    const { page, faults } = tab;
    await page.goto(server.url);
    const all = page.getByRole("button", { name: /^Decide all 12/ });
    await all.click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("It was not sent").click();
    await dialog.getByLabel("Note").fill("The bank has none of them.");
    await dialog.getByRole("button", { name: "Show what would change" }).click();
    await dialog.getByText("12 jobs would change").waitFor();
    assert.equal(await counted(server.call, ["JOB_STATE_NEEDS_RESOLUTION"]), 12);
    await dialog.getByRole("button", { name: "It was not sent: 12 jobs" }).click();
    await dialog.getByText("12 of 12 changed").waitFor();
    assert.equal(await counted(server.call, ["JOB_STATE_NEEDS_RESOLUTION"]), 0);
    await dialog.getByRole("button", { name: "Close" }).last().click();
    await page.getByText(/unknown at/).waitFor({ state: "detached" });
    assert.deepEqual(faults, []);
  });

  test("hostile text is text", async () => {
    const { page, faults } = tab;
    await page.goto(`${server.url}/jobs?q=${encodeURIComponent("<img")}`);
    await page.getByRole("link", { name: "<img_src=x_onerror=alert(1)>" }).click();
    await page.getByText("<script>alert(1)</script>").waitFor();
    assert.deepEqual(faults, []);
  });

  test("the list is live, filters by the address, and stays paused", async () => {
    const { page, faults } = tab;
    await page.goto(`${server.url}/jobs?q=live-`);
    await page.getByText("No job fits").waitFor();
    await live(page);
    const job = (n) => server.call("fireonce.v1.JobService/ScheduleJob", { idempotencyKey: `live-${n}`, connectionKey: "orders", payload: { webhook: { url: `${receiver.url}/ok/live` } } });
    await job(1);
    const row = page.getByRole("row").filter({ hasText: "live-1" });
    await row.getByText("Succeeded").first().waitFor({ timeout: 5000 });
    await page.getByRole("button", { name: "Pause" }).click();
    await job(2);
    await page.getByRole("button", { name: /Resume, 1 change waiting/ }).waitFor();
    assert.equal(await page.getByRole("row").filter({ hasText: "live-2" }).count(), 0);
    await page.getByRole("button", { name: /Resume/ }).click();
    await page.getByRole("row").filter({ hasText: "live-2" }).waitFor();
    assert.deepEqual(faults, []);
  });

  test("a job is dragged to another day", async () => {
    const { page, faults } = tab;
    const at = new Date(Date.UTC(2027, 4, 12, 12, 0));
    const { job } = await server.call("fireonce.v1.JobService/ScheduleJob", { idempotencyKey: "drag-me", connectionKey: "orders", scheduleTime: at.toISOString(), payload: { webhook: { url: `${receiver.url}/ok/drag` } } });
    await page.goto(`${server.url}/calendar?month=2027-05`);
    await page.getByRole("link", { name: /drag-me/ }).dragTo(page.locator('[data-day="2027-05-20"]'));
    await page.getByText(/^Moved to Thursday/).waitFor();
    const moved = await server.call("fireonce.v1.JobService/GetJob", { jobId: job.jobId });
    assert.equal(moved.job.scheduleTime.slice(0, 10), "2027-05-20");
    assert.equal(new Date(moved.job.scheduleTime).getTime() - at.getTime(), 8 * 86_400_000);
    assert.deepEqual(faults, []);
  });

  test("the keyboard is enough", async () => {
    const { page, faults } = tab;
    await page.goto(server.url);
    await page.getByRole("heading", { name: "Needs you" }).waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("j");
    await page.getByRole("heading", { name: "Jobs", exact: true }).waitFor();
    // Again and again: with answers that are there already, and ones that come late, something is always chosen.
    for (let i = 0; i < 6; i++) {
      if (i > 0) await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
      await page.keyboard.press("Control+k");
      await page.keyboard.type("order-4201");
      await page.getByRole("option", { name: /order-4201:paid/, selected: true }).waitFor({ timeout: 10_000 });
    }
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "order-4201:paid" }).waitFor();
    assert.deepEqual(faults, []);
  });

  test("axe finds nothing serious, in both themes, and no page is wider than a phone", async () => {
    const paths = ["/", "/jobs", `/jobs/${ids["refund-900"]}`, `/jobs/${ids["reminder-7"]}`, "/new?connection=orders", "/overview", "/calendar", "/calendar?view=week", "/schedules", "/connections", "/settings", "/settings?tab=pauses", "/settings?tab=subscriptions", "/settings?tab=keys", "/settings?tab=servers", "/nowhere"];
    const found = [];
    for (const colorScheme of ["light", "dark"]) {
      const { context, page } = await open({ colorScheme });
      for (const path of paths) {
        await page.goto(server.url + path);
        await page.waitForFunction(() => document.querySelector("main h1, main h2") && !document.querySelector('[aria-label="Loading"]'));
        for (const v of await serious(page)) found.push(`${colorScheme} ${path}: ${v}`);
      }
      await context.close();
    }
    const { context, page } = await open({ viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true });
    for (const path of paths) {
      await page.goto(server.url + path);
      await page.waitForFunction(() => document.querySelector("main h1, main h2") && !document.querySelector('[aria-label="Loading"]'));
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (wide > 0) found.push(`phone ${path}: ${wide} px too wide`);
    }
    await context.close();
    assert.deepEqual(found, []);
  });

  test("the first page's JavaScript is under 300 kB compressed", async () => {
    const { context, page } = await open();
    const sizes = [];
    page.on("response", (r) => r.url().endsWith(".js") && sizes.push(r));
    await page.goto(server.url);
    await page.getByRole("heading", { name: "Needs you" }).waitFor();
    await live(page);
    let sum = 0;
    for (const r of sizes) sum += (await r.request().sizes()).responseBodySize;
    await context.close();
    assert.ok(sum > 0 && sum < 300_000, `${sum} bytes`);
  });
});

describe("a server that is killed under an open page", () => {
  test("is not live, then catches up by itself", async () => {
    let server = await startServer();
    await server.call("fireonce.connections.v1.ConnectionService/CreateConnection", { idempotencyKey: "c", connection: { connector: "webhook", webhook: { receiverDedupes: "RECEIVER_DEDUPES_YES", keyWindow: "86400s" } } });
    const { context, page } = await open();
    await page.goto(`${server.url}/jobs`);
    await live(page);
    await server.kill();
    await page.getByRole("alert").getByText(/^Not live for/).waitFor({ timeout: 15_000 });
    server = await startServer({ dir: server.dir, port: server.port });
    await server.call("fireonce.v1.JobService/ScheduleJob", { idempotencyKey: "after-the-crash", connectionKey: "c", payload: { webhook: { url: `${receiver.url}/ok/after` } } });
    await page.getByRole("row").filter({ hasText: "after-the-crash" }).waitFor({ timeout: 30_000 });
    await page.getByText("Live", { exact: true }).filter({ visible: true }).waitFor({ timeout: 30_000 });
    assert.equal(await page.getByRole("row").filter({ hasText: "after-the-crash" }).count(), 1);
    await context.close();
    await server.stop();
  });
});

describe("with keys", () => {
  let server;
  before(async () => {
    server = await startServer({ env: { FIREONCE_API_KEY: key } });
    await server.call("fireonce.connections.v1.ConnectionService/CreateConnection", { idempotencyKey: "c", connection: { connector: "webhook", webhook: { receiverDedupes: "RECEIVER_DEDUPES_YES", keyWindow: "86400s" } } });
    await server.call("fireonce.v1.JobService/ScheduleJob", { idempotencyKey: "later", connectionKey: "c", scheduleTime: new Date(Date.now() + 3_600_000).toISOString(), payload: { webhook: { url: `${receiver.url}/ok/later` } } });
  });
  after(() => server?.stop());

  test("a person signs in, stays signed in, and out", async () => {
    const { context, page, faults } = await open();
    await page.goto(`${server.url}/jobs`);
    await page.getByLabel("API key").fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText(/no API key, or one that is not known/).waitFor();
    assert.deepEqual(await serious(page), []);
    await page.getByLabel("API key").fill(key);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("row").filter({ hasText: "later" }).waitFor();
    await page.reload();
    await page.getByRole("row").filter({ hasText: "later" }).waitFor();
    assert.equal(await page.evaluate(() => document.cookie), "");
    assert.equal(await page.evaluate((k) => JSON.stringify({ ...localStorage, ...sessionStorage }).includes(k), key), false);
    await page.goto(`${server.url}/settings`);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("API key").waitFor();
    assert.deepEqual(faults, []);
    await context.close();
  });

  test("a key that reads sees no button that would fail", async () => {
    const { secret } = await server.call("fireonce.admin.v1.AccessService/CreateApiKey", { projectId: "default", name: "reader", scopes: ["jobs:read"] });
    const { context, page, faults } = await open();
    await page.goto(`${server.url}/jobs`);
    await page.getByLabel("API key").fill(secret);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("link", { name: "later" }).click();
    await page.getByText("Your key lacks the scope payloads:read").waitFor();
    for (const name of ["Cancel", "Move", "Run now", "Decide", "New like it", "New job"]) assert.equal(await page.getByRole("button", { name, exact: true }).or(page.getByRole("link", { name, exact: true })).count(), 0, name);
    for (const name of ["Connections", "Schedules"]) assert.equal(await page.getByRole("link", { name, exact: true }).count(), 0, name);
    assert.deepEqual(faults, []);
    await context.close();
  });
});

describe("below a path", () => {
  test("nothing has a double slash, and everything works", async () => {
    const probe = await startServer();
    const { port } = probe;
    await probe.stop();
    const server = await startServer({ port, args: ["--dashboard-url", `http://127.0.0.1:${port}/ops/fireonce/`] });
    const { context, page, faults } = await open();
    const asked = [];
    page.on("request", (r) => asked.push(new URL(r.url()).pathname));
    await page.goto(`${server.url}/ops/fireonce`);
    await page.getByText("Nothing needs you").waitFor();
    await live(page);
    await page.getByRole("link", { name: "Jobs", exact: true }).click();
    await page.getByText("No jobs yet").waitFor();
    await page.reload();
    await page.getByText("No jobs yet").waitFor();
    assert.deepEqual(asked.filter((p) => p.includes("//") || !p.startsWith("/ops/fireonce")), []);
    assert.deepEqual(faults, []);
    await context.close();
    await server.stop();
  });
});
