import { useMutation, useQuery } from "@connectrpc/connect-query";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Link } from "@tanstack/react-router";
import { useState, type FormEvent, type ReactNode } from "react";
import { PauseService, type CreatePauseRequestSchema, type Pause, type PausedJob, type PausePreview } from "@gen/admin/v1/pause_service_pb.js";
import { ConnectionService } from "@gen/connections/v1/connection_service_pb.js";
import { faultOf } from "@/api/errors";
import { useMay, useOperator } from "@/api/session";
import { Button, Field, Notice, Segments, Skeleton, When } from "@/ui/basics";
import { Dialog } from "@/ui/dialog";
import { count, dateOf, ownZone, plural, timestampOf } from "@/ui/format";
import { say } from "@/ui/toast";
import { readPausesAnew, targetText } from "./usePauses";

// Rules of this file: a pause is made and ended in two steps. The first shows what it holds back, and changes nothing.

type Kind = "project" | "connection" | "destination" | "connector" | "label" | "everything";

const kinds: { kind: Kind; label: string; operator?: boolean }[] = [
  { kind: "project", label: "Everything" },
  { kind: "connection", label: "A connection" },
  { kind: "destination", label: "A destination" },
  { kind: "connector", label: "A connector" },
  { kind: "label", label: "Jobs with a label" },
  { kind: "everything", label: "Everything, in all projects", operator: true },
];

type Target = NonNullable<NonNullable<MessageInitShape<typeof CreatePauseRequestSchema>["target"]>["target"]>;

function targetOf(kind: Kind, value: string): Target {
  switch (kind) {
    case "everything":
      return { case: "everything", value: true };
    case "project":
      return { case: "project", value: true };
    case "connection":
      return { case: "connectionKey", value };
    case "destination":
      return { case: "destination", value };
    case "connector":
      return { case: "connector", value };
    case "label": {
      const at = value.indexOf("=");
      return { case: "label", value: { name: at < 0 ? value : value.slice(0, at), value: at < 0 ? "" : value.slice(at + 1) } };
    }
  }
}

export interface PauseStart {
  kind: Kind;
  value?: string;
}

export function PauseDialog({ start, onClose }: { start?: PauseStart; onClose: () => void }) {
  const operator = useOperator();
  const may = useMay();
  const [kind, setKind] = useState<Kind>(start?.kind ?? "project");
  const [value, setValue] = useState(start?.value ?? "");
  const [note, setNote] = useState("");
  const [from, setFrom] = useState<"now" | "later">("now");
  const [until, setUntil] = useState<"open" | "time">("open");
  const [begin, setBegin] = useState("");
  const [end, setEnd] = useState("");
  const [holds, setHolds] = useState(false);
  const connections = useQuery(ConnectionService.method.listConnections, { pageSize: 500 }, { enabled: may("connections:read") });
  const known = connections.data?.connections ?? [];
  const dry = useMutation(PauseService.method.createPause);
  const create = useMutation(PauseService.method.createPause);
  const request = (dryRun: boolean): MessageInitShape<typeof CreatePauseRequestSchema> => ({
    target: { target: targetOf(kind, value.trim()) },
    note,
    dryRun,
    holdWindows: holds,
    ...(from === "later" && begin ? { beginTime: timestampOf(new Date(begin)) } : {}),
    ...(until === "time" && end ? { endTime: timestampOf(new Date(end)) } : {}),
  });
  const submit = (e: FormEvent) => {
    e.preventDefault();
    dry.mutate(request(true));
  };
  const pick = (next: Kind) => {
    setKind(next);
    setValue(next === "connection" ? (known[0]?.idempotencyKey ?? "") : "");
  };
  if (dry.data) {
    const { preview } = dry.data;
    const pause = () =>
      create.mutate(request(false), {
        onSuccess: (res) => {
          readPausesAnew();
          say(res.created ? (from === "later" ? "The pause is announced." : "Paused.") : "It was paused already.");
          onClose();
        },
      });
    return (
      <Dialog
        open
        onOpenChange={(open) => !open && onClose()}
        title={from === "later" ? "Announce this pause?" : "Pause now?"}
        note={<>Nothing has changed yet. {targetText(dry.data.pause?.target, (id) => known.find((c) => c.connectionId === id)?.idempotencyKey ?? id)}: this is what the pause would hold back.</>}
        footer={
          <>
            <Button onClick={dry.reset}>Back</Button>
            <Button look="danger" busy={create.isPending} onClick={pause}>
              {from === "later" ? "Announce it" : "Pause"}
            </Button>
          </>
        }
      >
        <div className="space-y-4">
          {preview && <Preview preview={preview} open={until === "open"} holds={holds} />}
          {create.error && <Notice kind="bad">{faultOf(create.error).text}</Notice>}
        </div>
      </Dialog>
    );
  }
  const fault = dry.error ? faultOf(dry.error) : undefined;
  const at = (path: string) => fault?.fields.find((f) => f.path.startsWith(path))?.text;
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title="Pause"
      note="No job that it covers starts. What is on its way is finished, and looks go on."
      footer={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button look="primary" type="submit" form="pause" busy={dry.isPending}>
            Show what it holds back
          </Button>
        </>
      }
    >
      <form id="pause" onSubmit={submit} className="space-y-4">
        <Field label="What">
          {(p) => (
            <select {...p} className="field" value={kind} onChange={(e) => pick(e.target.value as Kind)}>
              {kinds
                .filter((k) => operator || !k.operator)
                .map((k) => (
                  <option key={k.kind} value={k.kind}>
                    {k.label}
                  </option>
                ))}
            </select>
          )}
        </Field>
        {kind === "connection" && (
          <Field label="Connection" error={at("target")}>
            {(p) =>
              known.length > 0 ? (
                <select {...p} className="field" value={value} onChange={(e) => setValue(e.target.value)} required>
                  {known.map((c) => (
                    <option key={c.connectionId} value={c.idempotencyKey}>
                      {c.displayName ? `${c.displayName} (${c.idempotencyKey})` : c.idempotencyKey}
                    </option>
                  ))}
                </select>
              ) : (
                <input {...p} className="field mono" value={value} onChange={(e) => setValue(e.target.value)} required />
              )
            }
          </Field>
        )}
        {kind === "destination" && (
          <Field label="Destination" hint="Scheme, host and port. A path is ignored." error={at("target")}>
            {(p) => <input {...p} className="field mono" placeholder="https://api.example.com" value={value} onChange={(e) => setValue(e.target.value)} required autoFocus />}
          </Field>
        )}
        {kind === "connector" && (
          <Field label="Connector" error={at("target")}>
            {(p) => (
              <>
                <input {...p} className="field mono" list="connectors" placeholder="webhook" value={value} onChange={(e) => setValue(e.target.value)} required autoFocus />
                <datalist id="connectors">
                  {[...new Set(known.map((c) => c.connector))].map((c) => (
                    <option key={c} value={c} />
                  ))}
                </datalist>
              </>
            )}
          </Field>
        )}
        {kind === "label" && (
          <Field label="Label" hint="As name=value" error={at("target")}>
            {(p) => <input {...p} className="field mono" placeholder="campaign=black-friday" pattern="[a-z][a-z0-9_.\-]*=.*" value={value} onChange={(e) => setValue(e.target.value)} required autoFocus />}
          </Field>
        )}
        <Choice label="From" value={from} options={[["now", "Now"], ["later", "A time"]]} onChange={setFrom}>
          {from === "later" && <input type="datetime-local" aria-label="Begin" className="field" value={begin} onChange={(e) => setBegin(e.target.value)} required />}
        </Choice>
        <Choice label="Until" value={until} options={[["open", "Somebody resumes it"], ["time", "A time"]]} onChange={setUntil}>
          {until === "time" && <input type="datetime-local" aria-label="End" className="field" value={end} onChange={(e) => setEnd(e.target.value)} required />}
        </Choice>
        {(from === "later" || until === "time") && <p className="text-[13px] text-faint">Times are those of your zone, {ownZone}.</p>}
        <label className="flex items-start gap-3">
          <input type="checkbox" className="mt-1 accent-accent" checked={holds} onChange={(e) => setHolds(e.target.checked)} />
          <span>
            Windows that end in it begin again
            <span className="block text-[13px] text-faint">Then no job ends because it was paused too long. It may start that much later.</span>
          </span>
        </label>
        <Field label="Note" optional hint="Shown wherever the pause is.">
          {(p) => <input {...p} className="field" maxLength={500} value={note} onChange={(e) => setNote(e.target.value)} />}
        </Field>
        {fault && <Notice kind="bad">{fault.fields.length > 0 ? fault.fields.map((f) => f.text).join(" ") : fault.text}</Notice>}
      </form>
    </Dialog>
  );
}

function Choice<T extends string>({ label, value, options, onChange, children }: { label: string; value: T; options: [T, string][]; onChange: (v: T) => void; children?: ReactNode }) {
  return (
    <div>
      <p className="mb-1.5 font-medium">{label}</p>
      <div className="grid gap-2 sm:grid-cols-2">
        <div>
          <Segments label={label} value={value} options={options.map(([v, text]) => ({ value: v, label: text }))} onChange={onChange} />
        </div>
        {children}
      </div>
    </div>
  );
}

/** What a pause holds back, and what ends meanwhile. */
function Preview({ preview: p, open, holds }: { preview: PausePreview; open: boolean; holds: boolean }) {
  const lost = p.windowEndCount + p.keyEndCount;
  return (
    <>
      <dl className="grid grid-cols-3 gap-2 text-center">
        {(
          [
            ["wait to start", p.waitingCount],
            ["wait for a repeat", p.repeatCount],
            ["on their way finish", p.underWayCount],
          ] as const
        ).map(([label, n]) => (
          <div key={label} className="flex flex-col-reverse rounded-xl bg-sunken px-2 py-3">
            <dt className="text-[12.5px] text-dim">{label}</dt>
            <dd className="num text-[22px] leading-tight font-semibold">{count(n)}</dd>
          </div>
        ))}
      </dl>
      {lost === 0n ? (
        <Notice kind="good">{open ? "No job runs out of time within the next 24 hours." : "No job runs out of time meanwhile."}</Notice>
      ) : (
        <>
          <Ends title={`${plural(p.windowEndCount, "job")} would ${holds ? "start later than its window says" : "run out of time"}${open ? " within 24 hours" : ""}`} jobs={p.windowEnds} all={p.windowEndCount}>
            {holds ? "Their windows begin again, so none of them ends for it." : "They end as expired, or as failed if they have begun. Nothing is sent."}
          </Ends>
          <Ends title={`${plural(p.keyEndCount, "job")} could not be repeated under the same key any more`} jobs={p.keyEnds} all={p.keyEndCount}>
            A person, or their delivery, decides about them.
          </Ends>
        </>
      )}
    </>
  );
}

function Ends({ title, jobs, all, children }: { title: string; jobs: PausedJob[]; all: bigint; children: ReactNode }) {
  if (all === 0n) return null;
  return (
    <section>
      <h3 className="font-semibold text-unknown">{title}</h3>
      <p className="mb-2 text-dim">{children}</p>
      <ul className="max-h-44 overflow-y-auto rounded-lg border" tabIndex={0} aria-label={title}>
        {jobs.map((j) => (
          <li key={j.jobId} className="flex items-baseline gap-3 border-b px-3 py-1.5 last:border-b-0">
            <Link to="/jobs/$jobId" params={{ jobId: j.jobId }} target="_blank" className="mono min-w-0 flex-1 truncate hover:text-accent-text">
              {j.idempotencyKey || j.jobId}
            </Link>
            {j.endTime && <When at={dateOf(j.endTime)} className="text-[13px] text-faint" />}
          </li>
        ))}
        {all > BigInt(jobs.length) && <li className="px-3 py-1.5 text-[13px] text-faint">and {count(all - BigInt(jobs.length))} more</li>}
      </ul>
    </section>
  );
}

/** Ends a pause, after it has said what goes on then. */
export function ResumeDialog({ pause, name, onClose }: { pause: Pause; name: string; onClose: () => void }) {
  const end = useMutation(PauseService.method.endPause);
  const announced = pause.beginTime ? dateOf(pause.beginTime).getTime() > Date.now() : false;
  const list = useQuery(PauseService.method.listPauses, { pageSize: 10, showPreview: true });
  const preview = list.data?.pauses.find((p) => p.pauseId === pause.pauseId)?.preview;
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={announced ? "Take the pause back?" : `Resume ${name}?`}
      note={announced ? "It has not begun." : "What this pause alone holds back goes on immediately, repeats under a key first."}
      footer={
        <>
          <Button onClick={onClose}>Leave it</Button>
          <Button look="primary" busy={end.isPending} onClick={() => end.mutate({ pauseId: pause.pauseId }, { onSuccess: () => (readPausesAnew(), say(announced ? "Taken back." : "It goes on."), onClose()) })}>
            {announced ? "Take it back" : "Resume"}
          </Button>
        </>
      }
    >
      {list.isPending ? (
        <Skeleton rows={2} className="p-0" />
      ) : (
        preview && (
          <p className="text-dim">
            {plural(preview.waitingCount, "job")} {preview.waitingCount === 1n ? "waits" : "wait"} to start, now or later, and {plural(preview.repeatCount, "job")} {preview.repeatCount === 1n ? "waits" : "wait"} to be repeated.
          </p>
        )
      )}
      {end.error && <Notice kind="bad">{faultOf(end.error).text}</Notice>}
    </Dialog>
  );
}
