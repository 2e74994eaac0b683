// Pauses, notices, keys and servers in Chromium, against a real server and a real receiver.
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, test } from "node:test";
import { launch, live, loaded, openTab, serious } from "./browser.mjs";
import { until } from "./seed.mjs";
import { startReceiver, startServer } from "./server.mjs";

const key = "open-sesame-0123456789";
const pauses = "fireonce.admin.v1.PauseService";
const jobs = "fireonce.v1.JobService";

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

const webhook = (more) => ({ connector: "webhook", webhook: { receiverDedupes: "RECEIVER_DEDUPES_YES", keyWindow: "86400s", ...more } });

describe("settings", () => {
  let server;
  let tab;
  let send;
  const inForce = async () => ((await server.call(`${pauses}/ListPauses`)).pauses ?? []).filter((p) => p.state === "PAUSE_STATE_IN_FORCE");
  before(async () => {
    server = await startServer();
    const connect = (idempotencyKey, connection) => server.call("fireonce.connections.v1.ConnectionService/CreateConnection", { idempotencyKey, connection });
    await connect("orders", { ...webhook(), displayName: "Order events" });
    await connect("pager", webhook({ callbackUrl: `${receiver.url}/ok/pager` }));
    send = (idempotencyKey, more = {}) => server.call(`${jobs}/ScheduleJob`, { idempotencyKey, connectionKey: "orders", payload: { webhook: { url: `${receiver.url}/ok/paused` } }, ...more }).then((r) => r.job);
    tab = await openTab(browser);
  });
  beforeEach(() => tab.faults.splice(0));
  after(async () => {
    await tab?.context.close();
    await server?.stop();
  });

  test("a pause shows what it holds back, is seen on every page, and is resumed", async () => {
    const { page, faults } = tab;
    await send("later", { scheduleTime: new Date(Date.now() + 3_600_000).toISOString(), startWindow: "600s" });
    await page.goto(`${server.url}/settings?tab=pauses`);
    await page.getByText("Nothing is paused").waitFor();
    await page.getByRole("button", { name: "Pause…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Note").fill("Moving the database");
    await dialog.getByRole("button", { name: "Show what it holds back" }).click();
    await dialog.getByText("1 job would run out of time within 24 hours").waitFor();
    await dialog.getByRole("button", { name: "Back" }).click();
    await dialog.getByLabel(/Windows that end in it begin again/).check();
    await dialog.getByRole("button", { name: "Show what it holds back" }).click();
    await dialog.getByText("Their windows begin again").waitFor();
    await dialog.getByRole("button", { name: "Back" }).click();
    await dialog.getByLabel(/Windows that end in it begin again/).uncheck();
    await dialog.getByRole("button", { name: "Show what it holds back" }).click();
    await dialog.getByText("1 job would run out of time within 24 hours").waitFor();
    await dialog.getByRole("link", { name: "later" }).waitFor();
    assert.deepEqual(await inForce(), [], "a dry run pauses nothing");
    await dialog.getByRole("button", { name: "Pause", exact: true }).click();
    await page.getByText("In force").waitFor();
    const held = await send("held");
    for (const path of ["/", "/jobs", "/calendar", "/schedules", "/connections", "/overview", "/new?connection=orders", `/jobs/${held.jobId}`]) {
      await page.goto(server.url + path);
      await page.getByRole("note").filter({ hasText: /Everything is paused.*Moving the database/ }).waitFor();
    }
    await page.goto(`${server.url}/jobs/${held.jobId}`);
    await page.getByText("It waits for something other than its time").waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Resume", exact: true }).click();
    await page.getByText("The effect exists", { exact: true }).waitFor();
    assert.deepEqual(await inForce(), []);
    await page.getByText(/Everything is paused/).waitFor({ state: "detached" });
    assert.deepEqual(faults, []);
  });

  test("a pause of one connection is announced for a time, and taken back", async () => {
    const { page, faults } = tab;
    await page.goto(`${server.url}/connections`);
    await page.getByRole("listitem").filter({ hasText: "Order events" }).getByRole("button", { name: "Pause" }).click();
    const dialog = page.getByRole("dialog");
    assert.equal(await dialog.getByLabel("Connection", { exact: true }).inputValue(), "orders");
    await dialog.getByRole("radiogroup", { name: "From" }).getByRole("radio", { name: "A time" }).click();
    await dialog.getByLabel("Begin", { exact: true }).fill("2027-05-01T02:00");
    await dialog.getByRole("radiogroup", { name: "Until" }).getByRole("radio", { name: "A time" }).click();
    await dialog.getByLabel("End", { exact: true }).fill("2027-05-01T01:00");
    await dialog.getByRole("button", { name: "Show what it holds back" }).click();
    await dialog.getByRole("alert").waitFor();
    await dialog.getByLabel("End", { exact: true }).fill("2027-05-01T04:00");
    await dialog.getByRole("button", { name: "Show what it holds back" }).click();
    await dialog.getByRole("button", { name: "Announce it" }).click();
    await page.goto(`${server.url}/settings?tab=pauses`);
    const row = page.getByRole("listitem").filter({ hasText: "Announced" });
    await row.getByText("Order events").waitFor();
    await row.getByRole("button", { name: "Take back" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Take it back" }).click();
    await page.getByText("Nothing is paused").waitFor();
    assert.deepEqual(faults, []);
  });

  test("a person subscribes, sees a test arrive, pauses, resumes and deletes", async () => {
    const { page, faults } = tab;
    await page.goto(`${server.url}/settings?tab=subscriptions`);
    await page.getByText("Nobody is told").waitFor();
    await page.getByRole("button", { name: "Subscribe" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Key").fill("on-call");
    await dialog.getByLabel("By").selectOption("pager");
    await dialog.getByLabel("What needs a person").check();
    await dialog.getByRole("button", { name: "Subscribe" }).click();
    const row = page.getByRole("listitem").filter({ hasText: "on-call" }).first();
    await row.getByRole("button", { name: "Test" }).click();
    await row.getByText("Arrived").first().waitFor();
    await row.getByRole("button", { name: "Pause" }).click();
    await row.getByText("Paused", { exact: true }).waitFor();
    await row.getByRole("button", { name: "Resume" }).click();
    await dialog.getByRole("button", { name: "Resume" }).click();
    await row.getByText("Active", { exact: true }).waitFor();
    await row.getByRole("button", { name: "Delete on-call" }).click();
    await dialog.getByRole("button", { name: "Delete it" }).click();
    await page.getByText("Nobody is told").waitFor();
    assert.deepEqual(faults, []);
  });

  test("servers are listed", async () => {
    const { page, faults } = tab;
    await page.goto(`${server.url}/settings?tab=servers`);
    await page.getByText("answers this page").waitFor();
    assert.deepEqual(faults, []);
  });

  test("axe finds nothing serious in the settings and their windows", async () => {
    const { page } = tab;
    const found = [];
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      for (const name of ["", "pauses", "subscriptions", "keys", "servers"]) {
        await page.goto(`${server.url}/settings${name && `?tab=${name}`}`);
        await loaded(page);
        for (const v of await serious(page)) found.push(`${colorScheme} ${name}: ${v}`);
        const opens = { pauses: "Pause…", subscriptions: "Subscribe", keys: "New key" }[name];
        if (!opens) continue;
        await page.getByRole("button", { name: opens }).click();
        await page.getByRole("dialog").waitFor();
        for (const v of await serious(page)) found.push(`${colorScheme} ${name}, its window: ${v}`);
      }
    }
    await page.emulateMedia({ colorScheme: null });
    assert.deepEqual(found, []);
  });
});

describe("keys", () => {
  test("a key is made, shown once, works, and is revoked; its holder sees what it may", async () => {
    const server = await startServer({ env: { FIREONCE_API_KEY: key } });
    const { context, page, faults } = await openTab(browser);
    await page.goto(`${server.url}/settings?tab=keys`);
    await page.getByLabel("API key").fill(key);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("No key yet").waitFor();
    await page.getByRole("button", { name: "New key" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name").fill("ann");
    await dialog.getByRole("button", { name: "Only looks" }).click();
    await dialog.getByRole("button", { name: "Make the key" }).click();
    const secret = (await dialog.locator("[data-secret]").textContent()).trim();
    assert.match(secret, /^fo_/);
    await dialog.getByRole("button", { name: "I have it" }).click();
    assert.equal((await page.content()).includes(secret), false);

    const reader = await openTab(browser);
    await reader.page.goto(`${server.url}/settings?tab=pauses`);
    await reader.page.getByLabel("API key").fill(secret);
    await reader.page.getByRole("button", { name: "Sign in" }).click();
    await reader.page.getByText("Nothing is paused").waitFor();
    await live(reader.page);
    assert.equal(await reader.page.getByRole("button", { name: "Pause…" }).count(), 0);
    for (const name of ["API keys", "Servers"]) assert.equal(await reader.page.getByRole("link", { name, exact: true }).count(), 0, name);
    await reader.page.getByRole("link", { name: "Notices", exact: true }).click();
    await reader.page.getByText("Nobody is told").waitFor();
    assert.equal(await reader.page.getByRole("button", { name: "Subscribe" }).count(), 0);

    const row = page.getByRole("listitem").filter({ hasText: "ann" });
    await row.getByRole("button", { name: "Revoke" }).click();
    await dialog.getByRole("button", { name: "Revoke it" }).click();
    await row.getByText("Revoked").waitFor();
    await until("the key is refused", async () => (await fetch(`${server.url}/fireonce.v1.JobService/ListJobs`, { method: "POST", headers: { "Content-Type": "application/json", Authorization: `Bearer ${secret}` }, body: "{}" })).status === 401);
    await reader.page.reload();
    await reader.page.getByLabel("API key").waitFor();
    assert.deepEqual([...faults, ...reader.faults], []);
    await reader.context.close();
    await context.close();
    await server.stop();
  });
});
