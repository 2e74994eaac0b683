import { useMutation, useQuery } from "@connectrpc/connect-query";
import { Link } from "@tanstack/react-router";
import { KeyRound, Pause, Play, Plug, Plus, Stethoscope } from "lucide-react";
import { useState } from "react";
import { ConnectionState, type Connection } from "@gen/connections/v1/connection_pb.js";
import { ConnectionStateCause } from "@gen/v1/job_pb.js";
import { ConnectionService } from "@gen/connections/v1/connection_service_pb.js";
import { faultOf, sentence, whole } from "@/api/errors";
import { useMay, useOperator } from "@/api/session";
import { Badge } from "@/jobs/StateBadge";
import { isCredential, Reconnect, remedy } from "@/connections/Reconnect";
import { classWords, nameOf, type Tone } from "@/jobs/words";
import { PauseWords } from "@/pauses/PauseBanner";
import { PauseDialog, ResumeDialog } from "@/pauses/PauseDialogs";
import { covers, targetText, usePauses } from "@/pauses/usePauses";
import { Button, Empty, Notice, PageHead, Skeleton, When } from "@/ui/basics";
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
  const [asks, setAsks] = useState<"pause" | "resume" | "reconnect">();
  const { inForce } = usePauses();
  const pause = inForce.find((p) => p.pauseId === c.pauseId) ?? inForce.find((p) => covers(p, c));
  const operator = useOperator();
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
        <Badge tone={pause && c.state === ConnectionState.ACTIVE ? "unknown" : state.tone}>{pause && c.state === ConnectionState.ACTIVE ? "Paused" : state.label}</Badge>
      </div>
      <div className="flex-1 space-y-3 px-5">
        <Held connection={c} onReconnect={may("connections:write") ? () => setAsks("reconnect") : undefined} />
        {(c.pauseReason || pause) && (
          <Notice
            kind="warn"
            title="Paused"
            action={
              pause && may("connections:write") && (operator || pause.projectId !== "") && (
                <Button size="sm" onClick={() => setAsks("resume")}>
                  <Play className="size-3.5" aria-hidden /> Resume
                </Button>
              )
            }
          >
            {pause ? (
              <>
                {pause.target?.target.case === "connectionId" || pause.target?.target.case === "connectionKey" ? "This connection" : targetText(pause.target)}
                <PauseWords pause={pause} />
              </>
            ) : (
              whole(c.pauseReason)
            )}
          </Notice>
        )}
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
            {c.pauseTime && (
              <Button size="sm" busy={resume.isPending} onClick={() => resume.mutate(by, { onSuccess: () => (say("It goes on."), onChange()), onError: failed })}>
                <Play className="size-3.5" aria-hidden /> Resume
              </Button>
            )}
            {!c.pauseTime && !pause && (
              <Button size="sm" onClick={() => setAsks("pause")}>
                <Pause className="size-3.5" aria-hidden /> Pause
              </Button>
            )}
            {!isCredential(c.stateCause) && c.credentialFingerprint && (
              <Button size="sm" look="quiet" onClick={() => setAsks("reconnect")}>
                <KeyRound className="size-3.5" aria-hidden /> New credential
              </Button>
            )}
          </>
        )}
      </div>
      {asks === "pause" && <PauseDialog start={{ kind: "connection", value: c.idempotencyKey }} onClose={() => (setAsks(undefined), onChange())} />}
      {asks === "resume" && pause && <ResumeDialog pause={pause} name={pause.target?.target.case === "connectionId" ? c.displayName || c.idempotencyKey : targetText(pause.target)} onClose={() => (setAsks(undefined), onChange())} />}
      {asks === "reconnect" && <Reconnect connectionKey={c.idempotencyKey} onClose={() => (setAsks(undefined), onChange())} />}
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

/** Why nothing goes through it, since when, and what a person does about it. */
function Held({ connection: c, onReconnect }: { connection: Connection; onReconnect?: () => void }) {
  if (isCredential(c.stateCause))
    return (
      <Notice
        kind="bad"
        title={<>Held{c.authHoldTime && <> since <When at={dateOf(c.authHoldTime)} exact /></>}: {nameOf(ConnectionStateCause, c.stateCause).toLowerCase()}</>}
        action={
          onReconnect && (
            <Button size="sm" look="primary" onClick={onReconnect}>
              <KeyRound className="size-3.5" aria-hidden /> {c.stateCause === ConnectionStateCause.CREDENTIAL_MISSING ? "Connect" : "Reconnect"}
            </Button>
          )
        }
      >
        {remedy(c.stateCause)}
        {c.stateReason && <span className="mt-1 block opacity-80">{whole(c.stateReason)}</span>}
      </Notice>
    );
  if (c.state === ConnectionState.ACTIVE || !c.stateReason) return null;
  return (
    <Notice kind="warn" title={c.pauseTime ? <>Paused <When at={dateOf(c.pauseTime)} /></> : undefined}>
      {whole(c.stateReason)}
      {c.state === ConnectionState.RATE_LIMITED && c.rateLimitEndTime && <> It goes on by itself <When at={dateOf(c.rateLimitEndTime)} />.</>}
    </Notice>
  );
}
