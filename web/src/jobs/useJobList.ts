import { useInfiniteQuery } from "@connectrpc/connect-query";
import { keepPreviousData } from "@tanstack/react-query";
import { useMemo, useRef } from "react";
import type { Job } from "@gen/v1/job_pb.js";
import { JobService } from "@gen/v1/job_service_pb.js";
import { useLive } from "@/live/store";
import { compare, filterOf, matches, orderOf, type JobSearch } from "./search";

// Rules of this file: the list is what the server answered, with what the stream said since laid over it.
//   - A job that left the filter leaves the list; one that came in takes its place, as far as the list is loaded.
//   - While the list is paused, nothing in it changes, and the changes are counted.

const pageSize = 200;

export interface JobList {
  rows: Job[];
  /** Jobs whose change is not shown, because the list is paused. */
  held: number;
  isPending: boolean;
  error: Error | null;
  isRefreshing: boolean;
  hasMore: boolean;
  isLoadingMore: boolean;
  more: () => void;
  refresh: () => void;
  /** When the jobs were last read. */
  readAt: number;
}

/** The jobs of a query, live. */
export function useJobList(search: JobSearch, paused: boolean): JobList {
  const order = orderOf(search);
  const query = useInfiniteQuery(
    JobService.method.listJobs,
    { filter: filterOf(search), order, pageSize, pageToken: "" },
    {
      pageParamKey: "pageToken",
      getNextPageParam: (page) => page.nextPageToken || undefined,
      placeholderData: keepPreviousData,
      staleTime: 60_000,
    },
  );
  const pages = query.data?.pages;
  const base = useMemo(() => {
    const seen = new Map<string, number>();
    const rows: Job[] = [];
    for (const page of pages ?? [])
      for (const job of page.jobs) {
        if (seen.has(job.jobId)) continue; // it moved between two pages
        seen.set(job.jobId, rows.length);
        rows.push(job);
      }
    return { rows, seen };
  }, [pages]);

  const live = useLive();
  const version = live.snapshot();
  const whole = !query.hasNextPage;
  const current = useMemo(
    () => merge(base, live.values(), search, whole),
    // The version stands for what live holds.
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [base, version, search, whole],
  );

  const shown = useRef(current);
  const held = useRef(0);
  const frozen = useRef<{ base: typeof base; version: number } | undefined>(undefined);
  if (!paused || (frozen.current && frozen.current.base !== base)) {
    shown.current = current;
    held.current = 0;
    frozen.current = paused ? { base, version } : undefined;
  } else {
    frozen.current ??= { base, version };
    held.current = current.changed - shown.current.changed;
  }
  return {
    rows: shown.current.rows,
    held: Math.max(0, held.current),
    isPending: query.isPending,
    error: query.error,
    isRefreshing: query.isFetching && !query.isFetchingNextPage && !query.isPending,
    hasMore: query.hasNextPage,
    isLoadingMore: query.isFetchingNextPage,
    more: () => void query.fetchNextPage(),
    refresh: () => void query.refetch(),
    readAt: query.dataUpdatedAt,
  };
}

function merge(base: { rows: Job[]; seen: Map<string, number> }, live: Iterable<Job>, search: JobSearch, whole: boolean) {
  const order = compare(orderOf(search));
  const last = base.rows.at(-1);
  let rows = base.rows;
  let changed = 0;
  const gone = new Set<number>();
  const coming: Job[] = [];
  for (const job of live) {
    const at = base.seen.get(job.jobId);
    const old = at === undefined ? undefined : base.rows[at];
    if (old && old.sequence >= job.sequence) continue;
    const fits = matches(search, job);
    if (old && at !== undefined) {
      changed++;
      if (fits === false) gone.add(at);
      else if (order(old, job) !== 0) {
        gone.add(at);
        coming.push(job);
      } else {
        if (rows === base.rows) rows = base.rows.slice();
        rows[at] = job;
      }
    } else if (fits && (whole || (last && order(job, last) < 0))) {
      changed++;
      coming.push(job);
    }
  }
  if (gone.size === 0 && coming.length === 0) return { rows, changed };
  coming.sort(order);
  const merged: Job[] = [];
  let next = 0;
  for (let i = 0; i < rows.length; i++) {
    if (gone.has(i)) continue;
    const row = rows[i]!;
    while (next < coming.length && order(coming[next]!, row) < 0) merged.push(coming[next++]!);
    merged.push(row);
  }
  while (next < coming.length) merged.push(coming[next++]!);
  return { rows: merged, changed };
}
