// Tabs of Chromium whose every complaint is kept, and what the tests ask of them.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });

/** Opens a tab. What it complains of, and each request to elsewhere, is in faults. */
export async function openTab(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (e) => faults.push(e.message));
  page.on("console", (m) => {
    if (m.type() === "error" && !m.text().includes("Failed to load resource")) faults.push(m.text());
  });
  page.on("dialog", (d) => (faults.push(`a dialog: ${d.message()}`), d.dismiss()));
  page.on("request", (r) => {
    const { hostname, protocol } = new URL(r.url());
    if (hostname !== "127.0.0.1" && hostname !== "localhost" && protocol.startsWith("http")) faults.push(`a request to ${r.url()}`);
  });
  return { context, page, faults };
}

export const live = (page) => page.getByText("Live", { exact: true }).filter({ visible: true }).waitFor();

export const counted = (call, states) => call("fireonce.admin.v1.StatsService/CountJobs", { filter: { states } }).then((r) => Number(r.count ?? 0));

/** Waits until a page has come and nothing in it loads. */
export const loaded = (page) => page.waitForFunction(() => document.querySelector("main h1, main h2") && !document.querySelector('[aria-label="Loading"]'));

/** What axe finds that is serious. */
export async function serious(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }));
  return violations.filter((v) => v.impact === "serious" || v.impact === "critical").map((v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 160)).join(" | ")}`);
}
