// Pictures of pages, to look at: node e2e/look.mjs FOLDER [page…]
import { mkdirSync } from "node:fs";
import { chromium } from "playwright-core";
import { seed, until } from "./seed.mjs";
import { startReceiver, startServer } from "./server.mjs";

const [folder = "/tmp/look", ...only] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const receiver = await startReceiver();
const server = await startServer();
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
try {
  const ids = await seed(server, receiver);
  await until("the refunds are unknown", async () => {
    const { phaseCounts = [] } = await server.call("fireonce.admin.v1.StatsService/CountJobs", { filter: { states: ["JOB_STATE_NEEDS_RESOLUTION"] } });
    return phaseCounts.some((c) => Number(c.count) >= 13);
  });
  await server.call("fireonce.v1.JobService/GetJob", { jobId: ids["refund-905"] }).then(({ job }) =>
    server.call("fireonce.v1.JobService/ResolveJob", { jobId: job.jobId, etag: job.etag, decision: "DECISION_SENT", note: "Seen in the bank's ledger, 14:02.", externalId: "tx-88121" }),
  );
  const { call } = server;
  await call("fireonce.schedules.v1.ScheduleService/CreateSchedule", {
    idempotencyKey: "daily-report",
    displayName: "Daily report",
    spec: { timeZone: "America/New_York", cronExpressions: ["30 2 * * *"] },
    jobTemplate: { connectionKey: "orders", payload: { webhook: { url: `${receiver.url}/ok/report` } } },
  });
  await call("fireonce.connections.v1.ConnectionService/CreateConnection", { idempotencyKey: "pager", connection: { connector: "webhook", displayName: "Pager", webhook: { receiverDedupes: "RECEIVER_DEDUPES_YES", keyWindow: "86400s", callbackUrl: `${receiver.url}/ok/pager` } } });
  await call("fireonce.subscriptions.v1.SubscriptionService/CreateSubscription", { idempotencyKey: "on-call", displayName: "On call", connectionKey: "pager", rules: { collect: "60s", recovered: true } });
  await call("fireonce.subscriptions.v1.SubscriptionService/TestSubscription", { idempotencyKey: "on-call" });
  await call("fireonce.admin.v1.AccessService/CreateApiKey", { projectId: "default", name: "checkout", scopes: ["jobs:read", "jobs:write"] });
  await call("fireonce.admin.v1.AccessService/CreateApiKey", { projectId: "default", name: "ann", scopes: ["jobs:read", "payloads:read", "jobs:write", "jobs:resolve"], lifetime: "7776000s" });
  await call("fireonce.admin.v1.PauseService/CreatePause", { target: { connectionKey: "warehouse" }, note: "Stock count until Monday" });
  await call("fireonce.admin.v1.PauseService/CreatePause", { target: { destination: "https://api.example.com:443" }, note: "Their database moves", beginTime: new Date(Date.now() + 86_400_000).toISOString(), endTime: new Date(Date.now() + 90_000_000).toISOString() });
  const tomorrow = new Date(Date.now() + 86_400_000).toISOString().slice(0, 10);
  await call("fireonce.connections.v1.ConnectionService/CreateConnection", { idempotencyKey: "feed", connection: { connector: "webhook", displayName: "Feed", webhook: { receiverDedupes: "RECEIVER_DEDUPES_YES", keyWindow: "86400s" }, limits: { coolDown: "3600s" } } });
  for (const at of ["09:00", "09:20", "12:00"]) await call("fireonce.v1.JobService/ScheduleJob", { idempotencyKey: `post-${at.replace(":", "")}`, connectionKey: "feed", scheduleTime: `${tomorrow}T${at}:00Z`, payload: { webhook: { url: `${receiver.url}/ok/feed` } } });
  const pages = {
    needs: "/",
    compare: "/",
    jobs: "/jobs",
    unknown: `/jobs/${ids["refund-900"]}`,
    job: `/jobs/${ids["order-4201:paid"]}`,
    decided: `/jobs/${ids["refund-905"]}`,
    scheduled: `/jobs/${ids["reminder-2"]}`,
    new: "/new?connection=orders",
    overview: "/overview?range=hour",
    calendar: "/calendar",
    week: "/calendar?view=week",
    day: `/calendar?view=day&date=${tomorrow}`,
    schedules: "/schedules",
    connections: "/connections",
    settings: "/settings",
    pauses: "/settings?tab=pauses",
    subscriptions: "/settings?tab=subscriptions",
    keys: "/settings?tab=keys",
    servers: "/settings?tab=servers",
  };
  const shapes = {
    light: { viewport: { width: 1440, height: 900 }, colorScheme: "light" },
    dark: { viewport: { width: 1440, height: 900 }, colorScheme: "dark" },
    phone: { viewport: { width: 390, height: 844 }, colorScheme: "light", deviceScaleFactor: 2, isMobile: true, hasTouch: true },
  };
  for (const [shape, options] of Object.entries(shapes)) {
    const context = await browser.newContext({ ...options, reducedMotion: "reduce" });
    const page = await context.newPage();
    page.on("console", (m) => m.type() !== "log" && console.log(shape, m.type(), m.text()));
    page.on("pageerror", (e) => console.log(shape, "error", e.message));
    for (const [name, path] of Object.entries(pages)) {
      if (only.length && !only.includes(name)) continue;
      await page.goto(server.url + path);
      await page.waitForLoadState("domcontentloaded");
      await page.waitForFunction(() => document.querySelector("h1") && !document.querySelector('[aria-label="Loading"]'), undefined, { timeout: 8000 }).catch(() => console.log(name, "did not load"));
      if (name === "compare") await page.getByRole("button", { name: /^Compare/ }).first().click().then(() => page.getByRole("region", { name: "What is known of it" }).waitFor());
      if (name === "overview") await page.waitForTimeout(1500);
      await page.waitForTimeout(400);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (wide > 0) console.log(shape, name, `is ${wide} px too wide`);
      await page.screenshot({ path: `${folder}/${name}-${shape}.png` });
    }
    await context.close();
  }
} finally {
  await browser.close();
  await server.stop();
  await receiver.stop();
}
