import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { base } from "@/api/transport";
import AttentionPage from "@/attention/AttentionPage";
import { parseJobSearch } from "@/jobs/search";
import { App } from "@/shell/App";
import { Broken, Missing } from "@/shell/faults";

// Rules of this file: the first page comes with the shell; each other one is loaded when it is opened.

const root = createRootRoute({ component: App, notFoundComponent: Missing, errorComponent: Broken });

const page = <T extends string>(path: T, load: () => Promise<{ default: React.ComponentType }>) =>
  createRoute({ getParentRoute: () => root, path, component: lazyRouteComponent(load) });

const attention = createRoute({ getParentRoute: () => root, path: "/", component: AttentionPage });

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

const calendar = createRoute({
  getParentRoute: () => root,
  path: "/calendar",
  validateSearch: (raw: Record<string, unknown>): { month?: string } => (typeof raw.month === "string" && /^\d{4}-(0[1-9]|1[0-2])$/.test(raw.month) ? { month: raw.month } : {}),
  component: lazyRouteComponent(() => import("@/pages/CalendarPage")),
});

const routes = root.addChildren([
  attention,
  jobs,
  job,
  compose,
  calendar,
  page("/schedules", () => import("@/pages/SchedulesPage")),
  page("/connections", () => import("@/pages/ConnectionsPage")),
  overview,
  page("/settings", () => import("@/pages/SettingsPage")),
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
