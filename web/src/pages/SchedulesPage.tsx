import { useMutation, useQuery } from "@connectrpc/connect-query";
import { Link } from "@tanstack/react-router";
import { ChevronDown, Pause, Play, Repeat, Zap } from "lucide-react";
import { useState } from "react";
import { ScheduleState, type Schedule } from "@gen/schedules/v1/schedule_pb.js";
import { ScheduleService } from "@gen/schedules/v1/schedule_service_pb.js";
import { TimeMark } from "@gen/v1/local_time_pb.js";
import { faultOf, whole } from "@/api/errors";
import { useMay } from "@/api/session";
import { newKey } from "@/compose/key";
import { Badge } from "@/jobs/StateBadge";
import { nameOf, type Tone } from "@/jobs/words";
import { Button, Empty, Notice, PageHead, Skeleton, When } from "@/ui/basics";
import { cityOf, count, dateOf, fullTime } from "@/ui/format";
import { say } from "@/ui/toast";

const states: Partial<Record<ScheduleState, { label: string; tone: Tone }>> = {
  [ScheduleState.ACTIVE]: { label: "Active", tone: "good" },
  [ScheduleState.PAUSED]: { label: "Paused", tone: "unknown" },
  [ScheduleState.ENDED]: { label: "Ended", tone: "off" },
};

/** What fires again and again, and when it does so next. */
export default function SchedulesPage() {
  const list = useQuery(ScheduleService.method.listSchedules, { pageSize: 500 }, { refetchInterval: 15_000 });
  const schedules = list.data?.schedules ?? [];
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
            <Item key={s.scheduleId} schedule={s} onChange={() => void list.refetch()} />
          ))}
        </ul>
      )}
    </div>
  );
}

function Item({ schedule: s, onChange }: { schedule: Schedule; onChange: () => void }) {
  const may = useMay();
  const [open, setOpen] = useState(false);
  const pause = useMutation(ScheduleService.method.pauseSchedule);
  const resume = useMutation(ScheduleService.method.resumeSchedule);
  const trigger = useMutation(ScheduleService.method.triggerSchedule);
  const state = states[s.state] ?? { label: nameOf(ScheduleState, s.state), tone: "off" as Tone };
  const by = { schedule: { case: "scheduleId" as const, value: s.scheduleId } };
  const after = (text: string) => ({ onSuccess: () => (say(text), onChange()), onError: (e: Error) => say(faultOf(e).text, "bad") });
  const [triggerKey] = useState(newKey); // a double click is one firing
  return (
    <li className="card">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2 p-4">
        <button type="button" aria-expanded={open} onClick={() => setOpen(!open)} className="flex min-w-0 flex-1 basis-64 items-center gap-3 text-left">
          <ChevronDown className={`size-4 shrink-0 text-faint transition-transform ${open ? "" : "-rotate-90"}`} aria-hidden />
          <span className="min-w-0">
            <span className="block truncate font-semibold">{s.displayName || s.idempotencyKey}</span>
            <span className="block truncate text-[13px] text-dim">
              {[s.spec?.cronExpressions.join(", "), s.spec?.timeZone && cityOf(s.spec.timeZone), s.connectionKey].filter(Boolean).join(" · ")}
            </span>
          </span>
        </button>
        <span className="text-[13px] text-dim">{s.nextFireTime && s.state === ScheduleState.ACTIVE && <>Next <When at={dateOf(s.nextFireTime)} /></>}</span>
        <span className="num text-[13px] text-faint">{count(s.counts?.fired ?? 0n)} fired</span>
        <Badge tone={state.tone}>{state.label}</Badge>
        <span className="flex gap-2">
          <Button size="sm" asChild>
            <Link to="/jobs" search={{ schedule: s.idempotencyKey }}>
              Jobs
            </Link>
          </Button>
          {may("schedules:write") && s.state === ScheduleState.ACTIVE && (
            <>
              <Button size="sm" busy={trigger.isPending} onClick={() => trigger.mutate({ ...by, triggerKey }, after("It fires now."))}>
                <Zap className="size-3.5" aria-hidden /> Fire
              </Button>
              <Button size="sm" busy={pause.isPending} onClick={() => pause.mutate({ ...by, etag: s.etag }, after("Paused."))}>
                <Pause className="size-3.5" aria-hidden /> Pause
              </Button>
            </>
          )}
          {may("schedules:write") && s.state === ScheduleState.PAUSED && (
            <Button size="sm" look="primary" busy={resume.isPending} onClick={() => resume.mutate({ ...by, etag: s.etag }, after("It fires again."))}>
              <Play className="size-3.5" aria-hidden /> Resume
            </Button>
          )}
        </span>
      </div>
      {s.note && s.state === ScheduleState.PAUSED && <p className="px-4 pb-4 text-dim">{whole(s.note)}</p>}
      {open && <Next schedule={s} />}
    </li>
  );
}

/** The next ten firings, with what daylight saving does to them. */
function Next({ schedule: s }: { schedule: Schedule }) {
  const preview = useQuery(ScheduleService.method.previewSchedule, { subject: { case: "scheduleId", value: s.scheduleId }, count: 10 });
  const zone = s.spec?.timeZone || "UTC";
  return (
    <div className="border-t px-4 py-3">
      {preview.error && <Notice kind="bad">{faultOf(preview.error).text}</Notice>}
      <ol className="grid gap-x-6 gap-y-1 sm:grid-cols-2">
        {(preview.data?.firings ?? []).map((f) => (
          <li key={f.name} className="flex items-baseline justify-between gap-3 border-b border-dashed py-1">
            <span className="num">
              {f.fireTime && fullTime(dateOf(f.fireTime), zone)} <span className="text-[13px] text-faint">{cityOf(zone)}</span>
              {f.skipped && <span className="ml-2 text-unknown">skipped</span>}
              {f.mark === TimeMark.SHIFTED && <span className="ml-2 text-unknown">clocks skip it: moved</span>}
              {(f.mark === TimeMark.FIRST_OF_TWO || f.mark === TimeMark.REPEATED) && <span className="ml-2 text-unknown">comes twice</span>}
            </span>
            <span className="text-[13px] text-faint">{f.fireTime && <When at={dateOf(f.fireTime)} />}</span>
          </li>
        ))}
      </ol>
      {preview.data?.firings.length === 0 && <p className="text-dim">No firing is left.</p>}
    </div>
  );
}
