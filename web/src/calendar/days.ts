import { localInput } from "@/ui/zones";

// Rules of this file: a day is a text, "2026-12-24", and has no zone. Steps go by noon in UTC, which no change of the
// clocks reaches.

export type View = "month" | "week" | "day";

const noon = (day: string) => new Date(`${day}T12:00Z`);

/** The day so many days later. */
export function addDays(day: string, n: number): string {
  const d = noon(day);
  d.setUTCDate(d.getUTCDate() + n);
  return d.toISOString().slice(0, 10);
}

/** The same day of another month, or its last. */
export function addMonths(day: string, n: number): string {
  const d = noon(`${day.slice(0, 7)}-01`);
  d.setUTCMonth(d.getUTCMonth() + n);
  const month = d.toISOString().slice(0, 7);
  const last = new Date(Date.UTC(d.getUTCFullYear(), d.getUTCMonth() + 1, 0)).getUTCDate();
  return `${month}-${String(Math.min(last, Number(day.slice(8)))).padStart(2, "0")}`;
}

/** The Monday of a day's week. */
export function monday(day: string): string {
  return addDays(day, -((noon(day).getUTCDay() + 6) % 7));
}

/** The days that a view shows: whole weeks, from Monday on. */
export function daysOf(view: View, day: string): string[] {
  if (view === "day") return [day];
  const first = monday(view === "week" ? day : `${day.slice(0, 7)}-01`);
  const out: string[] = [];
  do {
    for (let i = 0; i < 7; i++) out.push(addDays(first, out.length));
  } while (view === "month" && addDays(first, out.length).startsWith(day.slice(0, 7)));
  return out;
}

export const today = (zone: string) => localInput(new Date(), zone).slice(0, 10);

const f = (options: Intl.DateTimeFormatOptions) => {
  const format = new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", ...options });
  return (day: string) => format.format(noon(day));
};

export const monthName = f({ month: "long", year: "numeric" });
export const weekday = f({ weekday: "short" });
export const longDay = f({ weekday: "long", day: "numeric", month: "long" });
export const shortDay = f({ day: "numeric", month: "short" });
