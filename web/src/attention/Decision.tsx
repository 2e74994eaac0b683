import { useMutation, useQuery } from "@connectrpc/connect-query";
import { Link } from "@tanstack/react-router";
import { LoaderCircle } from "lucide-react";
import { useEffect, useState, type FormEvent, type ReactNode } from "react";
import { IncidentKind, IncidentService, type Incident, type RedeliverJobsResponse } from "@gen/admin/v1/incident_service_pb.js";
import { PlanState, type Plan } from "@gen/admin/v1/plan_pb.js";
import { JobState, Resolution_Decision as Decision } from "@gen/v1/job_pb.js";
import { faultOf, whole } from "@/api/errors";
import { queries } from "@/api/transport";
import { classWords, decisionWords } from "@/jobs/words";
import { Button, cx, Field, Notice } from "@/ui/basics";
import { Dialog } from "@/ui/dialog";
import { say } from "@/ui/toast";
import { incidentTitle, jobs, outcomeText, riskTone } from "./words";

// Rules of this file: one decision about many jobs is made in two steps.
//   - The first makes a plan: the list of jobs with their versions, and those that it leaves out. It changes nothing.
//   - The second starts exactly that plan. What changed meanwhile is left out by the server.

interface Props {
  incident: Incident;
  onClose: () => void;
}

/** The window in which a person decides about an incident. */
export function DecisionDialog(props: Props) {
  return props.incident.kind === IncidentKind.FAILED ? <Redeliver {...props} /> : <Resolve {...props} />;
}

const decisions = [Decision.SENT, Decision.NOT_SENT, Decision.RESEND, Decision.CANCEL];

function Resolve({ incident, onClose }: Props) {
  const [decision, setDecision] = useState<Decision>();
  const [note, setNote] = useState("");
  const looking = incident.stateCounts.some((c) => c.state === JobState.AMBIGUOUS && c.jobCount > 0);
  const [override, setOverride] = useState(false);
  const more = useQuery(IncidentService.method.getIncident, { incidentId: incident.incidentId });
  const plan = useMutation(IncidentService.method.resolveIncident);
  const start = useMutation(IncidentService.method.resolveIncident);
  const planned = plan.data?.plan;
  const risks = more.data?.incident?.risks ?? [];
  if (planned) {
    return (
      <PlanDialog
        title={`${decisionWords(decision!).label}?`}
        plan={planned}
        danger={decision === Decision.RESEND}
        verb={decisionWords(decision!).label}
        starting={start.isPending}
        started={start.data?.plan}
        error={start.error}
        onStart={() => start.mutate({ planId: planned.planId })}
        onBack={plan.reset}
        onClose={onClose}
      >
        {decision === Decision.RESEND && <Notice kind="bad">Each of them is there twice if you are wrong.</Notice>}
      </PlanDialog>
    );
  }
  const submit = (e: FormEvent) => {
    e.preventDefault();
    if (decision !== undefined) plan.mutate({ incidentId: incident.incidentId, decision, note, overrideReconciler: override });
  };
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={incidentTitle(incident)}
      note="What became of all of them? Look at the platform first. Nothing changes before you have seen the list."
      footer={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button look="primary" type="submit" form="incident" busy={plan.isPending} disabled={decision === undefined}>
            Show what would change
          </Button>
        </>
      }
    >
      <form id="incident" onSubmit={submit} className="space-y-4">
        <fieldset className="grid gap-2">
          <legend className="sr-only">Decision</legend>
          {decisions.map((d) => {
            const words = decisionWords(d);
            const on = d === decision;
            const of = risks.filter((r) => r.decision === d);
            return (
              <label key={d} className={cx("flex items-start gap-3 rounded-xl border px-4 py-3 has-focus-visible:outline-2 has-focus-visible:outline-offset-2 has-focus-visible:outline-accent", on ? "border-accent bg-accent-soft" : "hover:bg-sunken")}>
                <input type="radio" name="decision" className="mt-1 accent-accent" checked={on} onChange={() => setDecision(d)} required />
                <span className="min-w-0">
                  <span className="font-semibold">{words.label}</span>
                  <span className="block text-dim">{words.says}</span>
                  {on && of.length === 0 && <span className="mt-1 block font-medium text-unknown">{words.risk}</span>}
                  {on &&
                    of.map((r) => (
                      <span key={r.effectClass} className={cx("mt-1 block font-medium", riskTone(r.risk))}>
                        {risks.some((x) => x.effectClass !== r.effectClass) && `${classWords(r.effectClass).label}: `}
                        {whole(r.summary)}
                        {r.leftOutCount > 0 && ` ${jobs(r.leftOutCount)} would be left out.`}
                      </span>
                    ))}
                </span>
              </label>
            );
          })}
        </fieldset>
        {looking && (
          <label className="flex items-start gap-3">
            <input type="checkbox" className="mt-1 accent-accent" checked={override} onChange={(e) => setOverride(e.target.checked)} />
            <span>
              Decide also about jobs that Fireonce still looks for
              <span className="block text-[13px] text-faint">They may be settled by themselves.</span>
            </span>
          </label>
        )}
        <Field label="Note" hint="What you looked at, and what you saw. It stands in the history of each job.">
          {(p) => <textarea {...p} className="field" required rows={3} maxLength={1000} value={note} onChange={(e) => setNote(e.target.value)} />}
        </Field>
        {plan.error && <Notice kind="bad">{faultOf(plan.error).text}</Notice>}
      </form>
    </Dialog>
  );
}

const paces = [
  { value: "0", label: "All at once" },
  { value: "1", label: "One a second" },
  { value: "10", label: "One every 10 seconds" },
  { value: "60", label: "One a minute" },
];

function Redeliver({ incident, onClose }: Props) {
  const [pace, setPace] = useState("0");
  const [note, setNote] = useState("");
  const plan = useMutation(IncidentService.method.redeliverJobs);
  const start = useMutation(IncidentService.method.redeliverJobs);
  const planned = plan.data?.plan;
  if (planned) {
    return (
      <PlanDialog
        title="Try them again?"
        plan={planned}
        verb="Try again"
        starting={start.isPending}
        started={start.data?.plan}
        error={start.error}
        onStart={() => start.mutate({ planId: planned.planId })}
        onBack={plan.reset}
        onClose={onClose}
      >
        <Unproven answer={plan.data} />
      </PlanDialog>
    );
  }
  const submit = (e: FormEvent) => {
    e.preventDefault();
    plan.mutate({ incidentIds: [incident.incidentId], note, ...(pace === "0" ? {} : { pace: { seconds: BigInt(pace), nanos: 0 } }) });
  };
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={incidentTitle(incident)}
      note="Each is tried again under its own key, the oldest first: never as a new effect. Nothing changes before you have seen the list."
      footer={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button look="primary" type="submit" form="redeliver" busy={plan.isPending}>
            Show what would change
          </Button>
        </>
      }
    >
      <form id="redeliver" onSubmit={submit} className="space-y-4">
        <Field label="Pace" hint="Spare a target that has just come back.">
          {(p) => (
            <select {...p} className="field" value={pace} onChange={(e) => setPace(e.target.value)}>
              {paces.map((o) => (
                <option key={o.value} value={o.value}>
                  {o.label}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label="Note" optional>
          {(p) => <input {...p} className="field" maxLength={500} value={note} onChange={(e) => setNote(e.target.value)} />}
        </Field>
        {plan.error && <Notice kind="bad">{faultOf(plan.error).text}</Notice>}
      </form>
    </Dialog>
  );
}

function Unproven({ answer }: { answer?: RedeliverJobsResponse }) {
  if (!answer || answer.unprovenCount === 0) return null;
  return (
    <Notice kind="warn" title={`${jobs(answer.unprovenCount)} of the same time count as sent without a proof`}>
      They may be missing, and this does not send them: {answer.unprovenExamples.slice(0, 3).map((e) => e.idempotencyKey).join(", ")}
    </Notice>
  );
}

/** What a plan would do, then how far it has come. */
function PlanDialog({
  title,
  plan,
  verb,
  danger,
  starting,
  started,
  error,
  onStart,
  onBack,
  onClose,
  children,
}: {
  title: string;
  plan: Plan;
  verb: string;
  danger?: boolean;
  starting: boolean;
  started?: Plan;
  error: Error | null;
  onStart: () => void;
  onBack: () => void;
  onClose: () => void;
  children?: ReactNode;
}) {
  const follow = useQuery(
    IncidentService.method.getPlan,
    { planId: plan.planId },
    { enabled: started !== undefined, refetchInterval: (q) => (q.state.data?.plan?.state === PlanState.DONE ? false : 700) },
  );
  const now = follow.data?.plan ?? started;
  const done = now?.state === PlanState.DONE;
  useEffect(() => {
    if (!done) return;
    void queries.invalidateQueries();
    say(`${jobs(now.changedCount)} changed${now.leftOutCount > 0 ? `, ${now.leftOutCount} left out` : ""}.`);
  }, [done]); // eslint-disable-line react-hooks/exhaustive-deps
  const share = now && now.jobCount > 0 ? (now.changedCount + now.leftOutCount) / now.jobCount : 0;
  const leftOut = plan.jobCount - plan.plannedCount;
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={started ? (done ? "Done" : "Under way") : title}
      note={started ? (done ? undefined : "It goes on by itself, also if you close this window.") : "Nothing has changed yet. This is what would."}
      footer={
        started ? (
          <Button look="primary" onClick={onClose}>
            Close
          </Button>
        ) : (
          <>
            <Button onClick={onBack}>Back</Button>
            <Button look={danger ? "danger" : "primary"} busy={starting} disabled={plan.plannedCount === 0} onClick={onStart}>
              {verb}: {jobs(plan.plannedCount)}
            </Button>
          </>
        )
      }
    >
      <div className="space-y-4">
        {now ? (
          <div>
            <p className="num flex items-center gap-2 text-[16px] font-semibold" aria-live="polite">
              {!done && <LoaderCircle className="turn size-4" aria-hidden />}
              {now.changedCount} of {now.plannedCount} changed{now.leftOutCount > 0 && `, ${now.leftOutCount} left out`}
            </p>
            <div className="mt-2 h-2 overflow-hidden rounded-full bg-sunken">
              <div className="h-full rounded-full bg-good transition-[width] duration-300" style={{ width: `${Math.round((done ? 1 : share) * 100)}%` }} />
            </div>
          </div>
        ) : (
          <>
            {children}
            <section>
              <h3 className="mb-1 font-semibold">{jobs(plan.plannedCount)} would change</h3>
              <PlanJobs rows={plan.plannedExamples.map((j) => ({ id: j.jobId, key: j.idempotencyKey }))} all={plan.plannedCount} />
            </section>
            {leftOut > 0 && (
              <section>
                <h3 className="mb-1 font-semibold">{jobs(leftOut)} would be left out</h3>
                <PlanJobs rows={plan.leftOutExamples.map((j) => ({ id: j.jobId, key: j.idempotencyKey, why: outcomeText(j.outcome, j.errorReason) }))} all={leftOut} />
              </section>
            )}
            {plan.incomplete && <Notice kind="info">There are more jobs than a plan can have: plan again when this one is done.</Notice>}
          </>
        )}
        {error && <Notice kind="bad">{faultOf(error).text}</Notice>}
      </div>
    </Dialog>
  );
}

function PlanJobs({ rows, all }: { rows: { id: string; key: string; why?: string }[]; all: number }) {
  if (rows.length === 0) return null;
  return (
    <ul className="max-h-56 overflow-y-auto rounded-lg border" tabIndex={0} aria-label="Jobs">
      {rows.map((r) => (
        <li key={r.id} className="flex flex-wrap items-baseline gap-x-3 border-b px-3 py-1.5 last:border-b-0">
          <Link to="/jobs/$jobId" params={{ jobId: r.id }} target="_blank" className="mono min-w-0 truncate hover:text-accent-text">
            {r.key || r.id}
          </Link>
          {r.why && <span className="text-[13px] text-unknown">{r.why}</span>}
        </li>
      ))}
      {all > rows.length && <li className="px-3 py-1.5 text-[13px] text-faint">and {all - rows.length} more</li>}
    </ul>
  );
}
