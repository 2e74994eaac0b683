import { createConnectQueryKey, useMutation, useQuery } from "@connectrpc/connect-query";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Bell, ChevronDown, Pause, Play, Plus, Send, Trash2 } from "lucide-react";
import { useState, type FormEvent } from "react";
import { ConnectionService } from "@gen/connections/v1/connection_service_pb.js";
import { JobState } from "@gen/v1/job_pb.js";
import { NoticeKind, SubscriptionState, type NoticeFilter, type NoticeRules, type Subscription } from "@gen/subscriptions/v1/subscription_pb.js";
import { SubscriptionService, type CreateSubscriptionRequestSchema } from "@gen/subscriptions/v1/subscription_service_pb.js";
import { faultOf, sentence, whole } from "@/api/errors";
import { useMay } from "@/api/session";
import { queries } from "@/api/transport";
import { Badge } from "@/jobs/StateBadge";
import { nameOf, stateWords, type Tone } from "@/jobs/words";
import { useConnectionNames } from "@/pauses/PauseBanner";
import { Button, cx, Empty, Field, Notice, Skeleton, When } from "@/ui/basics";
import { Dialog } from "@/ui/dialog";
import { count, dateOf, plural, secondsOf, span } from "@/ui/format";
import { say } from "@/ui/toast";

const states: Partial<Record<SubscriptionState, { label: string; tone: Tone }>> = {
  [SubscriptionState.ACTIVE]: { label: "Active", tone: "good" },
  [SubscriptionState.PAUSED]: { label: "Paused", tone: "unknown" },
  [SubscriptionState.DELETED]: { label: "Deleted", tone: "off" },
};

/** The connectors that can bring a notice. */
const carriers = ["webhook", "slack", "smtp", "resend"];

function readAnew() {
  void queries.invalidateQueries({ queryKey: createConnectQueryKey({ schema: SubscriptionService, cardinality: undefined }) });
}

/** Who is told of what, and whether it arrives. */
export function Subscriptions() {
  const may = useMay();
  const [making, setMaking] = useState(false);
  const list = useQuery(SubscriptionService.method.listSubscriptions, { pageSize: 500 }, { refetchInterval: 10_000 });
  const all = list.data?.subscriptions ?? [];
  return (
    <section className="space-y-4" aria-label="Notices">
      <div className="flex flex-wrap items-center gap-3">
        <p className="min-w-0 flex-1 basis-64 text-dim">Who is told when jobs fail, are unknown or stand still: by webhook, Slack or e-mail, each event at least once and in order.</p>
        {may("subscriptions:write") && (
          <Button look="primary" onClick={() => setMaking(true)}>
            <Plus className="size-4" aria-hidden /> Subscribe
          </Button>
        )}
      </div>
      {list.error && <Notice kind="bad" title="The subscriptions could not be read">{faultOf(list.error).text}</Notice>}
      {list.isPending ? (
        <Skeleton rows={3} />
      ) : all.length === 0 && !list.error ? (
        <div className="card">
          <Empty icon={Bell} title="Nobody is told">
            An unknown outcome waits on this page until somebody looks. Subscribe, and it is reported to where people are.
          </Empty>
        </div>
      ) : (
        <ul className="space-y-3">
          {all.map((s) => (
            <Item key={s.subscriptionId} subscription={s} />
          ))}
        </ul>
      )}
      {making && <Subscribe onClose={() => setMaking(false)} />}
    </section>
  );
}

function filterText(f: NoticeFilter | undefined, names: (id: string) => string): string {
  const of = f?.connectionIds.length ? ` of ${f.connectionIds.map(names).join(", ")}` : "";
  if (f?.holds) return `Holds${of}`;
  const what = f?.states.length ? f.states.map((s) => stateWords(s).label.toLowerCase()).join(", ") : f?.phases.length ? "Phases of jobs" : "what went wrong";
  const labels = Object.entries(f?.labels ?? {}).map(([k, v]) => `${k}=${v}`);
  return sentence(`${what}${of}${labels.length ? `, ${labels.join(", ")}` : ""}`);
}

function rulesText(r: NoticeRules | undefined): string {
  const said = [
    r?.collect && secondsOf(r.collect) > 0 ? `collected for ${span(secondsOf(r.collect))}` : "",
    r?.quiet && secondsOf(r.quiet) > 0 ? `after ${span(secondsOf(r.quiet))} without another` : "",
    r?.threshold && r.thresholdWindow ? `from ${r.threshold} in ${span(secondsOf(r.thresholdWindow))} on` : "",
    r?.digest ? "as counts" : "",
    r?.recovered ? "and when it works again" : "",
    r?.silence ? `and when nothing succeeded for ${span(secondsOf(r.silence))}` : "",
  ].filter(Boolean);
  return said.length ? said.join(", ") : "immediately, each event";
}

function Item({ subscription: s }: { subscription: Subscription }) {
  const may = useMay();
  const names = useConnectionNames(true);
  const [open, setOpen] = useState(false);
  const [asks, setAsks] = useState<"resume" | "delete">();
  const pause = useMutation(SubscriptionService.method.pauseSubscription);
  const test = useMutation(SubscriptionService.method.testSubscription);
  const by = { subscription: { case: "subscriptionId" as const, value: s.subscriptionId } };
  const after = (text: string) => ({ onSuccess: () => (say(text), readAnew()), onError: (e: Error) => say(faultOf(e).text, "bad") });
  const state = states[s.state] ?? { label: nameOf(SubscriptionState, s.state), tone: "off" as Tone };
  const writes = may("subscriptions:write");
  return (
    <li className="card">
      <div className="flex flex-wrap items-start gap-x-4 gap-y-3 p-4">
        <div className="min-w-0 flex-1 basis-64">
          <p className="flex flex-wrap items-center gap-x-2.5 gap-y-1">
            <span className="font-semibold break-all">{s.displayName || s.idempotencyKey}</span>
            <Badge tone={s.failureStartTime ? "bad" : state.tone}>{s.failureStartTime && s.state === SubscriptionState.ACTIVE ? "Does not arrive" : state.label}</Badge>
          </p>
          <p className="mt-0.5 text-dim">
            {filterText(s.filter, names)}, {rulesText(s.rules)}
          </p>
          <p className="mt-0.5 text-[13px] text-faint">
            by {s.connectionKey} · {s.lastNoticeNumber > 0n ? plural(s.lastNoticeNumber, "notice") : "no notice yet"}
            {s.deliveryTime && <> · last arrived <When at={dateOf(s.deliveryTime)} /></>}
            {s.underWay && " · one is on its way"}
          </p>
        </div>
        <div className="flex flex-wrap gap-2">
          <Button size="sm" aria-expanded={open} onClick={() => setOpen(!open)}>
            Sent <ChevronDown className={cx("size-3.5 transition-transform", open && "rotate-180")} aria-hidden />
          </Button>
          {writes && (
            <>
              <Button size="sm" busy={test.isPending} onClick={() => test.mutate(by, { ...after("A test notice is on its way."), onSettled: () => setOpen(true) })}>
                <Send className="size-3.5" aria-hidden /> Test
              </Button>
              {s.state === SubscriptionState.PAUSED ? (
                <Button size="sm" look="primary" onClick={() => setAsks("resume")}>
                  <Play className="size-3.5" aria-hidden /> Resume
                </Button>
              ) : (
                <Button size="sm" busy={pause.isPending} onClick={() => pause.mutate({ ...by, etag: s.etag }, after("Paused. What happens is reported after you resume it."))}>
                  <Pause className="size-3.5" aria-hidden /> Pause
                </Button>
              )}
              <Button size="sm" aria-label={`Delete ${s.idempotencyKey}`} onClick={() => setAsks("delete")}>
                <Trash2 className="size-3.5" aria-hidden />
              </Button>
            </>
          )}
        </div>
      </div>
      {s.failureStartTime && (
        <div className="px-4 pb-4">
          <Notice kind="bad" title={<>Notice {count(s.failedNoticeNumber)} has not arrived since <When at={dateOf(s.failureStartTime)} />, {plural(s.failureCount, "try", "tries")}</>}>
            {whole(s.lastError)} {s.nextTime && s.state === SubscriptionState.ACTIVE && <>Next try <When at={dateOf(s.nextTime)} />. No event is lost.</>}
          </Notice>
        </div>
      )}
      {s.state === SubscriptionState.PAUSED && s.note && <p className="px-4 pb-4 text-dim">{whole(s.note)}</p>}
      {open && <Sent subscription={s} />}
      {asks === "resume" && <Resume of={s} onClose={() => setAsks(undefined)} />}
      {asks === "delete" && <Delete of={s} onClose={() => setAsks(undefined)} />}
    </li>
  );
}

const kindsOf: Partial<Record<NoticeKind, string>> = {
  [NoticeKind.EVENTS]: "Events",
  [NoticeKind.DIGEST]: "Digest",
  [NoticeKind.TEST]: "Test",
  [NoticeKind.SILENCE]: "Silence",
  [NoticeKind.RECOVERED]: "Works again",
  [NoticeKind.CONNECTIONS]: "Connections",
};

function Sent({ subscription: s }: { subscription: Subscription }) {
  const may = useMay();
  const by = { subscription: { case: "subscriptionId" as const, value: s.subscriptionId } };
  const list = useQuery(SubscriptionService.method.listNotices, { ...by, pageSize: 10 }, { refetchInterval: 3_000 });
  const again = useMutation(SubscriptionService.method.redeliverNotices);
  const notices = list.data?.notices ?? [];
  return (
    <div className="border-t">
      {list.error && <div className="p-4"><Notice kind="bad">{faultOf(list.error).text}</Notice></div>}
      {notices.length === 0 && !list.isPending && <p className="p-4 text-dim">None was sent.</p>}
      <ul className="divide-y" aria-label="Sent notices">
        {notices.map((n) => (
          <li key={String(n.number)} className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2 text-[13px]">
            <span className="num w-10 text-faint">{count(n.number)}</span>
            <span className="min-w-0 flex-1">
              {kindsOf[n.kind] ?? nameOf(NoticeKind, n.kind)}
              {n.eventCount > 0n && <span className="text-faint">, {plural(n.eventCount, "event")}</span>}
              {n.tryCount > 1 && <span className="text-faint">, {n.tryCount} tries</span>}
            </span>
            {n.createTime && <When at={dateOf(n.createTime)} className="text-faint" />}
            {n.outcome === JobState.UNSPECIFIED ? (
              <Badge tone="run">On its way</Badge>
            ) : (
              <Badge tone={n.outcome === JobState.SUCCEEDED ? "good" : "bad"}>{n.outcome === JobState.SUCCEEDED ? "Arrived" : stateWords(n.outcome).label}</Badge>
            )}
            {may("subscriptions:write") && n.outcome !== JobState.UNSPECIFIED && (
              <Button
                size="sm"
                look="quiet"
                onClick={() => again.mutate({ ...by, from: { case: "number", value: n.number } }, { onSuccess: () => (say("It is sent again."), readAnew()), onError: (e) => say(faultOf(e).text, "bad") })}
              >
                Send again
              </Button>
            )}
          </li>
        ))}
      </ul>
    </div>
  );
}

function Resume({ of: s, onClose }: { of: Subscription; onClose: () => void }) {
  const [skip, setSkip] = useState(false);
  const resume = useMutation(SubscriptionService.method.resumeSubscription);
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={`Resume ${s.displayName || s.idempotencyKey}?`}
      footer={
        <>
          <Button onClick={onClose}>Leave it</Button>
          <Button look="primary" busy={resume.isPending} onClick={() => resume.mutate({ subscription: { case: "subscriptionId", value: s.subscriptionId }, skipToNow: skip }, { onSuccess: () => (say("It reports again."), readAnew(), onClose()) })}>
            Resume
          </Button>
        </>
      }
    >
      <label className="flex items-start gap-3">
        <input type="checkbox" className="mt-1 accent-accent" checked={skip} onChange={(e) => setSkip(e.target.checked)} />
        <span>
          Report nothing that happened until now
          <span className="block text-[13px] text-faint">Otherwise it goes on where it stopped, as far as the log goes back.</span>
        </span>
      </label>
      {resume.error && <Notice kind="bad">{faultOf(resume.error).text}</Notice>}
    </Dialog>
  );
}

function Delete({ of: s, onClose }: { of: Subscription; onClose: () => void }) {
  const remove = useMutation(SubscriptionService.method.deleteSubscription);
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={`Delete ${s.displayName || s.idempotencyKey}?`}
      note="Permanently. Nobody is told of what it selects any more. A notice that is not sent yet is canceled."
      footer={
        <>
          <Button onClick={onClose}>Leave it</Button>
          <Button look="danger" busy={remove.isPending} onClick={() => remove.mutate({ subscription: { case: "subscriptionId", value: s.subscriptionId }, etag: s.etag }, { onSuccess: () => (say("Deleted."), readAnew(), onClose()) })}>
            Delete it
          </Button>
        </>
      }
    >
      {remove.error && <Notice kind="bad">{faultOf(remove.error).text}</Notice>}
    </Dialog>
  );
}

const whats = [
  { value: "wrong", label: "What went wrong", says: "Failed, expired, unknown, and alarms" },
  { value: "unknown", label: "What needs a person", says: "Outcomes that nobody but a person can decide" },
  { value: "ended", label: "Every end", says: "Succeeded, failed, expired, canceled" },
  { value: "holds", label: "Connections on hold", says: "A credential is refused or ends soon, or works again" },
] as const;
type What = (typeof whats)[number]["value"];

const statesOf: Record<What, JobState[]> = {
  wrong: [],
  unknown: [JobState.NEEDS_RESOLUTION],
  ended: [JobState.SUCCEEDED, JobState.FAILED, JobState.EXPIRED, JobState.CANCELED],
  holds: [],
};

const collects = [
  { seconds: 0, label: "Immediately, each event" },
  { seconds: 60, label: "Collected for a minute" },
  { seconds: 900, label: "Collected for 15 minutes" },
  { seconds: 3600, label: "Collected for an hour" },
];

function Subscribe({ onClose }: { onClose: () => void }) {
  const may = useMay();
  const connections = useQuery(ConnectionService.method.listConnections, { pageSize: 500 }, { enabled: may("connections:read") });
  const known = connections.data?.connections ?? [];
  const able = known.filter((c) => carriers.includes(c.connector));
  const [key, setKey] = useState("");
  const [by, setBy] = useState("");
  const [what, setWhat] = useState<What>("wrong");
  const [of, setOf] = useState("");
  const [label, setLabel] = useState("");
  const [collect, setCollect] = useState(60);
  const [recovered, setRecovered] = useState(true);
  const [content, setContent] = useState(false);
  const [sender, setSender] = useState("");
  const [to, setTo] = useState("");
  const create = useMutation(SubscriptionService.method.createSubscription);
  const carrier = able.find((c) => c.idempotencyKey === by) ?? able[0];
  const mail = carrier && (carrier.connector === "smtp" || carrier.connector === "resend");
  const fault = create.error ? faultOf(create.error) : undefined;
  const at = (path: string) => fault?.fields.find((f) => f.path.startsWith(path))?.text;
  const submit = (e: FormEvent) => {
    e.preventDefault();
    const holds = what === "holds";
    const pair = label.indexOf("=");
    const request: MessageInitShape<typeof CreateSubscriptionRequestSchema> = {
      idempotencyKey: key,
      connection: { case: "connectionKey", value: carrier?.idempotencyKey ?? by },
      filter: { states: statesOf[what], holds, connectionKeys: of ? [of] : [], labels: pair > 0 && !holds ? { [label.slice(0, pair).trim()]: label.slice(pair + 1).trim() } : {} },
      rules: { ...(collect && !holds ? { collect: { seconds: BigInt(collect), nanos: 0 } } : {}), recovered: recovered && !holds && what !== "ended" },
      includeContent: content,
      ...(mail ? { target: { kind: { case: "email" as const, value: { sender, to: to.split(",").map((t) => t.trim()).filter(Boolean) } } } } : {}),
    };
    create.mutate(request, { onSuccess: () => (say("Subscribed. Send a test to see that it arrives."), readAnew(), onClose()) });
  };
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title="Subscribe"
      note="It reports of what happens from now on."
      footer={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button look="primary" type="submit" form="subscribe" busy={create.isPending} disabled={able.length === 0 && connections.isSuccess}>
            Subscribe
          </Button>
        </>
      }
    >
      {connections.isSuccess && able.length === 0 ? (
        <Notice kind="info" title="Nothing can bring a notice yet">Make a connection first: a webhook with a callback URL, Slack, or a mail relay.</Notice>
      ) : (
        <form id="subscribe" onSubmit={submit} className="space-y-4">
          <div className="grid gap-4 sm:grid-cols-2">
            <Field label="Key" error={at("idempotency_key")}>
              {(p) => <input {...p} className="field mono" required maxLength={255} pattern="[!-~]+" placeholder="on-call" value={key} onChange={(e) => setKey(e.target.value)} autoFocus />}
            </Field>
            <Field label="By" error={at("connection")}>
              {(p) => (
                <select {...p} className="field" value={carrier?.idempotencyKey ?? ""} onChange={(e) => setBy(e.target.value)}>
                  {able.map((c) => (
                    <option key={c.connectionId} value={c.idempotencyKey}>
                      {c.displayName || c.idempotencyKey} ({c.connector})
                    </option>
                  ))}
                </select>
              )}
            </Field>
          </div>
          {mail && (
            <div className="grid gap-4 sm:grid-cols-2">
              <Field label="From" error={at("target.email.sender")}>
                {(p) => <input {...p} className="field" required placeholder="Fireonce <alerts@example.org>" value={sender} onChange={(e) => setSender(e.target.value)} />}
              </Field>
              <Field label="To" hint="Several with commas" error={at("target.email.to")}>
                {(p) => <input {...p} className="field" required placeholder="on-call@example.org" value={to} onChange={(e) => setTo(e.target.value)} />}
              </Field>
            </div>
          )}
          <fieldset className="grid gap-2 sm:grid-cols-2">
            <legend className="mb-1.5 font-medium">Of</legend>
            {whats.map((w) => (
              <label key={w.value} className={cx("flex items-start gap-3 rounded-xl border px-3 py-2.5 has-focus-visible:outline-2 has-focus-visible:outline-offset-2 has-focus-visible:outline-accent", what === w.value ? "border-accent bg-accent-soft" : "hover:bg-sunken")}>
                <input type="radio" name="what" className="mt-1 accent-accent" checked={what === w.value} onChange={() => setWhat(w.value)} />
                <span>
                  <span className="font-medium">{w.label}</span>
                  <span className="block text-[13px] text-dim">{w.says}</span>
                </span>
              </label>
            ))}
          </fieldset>
          <div className="grid gap-4 sm:grid-cols-2">
            <Field label="Only of a connection" optional={what !== "holds"}>
              {(p) => (
                <select {...p} className="field" value={of} onChange={(e) => setOf(e.target.value)} required={what === "holds"}>
                  <option value="">{what === "holds" ? "Choose one" : "All"}</option>
                  {known.map((c) => (
                    <option key={c.connectionId} value={c.idempotencyKey}>
                      {c.displayName || c.idempotencyKey}
                    </option>
                  ))}
                </select>
              )}
            </Field>
            {what !== "holds" && (
              <Field label="Only with a label" optional error={at("filter.labels")}>
                {(p) => <input {...p} className="field mono" placeholder="team=payments" pattern="[a-z][a-z0-9_.\-]*=.*" value={label} onChange={(e) => setLabel(e.target.value)} />}
              </Field>
            )}
          </div>
          {what !== "holds" && (
            <Field label="When">
              {(p) => (
                <select {...p} className="field" value={collect} onChange={(e) => setCollect(Number(e.target.value))}>
                  {collects.map((c) => (
                    <option key={c.seconds} value={c.seconds}>
                      {c.label}
                    </option>
                  ))}
                </select>
              )}
            </Field>
          )}
          {what !== "holds" && what !== "ended" && (
            <label className="flex items-baseline gap-2">
              <input type="checkbox" className="accent-accent" checked={recovered} onChange={(e) => setRecovered(e.target.checked)} /> Also when it works again
            </label>
          )}
          {may("payloads:read") && (
            <label className="flex items-baseline gap-2">
              <input type="checkbox" className="accent-accent" checked={content} onChange={(e) => setContent(e.target.checked)} /> Quote content, which leaves the service then
            </label>
          )}
          {fault && <Notice kind="bad">{fault.fields.length > 0 ? fault.fields.map((f) => f.text).join(" ") : fault.text}</Notice>}
        </form>
      )}
    </Dialog>
  );
}
