import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { base } from "@/api/transport";
import AttentionPage from "@/attention/AttentionPage";
import { parseJobSearch } from "@/jobs/search";
import { parseSettings } from "@/settings/tabs";
import { App } from "@/shell/App";
import { Broken, Missing } from "@/shell/faults";

// Rules of this file: the first page comes with the shell; each other one is loaded when it is opened.

const root = createRootRoute({ component: App, notFoundComponent: Missing, errorComponent: Broken });

const page = <T extends string>(path: T, load: () => Promise<{ default: React.ComponentType }>) =>
  createRoute({ getParentRoute: () => root, path, component: lazyRouteComponent(load) });

/** The incident that the page points at. */
const parseAttention = (raw: Record<string, unknown>): { incident?: string } => (typeof raw.incident === "string" ? { incident: raw.incident } : {});

const attention = createRoute({ getParentRoute: () => root, path: "/", validateSearch: parseAttention, component: AttentionPage });

const jobs = createRoute({
  getParentRoute: () => root,
  path: "/jobs",
  validateSearch: parseJobSearch,
  component: lazyRouteComponent(() => import("@/jobs/JobsPage")),
});

const job = createRoute({
  getParentRoute: () => root,
  path: "/jobs/$jobId",
  component: lazyRouteComponent(() => import("@/job/JobPage")),
});

/** What opens the form filled in: a connection, or a job to make another like. */
export interface NewSearch {
  connection?: string;
  like?: string;
}

const compose = createRoute({
  getParentRoute: () => root,
  path: "/new",
  validateSearch: (raw: Record<string, unknown>): NewSearch => ({
    ...(typeof raw.connection === "string" ? { connection: raw.connection } : {}),
    ...(typeof raw.like === "string" ? { like: raw.like } : {}),
  }),
  component: lazyRouteComponent(() => import("@/compose/NewPage")),
});

/** What the overview shows. */
export interface OverviewSearch {
  range?: "hour" | "day" | "week" | "month";
  connection?: string;
}

const overview = createRoute({
  getParentRoute: () => root,
  path: "/overview",
  validateSearch: (raw: Record<string, unknown>): OverviewSearch => ({
    ...(raw.range === "hour" || raw.range === "week" || raw.range === "month" ? { range: raw.range } : {}),
    ...(typeof raw.connection === "string" && raw.connection ? { connection: raw.connection } : {}),
  }),
  component: lazyRouteComponent(() => import("@/overview/OverviewPage")),
});

/** What the calendar shows: a month ("2026-12") or a day, and the days and hours of which zone. */
interface CalendarSearch {
  view?: "week" | "day";
  month?: string;
  date?: string;
  zone?: string;
}

const calendar = createRoute({
  getParentRoute: () => root,
  path: "/calendar",
  validateSearch: (raw: Record<string, unknown>): CalendarSearch => ({
    ...(raw.view === "week" || raw.view === "day" ? { view: raw.view } : {}),
    ...(typeof raw.month === "string" && /^\d{4}-(0[1-9]|1[0-2])$/.test(raw.month) ? { month: raw.month } : {}),
    ...(typeof raw.date === "string" && /^\d{4}-\d{2}-\d{2}$/.test(raw.date) && !Number.isNaN(Date.parse(raw.date)) ? { date: raw.date } : {}),
    ...(typeof raw.zone === "string" && raw.zone ? { zone: raw.zone } : {}),
  }),
  component: lazyRouteComponent(() => import("@/calendar/CalendarPage")),
});

const schedules = createRoute({
  getParentRoute: () => root,
  path: "/schedules",
  validateSearch: (raw: Record<string, unknown>): { open?: string } => (typeof raw.open === "string" && raw.open ? { open: raw.open } : {}),
  component: lazyRouteComponent(() => import("@/pages/SchedulesPage")),
});

const settings = createRoute({
  getParentRoute: () => root,
  path: "/settings",
  validateSearch: parseSettings,
  component: lazyRouteComponent(() => import("@/settings/SettingsPage")),
});

const routes = root.addChildren([
  attention,
  jobs,
  job,
  compose,
  calendar,
  schedules,
  page("/connections", () => import("@/pages/ConnectionsPage")),
  overview,
  settings,
]);

export const router = createRouter({
  routeTree: routes,
  basepath: base || "/",
  defaultPreload: "intent",
  scrollRestoration: true,
  // Queries are words that a person can type: no JSON in them.
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (search) => {
    const text = new URLSearchParams(Object.entries(search).filter((e): e is [string, string] => typeof e[1] === "string")).toString();
    return text ? `?${text.replaceAll("%2C", ",").replaceAll("%3A", ":")}` : "";
  },
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
