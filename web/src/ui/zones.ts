import { ownZone } from "./format";

/** Every zone that the browser knows, the viewer's first. */
export const zones: string[] = [...new Set([ownZone, "UTC", ...Intl.supportedValuesOf("timeZone")])];

const formats = new Map<string, Intl.DateTimeFormat>();

/** "2026-12-24T18:00" of a moment on the clocks of a zone, as an input has it. */
export function localInput(d: Date, zone: string): string {
  let format = formats.get(zone);
  if (!format) {
    format = new Intl.DateTimeFormat("en-CA", { timeZone: zone, hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit" });
    formats.set(zone, format); // to make one takes longer than to use it a thousand times
  }
  const parts = format.formatToParts(d);
  const of = (type: string) => parts.find((p) => p.type === type)?.value ?? "";
  return `${of("year")}-${of("month")}-${of("day")}T${of("hour")}:${of("minute")}`;
}

/** What an input has, as LocalTime wants it: with seconds. */
export function withSeconds(text: string): string {
  return text.length === 16 ? `${text}:00` : text;
}

/** The moment at which the clocks of a zone show a local time, "2026-12-24T18:00"; where they skip it, the one after. */
export function instantOf(local: string, zone: string): Date {
  const wanted = Date.parse(`${local}Z`);
  let at = wanted;
  // Twice, because the first guess may lie on the other side of a change of the clocks.
  for (let i = 0; i < 2; i++) at = wanted - offsetMinutes(new Date(at), zone) * 60_000;
  return new Date(at);
}

/** How far the clocks of a zone are ahead of UTC. */
function offsetMinutes(d: Date, zone: string): number {
  const minute = Math.floor(d.getTime() / 60_000) * 60_000;
  return (Date.parse(`${localInput(new Date(minute), zone)}Z`) - minute) / 60_000;
}

/** When the clocks of a zone change next, within a year and a bit, and by how much. */
export function nextClockChange(zone: string, from: Date): { at: Date; minutes: number } | undefined {
  const day = 86_400_000;
  let low = from.getTime();
  const before = offsetMinutes(from, zone);
  for (let i = 0; i < 400; i++) {
    const high = low + day;
    if (offsetMinutes(new Date(high), zone) === before) {
      low = high;
      continue;
    }
    let [a, b] = [low, high];
    while (b - a > 60_000) {
      const middle = Math.floor((a + b) / 2);
      if (offsetMinutes(new Date(middle), zone) === before) a = middle;
      else b = middle;
    }
    return { at: new Date(b), minutes: offsetMinutes(new Date(b), zone) - before };
  }
  return undefined;
}
