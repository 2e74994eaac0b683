import { useMutation, useQuery } from "@connectrpc/connect-query";
import { Link } from "@tanstack/react-router";
import { Pause, Play, Plug, Plus, Stethoscope } from "lucide-react";
import { useState } from "react";
import { ConnectionState, type Connection } from "@gen/connections/v1/connection_pb.js";
import { ConnectionService } from "@gen/connections/v1/connection_service_pb.js";
import { faultOf, sentence, whole } from "@/api/errors";
import { useMay } from "@/api/session";
import { Badge } from "@/jobs/StateBadge";
import { classWords, nameOf, type Tone } from "@/jobs/words";
import { Button, Empty, Field, Notice, PageHead, Skeleton, When } from "@/ui/basics";
import { Dialog } from "@/ui/dialog";
import { dateOf, secondsOf, span } from "@/ui/format";
import { say } from "@/ui/toast";

const states: Partial<Record<ConnectionState, { label: string; tone: Tone }>> = {
  [ConnectionState.ACTIVE]: { label: "Active", tone: "good" },
  [ConnectionState.PAUSED]: { label: "Paused", tone: "off" },
  [ConnectionState.AUTH_HOLD]: { label: "Held", tone: "bad" },
  [ConnectionState.RATE_LIMITED]: { label: "Asked to wait", tone: "unknown" },
  [ConnectionState.DELETED]: { label: "Deleted", tone: "off" },
};

/** Where jobs go, and what keeps them from going there. */
export default function ConnectionsPage() {
  const list = useQuery(ConnectionService.method.listConnections, { pageSize: 500 }, { refetchInterval: 15_000 });
  const connections = list.data?.connections ?? [];
  return (
    <div className="mx-auto max-w-[76rem] space-y-5 px-4 pt-5 pb-10 md:px-8 md:pt-7">
      <PageHead title="Connections" note="The accounts, relays and signers that jobs go through." />
      {list.error && <Notice kind="bad" title="The connections could not be read">{faultOf(list.error).text}</Notice>}
      {list.isPending ? (
        <Skeleton rows={6} />
      ) : connections.length === 0 ? (
        <div className="card">
          <Empty icon={Plug} title="Nothing is connected">
            <p>A connection is an account on a platform, a mail relay, or a signer of webhooks. The first one is a call away:</p>
            <pre className="mt-3 rounded-lg bg-sunken p-3 text-left whitespace-pre-wrap">fireonce connections create webhook --key orders --receiver-dedupes yes</pre>
          </Empty>
        </div>
      ) : (
        <ul className="grid gap-4 lg:grid-cols-2">
          {connections.map((c) => (
            <Card key={c.connectionId} connection={c} onChange={() => void list.refetch()} />
          ))}
        </ul>
      )}
      {list.data?.nextPageToken && <p className="text-center text-faint">Only the first 500 are shown.</p>}
    </div>
  );
}

function Card({ connection: c, onChange }: { connection: Connection; onChange: () => void }) {
  const may = useMay();
  const [pausing, setPausing] = useState(false);
  const test = useMutation(ConnectionService.method.testConnection);
  const resume = useMutation(ConnectionService.method.resumeConnection);
  const state = states[c.state] ?? { label: nameOf(ConnectionState, c.state), tone: "off" as Tone };
  const by = { connection: { case: "connectionId" as const, value: c.connectionId } };
  const failed = (e: Error) => say(faultOf(e).text, "bad");
  return (
    <li className="card flex flex-col">
      <div className="flex items-start gap-3 p-5 pb-3">
        <span className="flex size-10 shrink-0 items-center justify-center rounded-xl bg-accent-soft text-[15px] font-semibold text-accent-text" aria-hidden>
          {c.connector.charAt(0).toUpperCase()}
        </span>
        <div className="min-w-0 flex-1">
          <h2 className="truncate text-[16px] font-semibold">{c.displayName || c.idempotencyKey}</h2>
          <p className="truncate text-[13px] text-dim">
            {c.connector} · <span className="mono">{c.idempotencyKey}</span>
            {c.accountIdentity && ` · ${c.accountIdentity}`}
          </p>
        </div>
        <Badge tone={state.tone}>{state.label}</Badge>
      </div>
      <div className="flex-1 space-y-3 px-5">
        {c.state !== ConnectionState.ACTIVE && c.stateReason && <Notice kind="warn">{whole(c.stateReason)}</Notice>}
        <dl className="grid grid-cols-[9rem_minmax(0,1fr)] gap-x-3 gap-y-1 text-[13px]">
          <dt className="text-faint">Duplicates</dt>
          <dd>{classWords(c.effectClass).says}</dd>
          <Limits connection={c} />
          {c.credentialExpireTime && (
            <>
              <dt className="text-faint">Credential ends</dt>
              <dd>
                <When at={dateOf(c.credentialExpireTime)} />
              </dd>
            </>
          )}
        </dl>
        {test.data && (
          <Notice kind={test.data.ok ? "good" : "bad"} title={test.data.ok ? "It works" : "It does not work"}>
            {sentence(test.data.detail)}
          </Notice>
        )}
      </div>
      <div className="mt-4 flex flex-wrap gap-2 border-t px-5 py-3">
        <Button size="sm" asChild>
          <Link to="/jobs" search={{ connection: c.idempotencyKey }}>
            Jobs
          </Link>
        </Button>
        {may("jobs:write") && (
          <Button size="sm" asChild>
            <Link to="/new" search={{ connection: c.idempotencyKey }}>
              <Plus className="size-3.5" aria-hidden /> New job
            </Link>
          </Button>
        )}
        {may("connections:write") && (
          <>
            <Button size="sm" busy={test.isPending} onClick={() => test.mutate(by, { onError: failed })}>
              <Stethoscope className="size-3.5" aria-hidden /> Test
            </Button>
            {c.pauseTime ? (
              <Button size="sm" busy={resume.isPending} onClick={() => resume.mutate(by, { onSuccess: () => (say("It goes on."), onChange()), onError: failed })}>
                <Play className="size-3.5" aria-hidden /> Resume
              </Button>
            ) : (
              <Button size="sm" onClick={() => setPausing(true)}>
                <Pause className="size-3.5" aria-hidden /> Pause
              </Button>
            )}
          </>
        )}
      </div>
      {pausing && <PauseDialog connection={c} onClose={() => setPausing(false)} onDone={onChange} />}
    </li>
  );
}

function Limits({ connection: c }: { connection: Connection }) {
  const l = c.limits;
  const said = [l?.maxPerMinute ? `${l.maxPerMinute} a minute` : "", l?.maxInFlight ? `${l.maxInFlight} at a time` : "", l?.coolDown ? `one in ${span(secondsOf(l.coolDown))}` : ""].filter(Boolean);
  if (said.length === 0) return null;
  return (
    <>
      <dt className="text-faint">Limits</dt>
      <dd>{said.join(", ")}</dd>
    </>
  );
}

function PauseDialog({ connection: c, onClose, onDone }: { connection: Connection; onClose: () => void; onDone: () => void }) {
  const [reason, setReason] = useState("");
  const pause = useMutation(ConnectionService.method.pauseConnection);
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={`Pause ${c.displayName || c.idempotencyKey}?`}
      note="No job of it starts until it is resumed. What is on its way goes on. Jobs whose start window passes meanwhile expire."
      footer={
        <>
          <Button onClick={onClose}>Leave it</Button>
          <Button
            look="danger"
            busy={pause.isPending}
            onClick={() => pause.mutate({ connection: { case: "connectionId", value: c.connectionId }, reason }, { onSuccess: () => (say("Paused."), onDone(), onClose()) })}
          >
            Pause it
          </Button>
        </>
      }
    >
      <Field label="Reason" optional>
        {(p) => <input {...p} className="field" maxLength={500} value={reason} onChange={(e) => setReason(e.target.value)} autoFocus />}
      </Field>
      {pause.error && <Notice kind="bad">{faultOf(pause.error).text}</Notice>}
    </Dialog>
  );
}
