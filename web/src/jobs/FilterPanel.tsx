import { useQuery } from "@connectrpc/connect-query";
import { ConnectionService } from "@gen/connections/v1/connection_service_pb.js";
import { FailureKind } from "@gen/v1/job_pb.js";
import { useMay } from "@/api/session";
import { Button, cx, Field } from "@/ui/basics";
import { Dialog } from "@/ui/dialog";
import { failureName, list, stateName, toggle, type JobSearch } from "./search";
import { allStates, failureWords, stateWords, toneSoft } from "./words";

const failures = Object.values(FailureKind).filter((v): v is FailureKind => typeof v === "number" && v !== 0);

/** The filters that have no place above the list. Each change applies to the list behind it. */
export function FilterPanel({
  open,
  onOpenChange,
  search,
  onChange,
}: {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  search: JobSearch;
  onChange: (next: Partial<JobSearch>) => void;
}) {
  const may = useMay();
  const connections = useQuery(ConnectionService.method.listConnections, { pageSize: 500 }, { enabled: open && may("connections:read") });
  return (
    <Dialog open={open} onOpenChange={onOpenChange} title="Filters" note="The page's address holds the view: bookmark it, or send it to a colleague." footer={<Button look="primary" onClick={() => onOpenChange(false)}>Done</Button>}>
      <div className="space-y-5">
        <Choices
          label="State"
          options={allStates.map((s) => ({ value: stateName(s), label: stateWords(s).label, tone: toneSoft[stateWords(s).tone] }))}
          chosen={search.state}
          onChange={(state) => onChange({ state, phase: undefined })}
        />
        {(connections.data?.connections.length ?? 0) > 0 && (
          <Choices
            label="Connection"
            options={connections.data!.connections.map((c) => ({ value: c.idempotencyKey, label: c.displayName || c.idempotencyKey }))}
            chosen={search.connection}
            onChange={(connection) => onChange({ connection })}
          />
        )}
        <Choices label="Last error" options={failures.map((k) => ({ value: failureName(k), label: failureWords(k) }))} chosen={search.error} onChange={(error) => onChange({ error })} />
        <div className="grid gap-4 sm:grid-cols-2">
          <Field label="Scheduled from">
            {(p) => <input {...p} type="datetime-local" className="field" value={local(search.from, false)} onChange={(e) => onChange({ from: e.target.value || undefined })} />}
          </Field>
          <Field label="Scheduled until">
            {(p) => <input {...p} type="datetime-local" className="field" value={local(search.to, true)} onChange={(e) => onChange({ to: e.target.value || undefined })} />}
          </Field>
          <Field label="Labels" hint="team=growth,tier=1">
            {(p) => <input {...p} className="field mono" defaultValue={search.label ?? ""} onBlur={(e) => onChange({ label: e.target.value.replaceAll(" ", "") || undefined })} />}
          </Field>
          <Field label="Schedule" hint="The key of the recurring schedule">
            {(p) => <input {...p} className="field mono" defaultValue={search.schedule ?? ""} onBlur={(e) => onChange({ schedule: e.target.value.trim() || undefined })} />}
          </Field>
          <Field label="Destination" hint="An account, or scheme, host and port">
            {(p) => <input {...p} className="field mono" placeholder="https://api.example.com" defaultValue={search.destination ?? ""} onBlur={(e) => onChange({ destination: e.target.value.trim() || undefined })} />}
          </Field>
          {may("payloads:read") && (
            <Field label="Recipient" hint="An e-mail address, or a recipient's id">
              {(p) => <input {...p} className="field" defaultValue={search.recipient ?? ""} onBlur={(e) => onChange({ recipient: e.target.value.trim() || undefined })} />}
            </Field>
          )}
        </div>
      </div>
    </Dialog>
  );
}

function local(text: string | undefined, end: boolean): string {
  if (!text) return "";
  return text.includes("T") ? text : `${text}T${end ? "23:59" : "00:00"}`;
}

function Choices({
  label,
  options,
  chosen,
  onChange,
}: {
  label: string;
  options: { value: string; label: string; tone?: string }[];
  chosen?: string;
  onChange: (next: string | undefined) => void;
}) {
  const on = list(chosen);
  return (
    <fieldset>
      <legend className="mb-1.5 font-medium">{label}</legend>
      <div className="flex flex-wrap gap-1.5">
        {options.map((o) => (
          <label
            key={o.value}
            className={cx(
              "inline-flex h-7 max-w-full items-center rounded-full border px-2.5 text-[13px] has-focus-visible:outline-2 has-focus-visible:outline-offset-2 has-focus-visible:outline-accent",
              on.includes(o.value) ? cx("border-transparent font-medium", o.tone ?? "bg-ink text-page") : "border-line text-dim hover:text-ink",
            )}
          >
            <input type="checkbox" className="sr-only" checked={on.includes(o.value)} onChange={() => onChange(toggle(chosen, o.value))} />
            <span className="truncate">{o.label}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}
