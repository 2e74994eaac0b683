import { Link } from "@tanstack/react-router";
import { useEffect, useRef, useState, type DragEvent } from "react";
import { cx } from "@/ui/basics";
import { useNow } from "@/ui/now";
import { localInput } from "@/ui/zones";
import { longDay, weekday } from "./days";
import { dragType, EntryLink, readDrag, type Dragged } from "./EntryLink";
import type { Entry } from "./useEntries";

// Rules of this file: an hour has two rows. Entries of the same half hour stand beside each other, as far as there is
// room, and the rest is a link. A drop snaps to a quarter of an hour.

const hour = 56;
const snap = 15;
const pad = (n: number) => String(n).padStart(2, "0");
const minutesOf = (time: string) => Number(time.slice(0, 2)) * 60 + Number(time.slice(3));
const timeOf = (minutes: number) => `${pad(Math.floor(minutes / 60))}:${pad(minutes % 60)}`;

export function TimeGrid({ days, today, zone, byDay, onDrop }: { days: string[]; today: string; zone: string; byDay: Map<string, Entry[]>; onDrop: (day: string, time: string, job: Dragged) => void }) {
  const scroller = useRef<HTMLDivElement>(null);
  const wide = days.length === 1;
  const nowTime = minutesOf(localInput(new Date(useNow()), zone).slice(11));
  const first = days[0]!;
  useEffect(() => {
    // The hour before now, or the morning.
    const at = days.includes(today) ? nowTime - 60 : 7 * 60;
    const column = scroller.current?.querySelector<HTMLElement>(`ol[data-day="${today}"]`);
    const left = column && !wide ? column.offsetLeft - 56 : 0;
    scroller.current?.scrollTo(left, (Math.max(0, at) / 60) * hour);
    // Once for each range of days.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [first, days.length]);
  return (
    <div ref={scroller} tabIndex={0} aria-label="Hours" role="region" data-focus="inside" className="mt-5 min-h-96 flex-1 basis-0 overflow-auto rounded-xl border bg-panel">
      <div className={cx("grid", !wide && "min-w-[52rem]")} style={{ gridTemplateColumns: `3.5rem repeat(${days.length}, minmax(0, 1fr))` }}>
        <div className="sticky top-0 left-0 z-20 border-b bg-panel" />
        {days.map((d) => (
          <div key={d} className={cx("sticky top-0 z-10 flex items-center justify-center gap-1.5 border-b border-l bg-panel text-[13px] text-dim", !wide && "py-2")}>
            {wide ? <span className="sr-only">{longDay(d)}</span> : weekday(d)}
            {!wide && <span className={cx("num inline-flex size-6 items-center justify-center rounded-full", d === today ? "bg-accent font-semibold text-accent-ink" : "text-ink")}>{Number(d.slice(8))}</span>}
          </div>
        ))}
        <div className="sticky left-0 z-10 bg-panel" aria-hidden>
          {Array.from({ length: 24 }, (_, h) => (
            <div key={h} className="num relative text-right text-[11.5px] text-faint" style={{ height: hour }}>
              {h > 0 && <span className="absolute -top-2 right-2">{pad(h)}:00</span>}
            </div>
          ))}
        </div>
        {days.map((d) => (
          <Column key={d} day={d} entries={byDay.get(d) ?? []} lanes={wide ? 6 : 1} now={d === today ? nowTime : undefined} onDrop={onDrop} />
        ))}
      </div>
    </div>
  );
}

function Column({ day, entries, lanes, now, onDrop }: { day: string; entries: Entry[]; lanes: number; now?: number; onDrop: (day: string, time: string, job: Dragged) => void }) {
  const [over, setOver] = useState<number>();
  const minute = (e: DragEvent<HTMLElement>) => {
    const box = e.currentTarget.getBoundingClientRect();
    const at = ((e.clientY - box.top) / hour) * 60;
    return Math.max(0, Math.min(24 * 60 - snap, Math.floor(at / snap) * snap));
  };
  const slots = new Map<number, Entry[]>();
  for (const e of entries) {
    const slot = Math.floor(minutesOf(e.time) / 30);
    slots.set(slot, [...(slots.get(slot) ?? []), e]);
  }
  return (
    <ol
      data-day={day}
      aria-label={longDay(day)}
      className="relative border-l"
      style={{ height: 24 * hour, backgroundImage: "linear-gradient(var(--line) 1px, transparent 1px)", backgroundSize: `100% ${hour}px` }}
      onDragOver={(e) => {
        if (!e.dataTransfer.types.includes(dragType)) return;
        e.preventDefault();
        setOver(minute(e));
      }}
      onDragLeave={() => setOver(undefined)}
      onDrop={(e) => {
        e.preventDefault();
        setOver(undefined);
        const job = readDrag(e.dataTransfer.getData(dragType));
        if (job) onDrop(day, timeOf(minute(e)), job);
      }}
    >
      {[...slots].map(([slot, all]) => {
        const shown = all.length > lanes ? all.slice(0, Math.max(1, lanes - 1)) : all;
        const rest = all.length - shown.length;
        return (
          <li key={slot} className="absolute inset-x-0.5 z-[6] flex gap-0.5" style={{ top: (slot * hour) / 2 + 2 }}>
            {shown.map((e) => (
              <span key={e.id} className={cx("min-w-0", lanes > 1 ? "max-w-72 flex-1" : "flex-1")}>
                <EntryLink entry={e} boxed />
              </span>
            ))}
            {rest > 0 && (
              <Link
                to="/jobs"
                search={{ from: `${day}T${timeOf(slot * 30)}`, to: slot === 47 ? `${day}T23:59` : `${day}T${timeOf(slot * 30 + 30)}`, sort: "soonest" }}
                className="num flex h-6 shrink-0 items-center rounded-md bg-sunken px-1.5 text-[12px] text-dim hover:text-accent-text"
                aria-label={`${rest} more from ${timeOf(slot * 30)} on`}
              >
                +{rest}
              </Link>
            )}
          </li>
        );
      })}
      {now !== undefined && <li aria-hidden className="pointer-events-none absolute inset-x-0 z-[5] border-t-2 border-accent" style={{ top: (now / 60) * hour }} />}
      {over !== undefined && (
        <li aria-hidden className="pointer-events-none absolute inset-x-0.5 z-10 rounded-md bg-accent px-1.5 text-[12px] font-medium text-accent-ink" style={{ top: (over / 60) * hour }}>
          {timeOf(over)}
        </li>
      )}
    </ol>
  );
}
