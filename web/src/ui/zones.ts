import { ownZone } from "./format";

/** Every zone that the browser knows, the viewer's first. */
export const zones: string[] = [...new Set([ownZone, "UTC", ...Intl.supportedValuesOf("timeZone")])];

/** "2026-12-24T18:00" of a moment on the clocks of a zone, as an input has it. */
export function localInput(d: Date, zone: string): string {
  const parts = new Intl.DateTimeFormat("en-CA", {
    timeZone: zone, hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit",
  }).formatToParts(d);
  const of = (type: string) => parts.find((p) => p.type === type)?.value ?? "";
  return `${of("year")}-${of("month")}-${of("day")}T${of("hour")}:${of("minute")}`;
}

/** What an input has, as LocalTime wants it: with seconds. */
export function withSeconds(text: string): string {
  return text.length === 16 ? `${text}:00` : text;
}
