import { Link } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";
import { cx } from "@/ui/basics";
import { plural } from "@/ui/format";
import { longDay, weekday } from "./days";
import { dragType, EntryLink, readDrag, type Dragged } from "./EntryLink";
import type { Entry } from "./useEntries";

const shown = 3;

export function MonthGrid({ days, month, today, byDay, onDrop }: { days: string[]; month: string; today: string; byDay: Map<string, Entry[]>; onDrop: (day: string, time: string, job: Dragged) => void }) {
  return (
    <>
      <div className="mt-5 hidden grid-cols-7 px-px text-[12.5px] font-medium text-faint md:grid" aria-hidden>
        {days.slice(0, 7).map((d) => (
          <span key={d} className="px-2 pb-1.5">
            {weekday(d)}
          </span>
        ))}
      </div>
      <ol className="grid flex-1 overflow-hidden rounded-xl border bg-panel max-md:mt-5 max-md:flex-none max-md:divide-y md:auto-rows-[minmax(max-content,1fr)] md:grid-cols-7" aria-label="Days">
        {days.map((d, i) => {
          const all = byDay.get(d) ?? [];
          return (
            // On a phone, days without jobs take no room.
            <Day key={d} day={d} i={i} isToday={d === today} other={!d.startsWith(month)} onDrop={onDrop} className={cx(all.length === 0 && d !== today && "max-md:hidden")}>
              <ul>
                {all.slice(0, shown).map((e) => (
                  <li key={e.id}>
                    <EntryLink entry={e} />
                  </li>
                ))}
              </ul>
              {all.length > shown && (
                <Link to="/calendar" search={(old: Record<string, unknown>) => ({ ...old, view: "day" as const, date: d })} className="flex h-6 items-center px-1.5 text-[12.5px] text-dim hover:text-accent-text">
                  {plural(all.length - shown, "more", "more")}
                </Link>
              )}
              {all.length === 0 && <p className="px-1 text-[13px] text-faint md:hidden">Nothing today</p>}
            </Day>
          );
        })}
      </ol>
    </>
  );
}

function Day({ day, i, isToday, other, onDrop, className, children }: { day: string; i: number; isToday: boolean; other: boolean; onDrop: (day: string, time: string, job: Dragged) => void; className?: string; children?: ReactNode }) {
  const [over, setOver] = useState(false);
  return (
    <li
      data-day={day}
      aria-label={longDay(day)}
      onDragOver={(e) => {
        if (!e.dataTransfer.types.includes(dragType)) return;
        e.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(e) => {
        e.preventDefault();
        setOver(false);
        const job = readDrag(e.dataTransfer.getData(dragType));
        if (job) onDrop(day, job.time, job);
      }}
      className={cx("min-w-0 p-1.5 md:min-h-23 md:border-t md:border-l", i % 7 === 0 && "md:border-l-0", i < 7 && "md:border-t-0", other && "bg-sunken/60", over && "bg-accent-soft", className)}
    >
      <p className="mb-1 flex items-center gap-2 px-1">
        <span className={cx("num inline-flex size-6 items-center justify-center rounded-full text-[13px]", isToday ? "bg-accent font-semibold text-accent-ink" : other ? "text-faint" : "text-dim")}>{Number(day.slice(8))}</span>
        <span className="text-[13px] text-dim md:hidden">{longDay(day)}</span>
      </p>
      {children}
    </li>
  );
}
