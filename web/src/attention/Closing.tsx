import { useQuery } from "@connectrpc/connect-query";
import { Link } from "@tanstack/react-router";
import { TimerOff } from "lucide-react";
import { BlockedReason_Kind, Phase, type Job } from "@gen/v1/job_pb.js";
import { JobOrder, JobService } from "@gen/v1/job_service_pb.js";
import { sentence } from "@/api/errors";
import { useMay } from "@/api/session";
import { toneSoft } from "@/jobs/words";
import { useLive } from "@/live/store";
import { usePauses } from "@/pauses/usePauses";
import { cx, When } from "@/ui/basics";
import { dateOf, plural, timestampOf } from "@/ui/format";
import { useNow } from "@/ui/now";
import { Card } from "./Card";

// Rules of this file: a job that a pause with held windows covers misses none. Any other is about to miss its window if it is due, has not begun, and its window ends within an
// hour and after less than half of it is left. Before its time nothing is late, however short the window.

const soon = 3_600_000;
const most = 200;
const shown = 5;

/** Jobs that are due and end as expired soon, if nothing changes. The first to end is the first. */
export function useClosing(): { jobs: Job[]; error: Error | null } {
  const may = useMay();
  const now = useNow();
  const minute = Math.floor(now / 60_000) * 60_000 + 60_000;
  const due = useQuery(
    JobService.method.listJobs,
    { filter: { phases: [Phase.WAITING], scheduleTimeBefore: timestampOf(new Date(minute)) }, order: JobOrder.SCHEDULE_TIME_ASC, pageSize: most },
    { enabled: may("jobs:read"), placeholderData: (old) => old, refetchInterval: 15_000 },
  );
  const live = useLive();
  const { inForce } = usePauses();
  const allHold = inForce.length > 0 && inForce.every((p) => p.holdWindows);
  const jobs = (due.data?.jobs ?? [])
    .map((j) => live.newest(j))
    .filter((j) => {
      if (j.phase !== Phase.WAITING || !j.startDeadline || !j.scheduleTime || j.attemptCount > 0) return false;
      const paused = j.blockedReason?.kind === BlockedReason_Kind.PAUSED || j.blockedReason?.kind === BlockedReason_Kind.CONNECTION_PAUSED;
      if (paused && allHold) return false;
      const end = dateOf(j.startDeadline).getTime();
      const begin = dateOf(j.scheduleTime).getTime();
      return begin <= now && end > now && end - now <= soon && end - now < (end - begin) / 2;
    })
    .sort((a, b) => dateOf(a.startDeadline!).getTime() - dateOf(b.startDeadline!).getTime());
  return { jobs, error: due.error };
}

export function Closing({ jobs }: { jobs: Job[] }) {
  const first = jobs[0]!;
  return (
    <Card
      icon={
        <span className={cx("flex size-10 shrink-0 items-center justify-center rounded-xl", toneSoft.bad)}>
          <TimerOff className="size-5" aria-hidden />
        </span>
      }
      title={
        <>
          {plural(jobs.length, "job")} about to miss {jobs.length === 1 ? "its window" : "their windows"}
          <span className="font-normal text-dim">
            , the first <When at={dateOf(first.startDeadline!)} />
          </span>
        </>
      }
      note="They are due and have not begun. When its window ends, a job expires: nothing is sent. Lift what holds them, or move them."
    >
      <ul className="divide-y border-t">
        {jobs.slice(0, shown).map((j) => (
          <li key={j.jobId} className="relative px-5 py-2.5 hover:bg-sunken">
            <span className="flex items-center gap-3">
              <Link to="/jobs/$jobId" params={{ jobId: j.jobId }} data-focus="inside" className="mono min-w-0 flex-1 truncate after:absolute after:inset-0">
                {j.idempotencyKey}
              </Link>
              <span className="text-[13px] text-unknown">
                window ends <When at={dateOf(j.startDeadline!)} />
              </span>
            </span>
            {j.blockedReason && j.blockedReason.kind !== BlockedReason_Kind.UNSPECIFIED && <span className="block truncate text-[13px] text-faint">{sentence(j.blockedReason.message)}</span>}
          </li>
        ))}
        {jobs.length > shown && (
          <li>
            <Link to="/jobs" search={{ phase: "waiting", sort: "soonest" }} className="block px-5 py-2.5 text-[13px] text-dim hover:text-ink">
              {jobs.length - shown} more in the list of jobs
            </Link>
          </li>
        )}
      </ul>
    </Card>
  );
}
