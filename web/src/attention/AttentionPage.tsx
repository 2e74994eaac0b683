import { useMutation, useQuery } from "@connectrpc/connect-query";
import { Link, useSearch } from "@tanstack/react-router";
import { ChevronDown, CircleCheck, Clock, Play, Repeat, Timer } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { IncidentKind, IncidentService, type Incident } from "@gen/admin/v1/incident_service_pb.js";
import { SchedulePauseCause, ScheduleState, type Schedule } from "@gen/schedules/v1/schedule_pb.js";
import { ScheduleService } from "@gen/schedules/v1/schedule_service_pb.js";
import { faultOf, sentence, whole } from "@/api/errors";
import { useMay } from "@/api/session";
import { stateName } from "@/jobs/search";
import { StateBadge } from "@/jobs/StateBadge";
import { toneSoft } from "@/jobs/words";
import { Button, cx, Empty, Notice, PageHead, Skeleton, When } from "@/ui/basics";
import { clockTime, dateOf, shortTime } from "@/ui/format";
import { useNow } from "@/ui/now";
import { say } from "@/ui/toast";
import { Card } from "./Card";
import { Closing, useClosing } from "./Closing";
import { incidentTitle, kindWords, looksWords } from "./words";

// The windows come when they are opened: the first page is small.
const Reconnect = lazy(() => import("@/connections/Reconnect").then((m) => ({ default: m.Reconnect })));
const Evidence = lazy(() => import("./Evidence"));
const DecisionDialog = lazy(() => import("./Decision").then((m) => ({ default: m.DecisionDialog })));

/** What nobody but a person can do. */
export default function AttentionPage() {
  const may = useMay();
  const incidents = useQuery(IncidentService.method.listIncidents, {}, { enabled: may("jobs:read"), refetchInterval: 30_000 });
  const schedules = useQuery(ScheduleService.method.listSchedules, { pageSize: 500 }, { enabled: may("schedules:read"), refetchInterval: 30_000 });
  const still = (schedules.data?.schedules ?? []).filter((s) => s.overdueTime || (s.state === ScheduleState.PAUSED && s.pauseCause !== SchedulePauseCause.REQUESTED));
  const order = [IncidentKind.UNKNOWN, IncidentKind.HELD, IncidentKind.LATE, IncidentKind.FAILED];
  const found = [...(incidents.data?.incidents ?? [])].sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
  const closing = useClosing();
  const error = incidents.error ?? schedules.error ?? closing.error;

  // Here and not in the card: an incident that is decided is gone, and its window still says what was done.
  const [deciding, setDeciding] = useState<Incident>();
  const [reconnecting, setReconnecting] = useState<string>();
  const { incident: linked } = useSearch({ from: "/" });
  if (incidents.isPending && may("jobs:read")) return <Skeleton rows={6} className="p-8" />;
  return (
    <div className="mx-auto max-w-[64rem] space-y-4 px-4 pt-5 pb-10 md:px-8 md:pt-7">
      <PageHead title="Needs you" note="What nobody else can decide." />
      {error && <Notice kind="bad" title="Not everything could be read">{faultOf(error).text}</Notice>}
      {incidents.data?.incomplete && <Notice kind="info">There is more trouble than can be read: each number is a minimum.</Notice>}
      {found.length === 0 && still.length === 0 && closing.jobs.length === 0 && !error && <Nothing />}
      {closing.jobs.length > 0 && <Closing jobs={closing.jobs} />}
      {found.map((i) => (
        <IncidentCard key={i.incidentId} incident={i} linked={i.incidentId === linked} onDecide={() => setDeciding(i)} onReconnect={() => setReconnecting(i.connectionKey)} />
      ))}
      {still.map((s) => (
        <Still key={s.scheduleId} schedule={s} onChange={() => void schedules.refetch()} />
      ))}
      {reconnecting && (
        <Suspense fallback={null}>
          <Reconnect connectionKey={reconnecting} onClose={() => setReconnecting(undefined)} />
        </Suspense>
      )}
      {deciding && (
        <Suspense fallback={null}>
          <DecisionDialog incident={deciding} onClose={() => setDeciding(undefined)} />
        </Suspense>
      )}
    </div>
  );
}

function Nothing() {
  const may = useMay();
  return (
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
  );
}

function IncidentCard({ incident: i, linked, onDecide, onReconnect }: { incident: Incident; linked: boolean; onDecide: () => void; onReconnect: () => void }) {
  const may = useMay();
  const now = useNow();
  const [open, setOpen] = useState(false);
  const [shown, setShown] = useState<string>();
  const more = useQuery(IncidentService.method.getIncident, { incidentId: i.incidentId }, { enabled: open });
  const { tone, icon: Icon } = kindWords(i.kind);
  const decides = i.kind === IncidentKind.UNKNOWN ? may("jobs:resolve") : i.kind === IncidentKind.FAILED && may("jobs:write");
  const begin = i.beginTime && dateOf(i.beginTime);
  const next = i.nextLookTime && dateOf(i.nextLookTime);
  const lifts = i.holdEndTime && dateOf(i.holdEndTime);
  const examples = more.data?.incident?.examples ?? i.examples;
  const looks = i.looks ? looksWords(i.looks) : [];
  const states = i.stateCounts.map((c) => stateName(c.state)).join(",");
  const hold = i.kind === IncidentKind.HELD ? (i.cause?.hold ?? 0) : 0;
  const place = { connection: i.connectionKey, destination: i.destination || undefined, state: states || undefined };
  return (
    <Card
      linked={linked}
      icon={
        <span className={cx("flex size-10 shrink-0 items-center justify-center rounded-xl", toneSoft[tone])}>
          <Icon className="size-5" aria-hidden />
        </span>
      }
      title={
        <>
          {incidentTitle(i)}
          {begin && (
            <span className="font-normal text-dim" title={begin.toString()}>
              {" "}
              since {now - begin.getTime() < 43_200_000 ? clockTime(begin).slice(0, 5) : shortTime(begin, now)}
            </span>
          )}
          {i.cause?.summary && <span className="font-normal text-dim">, {i.cause.summary}</span>}
        </>
      }
      note={
        <>
          {i.advice && <p>{whole(i.advice)}</p>}
          <p className="flex flex-wrap items-center gap-x-3 gap-y-1 text-[13px] text-faint">
            <span>
              through{" "}
              <Link to="/jobs" search={place} className="text-accent-text hover:underline">
                {i.connectionKey}
              </Link>
            </span>
            {looks.length > 0 && <span>{looks.join(", ")}</span>}
            {i.looks?.lastLookTime && (
              <span>
                last look <When at={dateOf(i.looks.lastLookTime)} />
              </span>
            )}
            {i.holdBeginTime && (
              <span>
                held since <When at={dateOf(i.holdBeginTime)} exact />
              </span>
            )}
            {next && (
              <span className="inline-flex items-center gap-1">
                <Timer className="size-3.5" aria-hidden />
                next look {next.getTime() > now ? <When at={next} /> : "now"}
              </span>
            )}
            {lifts && (
              <span className="inline-flex items-center gap-1">
                <Timer className="size-3.5" aria-hidden />
                goes on <When at={lifts} />
              </span>
            )}
          </p>
        </>
      }
      action={
        <>
          {i.kind === IncidentKind.HELD && may("connections:read") && (
            <Button asChild>
              <Link to="/connections">See the connection</Link>
            </Button>
          )}
          {hold >= 100 && hold < 200 && may("connections:write") && may("connections:read") && (
            <Button look="primary" onClick={onReconnect}>
              Reconnect
            </Button>
          )}
          {decides && (
            <Button look="primary" onClick={onDecide}>
              {i.kind === IncidentKind.FAILED ? "Try again" : i.jobCount > 1 ? `Decide all ${i.jobCount}` : "Decide"}
            </Button>
          )}
        </>
      }
    >
      <ul className="divide-y border-t">
        {examples.map((e) => (
          <li key={e.jobId}>
            <div className="relative px-5 py-2.5 hover:bg-sunken">
              <span className="flex items-center gap-3">
                <Link to="/jobs/$jobId" params={{ jobId: e.jobId }} data-focus="inside" className="mono min-w-0 flex-1 truncate after:absolute after:inset-0">
                  {e.idempotencyKey}
                </Link>
                {e.beginTime && <When at={dateOf(e.beginTime)} className="text-[13px] text-faint" />}
                {i.stateCounts.length > 1 && <StateBadge state={e.state} />}
                {i.kind === IncidentKind.UNKNOWN && (
                  <button
                    type="button"
                    aria-expanded={shown === e.jobId}
                    aria-label={`Compare ${e.idempotencyKey}`}
                    onClick={() => setShown(shown === e.jobId ? undefined : e.jobId)}
                    className="relative z-10 inline-flex items-center gap-1 rounded-md px-1.5 py-0.5 text-[13px] text-dim hover:text-ink"
                  >
                    Compare <ChevronDown className={cx("size-3.5 transition-transform", shown === e.jobId && "rotate-180")} aria-hidden />
                  </button>
                )}
              </span>
              {e.lastError?.message && <span className="block truncate text-[13px] text-faint">{sentence(e.lastError.message)}</span>}
            </div>
            {shown === e.jobId && (
              <Suspense fallback={<Skeleton rows={2} className="px-5 pb-4" />}>
                <Evidence jobId={e.jobId} />
              </Suspense>
            )}
          </li>
        ))}
        {i.jobCount > examples.length && (
          <li>
            {open ? (
              <Link to="/jobs" search={place} className="block px-5 py-2.5 text-[13px] text-dim hover:text-ink">
                All {i.jobCount} in the list of jobs
              </Link>
            ) : (
              <button type="button" data-focus="inside" onClick={() => setOpen(true)} className="flex w-full items-center gap-1.5 px-5 py-2.5 text-left text-[13px] text-dim hover:text-ink">
                <ChevronDown className="size-4" aria-hidden />
                {i.jobCount - examples.length} more
              </button>
            )}
          </li>
        )}
      </ul>
    </Card>
  );
}

/** A schedule that makes no jobs any more. It is resumed here, as it is seen: its etag. */
function Still({ schedule: s, onChange }: { schedule: Schedule; onChange: () => void }) {
  const may = useMay();
  const resume = useMutation(ScheduleService.method.resumeSchedule);
  const paused = s.state === ScheduleState.PAUSED;
  const Icon = paused ? Repeat : Clock;
  const name = s.displayName || s.idempotencyKey;
  return (
    <Card
      icon={
        <span className={cx("flex size-10 shrink-0 items-center justify-center rounded-xl", toneSoft.unknown)}>
          <Icon className="size-5" aria-hidden />
        </span>
      }
      title={<>{name} stands still</>}
      note={
        <>
          <p>{s.note ? whole(s.note) : s.overdueTime ? <>A firing is overdue since <When at={dateOf(s.overdueTime)} />.</> : "It paused itself."}</p>
          {paused && (
            <p className="text-[13px] text-faint">
              {s.pauseTime && <>paused <When at={dateOf(s.pauseTime)} />; </>}resumed, it fires from then on, and what fell into the pause is not caught up
            </p>
          )}
          {resume.error && <Notice kind="bad">{faultOf(resume.error).text}</Notice>}
        </>
      }
      action={
        <>
          <Button asChild>
            <Link to="/schedules" search={{ open: s.idempotencyKey }}>See the schedule</Link>
          </Button>
          {paused && may("schedules:write") && (
            <Button
              look="primary"
              busy={resume.isPending}
              onClick={() => resume.mutate({ schedule: { case: "scheduleId", value: s.scheduleId }, etag: s.etag }, { onSuccess: () => say(`${name} fires again.`), onSettled: onChange })}
            >
              <Play className="size-4" aria-hidden /> Resume
            </Button>
          )}
        </>
      }
    />
  );
}
