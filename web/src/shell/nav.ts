import { CalendarDays, CircleHelp, ChartNoAxesCombined, ListChecks, Plug, Repeat, Settings, type LucideIcon } from "lucide-react";
import type { Scope } from "@/api/session";

export interface NavItem {
  to: "/" | "/jobs" | "/calendar" | "/schedules" | "/connections" | "/overview" | "/settings";
  label: string;
  icon: LucideIcon;
  /** The letter after g that opens it. */
  key: string;
  scope?: Scope;
}

export const nav: NavItem[] = [
  { to: "/", label: "Needs you", icon: CircleHelp, key: "n", scope: "jobs:read" },
  { to: "/calendar", label: "Calendar", icon: CalendarDays, key: "c", scope: "jobs:read" },
  { to: "/jobs", label: "Jobs", icon: ListChecks, key: "j", scope: "jobs:read" },
  { to: "/schedules", label: "Schedules", icon: Repeat, key: "s", scope: "schedules:read" },
  { to: "/connections", label: "Connections", icon: Plug, key: "x", scope: "connections:read" },
  { to: "/overview", label: "Overview", icon: ChartNoAxesCombined, key: "o", scope: "jobs:read" },
  { to: "/settings", label: "Settings", icon: Settings, key: "," },
];
