import { useMutation, useQuery } from "@connectrpc/connect-query";
import { Link, useSearch } from "@tanstack/react-router";
import { ChevronDown, History, Pause, Play, Repeat, Zap } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { SchedulePauseCause, ScheduleState, type FiringCounts, type Schedule } from "@gen/schedules/v1/schedule_pb.js";
import { ScheduleService } from "@gen/schedules/v1/schedule_service_pb.js";
import { TimeMark } from "@gen/v1/local_time_pb.js";
import { faultOf, whole } from "@/api/errors";
import { useMay } from "@/api/session";
import { Badge } from "@/jobs/StateBadge";
import { nameOf, type Tone } from "@/jobs/words";
import { isWide, usePauses } from "@/pauses/usePauses";
import { ScheduleDialog, type Ask } from "@/schedules/ScheduleDialog";
import { Button, cx, Empty, Notice, PageHead, Segments, Skeleton, When } from "@/ui/basics";
import { cityOf, count, dateOf, fullTime, secondsOf, span, timestampOf } from "@/ui/format";
import { say } from "@/ui/toast";
import { nextClockChange } from "@/ui/zones";

const states: Partial<Record<ScheduleState, { label: string; tone: Tone }>> = {
  [ScheduleState.ACTIVE]: { label: "Active", tone: "good" },
  [ScheduleState.PAUSED]: { label: "Paused", tone: "unknown" },
  [ScheduleState.ENDED]: { label: "Ended", tone: "off" },
};

/** What fires again and again, and when it does so next. */
export default function SchedulesPage() {
  const list = useQuery(ScheduleService.method.listSchedules, { pageSize: 500 }, { refetchInterval: 15_000 });
  const schedules = list.data?.schedules ?? [];
  const { open } = useSearch({ from: "/schedules" });
  return (
    <div className="mx-auto max-w-[76rem] space-y-5 px-4 pt-5 pb-10 md:px-8 md:pt-7">
      <PageHead title="Schedules" note="What makes jobs at recurring times." />
      {list.error && <Notice kind="bad" title="The schedules could not be read">{faultOf(list.error).text}</Notice>}
      {list.isPending ? (
        <Skeleton rows={6} />
      ) : schedules.length === 0 ? (
        <div className="card">
          <Empty icon={Repeat} title="Nothing recurs">
            <p>A schedule makes jobs by cron expressions, intervals or calendar rules, right across daylight saving:</p>
            <pre className="mt-3 rounded-lg bg-sunken p-3 text-left whitespace-pre-wrap">fireonce schedules create --key weekly --cron '0 9 * * MON' --time-zone Europe/Vienna …</pre>
          </Empty>
        </div>
      ) : (
        <ul className="space-y-3">
          {schedules.map((s) => (
            <Item key={s.scheduleId} schedule={s} opened={s.idempotencyKey === open || schedules.length === 1} onChange={() => void list.refetch()} />
          ))}
        </ul>
      )}
    </div>
  );
}

function Item({ schedule: s, opened, onChange }: { schedule: Schedule; opened: boolean; onChange: () => void }) {
  const may = useMay();
  const [open, setOpen] = useState(opened);
  const [asks, setAsks] = useState<Ask>();
  const self = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (opened) self.current?.scrollIntoView({ block: "nearest" });
  }, [opened]);
  const resume = useMutation(ScheduleService.method.resumeSchedule);
  const state = states[s.state] ?? { label: nameOf(ScheduleState, s.state), tone: "off" as Tone };
  const { inForce } = usePauses();
  const pause = inForce.find((p) => isWide(p) || (p.target?.target.case === "connectionId" && p.target.target.value === s.connectionId) || (p.target?.target.case === "connectionKey" && p.target.target.value === s.connectionKey));
  const writes = may("schedules:write");
  const alive = s.state === ScheduleState.ACTIVE || s.state === ScheduleState.PAUSED;
  return (
    <li className="card" ref={self}>
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2 p-4">
        <button type="button" aria-expanded={open} onClick={() => setOpen(!open)} className="flex min-w-0 flex-1 basis-64 items-center gap-3 text-left">
          <ChevronDown className={`size-4 shrink-0 text-faint transition-transform ${open ? "" : "-rotate-90"}`} aria-hidden />
          <span className="min-w-0">
            <span className="block truncate font-semibold">{s.displayName || s.idempotencyKey}</span>
            <span className="block truncate text-[13px] text-dim">{[specText(s), s.spec?.timeZone && cityOf(s.spec.timeZone), s.connectionKey].filter(Boolean).join(" · ")}</span>
          </span>
        </button>
        <span className="text-[13px] text-dim">{s.nextFireTime && s.state === ScheduleState.ACTIVE && <>Next <When at={dateOf(s.nextFireTime)} /></>}</span>
        <Badge tone={s.overdueTime ? "bad" : state.tone}>{s.overdueTime ? "Stands still" : state.label}</Badge>
        <span className="flex flex-wrap gap-2">
          <Button size="sm" asChild>
            <Link to="/jobs" search={{ schedule: s.idempotencyKey }}>
              Jobs
            </Link>
          </Button>
          {writes && alive && (
            <Button size="sm" onClick={() => setAsks("trigger")}>
              <Zap className="size-3.5" aria-hidden /> Fire
            </Button>
          )}
          {writes && s.state === ScheduleState.ACTIVE && (
            <Button size="sm" onClick={() => setAsks("pause")}>
              <Pause className="size-3.5" aria-hidden /> Pause
            </Button>
          )}
          {writes && s.state === ScheduleState.PAUSED && (
            <Button
              size="sm"
              look="primary"
              busy={resume.isPending}
              onClick={() => resume.mutate({ schedule: { case: "scheduleId", value: s.scheduleId }, etag: s.etag }, { onSuccess: () => (say("It fires again, from now on."), onChange()), onError: (e) => say(faultOf(e).text, "bad") })}
            >
              <Play className="size-3.5" aria-hidden /> Resume
            </Button>
          )}
          {writes && alive && (
            <Button size="sm" look="quiet" onClick={() => setAsks("backfill")}>
              <History className="size-3.5" aria-hidden /> Backfill
            </Button>
          )}
        </span>
      </div>
      {s.overdueTime && (
        <div className="px-4 pb-4">
          <Notice kind="bad" title={<>A firing is overdue since <When at={dateOf(s.overdueTime)} /></>}>{whole(s.note || "No server has decided about it")}</Notice>
        </div>
      )}
      {s.state === ScheduleState.PAUSED && (
        <p className="px-4 pb-4 text-dim">
          {s.pauseTime && <>Paused <When at={dateOf(s.pauseTime)} />{s.pauseCause !== SchedulePauseCause.REQUESTED && `, by itself (${nameOf(SchedulePauseCause, s.pauseCause).toLowerCase()})`}. </>}
          {s.note && whole(s.note)} What falls into the pause is not caught up.
        </p>
      )}
      {pause && s.state === ScheduleState.ACTIVE && <p className="px-4 pb-4 text-unknown">It goes on firing, and its jobs wait: {isWide(pause) ? "everything" : s.connectionKey} is paused.</p>}
      {open && <Next schedule={s} onChange={onChange} />}
      {asks && <ScheduleDialog ask={asks} schedule={s} onClose={() => (setAsks(undefined), onChange())} />}
    </li>
  );
}

function specText(s: Schedule): string {
  const spec = s.spec;
  if (!spec) return "";
  return [...spec.cronExpressions, ...spec.recurrenceRules.map((r) => r.rule), ...spec.intervals.map((i) => (i.every ? `every ${span(secondsOf(i.every))}` : ""))].filter(Boolean).join(", ");
}

const counted: [keyof FiringCounts, string][] = [
  ["fired", "fired"],
  ["skippedByOverlap", "left out, an earlier job had not ended"],
  ["skippedByRequest", "skipped by a person"],
  ["skippedByLimit", "over the limit of the day"],
  ["missed", "missed"],
  ["coalesced", "joined to a later one"],
  ["refused", "refused"],
  ["held", "held"],
  ["noContent", "without content"],
];

/** The next ten firings and those across the next change of the clocks; each can be skipped. */
function Next({ schedule: s, onChange }: { schedule: Schedule; onChange: () => void }) {
  const may = useMay();
  const zone = s.spec?.timeZone || "UTC";
  const [change] = useState(() => nextClockChange(zone, new Date()));
  const [across, setAcross] = useState(false);
  const by = { case: "scheduleId" as const, value: s.scheduleId };
  const preview = useQuery(
    ScheduleService.method.previewSchedule,
    across && change ? { subject: by, startTime: timestampOf(new Date(change.at.getTime() - 2 * 86_400_000)), endTime: timestampOf(new Date(change.at.getTime() + 2 * 86_400_000)), count: 60 } : { subject: by, count: 10 },
  );
  const skip = useMutation(ScheduleService.method.skipFiring);
  const firings = preview.data?.firings ?? [];
  const counts = s.counts ? counted.filter(([k]) => (s.counts![k] as bigint) > 0n) : [];
  return (
    <div className="space-y-3 border-t px-4 py-4">
      <div className="flex flex-wrap items-center justify-between gap-2">
        {change ? (
          <Segments
            size="sm"
            label="Firings"
            value={across ? "across" : "next"}
            onChange={(v) => setAcross(v === "across")}
            options={[
              { value: "next", label: "The next ten" },
              { value: "across", label: `When the clocks change, ${day(change.at, zone)}` },
            ]}
          />
        ) : (
          <h3 className="font-semibold">The next ten</h3>
        )}
        {counts.length > 0 && <p className="num text-[13px] text-faint">{counts.map(([k, text]) => `${count(s.counts![k] as bigint)} ${text}`).join(", ")}</p>}
      </div>
      {across && change && (
        <p className="text-[13px] text-dim">
          In {cityOf(zone)} the clocks go {change.minutes > 0 ? "forward" : "back"} by {span(Math.abs(change.minutes) * 60)}. {change.minutes > 0 ? "A time that they skip fires at the first moment after it." : "A time that comes twice fires the first time; an interval fires both times."}
        </p>
      )}
      {preview.error && <Notice kind="bad">{faultOf(preview.error).text}</Notice>}
      <ol className="grid gap-x-8 lg:grid-cols-2" aria-label="Firings">
        {firings.map((f) => (
          <li key={f.name} className="flex min-h-9 items-center justify-between gap-3 border-b border-dashed py-1">
            <span className={cx("num", f.skipped && "text-faint line-through")}>{f.fireTime && `${weekday(dateOf(f.fireTime), zone)} ${fullTime(dateOf(f.fireTime), zone)}`}</span>
            {f.mark === TimeMark.SHIFTED && <Badge tone="unknown">The clocks skip it: moved</Badge>}
            {f.mark === TimeMark.FIRST_OF_TWO && <Badge tone="wait">Comes twice: the first</Badge>}
            {f.mark === TimeMark.REPEATED && <Badge tone="wait">Comes twice: again</Badge>}
            <span className="ml-auto text-[13px] text-faint">{f.fireTime && <When at={dateOf(f.fireTime)} />}</span>
            {may("schedules:write") && !across && s.state !== ScheduleState.ENDED && (
              <Button
                size="sm"
                look="quiet"
                aria-label={`${f.skipped ? "Restore" : "Skip"} ${f.fireTime ? fullTime(dateOf(f.fireTime), zone) : f.name}`}
                disabled={skip.isPending}
                onClick={() =>
                  skip.mutate(
                    { schedule: by, name: f.name, undo: f.skipped },
                    { onSuccess: () => (say(f.skipped ? "It fires again." : "That firing is skipped."), void preview.refetch(), onChange()), onError: (e) => say(faultOf(e).text, "bad") },
                  )
                }
              >
                {f.skipped ? "Restore" : "Skip"}
              </Button>
            )}
          </li>
        ))}
      </ol>
      {firings.length === 0 && preview.data && <p className="text-dim">No firing {across ? "falls into these days" : "is left"}.</p>}
    </div>
  );
}

function weekday(d: Date, zone: string): string {
  return new Intl.DateTimeFormat("en-GB", { timeZone: zone, weekday: "short" }).format(d);
}

function day(d: Date, zone: string): string {
  return new Intl.DateTimeFormat("en-GB", { timeZone: zone, day: "numeric", month: "short" }).format(d);
}
