import type { Duration, Timestamp } from "@bufbuild/protobuf/wkt";

/** A time of the API as the browser has it. */
export function dateOf(t: Timestamp): Date {
  return new Date(Number(t.seconds) * 1000 + Math.floor(t.nanos / 1e6));
}

export function timestampOf(d: Date): { seconds: bigint; nanos: number } {
  const ms = d.getTime();
  return { seconds: BigInt(Math.floor(ms / 1000)), nanos: (((ms % 1000) + 1000) % 1000) * 1e6 };
}

export function secondsOf(d: Duration): number {
  return Number(d.seconds) + d.nanos / 1e9;
}

/** The viewer's zone. */
export const ownZone = Intl.DateTimeFormat().resolvedOptions().timeZone;

const formats = new Map<string, Intl.DateTimeFormat>();

/** A format, kept: to make one takes longer than to use it a thousand times. */
function format(options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = JSON.stringify(options);
  let f = formats.get(key);
  if (!f) formats.set(key, (f = new Intl.DateTimeFormat("en-GB", options)));
  return f;
}

export function isZone(name: string): boolean {
  try {
    format({ timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** "24 Dec 2026, 18:00:05" */
export function fullTime(d: Date, zone = ownZone): string {
  return format({ timeZone: zone, day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" }).format(d);
}

/** The time in short: the day only if it is not today. */
export function shortTime(d: Date, now = Date.now()): string {
  const day = format({ year: "numeric", month: "numeric", day: "numeric" });
  if (day.format(d) === day.format(now)) return format({ hour: "2-digit", minute: "2-digit", second: "2-digit" }).format(d);
  const sameYear = d.getFullYear() === new Date(now).getFullYear();
  return format({ day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", ...(sameYear ? {} : { year: "numeric" }) }).format(d);
}

export function clockTime(d: Date): string {
  return format({ hour: "2-digit", minute: "2-digit", second: "2-digit" }).format(d);
}

/** "GMT+1" of a zone at a time. */
export function offsetOf(d: Date, zone: string): string {
  return format({ timeZone: zone, timeZoneName: "shortOffset", hour: "2-digit" }).formatToParts(d).find((p) => p.type === "timeZoneName")?.value ?? "";
}

/** "Vienna" of "Europe/Vienna" */
export function cityOf(zone: string): string {
  return (zone.split("/").pop() ?? zone).replaceAll("_", " ");
}

const units: [number, string][] = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];

/** "2 h 5 min": at most two units; below 10 s with milliseconds. */
export function span(seconds: number): string {
  const s = Math.abs(seconds);
  if (s === 0) return "0 s";
  if (s < 0.001) return "<1 ms";
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 10) return `${(Math.round(s * 10) / 10).toString()} s`;
  const whole = Math.round(s);
  for (const [i, [size, unit]] of units.entries()) {
    if (whole < size) continue;
    const first = Math.floor(whole / size);
    const next = units[i + 1];
    const second = next ? Math.floor((whole % size) / next[0]) : 0;
    return next && second > 0 && first < 10 ? `${first} ${unit} ${second} ${next[1]}` : `${first} ${unit}`;
  }
  return "0 s";
}

/** "in 5 min", "3 h ago", "now" */
export function relative(d: Date, now: number): string {
  const seconds = (d.getTime() - now) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  const text = span(Math.abs(seconds) < 10 ? Math.round(Math.abs(seconds)) : Math.abs(seconds));
  return seconds > 0 ? `in ${text}` : `${text} ago`;
}

/** A number with thin spaces; exact, also beyond 2^53. */
export function count(n: bigint | number): string {
  return n.toLocaleString("en-GB").replaceAll(",", "\u202f");
}

export function bytes(n: number): string {
  if (n < 1024) return `${n} B`;
  if (n < 1024 * 1024) return `${(n / 1024).toFixed(1)} KiB`;
  return `${(n / 1024 / 1024).toFixed(1)} MiB`;
}

export function plural(n: bigint | number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 || n === 1n ? one : many}`;
}
