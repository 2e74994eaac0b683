import { useInfiniteQuery, useMutation } from "@connectrpc/connect-query";
import { keepPreviousData } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { ChevronLeft, ChevronRight } from "lucide-react";
import { useEffect, useMemo, useState } from "react";
import { Phase, type Job } from "@gen/v1/job_pb.js";
import { JobOrder, JobService } from "@gen/v1/job_service_pb.js";
import { faultOf } from "@/api/errors";
import { useMay } from "@/api/session";
import { live, useLive } from "@/live/store";
import { stateWords, toneSolid } from "@/jobs/words";
import { Button, cx, IconButton, Notice, PageHead } from "@/ui/basics";
import { dateOf, ownZone, plural, timestampOf } from "@/ui/format";
import { say } from "@/ui/toast";
import { localInput } from "@/ui/zones";

// Rules of this file: days are those of the viewer's zone. A job that is dropped on another day keeps its time on the
// clocks of that zone, and is moved only if nobody has changed it since it was shown (its etag).

const most = 2_000;
const shownInDay = 3;

export default function CalendarPage() {
  const search = useSearch({ from: "/calendar" });
  const navigate = useNavigate({ from: "/calendar" });
  const may = useMay();
  const today = localInput(new Date(), ownZone).slice(0, 10);
  const month = search.month ?? today.slice(0, 7);
  const days = useMemo(() => daysOf(month), [month]);
  const from = new Date(`${days[0]!}T00:00`);
  const to = new Date(`${days.at(-1)!}T00:00`);
  to.setDate(to.getDate() + 1);
  const list = useInfiniteQuery(
    JobService.method.listJobs,
    { filter: { scheduleTimeFrom: timestampOf(from), scheduleTimeBefore: timestampOf(to) }, order: JobOrder.SCHEDULE_TIME_ASC, pageSize: 500, pageToken: "" },
    { pageParamKey: "pageToken", getNextPageParam: (p) => p.nextPageToken || undefined, placeholderData: keepPreviousData },
  );
  const loaded = list.data?.pages.reduce((n, p) => n + p.jobs.length, 0) ?? 0;
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = list;
  useEffect(() => {
    if (hasNextPage && !isFetchingNextPage && loaded < most) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage, loaded]);

  const overlay = useLive();
  const version = overlay.snapshot();
  const byDay = useMemo(() => {
    const jobs = new Map<string, Job>();
    for (const page of list.data?.pages ?? []) for (const j of page.jobs) jobs.set(j.jobId, overlay.newest(j));
    for (const j of overlay.values()) jobs.set(j.jobId, j);
    const out = new Map<string, Job[]>();
    for (const j of jobs.values()) {
      if (!j.scheduleTime) continue;
      const day = localInput(dateOf(j.scheduleTime), ownZone).slice(0, 10);
      out.set(day, [...(out.get(day) ?? []), j]);
    }
    for (const all of out.values()) all.sort((a, b) => Number(a.scheduleTime!.seconds - b.scheduleTime!.seconds));
    return out;
    // The version stands for what live holds.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [list.data, version]);

  const move = useMutation(JobService.method.rescheduleJob);
  const [over, setOver] = useState<string>();
  const drop = (day: string, text: string) => {
    setOver(undefined);
    const [jobId, etag, time] = text.split("|");
    if (!jobId || !etag || !time) return;
    move.mutate(
      { job: { case: "jobId", value: jobId }, etag, localTime: { dateTime: `${day}T${time}:00`, timeZone: ownZone } },
      {
        onSuccess: (res) => {
          if (res.job) live.put(res.job);
          say(`Moved to ${long.format(new Date(`${day}T12:00`))}, ${time}.`);
        },
        onError: (e) => say(`Not moved. ${faultOf(e).text}`, "bad"),
      },
    );
  };
  const go = (step: number) => {
    const d = new Date(`${month}-15T12:00`);
    d.setMonth(d.getMonth() + step);
    void navigate({ search: { month: localInput(d, ownZone).slice(0, 7) } });
  };

  return (
    <div className="flex min-h-full flex-col px-4 pt-5 pb-6 md:px-8 md:pt-7">
      <PageHead title={title.format(new Date(`${month}-15T12:00`))} note={`In your zone, ${ownZone}`}>
        <Button onClick={() => void navigate({ search: {} })}>Today</Button>
        <IconButton icon={ChevronLeft} label="The month before" onClick={() => go(-1)} className="border border-edge bg-panel" />
        <IconButton icon={ChevronRight} label="The next month" onClick={() => go(1)} className="border border-edge bg-panel" />
      </PageHead>
      {list.error && <div className="mt-4"><Notice kind="bad" title="The jobs could not be read">{faultOf(list.error).text}</Notice></div>}
      {hasNextPage && loaded >= most && <div className="mt-4"><Notice kind="info">There are more than {most} jobs in this month: later ones are not shown.</Notice></div>}
      <div className="mt-5 hidden grid-cols-7 px-px text-[12.5px] font-medium text-faint md:grid" aria-hidden>
        {days.slice(0, 7).map((d) => (
          <span key={d} className="px-2 pb-1.5">{weekday.format(new Date(`${d}T12:00`))}</span>
        ))}
      </div>
      <ol className="grid flex-1 overflow-hidden rounded-xl border bg-panel max-md:mt-5 max-md:flex-none max-md:divide-y md:auto-rows-[minmax(5.75rem,1fr)] md:grid-cols-7" aria-label="Days">
        {days.map((d, i) => {
          const jobs = byDay.get(d) ?? [];
          const other = !d.startsWith(month);
          if (jobs.length === 0 && d !== today) {
            // On a phone, days without jobs take no room.
            return <Day key={d} day={d} i={i} today={today} other={other} over={over} setOver={setOver} drop={drop} className="max-md:hidden" />;
          }
          return (
            <Day key={d} day={d} i={i} today={today} other={other} over={over} setOver={setOver} drop={drop}>
              <ul>
                {jobs.slice(0, shownInDay).map((j) => (
                  <Entry key={j.jobId} job={j} movable={may("jobs:write") && j.phase === Phase.WAITING} />
                ))}
              </ul>
              {jobs.length > shownInDay && (
                <Link to="/jobs" search={{ from: d, to: d, sort: "soonest" }} className="flex h-6 items-center px-1 text-[12.5px] text-dim hover:text-accent-text">
                  {plural(jobs.length - shownInDay, "more", "more")}
                </Link>
              )}
              {jobs.length === 0 && <p className="px-1 text-[13px] text-faint md:hidden">Nothing today</p>}
            </Day>
          );
        })}
      </ol>
    </div>
  );
}

const title = new Intl.DateTimeFormat("en-GB", { month: "long", year: "numeric" });
const weekday = new Intl.DateTimeFormat("en-GB", { weekday: "short" });
const long = new Intl.DateTimeFormat("en-GB", { weekday: "long", day: "numeric", month: "long" });

function Day({ day, i, today, other, over, setOver, drop, className, children }: { day: string; i: number; today: string; other: boolean; over?: string; setOver: (d: string | undefined) => void; drop: (day: string, text: string) => void; className?: string; children?: React.ReactNode }) {
  const date = new Date(`${day}T12:00`);
  return (
    <li
      data-day={day}
      aria-label={long.format(date)}
      onDragOver={(e) => {
        if (!e.dataTransfer.types.includes("text/plain")) return;
        e.preventDefault();
        setOver(day);
      }}
      onDragLeave={() => setOver(undefined)}
      onDrop={(e) => {
        e.preventDefault();
        drop(day, e.dataTransfer.getData("text/plain"));
      }}
      className={cx("min-w-0 p-1.5 md:border-t md:border-l", i % 7 === 0 && "md:border-l-0", i < 7 && "md:border-t-0", other && "bg-sunken/60", over === day && "bg-accent-soft", className)}
    >
      <p className="mb-1 flex items-center gap-2 px-1">
        <span className={cx("num inline-flex size-6 items-center justify-center rounded-full text-[13px]", day === today ? "bg-accent font-semibold text-accent-ink" : other ? "text-faint" : "text-dim")}>{date.getDate()}</span>
        <span className="text-[13px] text-dim md:hidden">{long.format(date)}</span>
      </p>
      {children}
    </li>
  );
}

function Entry({ job, movable }: { job: Job; movable: boolean }) {
  const time = localInput(dateOf(job.scheduleTime!), ownZone).slice(11);
  const { tone, label } = stateWords(job.state);
  return (
    <li>
      <Link
        to="/jobs/$jobId"
        params={{ jobId: job.jobId }}
        draggable={movable}
        onDragStart={(e) => {
          e.dataTransfer.setData("text/plain", `${job.jobId}|${job.etag}|${time}`);
          e.dataTransfer.effectAllowed = "move";
        }}
        title={`${time} ${job.idempotencyKey}, ${label.toLowerCase()}${movable ? ". Drag it to another day." : ""}`}
        data-focus="inside"
        className={cx("flex items-center gap-1.5 h-6 rounded-md px-1 text-[12.5px] hover:bg-sunken", movable && "cursor-grab")}
      >
        <span className={cx("size-2 shrink-0 rounded-full", toneSolid[tone])} aria-hidden />
        <span className="num shrink-0 text-faint">{time}</span>
        <span className="truncate">{job.idempotencyKey}</span>
        <span className="sr-only">{label}</span>
      </Link>
    </li>
  );
}

/** The days of the weeks of a month, from Monday on. */
function daysOf(month: string): string[] {
  const d = new Date(`${month}-01T12:00`);
  d.setDate(1 - ((d.getDay() + 6) % 7));
  const out: string[] = [];
  do {
    for (let i = 0; i < 7; i++) {
      out.push(localInput(d, ownZone).slice(0, 10));
      d.setDate(d.getDate() + 1);
    }
  } while (localInput(d, ownZone).slice(0, 7) === month);
  return out;
}
