import { useQuery } from "@connectrpc/connect-query";
import { Link } from "@tanstack/react-router";
import { CircleCheck, Clock, Plug, Repeat } from "lucide-react";
import { useMemo, type ReactNode } from "react";
import { ConnectionState, type Connection } from "@gen/connections/v1/connection_pb.js";
import { ConnectionService } from "@gen/connections/v1/connection_service_pb.js";
import { SchedulePauseCause, ScheduleState, type Schedule } from "@gen/schedules/v1/schedule_pb.js";
import { ScheduleService } from "@gen/schedules/v1/schedule_service_pb.js";
import { JobState, type Job } from "@gen/v1/job_pb.js";
import { JobOrder, JobService } from "@gen/v1/job_service_pb.js";
import { faultOf, whole } from "@/api/errors";
import { useMay } from "@/api/session";
import { useLive } from "@/live/store";
import { StateBadge } from "@/jobs/StateBadge";
import { stateName } from "@/jobs/search";
import { Button, Empty, Notice, PageHead, Skeleton, When } from "@/ui/basics";
import { dateOf, plural } from "@/ui/format";

/** What nobody but a person can do, first the oldest. */
export default function AttentionPage() {
  const may = useMay();
  const unknown = useQuery(
    JobService.method.listJobs,
    { filter: { states: [JobState.NEEDS_RESOLUTION] }, pageSize: 200, order: JobOrder.SCHEDULE_TIME_ASC },
    { enabled: may("jobs:read") },
  );
  const connections = useQuery(ConnectionService.method.listConnections, { pageSize: 500 }, { enabled: may("connections:read"), refetchInterval: 30_000 });
  const schedules = useQuery(ScheduleService.method.listSchedules, { pageSize: 500 }, { enabled: may("schedules:read"), refetchInterval: 30_000 });
  const live = useLive();
  const version = live.snapshot();
  const groups = useMemo(() => {
    const jobs = new Map<string, Job>();
    for (const j of unknown.data?.jobs ?? []) jobs.set(j.jobId, live.newest(j));
    for (const j of live.values()) jobs.set(j.jobId, j);
    const by = new Map<string, Job[]>();
    for (const j of jobs.values()) {
      if (j.state !== JobState.NEEDS_RESOLUTION) continue;
      const key = `${j.connectionKey}\n${cause(j)}`;
      by.set(key, [...(by.get(key) ?? []), j]);
    }
    return [...by.values()].sort((a, b) => since(a) - since(b));
    // The version stands for what live holds.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [unknown.data, version]);

  const held = (connections.data?.connections ?? []).filter((c) => c.state === ConnectionState.AUTH_HOLD);
  const still = (schedules.data?.schedules ?? []).filter(
    (s) => s.overdueTime || (s.state === ScheduleState.PAUSED && s.pauseCause !== SchedulePauseCause.REQUESTED),
  );
  const error = unknown.error ?? connections.error ?? schedules.error;
  const nothing = groups.length === 0 && held.length === 0 && still.length === 0 && !error;

  if (unknown.isPending && may("jobs:read")) return <Skeleton rows={6} className="p-8" />;
  return (
    <div className="mx-auto max-w-[64rem] space-y-5 px-4 pt-5 pb-10 md:px-8 md:pt-7">
      <PageHead title="Needs you" note="What nobody else can decide, the oldest first." />
      {error && <Notice kind="bad" title="Not everything could be read">{faultOf(error).text}</Notice>}
      {nothing && (
        <div className="card">
          <Empty
            icon={CircleCheck}
            title="Nothing needs you"
            action={
              <>
                <Button asChild>
                  <Link to="/jobs">All jobs</Link>
                </Button>
                {may("jobs:write") && (
                  <Button look="primary" asChild>
                    <Link to="/new">New job</Link>
                  </Button>
                )}
              </>
            }
          >
            Every outcome is known or being looked for, every account can send, and no schedule stands still. This page is live: what comes up appears here.
          </Empty>
        </div>
      )}
      {groups.map((jobs) => (
        <Unknowns key={jobs[0]!.jobId} jobs={jobs} />
      ))}
      {held.map((c) => (
        <Held key={c.connectionId} connection={c} />
      ))}
      {still.map((s) => (
        <Still key={s.scheduleId} schedule={s} />
      ))}
    </div>
  );
}

const cause = (j: Job) => j.lastError?.message || "No proof that the effect exists, and none that it does not";
const since = (jobs: Job[]) => Math.min(...jobs.map((j) => (j.updateTime ? dateOf(j.updateTime).getTime() : Infinity)));

function Item({ icon, title, note, action, children }: { icon: ReactNode; title: ReactNode; note: ReactNode; action?: ReactNode; children?: ReactNode }) {
  return (
    <article className="card overflow-hidden">
      <div className="flex flex-wrap items-start gap-x-4 gap-y-3 p-5">
        {icon}
        <div className="min-w-0 flex-1 basis-60">
          <h2 className="text-[16px] font-semibold break-words">{title}</h2>
          <p className="mt-0.5 break-words text-dim">{note}</p>
        </div>
        {action}
      </div>
      {children}
    </article>
  );
}

function Unknowns({ jobs }: { jobs: Job[] }) {
  const first = jobs[0]!;
  return (
    <Item
      icon={<StateBadge state={first.state} />}
      title={
        <>
          {plural(jobs.length, "unknown outcome")} through {first.connectionKey}
        </>
      }
      note={
        <>
          {whole(cause(first))} Since <When at={new Date(since(jobs))} />.
        </>
      }
      action={
        jobs.length === 1 ? (
          <Button look="primary" asChild>
            <Link to="/jobs/$jobId" params={{ jobId: first.jobId }}>
              Look and decide
            </Link>
          </Button>
        ) : (
          <Button look="primary" asChild>
            <Link to="/jobs" search={{ state: stateName(JobState.NEEDS_RESOLUTION), connection: first.connectionKey }}>
              Look at them
            </Link>
          </Button>
        )
      }
    >
      <ul className="divide-y border-t">
        {jobs.slice(0, 5).map((j) => (
          <li key={j.jobId} className="relative flex items-center gap-3 px-5 py-2.5 hover:bg-sunken">
            <Link to="/jobs/$jobId" params={{ jobId: j.jobId }} data-focus="inside" className="mono min-w-0 flex-1 truncate after:absolute after:inset-0">
              {j.idempotencyKey}
            </Link>
            {j.scheduleTime && <When at={dateOf(j.scheduleTime)} className="text-[13px] text-faint" />}
          </li>
        ))}
        {jobs.length > 5 && <li className="px-5 py-2.5 text-[13px] text-faint">and {jobs.length - 5} more</li>}
      </ul>
    </Item>
  );
}

function Held({ connection: c }: { connection: Connection }) {
  return (
    <Item
      icon={<Plug className="mt-1 size-5 shrink-0 text-bad" aria-hidden />}
      title={<>{c.displayName || c.idempotencyKey} cannot send</>}
      note={
        <>
          {whole(c.stateReason)} {c.authHoldTime && <>Since <When at={dateOf(c.authHoldTime)} />.</>} Its jobs wait, and go on when the account is connected again.
        </>
      }
      action={
        <Button look="primary" asChild>
          <Link to="/connections">See the connection</Link>
        </Button>
      }
    />
  );
}

function Still({ schedule: s }: { schedule: Schedule }) {
  return (
    <Item
      icon={s.overdueTime ? <Clock className="mt-1 size-5 shrink-0 text-unknown" aria-hidden /> : <Repeat className="mt-1 size-5 shrink-0 text-unknown" aria-hidden />}
      title={<>{s.displayName || s.idempotencyKey} stands still</>}
      note={s.note || (s.overdueTime ? <>A firing is overdue since <When at={dateOf(s.overdueTime)} />.</> : "It paused itself.")}
      action={
        <Button asChild>
          <Link to="/schedules">Schedules</Link>
        </Button>
      }
    />
  );
}
