import { useMutation } from "@connectrpc/connect-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { ChevronLeft, ChevronRight } from "lucide-react";
import { useMemo } from "react";
import { JobService } from "@gen/v1/job_service_pb.js";
import { faultOf } from "@/api/errors";
import { live } from "@/live/store";
import { Button, cx, IconButton, Notice, PageHead, Segments } from "@/ui/basics";
import { isZone, ownZone, plural } from "@/ui/format";
import { say } from "@/ui/toast";
import { instantOf } from "@/ui/zones";
import { ZoneSelect } from "@/ui/ZoneSelect";
import { addDays, addMonths, daysOf, longDay, monthName, shortDay, today as todayOf, type View } from "./days";
import type { Dragged } from "./EntryLink";
import { MonthGrid } from "./MonthGrid";
import { TimeGrid } from "./TimeGrid";
import { most, useEntries } from "./useEntries";

// Rules of this file: days and hours are those of one zone, the viewer's unless another is chosen. A job that is
// dropped is moved only if nobody has changed it since it was shown (its etag).

export default function CalendarPage() {
  const search = useSearch({ from: "/calendar" });
  const navigate = useNavigate({ from: "/calendar" });
  const zone = search.zone && isZone(search.zone) ? search.zone : ownZone;
  const view: View = search.view ?? "month";
  const today = todayOf(zone);
  const date = search.date ?? (search.month ? `${search.month}-01` : today);
  const days = useMemo(() => daysOf(view, date), [view, date]);
  const from = useMemo(() => instantOf(`${days[0]!}T00:00`, zone), [days, zone]);
  const to = useMemo(() => instantOf(`${addDays(days.at(-1)!, 1)}T00:00`, zone), [days, zone]);
  const { byDay, conflicts, error, tooMany, unplanned } = useEntries(from, to, zone);

  const move = useMutation(JobService.method.rescheduleJob);
  const drop = (day: string, time: string, job: Dragged) =>
    move.mutate(
      { job: { case: "jobId", value: job.jobId }, etag: job.etag, localTime: { dateTime: `${day}T${time}:00`, timeZone: zone } },
      {
        onSuccess: (res) => {
          if (res.job) live.put(res.job);
          say(`Moved to ${longDay(day)}, ${time}.`);
        },
        onError: (e) => say(`Not moved. ${faultOf(e).text}`, "bad"),
      },
    );
  const set = (next: { view?: View; date?: string; zone?: string }) =>
    void navigate({
      search: (old) => {
        const v = next.view ?? view;
        const d = next.date ?? old.date ?? (old.month ? `${old.month}-01` : undefined);
        const z = next.zone ?? zone;
        return { ...(v === "month" ? {} : { view: v }), ...(d && d !== today ? { date: d } : {}), ...(z === ownZone ? {} : { zone: z }) };
      },
      replace: next.date === undefined,
    });
  const step = (n: number) => set({ date: view === "month" ? addMonths(`${date.slice(0, 7)}-01`, n) : addDays(date, view === "week" ? 7 * n : n) });
  const title = view === "month" ? monthName(date) : view === "day" ? longDay(date) : `${shortDay(days[0]!)} – ${shortDay(days[6]!)} ${days[6]!.slice(0, 4)}`;

  return (
    <div className={cx("flex min-h-full flex-col px-4 pt-5 pb-6 md:px-8 md:pt-7", view !== "month" && "md:h-full")}>
      <PageHead title={title}>
        <div className="w-44 max-md:hidden" title="The zone of days and hours">
          <ZoneSelect aria-label="Zone" value={zone} onChange={(z) => set({ zone: z })} />
        </div>
        <Segments
          label="View"
          value={view}
          onChange={(v) => set({ view: v })}
          options={[
            { value: "month", label: "Month" },
            { value: "week", label: "Week" },
            { value: "day", label: "Day" },
          ]}
        />
        <Button onClick={() => set({ date: today })}>Today</Button>
        <span className="flex">
          <IconButton icon={ChevronLeft} label={`The ${view} before`} onClick={() => step(-1)} className="rounded-r-none border border-edge bg-panel" />
          <IconButton icon={ChevronRight} label={`The next ${view}`} onClick={() => step(1)} className="-ml-px rounded-l-none border border-edge bg-panel" />
        </span>
      </PageHead>
      <p className="mt-1 text-[13px] text-faint md:hidden">In the zone {zone}</p>
      {error && (
        <div className="mt-4">
          <Notice kind="bad" title="The jobs could not be read">{faultOf(error).text}</Notice>
        </div>
      )}
      {tooMany && (
        <div className="mt-4">
          <Notice kind="info">There are more than {most} jobs in this time: later ones are not shown.</Notice>
        </div>
      )}
      {conflicts > 0 && (
        <div className="mt-4">
          <Notice kind="warn">{plural(conflicts, "entry is", "entries are")} closer to the one before than the connection allows. {conflicts === 1 ? "It waits, within its start window" : "They wait, within their start windows"}: move {conflicts === 1 ? "it" : "them"} apart.</Notice>
        </div>
      )}
      {unplanned > 0 && (
        <div className="mt-4">
          <Notice kind="info">The firings to come of {plural(unplanned, "schedule")} are not shown.</Notice>
        </div>
      )}
      {view === "month" ? <MonthGrid days={days} month={date.slice(0, 7)} today={today} byDay={byDay} onDrop={drop} /> : <TimeGrid days={days} today={today} zone={zone} byDay={byDay} onDrop={drop} />}
    </div>
  );
}
