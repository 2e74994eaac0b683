import { Link } from "@tanstack/react-router";
import { LoaderCircle } from "lucide-react";
import { useEffect, useRef, useState, type FormEvent } from "react";
import { Resolution_Decision as Decision } from "@gen/v1/job_pb.js";
import { faultOf, whole } from "@/api/errors";
import { queries } from "@/api/transport";
import { Button, cx, Field, Notice, Segments } from "@/ui/basics";
import { Dialog } from "@/ui/dialog";
import { count, ownZone, plural } from "@/ui/format";
import { localInput, withSeconds } from "@/ui/zones";
import { ZoneSelect } from "@/ui/ZoneSelect";
import { overAll, type Change, type Filter, type Totals } from "./bulk";
import { decisionWords } from "./words";

export type BulkKind = Change["kind"];

const words: Record<BulkKind, { title: string; note: string; verb: string; danger?: boolean }> = {
  cancel: { title: "Cancel jobs", note: "Those that wait are not sent any more. What is on its way cannot be recalled.", verb: "Cancel", danger: true },
  retry: { title: "Try jobs again", note: "Those that failed or expired, the oldest first, each under its own key. They are due now, with a new budget of attempts.", verb: "Try again" },
  move: { title: "Move jobs", note: "Those that wait for their time.", verb: "Move" },
  resolve: { title: "Decide about jobs", note: "One decision for each job whose outcome is unknown. Look at the platform first.", verb: "Decide" },
};

const decisions = [Decision.SENT, Decision.NOT_SENT, Decision.RESEND, Decision.CANCEL];

/** Changes the jobs of a filter: what, then what would change, then the change. */
export default function BulkDialog({ kind, filter, what, onClose }: { kind: BulkKind; filter: Filter; what: string; onClose: () => void }) {
  const [change, setChange] = useState<Change>();
  const [step, setStep] = useState<"form" | "looking" | "dry" | "running" | "done">("form");
  const [dry, setDry] = useState<Totals>();
  const [done, setDone] = useState<Totals>();
  const [error, setError] = useState<string>();
  const stop = useRef(new AbortController());
  useEffect(() => {
    const { current } = stop;
    return () => current.abort();
  }, []);
  const { title, note, verb, danger } = words[kind];
  const fresh = () => (stop.current = new AbortController()).signal;

  const look = async (next: Change) => {
    setChange(next);
    setError(undefined);
    setDry(undefined);
    setStep("looking");
    const signal = fresh();
    try {
      setDry(await overAll(filter, next, true, undefined, setDry, signal));
      setStep("dry");
    } catch (e) {
      if (!signal.aborted) setError(faultOf(e).text);
      setStep("form");
    }
  };
  const run = async () => {
    setError(undefined);
    setStep("running");
    const signal = fresh();
    try {
      setDone(await overAll(filter, change!, false, dry!.asOf, setDone, signal));
      setStep("done");
    } catch (e) {
      if (!signal.aborted) setError(`Interrupted. ${faultOf(e).text} Going on changes no job twice.`);
      setStep("dry");
    }
    void queries.invalidateQueries();
  };

  const act = kind === "resolve" && change?.kind === "resolve" ? decisionWords(change.decision).label : verb;
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={step === "form" || step === "looking" ? title : step === "done" ? "Done" : step === "running" ? "Under way" : `${act}?`}
      note={step === "form" || step === "looking" ? `${note} ${what}` : step === "dry" ? "Nothing has changed yet. This is what would." : step === "running" ? "Closing this window stops it after the page that is under way." : undefined}
      footer={
        step === "form" || step === "looking" ? (
          <>
            <Button onClick={onClose}>Not now</Button>
            <Button look="primary" type="submit" form="bulk" busy={step === "looking"}>
              Show what would change
            </Button>
          </>
        ) : step === "dry" ? (
          <>
            <Button onClick={() => setStep("form")}>Back</Button>
            <Button look={danger || (change?.kind === "resolve" && change.decision === Decision.RESEND) ? "danger" : "primary"} disabled={!dry?.changed} onClick={() => void run()}>
              {act}: {plural(dry?.changed ?? 0, "job")}
            </Button>
          </>
        ) : (
          <Button look="primary" onClick={onClose}>
            Close
          </Button>
        )
      }
    >
      <div className="space-y-4">
        {/* The form stays while its jobs are shown, so that "Back" finds what was typed. */}
        <div hidden={step !== "form" && step !== "looking"}>
          <Form kind={kind} onSubmit={(c) => void look(c)} />
        </div>
        {step === "looking" && dry && <p className="num text-dim" aria-live="polite">{plural(dry.matched, "job")} looked at…</p>}
        {step === "dry" && dry && (
          <>
            {change?.kind === "resolve" && <Notice kind={change.decision === Decision.RESEND ? "bad" : "warn"}>{decisionWords(change.decision).risk}</Notice>}
            <Shown totals={dry} verb="would change" />
          </>
        )}
        {(step === "running" || step === "done") && (
          <>
            <p className="num flex items-center gap-2 text-[16px] font-semibold" aria-live="polite">
              {step === "running" && <LoaderCircle className="turn size-4" aria-hidden />}
              {count(done?.changed ?? 0)} of {count(dry?.changed ?? 0)} changed
            </p>
            {step === "done" && done && done.failed > 0 && <Failures totals={done} verb="did not change" />}
          </>
        )}
        {error && <Notice kind="bad">{error}</Notice>}
      </div>
    </Dialog>
  );
}

function Shown({ totals: t, verb }: { totals: Totals; verb: string }) {
  return (
    <>
      <section>
        <h3 className="mb-1 font-semibold">
          {plural(t.changed, "job")} {verb}
        </h3>
        {t.examples.length > 0 && (
          <ul className="max-h-56 overflow-y-auto rounded-lg border" tabIndex={0} aria-label={`Jobs that ${verb}`}>
            {t.examples.map((j) => (
              <li key={j.id} className="border-b px-3 py-1.5 last:border-b-0">
                <Link to="/jobs/$jobId" params={{ jobId: j.id }} target="_blank" className="mono block truncate hover:text-accent-text">
                  {j.key || j.id}
                </Link>
              </li>
            ))}
            {t.changed > t.examples.length && <li className="px-3 py-1.5 text-[13px] text-faint">and {count(t.changed - t.examples.length)} more</li>}
          </ul>
        )}
      </section>
      {t.failed > 0 && <Failures totals={t} verb="would stay as they are" />}
      {t.more && <Notice kind="info">There are more jobs than one change takes: do it again for the rest.</Notice>}
    </>
  );
}

function Failures({ totals: t, verb }: { totals: Totals; verb: string }) {
  return (
    <section>
      <h3 className="mb-1 font-semibold">
        {plural(t.failed, "job")} {verb}
      </h3>
      <ul className="max-h-44 overflow-y-auto rounded-lg border" tabIndex={0} aria-label={`Jobs that ${verb}`}>
        {t.failures.map((f) => (
          <li key={f.jobId} className="border-b px-3 py-1.5 last:border-b-0">
            <Link to="/jobs/$jobId" params={{ jobId: f.jobId }} target="_blank" className="mono block truncate hover:text-accent-text">
              {f.idempotencyKey || f.jobId}
            </Link>
            <span className="block text-[13px] text-unknown">{whole(f.error?.message ?? "")}</span>
          </li>
        ))}
        {t.failed > t.failures.length && <li className="px-3 py-1.5 text-[13px] text-faint">and {count(t.failed - t.failures.length)} more</li>}
      </ul>
    </section>
  );
}

const units = { minutes: 60n, hours: 3_600n, days: 86_400n };

function Form({ kind, onSubmit }: { kind: BulkKind; onSubmit: (c: Change) => void }) {
  const [text, setText] = useState("");
  const [decision, setDecision] = useState<Decision>();
  const [override, setOverride] = useState(false);
  const [how, setHow] = useState<"by" | "to">("by");
  const [sign, setSign] = useState<"later" | "earlier">("later");
  const [amount, setAmount] = useState("1");
  const [unit, setUnit] = useState<keyof typeof units>("hours");
  const [zone, setZone] = useState(ownZone);
  const [local, setLocal] = useState(() => localInput(new Date(Date.now() + 3_600_000), ownZone));
  const submit = (e: FormEvent) => {
    e.preventDefault();
    switch (kind) {
      case "cancel":
        return onSubmit({ kind, reason: text });
      case "retry":
        return onSubmit({ kind });
      case "move":
        return onSubmit(how === "to" ? { kind, localTime: { dateTime: withSeconds(local), timeZone: zone } } : { kind, delaySeconds: BigInt(amount) * units[unit] * (sign === "later" ? 1n : -1n) });
      case "resolve":
        if (decision !== undefined) onSubmit({ kind, decision, note: text, overrideReconciler: override });
    }
  };
  return (
    <form id="bulk" onSubmit={submit} className="space-y-4">
      {kind === "cancel" && (
        <Field label="Reason" optional hint="It stands in the history of each job.">
          {(p) => <input {...p} className="field" maxLength={500} value={text} onChange={(e) => setText(e.target.value)} autoFocus />}
        </Field>
      )}
      {kind === "move" && (
        <>
          <Segments label="How" value={how} onChange={setHow} options={[{ value: "by", label: "Each by the same time" }, { value: "to", label: "All to one time" }]} />
          {how === "by" ? (
            <div className="flex flex-wrap items-end gap-2">
              <Field label="By">{(p) => <input {...p} type="number" min={1} max={100_000} step={1} required className="field num w-24" value={amount} onChange={(e) => setAmount(e.target.value)} />}</Field>
              <select aria-label="Unit" className="field w-auto" value={unit} onChange={(e) => setUnit(e.target.value as keyof typeof units)}>
                {Object.keys(units).map((u) => (
                  <option key={u}>{u}</option>
                ))}
              </select>
              <select aria-label="Direction" className="field w-auto" value={sign} onChange={(e) => setSign(e.target.value as "later" | "earlier")}>
                <option>later</option>
                <option>earlier</option>
              </select>
            </div>
          ) : (
            <div className="grid gap-4 sm:grid-cols-2">
              <Field label="Time">{(p) => <input {...p} type="datetime-local" required className="field num" value={local} onChange={(e) => setLocal(e.target.value)} />}</Field>
              <Field label="Zone">{(p) => <ZoneSelect {...p} value={zone} onChange={setZone} />}</Field>
            </div>
          )}
        </>
      )}
      {kind === "resolve" && (
        <>
          <fieldset className="grid gap-2">
            <legend className="sr-only">Decision</legend>
            {decisions.map((d) => (
              <label key={d} className={cx("flex items-start gap-3 rounded-xl border px-4 py-2.5 has-focus-visible:outline-2 has-focus-visible:outline-offset-2 has-focus-visible:outline-accent", d === decision ? "border-accent bg-accent-soft" : "hover:bg-sunken")}>
                <input type="radio" name="decision" className="mt-1 accent-accent" checked={d === decision} onChange={() => setDecision(d)} required />
                <span>
                  <span className="font-semibold">{decisionWords(d).label}</span>
                  <span className="block text-dim">{decisionWords(d).says}</span>
                </span>
              </label>
            ))}
          </fieldset>
          <label className="flex items-baseline gap-2">
            <input type="checkbox" className="accent-accent" checked={override} onChange={(e) => setOverride(e.target.checked)} /> Also about jobs that Fireonce still looks for
          </label>
          <Field label="Note" hint="What you looked at, and what you saw.">
            {(p) => <textarea {...p} className="field" required rows={3} maxLength={1000} value={text} onChange={(e) => setText(e.target.value)} />}
          </Field>
        </>
      )}
      {kind === "retry" && <p className="text-dim">Jobs that a person or their delivery closed without a proof may have had their effect: try those again from their incident, which leaves them out.</p>}
    </form>
  );
}
