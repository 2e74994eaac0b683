// What a person does on the pages in Chromium, against a real server and a real receiver: many jobs, incidents and
// holds, the calendar, schedules.
import assert from "node:assert/strict";
import { after, before, beforeEach, describe, test } from "node:test";
import { counted, launch, loaded, openTab, serious } from "./browser.mjs";
import { until } from "./seed.mjs";
import { startReceiver, startServer } from "./server.mjs";

const jobs = "fireonce.v1.JobService";
const schedules = "fireonce.schedules.v1.ScheduleService";
const day = 86_400_000;

let browser;
let receiver;
let server;
let tab;
let send;
before(async () => {
  browser = await launch();
  receiver = await startReceiver();
  server = await startServer();
  const connect = (idempotencyKey, connection, credential) => server.call("fireonce.connections.v1.ConnectionService/CreateConnection", { idempotencyKey, connection, credential });
  await connect("orders", { connector: "webhook", displayName: "Order events", webhook: { receiverDedupes: "RECEIVER_DEDUPES_YES", keyWindow: "86400s" } });
  await connect("payments", { connector: "http", http: { receiverDedupes: "RECEIVER_DEDUPES_NO" } });
  await connect("mastodon", { connector: "mastodon", displayName: "@shop", mastodon: { baseUrl: `${receiver.url}/mastodon`, serverDedupes: "RECEIVER_DEDUPES_YES" } }, { bearerToken: { token: "good" } });
  send = (idempotencyKey, path = "/ok/pages", more = {}) =>
    server
      .call(`${jobs}/ScheduleJob`, { idempotencyKey, connectionKey: "orders", payload: more.connectionKey === "payments" ? { httpRequest: { url: receiver.url + path } } : { webhook: { url: receiver.url + path } }, ...more })
      .then((r) => r.job);
  tab = await openTab(browser, { timezoneId: "Europe/Vienna" });
});
after(async () => {
  await tab?.context.close();
  await browser?.close();
  await server?.stop();
  await receiver?.stop();
});
beforeEach(() => tab.faults.splice(0));

const get = (jobId) => server.call(`${jobs}/GetJob`, { jobId }).then((r) => r.job);

describe("many jobs", () => {
  const open = async (page, label, name) => {
    await page.goto(`${server.url}/jobs?label=${encodeURIComponent(label)}`);
    await page.getByRole("table", { name: "Jobs" }).waitFor();
    await page.getByRole("button", { name: "Change all" }).click();
    await page.getByRole("menuitem", { name }).click();
    return page.getByRole("dialog");
  };

  test("are moved, then some of them canceled, each after a dry run", async () => {
    const { page, faults } = tab;
    const at = new Date(Date.UTC(2027, 5, 1, 12));
    const made = [];
    for (let i = 0; i < 6; i++) made.push(await send(`bulk-${i}`, "/ok/bulk", { scheduleTime: at.toISOString(), labels: { batch: "a" } }));
    const dialog = await open(page, "batch=a", "Move…");
    await dialog.getByLabel("By", { exact: true }).fill("2");
    await dialog.getByLabel("Unit").selectOption("days");
    await dialog.getByRole("button", { name: "Show what would change" }).click();
    await dialog.getByText("6 jobs would change").waitFor();
    assert.equal(new Date((await get(made[0].jobId)).scheduleTime).getTime(), at.getTime(), "a dry run moves nothing");
    await dialog.getByRole("button", { name: "Move: 6 jobs" }).click();
    await dialog.getByText("6 of 6 changed").waitFor();
    for (const { jobId } of made) assert.equal(new Date((await get(jobId)).scheduleTime).getTime() - at.getTime(), 2 * day);
    await dialog.getByRole("button", { name: "Close" }).last().click();

    await page.getByLabel("Choose bulk-1").check();
    await page.getByLabel("Choose bulk-4").check();
    await page.getByRole("button", { name: "Change 2" }).click();
    await page.getByRole("menuitem", { name: "Cancel…" }).click();
    await dialog.getByLabel("Reason").fill("Not wanted");
    await dialog.getByRole("button", { name: "Show what would change" }).click();
    await dialog.getByText("2 jobs would change").waitFor();
    assert.deepEqual(await serious(page), []);
    await dialog.getByRole("button", { name: "Cancel: 2 jobs" }).click();
    await dialog.getByText("2 of 2 changed").waitFor();
    const states = await Promise.all(made.map(async ({ jobId }) => (await get(jobId)).state));
    assert.deepEqual(states.map((s) => s === "JOB_STATE_CANCELED"), [false, true, false, false, true, false]);
    assert.deepEqual(faults, []);
  });

  test("that failed are tried again, and unknown ones decided", async () => {
    const { page, faults } = tab;
    for (let i = 0; i < 3; i++) await send(`bulk-failed-${i}`, "/refused/bulk", { connectionKey: "payments", labels: { batch: "b" } });
    for (let i = 0; i < 2; i++) await send(`bulk-unknown-${i}`, "/reset/bulk", { connectionKey: "payments", labels: { batch: "b" } });
    await until("they have failed, and are unknown", async () => (await counted(server.call, ["JOB_STATE_FAILED"])) === 3 && (await counted(server.call, ["JOB_STATE_NEEDS_RESOLUTION"])) === 2, 60);
    const dialog = await open(page, "batch=b", "Try again…");
    await dialog.getByRole("button", { name: "Show what would change" }).click();
    await dialog.getByText("3 jobs would change").waitFor();
    await dialog.getByRole("button", { name: "Try again: 3 jobs" }).click();
    await dialog.getByText("3 of 3 changed").waitFor();
    await open(page, "batch=b", "Decide…");
    await dialog.getByText("It was not sent").click();
    await dialog.getByLabel("Note").fill("The ledger has none.");
    await dialog.getByRole("button", { name: "Show what would change" }).click();
    await dialog.getByText("2 jobs would change").waitFor();
    await dialog.getByRole("button", { name: "It was not sent: 2 jobs" }).click();
    await dialog.getByText("2 of 2 changed").waitFor();
    assert.equal(await counted(server.call, ["JOB_STATE_NEEDS_RESOLUTION"]), 0);
    assert.deepEqual(faults, []);
  });

  test("are never changed without a filter or a choice", async () => {
    const { page, faults } = tab;
    await page.goto(`${server.url}/jobs`);
    await page.getByRole("button", { name: "Change all" }).click();
    await page.getByText("nothing changes every job of the project").waitFor();
    for (const item of await page.getByRole("menuitem").all()) assert.equal(await item.getAttribute("aria-disabled"), "true");
    await page.keyboard.press("Escape");
    assert.deepEqual(faults, []);
  });

  test("are found by their destination", async () => {
    const { page, faults } = tab;
    await page.goto(`${server.url}/jobs?destination=${encodeURIComponent(receiver.url)}&q=bulk-0`);
    await page.getByRole("row").filter({ hasText: "bulk-0" }).waitFor();
    await page.getByRole("button", { name: `Remove At ${receiver.url}` }).waitFor();
    await page.goto(`${server.url}/jobs?destination=${encodeURIComponent("https://elsewhere.example:443")}`);
    await page.getByText("No job fits").waitFor();
    assert.deepEqual(faults, []);
  });
});

describe("what needs a person", () => {
  test("a job leads to its incident", async () => {
    const { page, faults } = tab;
    const made = [];
    for (let i = 0; i < 3; i++) made.push(await send(`same-${i}`, "/reset/same", { connectionKey: "payments" }));
    await until("they are unknown", async () => (await counted(server.call, ["JOB_STATE_NEEDS_RESOLUTION"])) === 3, 60);
    await page.goto(`${server.url}/jobs/${made[1].jobId}`);
    await page.getByRole("note").filter({ hasText: "3 unknown at" }).getByRole("link", { name: "See the incident" }).click();
    await page.getByRole("button", { name: "Decide all 3" }).waitFor();
    assert.match(page.url(), /incident=inc_/);
    await page.getByRole("button", { name: "Compare same-1" }).click();
    await page.getByRole("region", { name: "What was to be sent" }).getByText(`${receiver.url}/reset/same`).waitFor();
    const known = page.getByRole("region", { name: "What is known of it" });
    await known.getByText("There was no look at the target.").waitFor();
    await known.getByText(/no complete answer/).waitFor();
    assert.deepEqual(await serious(page), []);
    await known.getByRole("button", { name: "Decide this one" }).click();
    await page.getByRole("dialog").getByRole("button", { name: /Not now|Keep|Leave/ }).click();
    assert.deepEqual(faults, []);
  });

  test("a connection whose credential is refused is reconnected where its jobs wait", async () => {
    const { page, faults } = tab;
    receiver.tokens.delete("good");
    const { job } = await server.call(`${jobs}/ScheduleJob`, { idempotencyKey: "post", connectionKey: "mastodon", payload: { socialPost: { text: "Open again" } } });
    await until("it is held", async () => (await get(job.jobId)).blockedReason?.kind === "KIND_CREDENTIAL");
    await page.goto(`${server.url}/jobs`);
    await page.getByRole("note").filter({ hasText: "@shop is held for a new credential" }).getByRole("link", { name: "See why" }).click();
    await page.getByRole("listitem").filter({ hasText: "@shop" }).getByRole("alert").filter({ hasText: /Held since/ }).waitFor();
    await page.goto(server.url);
    await page.getByRole("article").filter({ hasText: "held back" }).getByRole("button", { name: "Reconnect" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("radio", { name: "Token" }).click();
    await dialog.getByLabel("Token", { exact: true }).fill("bad");
    await dialog.getByRole("button", { name: "Reconnect" }).click();
    await dialog.getByText("Not reconnected").waitFor();
    assert.deepEqual(await serious(page), []);
    await dialog.getByLabel("Token", { exact: true }).fill("better");
    await dialog.getByRole("button", { name: "Reconnect" }).click();
    await page.getByText("Reconnected").waitFor();
    await until("it is sent", async () => (await get(job.jobId)).state === "JOB_STATE_SUCCEEDED");
    await page.getByText("held back").waitFor({ state: "detached" });
    assert.deepEqual(faults, []);
  });

  test("a schedule that has paused itself is resumed where it is seen to stand still", async () => {
    const { page, faults } = tab;
    const { schedule } = await server.call(`${schedules}/CreateSchedule`, {
      idempotencyKey: "failing",
      displayName: "Failing report",
      spec: { timeZone: "UTC", intervals: [{ every: "10s" }] },
      policies: { pauseAfterFailures: 1 },
      jobTemplate: { connectionKey: "payments", payload: { httpRequest: { url: `${receiver.url}/refused-first/report` } } },
    });
    const state = () => server.call(`${schedules}/GetSchedule`, { scheduleId: schedule.scheduleId }).then((r) => r.schedule.state);
    await until("it pauses itself", async () => (await state()) === "SCHEDULE_STATE_PAUSED", 60);
    await page.goto(server.url);
    const card = page.getByRole("article").filter({ hasText: "Failing report stands still" });
    await card.getByRole("button", { name: "Resume" }).click();
    await page.getByText("Failing report fires again.").waitFor();
    await card.waitFor({ state: "detached" });
    assert.equal(await state(), "SCHEDULE_STATE_ACTIVE");
    await server.call(`${schedules}/DeleteSchedule`, { scheduleId: schedule.scheduleId });
    assert.deepEqual(faults, []);
  });

  test("jobs about to miss their window are shown before they do", async () => {
    const { pause } = await server.call("fireonce.admin.v1.PauseService/CreatePause", { target: { project: true }, note: "Move" });
    await send("late-one", "/ok/late", { startWindow: "3000s" });
    await send("early-one", "/ok/late", { startWindow: "7200s" });
    const { context, page, faults } = await openTab(browser);
    await page.clock.setFixedTime(Date.now() + 2_400_000); // 40 minutes later, to the page
    await page.goto(server.url);
    const card = page.getByRole("article").filter({ hasText: "1 job about to miss its window" });
    await card.getByRole("link", { name: "late-one" }).waitFor();
    await server.call("fireonce.admin.v1.PauseService/EndPause", { pauseId: pause.pauseId });
    await card.waitFor({ state: "detached" });
    assert.deepEqual(faults, []);
    await context.close();
  });
});

describe("the calendar", () => {
  test("of a week: a job is dragged to another hour, and one that has changed stays", async () => {
    const { page, faults } = tab;
    // 8:00 in Vienna, where the browser is; the clocks change on 28 March, between the two days.
    const job = await send("week", "/ok/week", { scheduleTime: "2027-03-24T07:00:00Z" });
    await page.goto(`${server.url}/calendar?view=week&date=2027-03-24`);
    const column = (d) => page.locator(`ol[data-day="${d}"]`);
    const drag = (name, d, hour) => page.getByRole("link", { name }).dragTo(column(d), { targetPosition: { x: 20, y: hour * 56 + 2 } });
    await column("2027-03-24").getByRole("link", { name: /08:00 week/ }).waitFor();
    await drag(/08:00 week/, "2027-03-28", 10);
    await page.getByText("Moved to Sunday 28 March, 10:00.").waitFor();
    assert.equal((await get(job.jobId)).scheduleTime, "2027-03-28T08:00:00Z");
    const moved = column("2027-03-28").getByRole("link", { name: /10:00 week/ });
    await moved.waitFor();
    // Somebody else changes it, and the page does not know yet: the stream is held up.
    await page.route("**/StreamJobEvents", (r) => r.abort());
    const { etag } = await get(job.jobId);
    const stale = await moved.evaluateHandle((e) => {
      const data = new DataTransfer();
      e.dispatchEvent(new DragEvent("dragstart", { dataTransfer: data, bubbles: true }));
      return data;
    });
    await server.call(`${jobs}/UpdateJob`, { jobId: job.jobId, etag, updateMask: "labels", labels: { a: "b" } });
    await column("2027-03-25").evaluate((e, dataTransfer) => e.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true, clientY: e.getBoundingClientRect().top + 5 })), stale);
    await page.getByText(/^Not moved\./).waitFor();
    assert.equal((await get(job.jobId)).scheduleTime, "2027-03-28T08:00:00Z");
    await page.unroute("**/StreamJobEvents");
    assert.deepEqual(faults, []);
  });

  test("says which jobs are too close together for their connection, and no more once they are moved", async () => {
    const { page, faults } = tab;
    await server.call("fireonce.connections.v1.ConnectionService/CreateConnection", {
      idempotencyKey: "slow",
      connection: { connector: "webhook", webhook: { receiverDedupes: "RECEIVER_DEDUPES_YES", keyWindow: "86400s" }, limits: { coolDown: "3600s" } },
    });
    await send("close-1", "/ok/close", { connectionKey: "slow", scheduleTime: "2027-05-04T08:00:00Z" });
    const second = await send("close-2", "/ok/close", { connectionKey: "slow", scheduleTime: "2027-05-04T08:20:00Z" });
    await send("close-3", "/ok/close", { connectionKey: "slow", scheduleTime: "2027-05-04T08:40:00Z", startWindow: "600s" });
    await page.goto(`${server.url}/calendar?view=day&date=2027-05-04&zone=UTC`);
    await page.getByText("2 entries are closer to the one before than the connection allows").waitFor();
    await page.getByRole("link", { name: /close-2.*sends one in 1 h, so after close-1 it waits until 09:00/ }).waitFor();
    await page.getByRole("link", { name: /close-3.*after close-2 it expires before it may begin/ }).waitFor();
    assert.deepEqual(await serious(page), []);
    await server.call(`${jobs}/RescheduleJob`, { jobId: second.jobId, etag: second.etag, scheduleTime: "2027-05-04T12:00:00Z" });
    await page.getByText("1 entry is closer to the one before").waitFor();
    assert.deepEqual(faults, []);
  });

  test("of a day, in another zone", async () => {
    const { page, faults } = tab;
    await send("evening", "/ok/day", { scheduleTime: "2027-04-02T01:30:00Z" });
    await page.goto(`${server.url}/calendar?view=day&date=2027-04-01`);
    await page.getByLabel("Zone").selectOption("America/New_York");
    await page.getByRole("link", { name: /21:30 evening/ }).waitFor();
    assert.match(page.url(), /zone=America/);
    for (const view of ["Month", "Week", "Day"]) {
      await page.getByRole("radio", { name: view }).click();
      assert.deepEqual(await serious(page), []);
    }
    assert.deepEqual(faults, []);
  });
});

describe("schedules", () => {
  let id;
  before(async () => {
    const { schedule } = await server.call(`${schedules}/CreateSchedule`, {
      idempotencyKey: "nightly",
      displayName: "Nightly report",
      spec: { timeZone: "America/New_York", cronExpressions: ["30 2 * * *"] },
      jobTemplate: { connectionKey: "orders", payload: { webhook: { url: `${receiver.url}/ok/nightly` } } },
    });
    id = schedule.scheduleId;
  });

  test("the next ten are shown, one is skipped and restored, and the change of the clocks previewed", async () => {
    const { page, faults } = tab;
    await page.goto(`${server.url}/schedules?open=nightly`);
    const firings = page.getByRole("list", { name: "Firings" });
    await until("there are ten", async () => (await firings.getByRole("listitem").count()) === 10);
    await firings.getByRole("button", { name: /^Skip/ }).nth(2).click();
    await firings.getByRole("button", { name: /^Restore/ }).waitFor();
    const skipped = await server.call(`${schedules}/GetSchedule`, { scheduleId: id });
    assert.equal(skipped.schedule.skippedNames.length, 1);
    await firings.getByRole("button", { name: /^Restore/ }).click();
    await firings.getByRole("button", { name: /^Restore/ }).waitFor({ state: "detached" });
    await page.getByRole("radio", { name: /When the clocks change/ }).click();
    await page.getByText(/In New York the clocks go (forward|back) by 1 h/).waitFor();
    await firings.getByText(/The clocks skip it|Comes twice|Nov|Mar/).first().waitFor();
    assert.deepEqual(await serious(page), []);
    assert.deepEqual(faults, []);
  });

  test("it fires now, once, is paused with a note, resumed, and backfilled after a dry run", async () => {
    const { page, faults } = tab;
    await page.goto(`${server.url}/schedules`);
    const dialog = page.getByRole("dialog");
    const made = () => server.call(`${jobs}/ListJobs`, { filter: { scheduleKey: "nightly" } }).then((r) => (r.jobs ?? []).length);
    await page.getByRole("button", { name: "Fire", exact: true }).click();
    await dialog.getByRole("button", { name: "Fire now" }).dblclick();
    await page.getByText("It fired.").waitFor();
    assert.equal(await made(), 1);
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    await dialog.getByLabel("Note").fill("Until the report is fixed");
    await dialog.getByRole("button", { name: "Pause it" }).click();
    await page.getByText("Until the report is fixed").waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await page.getByText("Active", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Backfill" }).click();
    const from = new Date(Date.now() - 4 * day).toISOString().slice(0, 10);
    const to = new Date(Date.now() - 1 * day).toISOString().slice(0, 10);
    await dialog.getByLabel("From").fill(`${from}T00:00`);
    await dialog.getByLabel("Until").fill(`${to}T00:00`);
    await dialog.getByRole("button", { name: "Show what it makes" }).click();
    await dialog.getByText("3 jobs would be made").waitFor();
    assert.equal(await made(), 1, "a dry run makes nothing");
    await dialog.getByRole("button", { name: "Make 3 jobs" }).click();
    await page.getByText("3 jobs made.").waitFor();
    assert.equal(await made(), 4);
    assert.deepEqual(faults, []);
  });

  test("its firings to come are in the calendar", async () => {
    const { page, faults } = tab;
    await page.goto(`${server.url}/calendar?zone=America/New_York`);
    await page.getByRole("link", { name: /02:30 Nightly report/ }).first().waitFor();
    await loaded(page);
    assert.deepEqual(faults, []);
  });
});
