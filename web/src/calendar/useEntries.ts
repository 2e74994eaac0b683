import { createQueryOptions, useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { keepPreviousData, useQueries } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import { ScheduleState } from "@gen/schedules/v1/schedule_pb.js";
import { ScheduleService, type PreviewScheduleResponse } from "@gen/schedules/v1/schedule_service_pb.js";
import { ConnectionService } from "@gen/connections/v1/connection_service_pb.js";
import { Phase, type Job } from "@gen/v1/job_pb.js";
import { JobOrder, JobService } from "@gen/v1/job_service_pb.js";
import { useMay } from "@/api/session";
import { transport } from "@/api/transport";
import { useLive } from "@/live/store";
import { dateOf, secondsOf, span, timestampOf } from "@/ui/format";
import { localInput } from "@/ui/zones";

// Rules of this file: what is shown is the jobs of the days, live, and the firings to come of the schedules, which are
// no jobs yet. Conflicts are those among what is shown. Both have limits, and what is beyond them is said.

export const most = 2_000;
const mostSchedules = 20;
const mostFirings = 200;

export interface Entry {
  id: string;
  at: Date;
  /** "09:30" on the clocks of the zone. */
  time: string;
  name: string;
  job?: Job;
  /** The key of the schedule whose firing it will be. */
  schedule?: string;
  /** The connection that it goes through. */
  connection: string;
  /** Why it cannot begin at its time: the entry before it is too close. */
  conflict?: string;
}

/** Marks what is closer to the entry before it than its connection lets effects be: it waits, or its window ends first. */
function markConflicts(entries: Entry[], coolDown: Map<string, number>, clock: (d: Date) => string): number {
  const last = new Map<string, { begin: number; name: string }>();
  let found = 0;
  for (const e of entries) {
    const cool = coolDown.get(e.connection);
    if (!cool || (e.job && e.job.phase !== Phase.WAITING)) continue;
    const before = last.get(e.connection);
    const begin = Math.max(e.at.getTime(), before ? before.begin + cool * 1000 : 0);
    last.set(e.connection, { begin, name: e.name });
    if (!before || begin === e.at.getTime()) continue;
    found++;
    const ends = e.job?.startDeadline && begin > dateOf(e.job.startDeadline).getTime();
    e.conflict = `${e.connection} sends one in ${span(cool)}, so after ${before.name} it ${ends ? "expires before it may begin" : `waits until ${clock(new Date(begin))}`}`;
  }
  return found;
}

const combine = (results: { data?: PreviewScheduleResponse }[]) => results.map((r) => r.data?.firings ?? []);

/** What goes out on the days from one moment to another, by day. */
export function useEntries(from: Date, to: Date, zone: string) {
  const may = useMay();
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

  const future = to.getTime() > Date.now();
  const schedules = useQuery(ScheduleService.method.listSchedules, { pageSize: 500 }, { enabled: future && may("schedules:read") });
  const begin = new Date(Math.max(from.getTime(), Math.ceil(Date.now() / 60_000) * 60_000));
  const active = (schedules.data?.schedules ?? []).filter((s) => s.state === ScheduleState.ACTIVE);
  const firings = useQueries({
    queries: (future ? active.slice(0, mostSchedules) : []).map((s) => ({
      ...createQueryOptions(
        ScheduleService.method.previewSchedule,
        { subject: { case: "scheduleId", value: s.scheduleId }, startTime: timestampOf(begin), endTime: timestampOf(to), count: mostFirings },
        { transport },
      ),
      placeholderData: keepPreviousData,
    })),
    combine,
  });

  const connections = useQuery(ConnectionService.method.listConnections, { pageSize: 500 }, { enabled: future && may("connections:read") });
  const overlay = useLive();
  const version = overlay.snapshot();
  const { byDay, conflicts } = useMemo(() => {
    const jobs = new Map<string, Job>();
    for (const page of list.data?.pages ?? []) for (const j of page.jobs) jobs.set(j.jobId, overlay.newest(j));
    for (const j of overlay.values()) jobs.set(j.jobId, j);
    const out = new Map<string, Entry[]>();
    const add = (e: Omit<Entry, "time">) => {
      if (e.at < from || e.at >= to) return;
      const local = localInput(e.at, zone);
      const day = local.slice(0, 10);
      const all = out.get(day);
      const entry = { ...e, time: local.slice(11) };
      if (all) all.push(entry);
      else out.set(day, [entry]);
    };
    for (const j of jobs.values()) if (j.scheduleTime) add({ id: j.jobId, at: dateOf(j.scheduleTime), name: j.idempotencyKey, job: j, connection: j.connectionKey });
    const made = new Set([...jobs.values()].filter((j) => j.scheduleId && j.scheduleTime).map((j) => `${j.scheduleId} ${dateOf(j.scheduleTime!).getTime()}`));
    firings.forEach((planned, i) => {
      const s = active[i];
      if (!s) return;
      for (const f of planned)
        if (f.fireTime && !f.skipped && !made.has(`${s.scheduleId} ${dateOf(f.fireTime).getTime()}`)) add({ id: `${s.scheduleId} ${f.name}`, at: dateOf(f.fireTime), name: s.displayName || s.idempotencyKey, schedule: s.idempotencyKey, connection: s.connectionKey });
    });
    for (const all of out.values()) all.sort((a, b) => a.at.getTime() - b.at.getTime());
    const coolDown = new Map((connections.data?.connections ?? []).flatMap((c) => (c.limits?.coolDown ? [[c.idempotencyKey, secondsOf(c.limits.coolDown)] as const] : [])));
    const inOrder = [...out.values()].flat().sort((a, b) => a.at.getTime() - b.at.getTime());
    return { byDay: out, conflicts: markConflicts(inOrder, coolDown, (d) => localInput(d, zone).slice(11)) };
    // The version stands for what live holds.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [list.data, version, firings, schedules.data, connections.data, from.getTime(), to.getTime(), zone]);
  return { byDay, conflicts, error: list.error, tooMany: hasNextPage && loaded >= most, unplanned: Math.max(0, active.length - mostSchedules) };
}
