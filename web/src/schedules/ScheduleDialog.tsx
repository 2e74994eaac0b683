import { useMutation } from "@connectrpc/connect-query";
import { createClient } from "@connectrpc/connect";
import { Link } from "@tanstack/react-router";
import { useState, type FormEvent } from "react";
import { ErrorReason } from "@gen/v1/error_pb.js";
import type { Firing } from "@gen/v1/firing_pb.js";
import type { Schedule } from "@gen/schedules/v1/schedule_pb.js";
import { ScheduleService } from "@gen/schedules/v1/schedule_service_pb.js";
import { faultOf, hasReason } from "@/api/errors";
import { queries, transport } from "@/api/transport";
import { newKey } from "@/compose/key";
import { Button, Field, Notice } from "@/ui/basics";
import { Dialog } from "@/ui/dialog";
import { cityOf, count, dateOf, fullTime, plural, timestampOf } from "@/ui/format";
import { say } from "@/ui/toast";
import { instantOf, localInput } from "@/ui/zones";

export type Ask = "trigger" | "pause" | "backfill";

interface Props {
  schedule: Schedule;
  onClose: () => void;
}

/** The window of what a person does to a schedule. */
export function ScheduleDialog({ ask, ...props }: Props & { ask: Ask }) {
  return ask === "trigger" ? <Trigger {...props} /> : ask === "pause" ? <Pause {...props} /> : <Backfill {...props} />;
}

const nameOf = (s: Schedule) => s.displayName || s.idempotencyKey;
const by = (s: Schedule) => ({ schedule: { case: "scheduleId" as const, value: s.scheduleId } });

function Trigger({ schedule: s, onClose }: Props) {
  const [triggerKey] = useState(newKey); // one window is one firing, however often it is clicked
  const [overlap, setOverlap] = useState(false);
  const trigger = useMutation(ScheduleService.method.triggerSchedule);
  const blocked = trigger.error && hasReason(trigger.error, ErrorReason.FIRING_BLOCKED);
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={`Fire ${nameOf(s)} now?`}
      note="It makes one job, which is due now, beside those of its times."
      footer={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button
            look="primary"
            busy={trigger.isPending}
            onClick={() => trigger.mutate({ ...by(s), triggerKey, allowOverlap: overlap }, { onSuccess: (res) => (say(<>It fired. {res.firing?.jobId && <Link to="/jobs/$jobId" params={{ jobId: res.firing.jobId }} className="underline">See the job</Link>}</>), void queries.invalidateQueries(), onClose()) })}
          >
            Fire now
          </Button>
        </>
      }
    >
      <div className="space-y-4">
        <label className="flex items-baseline gap-2">
          <input type="checkbox" className="accent-accent" checked={overlap} onChange={(e) => setOverlap(e.target.checked)} /> Also if an earlier job of it has not ended
        </label>
        {trigger.error && <Notice kind={blocked ? "warn" : "bad"} title={blocked ? "An earlier job has not ended" : "It did not fire"}>{faultOf(trigger.error).text}</Notice>}
      </div>
    </Dialog>
  );
}

function Pause({ schedule: s, onClose }: Props) {
  const [note, setNote] = useState("");
  const pause = useMutation(ScheduleService.method.pauseSchedule);
  const submit = (e: FormEvent) => {
    e.preventDefault();
    pause.mutate({ ...by(s), etag: s.etag, note }, { onSuccess: () => (say("Paused."), void queries.invalidateQueries(), onClose()) });
  };
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={`Pause ${nameOf(s)}?`}
      note="No firing makes a job until it is resumed. Jobs that it has made go on."
      footer={
        <>
          <Button onClick={onClose}>Leave it</Button>
          <Button look="danger" type="submit" form="pause-schedule" busy={pause.isPending}>
            Pause it
          </Button>
        </>
      }
    >
      <form id="pause-schedule" onSubmit={submit} className="space-y-4">
        <Field label="Note" optional>
          {(p) => <input {...p} className="field" maxLength={500} value={note} onChange={(e) => setNote(e.target.value)} autoFocus />}
        </Field>
        {pause.error && <Notice kind="bad">{faultOf(pause.error).text}</Notice>}
      </form>
    </Dialog>
  );
}

/** A page has 100 firings. More than that many pages are another backfill. */
const mostPages = 20;

interface Filled {
  firings: Firing[];
  present: number;
  without: number;
  more: boolean;
}

async function backfill(s: Schedule, from: Date, to: Date, dryRun: boolean): Promise<Filled> {
  const client = createClient(ScheduleService, transport);
  const out: Filled = { firings: [], present: 0, without: 0, more: false };
  let pageToken = "";
  for (let i = 0; i < mostPages; i++) {
    const page = await client.backfillSchedule({ ...by(s), startTime: timestampOf(from), endTime: timestampOf(to), dryRun, pageToken });
    out.firings.push(...page.firings);
    out.present += page.present;
    out.without += page.withoutContent.length;
    pageToken = page.nextPageToken;
    out.more = pageToken !== "";
    if (!pageToken) break;
  }
  return out;
}

function Backfill({ schedule: s, onClose }: Props) {
  const zone = s.spec?.timeZone || "UTC";
  const [from, setFrom] = useState(() => localInput(new Date(Date.now() - 86_400_000), zone));
  const [to, setTo] = useState(() => localInput(new Date(), zone));
  const [busy, setBusy] = useState(false);
  const [dry, setDry] = useState<Filled>();
  const [error, setError] = useState<unknown>();
  const run = async (dryRun: boolean) => {
    setBusy(true);
    setError(undefined);
    try {
      const filled = await backfill(s, instantOf(from, zone), instantOf(to, zone), dryRun);
      if (dryRun) setDry(filled);
      else {
        say(`${plural(filled.firings.length, "job")} made.`);
        void queries.invalidateQueries();
        onClose();
      }
    } catch (e) {
      setError(e);
    } finally {
      setBusy(false);
    }
  };
  const fault = error ? faultOf(error) : undefined;
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={dry ? "Make these jobs?" : `Backfill ${nameOf(s)}`}
      note={dry ? "Nothing has changed yet. They are due a second apart, the oldest first." : "Makes the jobs of times that have passed and made none: after an outage, a pause, or before the schedule began. No time gets a second job."}
      footer={
        dry ? (
          <>
            <Button onClick={() => setDry(undefined)}>Back</Button>
            <Button look="primary" busy={busy} disabled={dry.firings.length === 0} onClick={() => void run(false)}>
              Make {plural(dry.firings.length, "job")}
            </Button>
          </>
        ) : (
          <>
            <Button onClick={onClose}>Not now</Button>
            <Button look="primary" type="submit" form="backfill" busy={busy}>
              Show what it makes
            </Button>
          </>
        )
      }
    >
      <div className="space-y-4">
        {dry ? (
          <>
            <h3 className="font-semibold">{plural(dry.firings.length, "job")} would be made</h3>
            {dry.firings.length > 0 && (
              <ol className="max-h-56 overflow-y-auto rounded-lg border" tabIndex={0} aria-label="Firings">
                {dry.firings.slice(0, 100).map((f) => (
                  <li key={f.name} className="num border-b px-3 py-1.5 last:border-b-0">
                    {f.nominalTime && fullTime(dateOf(f.nominalTime), zone)}
                  </li>
                ))}
                {dry.firings.length > 100 && <li className="px-3 py-1.5 text-[13px] text-faint">and {count(dry.firings.length - 100)} more</li>}
              </ol>
            )}
            {dry.present > 0 && <p className="text-dim">{plural(dry.present, "time")} of that range {dry.present === 1 ? "has its job" : "have their jobs"} already.</p>}
            {dry.without > 0 && <Notice kind="warn">{plural(dry.without, "time")} would find no content in the queue.</Notice>}
            {dry.more && <Notice kind="info">The range has more: backfill the rest afterwards.</Notice>}
          </>
        ) : (
          <form
            id="backfill"
            className="grid gap-4 sm:grid-cols-2"
            onSubmit={(e) => {
              e.preventDefault();
              void run(true);
            }}
          >
            <Field label="From" hint={`On the clocks of ${cityOf(zone)}`}>
              {(p) => <input {...p} type="datetime-local" required className="field num" value={from} onChange={(e) => setFrom(e.target.value)} />}
            </Field>
            <Field label="Until" error={fault?.fields.find((f) => f.path === "end_time")?.text}>
              {(p) => <input {...p} type="datetime-local" required className="field num" value={to} onChange={(e) => setTo(e.target.value)} />}
            </Field>
          </form>
        )}
        {fault && <Notice kind="bad">{fault.fields.length ? fault.fields.map((f) => f.text).join(" ") : fault.text}</Notice>}
      </div>
    </Dialog>
  );
}
