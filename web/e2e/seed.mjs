// Jobs in every state, as a shop would have them.

/** Fills a server. Returns the ids by key. */
export async function seed(server, receiver) {
  const { call } = server;
  const connect = (key, connection, credential) =>
    call("fireonce.connections.v1.ConnectionService/CreateConnection", { idempotencyKey: key, connection, ...(credential ? { credential } : {}) });
  await connect("orders", { connector: "webhook", displayName: "Order events", webhook: { receiverDedupes: "RECEIVER_DEDUPES_YES", keyWindow: "86400s" } });
  await connect("payments", { connector: "http", displayName: "Payments, old API", http: { receiverDedupes: "RECEIVER_DEDUPES_NO" } });
  await connect("warehouse", { connector: "webhook", displayName: "Warehouse", webhook: { receiverDedupes: "RECEIVER_DEDUPES_YES", keyWindow: "86400s" } });
  await connect("mail", { connector: "smtp", displayName: "Mail relay", smtp: { host: "127.0.0.1", port: 2525, security: "SECURITY_NONE" } });
  await connect("mastodon", { connector: "mastodon", displayName: "@shop@example.social", mastodon: { baseUrl: "https://example.social" } }, { bearerToken: { token: "a-token" } });
  const ids = {};
  const job = async (key, connectionKey, payload, more = {}) => {
    const { job } = await call("fireonce.v1.JobService/ScheduleJob", { idempotencyKey: key, connectionKey, payload, ...more });
    ids[key] = job.jobId;
    return job;
  };
  const hook = (path, bodyJson) => ({ webhook: { url: receiver.url + path, bodyJson } });
  const http = (path, bodyJson) => ({ httpRequest: { url: receiver.url + path, bodyJson } });
  const inSeconds = (s) => new Date(Date.now() + s * 1000).toISOString();
  for (let i = 0; i < 60; i++) {
    await job(`order-${4200 + i}:paid`, "orders", hook("/ok/orders", { event: "order.paid", order: 4200 + i, amount: { value: "129.90", currency: "EUR" } }), { labels: { team: "checkout", tier: String(i % 3) } });
  }
  for (let i = 0; i < 13; i++) await job(`refund-${900 + i}`, "payments", http("/reset/refunds", { refund: 900 + i, cents: 4990, exact: "9007199254740993" }), { labels: { team: "payments" }, timeZone: "America/New_York" });
  for (let i = 0; i < 3; i++) await job(`capture-${70 + i}`, "payments", http("/refused/capture", { capture: 70 + i }), { labels: { team: "payments" } });
  for (let i = 0; i < 4; i++) await job(`stock-${300 + i}`, "warehouse", hook("/down/stock", { sku: `A-${300 + i}`, left: i }));
  for (let i = 0; i < 8; i++) await job(`reminder-${i}`, "orders", hook("/ok/reminders", { cart: i }), { scheduleTime: inSeconds(3600 * (1 + i * 5)), timeZone: "Europe/Vienna", labels: { campaign: "black-friday" } });
  const moved = await job("newsletter:2026-12", "orders", hook("/ok/news", { issue: "2026-12" }), { scheduleTime: inSeconds(86400 * 6) });
  await call("fireonce.v1.JobService/CancelJob", { jobId: moved.jobId, reason: "The issue was dropped." });
  await job("<img src=x onerror=alert(1)>".replaceAll(" ", "_"), "orders", hook("/ok/x", { html: "<script>alert(1)</script>" }), { labels: { note: '"><script>alert(2)</script>' }, scheduleTime: inSeconds(7200) });
  return ids;
}

/** Waits until the condition holds. */
export async function until(what, condition, seconds = 30) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    if (await condition()) return;
    if (Date.now() > end) throw new Error(`timed out: ${what}`);
    await new Promise((r) => setTimeout(r, 100));
  }
}
