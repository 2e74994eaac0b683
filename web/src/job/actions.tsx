import { useMutation } from "@connectrpc/connect-query";
import { useEffect, useState, type FormEvent, type ReactNode } from "react";
import { ErrorReason } from "@gen/v1/error_pb.js";
import { JobState, Resolution_Decision as Decision, type Job } from "@gen/v1/job_pb.js";
import { JobService } from "@gen/v1/job_service_pb.js";
import { faultOf, type Fault } from "@/api/errors";
import { live } from "@/live/store";
import { decisionWords } from "@/jobs/words";
import { Button, cx, Field, Notice } from "@/ui/basics";
import { Dialog } from "@/ui/dialog";
import { dateOf, ownZone, relative } from "@/ui/format";
import { useNow } from "@/ui/now";
import { say } from "@/ui/toast";
import { localInput, withSeconds } from "@/ui/zones";
import { ZoneSelect } from "@/ui/ZoneSelect";
import { readAnew } from "./useJob";

// Rules of this file: an action is on the job as the person saw it.
//   - The etag is the one of the moment at which the window opened. If the job changed since, nothing is done, and the
//     person looks again.
//   - What cannot be taken back is asked for in words.

export type Action = "cancel" | "retry" | "reschedule" | "resolve";

/** The actions that make sense in a state. */
export function possible(job: Job): Action[] {
  switch (job.state) {
    case JobState.SCHEDULED:
    case JobState.RETRYING:
      return ["reschedule", "cancel"];
    case JobState.CLAIMED:
    case JobState.SENDING:
    case JobState.ACCEPTED:
      return job.cancelRequestTime ? [] : ["cancel"];
    case JobState.AMBIGUOUS:
    case JobState.NEEDS_RESOLUTION:
      return job.cancelRequestTime ? ["resolve"] : ["resolve", "cancel"];
    case JobState.FAILED:
    case JobState.EXPIRED:
      return ["retry"];
    default:
      return [];
  }
}

function useDone(close: () => void) {
  return (text: ReactNode) => (res: { job?: Job }) => {
    if (res.job) live.put(res.job);
    readAnew();
    say(text);
    close();
  };
}

function Conflict({ fault, close }: { fault: Fault | undefined; close: () => void }) {
  if (!fault) return null;
  if (fault.reason === ErrorReason.ETAG_MISMATCH || fault.reason === ErrorReason.JOB_STATE) {
    return (
      <Notice
        kind="warn"
        title="The job changed while this window was open"
        action={
          <Button size="sm" onClick={() => (readAnew(), close())}>
            Look again
          </Button>
        }
      >
        Nothing was done. {fault.text}
      </Notice>
    );
  }
  return <Notice kind="bad" title="It was not done">{fault.text}</Notice>;
}

/** The window of an action. */
export function ActionDialog({ action, job, onClose }: { action: Action; job: Job; onClose: () => void }) {
  const [seen] = useState(job); // as the person saw it
  switch (action) {
    case "cancel":
      return <Cancel job={seen} onClose={onClose} />;
    case "retry":
      return <Retry job={seen} onClose={onClose} />;
    case "reschedule":
      return <Reschedule job={seen} onClose={onClose} />;
    case "resolve":
      return <Resolve job={seen} onClose={onClose} />;
  }
}

interface Props {
  job: Job;
  onClose: () => void;
}

const by = (job: Job) => ({ job: { case: "jobId" as const, value: job.jobId }, etag: job.etag });

function Cancel({ job, onClose }: Props) {
  const [reason, setReason] = useState("");
  const done = useDone(onClose);
  const mutation = useMutation(JobService.method.cancelJob);
  const recallable = [JobState.SCHEDULED, JobState.RETRYING, JobState.CLAIMED].includes(job.state);
  const submit = (e: FormEvent) => {
    e.preventDefault();
    mutation.mutate(
      { ...by(job), reason },
      { onSuccess: (res) => done(res.prevented ? "Canceled. Nothing was sent." : "Cancel requested. The effect may exist already.")(res) },
    );
  };
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title="Cancel this job?"
      note={recallable ? "It is not sent any more. This cannot be taken back." : "The request may have been sent already, and cannot be recalled. It is not sent again, and ends as canceled if the effect is proven absent."}
      footer={
        <>
          <Button onClick={onClose}>Keep it</Button>
          <Button look="danger" type="submit" form="cancel" busy={mutation.isPending}>
            Cancel the job
          </Button>
        </>
      }
    >
      <form id="cancel" onSubmit={submit} className="space-y-4">
        <Field label="Reason" optional hint="For the record: it stands in the history.">
          {(p) => <input {...p} className="field" maxLength={500} value={reason} onChange={(e) => setReason(e.target.value)} autoFocus />}
        </Field>
        <Conflict fault={mutation.error ? faultOf(mutation.error) : undefined} close={onClose} />
      </form>
    </Dialog>
  );
}

function Retry({ job, onClose }: Props) {
  const done = useDone(onClose);
  const mutation = useMutation(JobService.method.retryJob);
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title="Try this job again?"
      note="It gets a new budget of attempts and a new start window, and is due now. Every earlier attempt is known to have had no effect."
      footer={
        <>
          <Button onClick={onClose}>Leave it</Button>
          <Button look="primary" busy={mutation.isPending} onClick={() => mutation.mutate(by(job), { onSuccess: done("It is tried again.") })}>
            Try again
          </Button>
        </>
      }
    >
      <Conflict fault={mutation.error ? faultOf(mutation.error) : undefined} close={onClose} />
    </Dialog>
  );
}

function Reschedule({ job, onClose }: Props) {
  const [zone, setZone] = useState(job.timeZone || ownZone);
  const [local, setLocal] = useState(() => localInput(job.scheduleTime ? dateOf(job.scheduleTime) : new Date(), job.timeZone || ownZone));
  const done = useDone(onClose);
  const mutation = useMutation(JobService.method.rescheduleJob);
  const fault = mutation.error ? faultOf(mutation.error) : undefined;
  const submit = (e: FormEvent) => {
    e.preventDefault();
    mutation.mutate({ ...by(job), localTime: { dateTime: withSeconds(local), timeZone: zone } }, { onSuccess: done("Moved.") });
  };
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title="Move this job"
      note="The start window counts from the new time."
      footer={
        <>
          <Button onClick={onClose}>Leave it</Button>
          <Button look="primary" type="submit" form="move" busy={mutation.isPending}>
            Move it
          </Button>
        </>
      }
    >
      <form id="move" onSubmit={submit} className="grid gap-4 sm:grid-cols-2">
        <Field label="Time" error={fault?.fields.find((f) => f.path.startsWith("local_time"))?.text}>
          {(p) => <input {...p} type="datetime-local" required className="field num" value={local} onChange={(e) => setLocal(e.target.value)} autoFocus />}
        </Field>
        <Field label="Zone">{(p) => <ZoneSelect {...p} value={zone} onChange={setZone} />}</Field>
        <div className="sm:col-span-2">
          <Conflict fault={fault} close={onClose} />
        </div>
      </form>
    </Dialog>
  );
}

const decisions = [Decision.SENT, Decision.NOT_SENT, Decision.RESEND, Decision.CANCEL];

function Resolve({ job, onClose }: Props) {
  const [decision, setDecision] = useState<Decision>();
  const [note, setNote] = useState("");
  const [externalId, setExternalId] = useState("");
  const [effectKey, setEffectKey] = useState("");
  const done = useDone(onClose);
  const mutation = useMutation(JobService.method.resolveJob);
  const now = useNow();
  const allowed = job.resendAllowedTime ? dateOf(job.resendAllowedTime) : undefined;
  const early = decision === Decision.RESEND && allowed !== undefined && allowed.getTime() > now;
  const looking = job.state === JobState.AMBIGUOUS;
  const submit = (e: FormEvent) => {
    e.preventDefault();
    if (decision === undefined) return;
    mutation.mutate(
      {
        ...by(job),
        decision,
        note,
        overrideReconciler: looking,
        ...(decision === Decision.SENT ? { externalId } : {}),
        ...(decision === Decision.RESEND && job.effectKey ? { effectKey } : {}),
      },
      { onSuccess: done(`Decided: ${decisionWords(decision).label.toLowerCase()}.`) },
    );
  };
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title="What became of it?"
      note="Look at the platform first. Your decision and your note stand in the history for good."
      footer={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button look={decision === Decision.RESEND ? "danger" : "primary"} type="submit" form="resolve" busy={mutation.isPending} disabled={decision === undefined || early}>
            {early ? `Possible ${relative(allowed, now)}` : decision === undefined ? "Decide" : decisionWords(decision).label}
          </Button>
        </>
      }
    >
      <form id="resolve" onSubmit={submit} className="space-y-4">
        {looking && <Notice kind="warn" title="Fireonce still looks for the effect">It may find the answer by itself. A decision now ends the search.</Notice>}
        <fieldset>
          <legend className="sr-only">Decision</legend>
          <div className="grid gap-2">
            {decisions.map((d) => {
              const words = decisionWords(d);
              const on = d === decision;
              return (
                <label
                  key={d}
                  className={cx(
                    "flex items-start gap-3 rounded-xl border px-4 py-3 has-focus-visible:outline-2 has-focus-visible:outline-offset-2 has-focus-visible:outline-accent",
                    on ? "border-accent bg-accent-soft" : "hover:bg-sunken",
                  )}
                >
                  <input type="radio" name="decision" className="mt-1 accent-accent" checked={on} onChange={() => setDecision(d)} required />
                  <span className="min-w-0">
                    <span className="font-semibold">{words.label}</span>
                    <span className="block text-dim">{words.says}</span>
                    {on && <span className={cx("mt-1 block font-medium", d === Decision.RESEND ? "text-bad" : "text-unknown")}>{words.risk}</span>}
                  </span>
                </label>
              );
            })}
          </div>
        </fieldset>
        {decision === Decision.SENT && (
          <Field label="The platform's id of it" optional>
            {(p) => <input {...p} className="field mono" maxLength={512} value={externalId} onChange={(e) => setExternalId(e.target.value)} />}
          </Field>
        )}
        {decision === Decision.RESEND && job.effectKey && (
          <Field label="Effect key of the new effect" hint="The job has an effect key of its own, which is used up.">
            {(p) => <input {...p} className="field mono" required maxLength={255} value={effectKey} onChange={(e) => setEffectKey(e.target.value)} />}
          </Field>
        )}
        <Field label="Note" aside={note.length > 800 ? `${note.length} / 1000` : undefined} hint="What you looked at, and what you saw.">
          {(p) => <textarea {...p} className="field" required maxLength={1000} rows={3} value={note} onChange={(e) => setNote(e.target.value)} />}
        </Field>
        <Conflict fault={mutation.error ? faultOf(mutation.error) : undefined} close={onClose} />
      </form>
    </Dialog>
  );
}

/** Keys of the job's page: e opens what a person does most in the state. */
export function useActionKey(job: Job | undefined, open: (action: Action) => void, allowed: (action: Action) => boolean) {
  const first = job ? possible(job).find(allowed) : undefined;
  useEffect(() => {
    if (!first) return;
    const key = (e: KeyboardEvent) => {
      const at = e.target as HTMLElement;
      if (e.key !== "e" || e.metaKey || e.ctrlKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName) || document.querySelector("[role=dialog]")) return;
      e.preventDefault();
      open(first);
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  }, [first, open]);
}
