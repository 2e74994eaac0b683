import { create } from "@bufbuild/protobuf";
import { useMutation, useQuery } from "@connectrpc/connect-query";
import { keepPreviousData } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { ArrowRight, CalendarClock, ChevronDown, Plug, Send } from "lucide-react";
import { useEffect, useRef, useState, type FormEvent, type ReactNode } from "react";
import { ConnectionState } from "@gen/connections/v1/connection_pb.js";
import { ConnectionService } from "@gen/connections/v1/connection_service_pb.js";
import { TimeMark } from "@gen/v1/local_time_pb.js";
import { Delivery, Phase, type Job } from "@gen/v1/job_pb.js";
import { JobService } from "@gen/v1/job_service_pb.js";
import { HttpMethod, PayloadSchema } from "@gen/v1/payload_pb.js";
import { ErrorReason } from "@gen/v1/error_pb.js";
import { faultOf, sentence } from "@/api/errors";
import { live } from "@/live/store";
import { PayloadView } from "@/job/PayloadView";
import { useJob } from "@/job/useJob";
import { Way } from "@/job/Way";
import { StateBadge } from "@/jobs/StateBadge";
import { classWords, deliveryWords, stateWords } from "@/jobs/words";
import { Button, cx, Empty, Field, Notice, PageHead, Segments, Skeleton, When } from "@/ui/basics";
import { cityOf, dateOf, fullTime, offsetOf, ownZone } from "@/ui/format";
import { SafeLink } from "@/ui/SafeLink";
import { ZoneSelect } from "@/ui/ZoneSelect";
import { draftLike, emptyDraft, isReady, kindOf, kindWords, payloadOf, requestOf, type Draft, type Kind } from "./draft";
import { newKey } from "./key";

// Rules of this file: an opened form is one job.
//   - Its key is made when it is opened, and stays whatever is typed. So a double click, a lost answer and a second
//     try are the same job.
//   - The server itself checks the form while it is typed, so that the page knows no limit of its own.

const kinds: Kind[] = ["webhook", "httpRequest", "email", "socialPost", "directMessage"];

export default function NewPage() {
  const search = useSearch({ from: "/new" });
  const like = useQuery(JobService.method.getJob, { job: { case: "jobId", value: search.like ?? "" } }, { enabled: Boolean(search.like) });
  const [form, setForm] = useState(0);
  if (search.like && like.isPending) return <Skeleton rows={8} className="p-8" />;
  const again = () => setForm((n) => n + 1);
  return <Form key={`${search.like ?? ""}/${form}`} like={like.data?.job} connection={search.connection} onAgain={again} />;
}

function Form({ like, connection, onAgain }: { like?: Job; connection?: string; onAgain: () => void }) {
  const [draft, setDraft] = useState<Draft>(() => {
    const key = newKey();
    return like ? draftLike(like, key) : { ...emptyDraft(key), connection: connection ?? "" };
  });
  const set = (next: Partial<Draft>) => setDraft((old) => ({ ...old, ...next }));
  const connections = useQuery(ConnectionService.method.listConnections, { pageSize: 500 });
  const connectors = useQuery(ConnectionService.method.listConnectors, {});
  const chosen = connections.data?.connections.find((c) => c.idempotencyKey === draft.connection);
  const connector = connectors.data?.connectors.find((c) => c.name === chosen?.connector);
  const possible = kinds.filter((k) => (connector?.payloadKinds ?? []).some((p) => kindOf[p] === k));
  const onlyKind = possible.length > 0 && (!draft.kind || !possible.includes(draft.kind)) ? possible[0] : undefined;
  useEffect(() => {
    if (onlyKind) setDraft((old) => ({ ...old, kind: onlyKind }));
  }, [onlyKind]);
  const all = connections.data?.connections;
  const onlyConnection = !draft.connection && all?.length === 1 ? all[0]!.idempotencyKey : undefined;
  useEffect(() => {
    if (onlyConnection) setDraft((old) => ({ ...old, connection: onlyConnection }));
  }, [onlyConnection]);

  const settled = useSettled(draft, 300);
  const ready = isReady(settled);
  const check = useQuery(
    JobService.method.scheduleJob,
    { ...requestOf(settled), validateOnly: true },
    { enabled: ready, placeholderData: ready ? keepPreviousData : undefined, retry: false, gcTime: 0, staleTime: Infinity },
  );
  const submit = useMutation(JobService.method.scheduleJob);
  const [job, setJob] = useState<Job>();
  const send = (e: FormEvent) => {
    e.preventDefault();
    submit.mutate(requestOf(draft), {
      onSuccess: (res) => {
        if (!res.job) return;
        live.put(res.job);
        setJob(res.job);
      },
    });
  };

  const fault = submit.error ? faultOf(submit.error) : check.error && ready ? faultOf(check.error) : undefined;
  const errorAt = (...paths: string[]) => fault?.fields.find((f) => paths.some((p) => f.path === p || f.path.startsWith(`${p}[`) || f.path.startsWith(`${p}.`)))?.text;
  const shownFields = shown(draft.kind);
  const rest = fault && (fault.fields.length === 0 ? [fault.text] : fault.fields.filter((f) => !shownFields.some((p) => f.path.startsWith(p))).map((f) => `${f.path ? `${f.path}: ` : ""}${f.text}`));

  const conflict = fault?.detail?.context;
  const holder = conflict?.case === "idempotencyConflict" && conflict.value.holder.case === "jobId" ? conflict.value.holder.value : undefined;

  if (job) return <Sent job={job} onAgain={onAgain} />;
  if (all && all.length === 0) {
    return (
      <Empty icon={Plug} title="Connect something first" action={<Button look="primary" asChild><Link to="/connections">Connections</Link></Button>}>
        A job goes through a connection: a webhook signer, a mail relay, or an account on a platform.
      </Empty>
    );
  }
  const plan = ready && !check.error ? check.data : undefined;
  const planned = plan?.job?.scheduleTime && dateOf(plan.job.scheduleTime);
  const payload = payloadOf(draft);

  return (
    <form onSubmit={send} className="mx-auto max-w-[76rem] px-4 pt-5 pb-10 md:px-8 md:pt-7" noValidate>
      <PageHead title="New job" note="One side effect, at one time. It takes effect once, however often you press the button." />
      <div className="mt-6 grid items-start gap-6 lg:grid-cols-[minmax(0,1fr)_24rem]">
        <div className="min-w-0 space-y-5">
          <div className="card space-y-4 p-5">
            <Field label="Through" error={errorAt("connection", "connection_key")} hint={connector?.promise}>
              {(p) => (
                <select {...p} className="field" value={draft.connection} onChange={(e) => set({ connection: e.target.value })} required>
                  <option value="" disabled>
                    Choose a connection
                  </option>
                  {(all ?? []).map((c) => (
                    <option key={c.connectionId} value={c.idempotencyKey}>
                      {c.displayName ? `${c.displayName} (${c.idempotencyKey})` : c.idempotencyKey} · {c.connector}
                      {c.state !== ConnectionState.ACTIVE ? " · held" : ""}
                    </option>
                  ))}
                  {draft.connection && all && !chosen && <option value={draft.connection}>{draft.connection}</option>}
                </select>
              )}
            </Field>
            {chosen && chosen.state !== ConnectionState.ACTIVE && (
              <Notice kind="warn" title="This connection sends nothing now">
                {chosen.stateReason} The job waits until that is over.
              </Notice>
            )}
            {possible.length > 1 && draft.kind && <Segments label="Kind" value={draft.kind} options={possible.map((k) => ({ value: k, label: kindWords[k] }))} onChange={(kind) => set({ kind })} />}
            {connector && possible.length === 0 && <Notice kind="info">Jobs of this connector are scheduled by the API: its content has no form here.</Notice>}
            <Content draft={draft} set={set} errorAt={errorAt} />
          </div>
          <div className="card space-y-4 p-5">
            <Segments
              label="When"
              value={draft.when}
              onChange={(when) => set({ when })}
              options={[
                { value: "now", label: "As soon as possible" },
                { value: "later", label: "At a time" },
              ]}
            />
            {draft.when === "later" && (
              <div className="grid gap-4 sm:grid-cols-2">
                <Field label="Time" error={fault?.reason === ErrorReason.TIME_IN_PAST ? "This time has passed." : errorAt("local_time.time_zone") ? undefined : errorAt("local_time", "schedule_time")}>
                  {(p) => <input {...p} type="datetime-local" className="field num" required value={draft.local} onChange={(e) => set({ local: e.target.value })} />}
                </Field>
                <Field label="Zone" error={errorAt("local_time.time_zone")}>
                  {(p) => <ZoneSelect {...p} value={draft.zone} onChange={(zone) => set({ zone })} />}
                </Field>
              </div>
            )}
          </div>
          <details className="card group" open={Boolean(errorAt("labels", "idempotency_key", "start_window", "delivery"))}>
            <summary className="flex items-center gap-2 px-5 py-3.5 font-medium" data-focus="inside">
              Terms and labels
              <span className="font-normal text-faint">{deliveryWords(draft.delivery).toLowerCase()}</span>
              <ChevronDown className="ml-auto size-4 text-faint transition-transform group-open:rotate-180" aria-hidden />
            </summary>
            <div className="space-y-4 border-t p-5">
              <Field label="If the outcome stays unknown" hint={deliverySays(draft.delivery)} error={errorAt("delivery")}>
                {(p) => (
                  <select {...p} className="field" value={draft.delivery} onChange={(e) => set({ delivery: Number(e.target.value) })}>
                    {[Delivery.ONCE_OR_ASK, Delivery.AT_MOST_ONCE, Delivery.AT_LEAST_ONCE].map((d) => (
                      <option key={d} value={d}>
                        {deliveryWords(d)}
                      </option>
                    ))}
                  </select>
                )}
              </Field>
              <Field label="May begin late" optional hint="Hours. After that it expires instead. Two hours unless you say otherwise." error={errorAt("start_window")}>
                {(p) => <input {...p} inputMode="decimal" className="field num" placeholder="2" value={draft.windowHours} onChange={(e) => set({ windowHours: e.target.value })} />}
              </Field>
              <Field label="Labels" optional hint="One a line: team=growth" error={errorAt("labels")}>
                {(p) => <textarea {...p} className="field mono" rows={2} value={draft.labels} onChange={(e) => set({ labels: e.target.value })} />}
              </Field>
              <Field label="Idempotency key" hint="Names this effect, once and for all. It was made when the form was opened." error={errorAt("idempotency_key")}>
                {(p) => <input {...p} className="field mono" maxLength={255} value={draft.key} onChange={(e) => set({ key: e.target.value })} />}
              </Field>
            </div>
          </details>
        </div>
        <aside aria-label="Preview" className="space-y-4 lg:sticky lg:top-6">
          <div className="card overflow-hidden">
            <h2 className="border-b px-4 py-3 font-semibold">Preview</h2>
            {payload && isReady({ ...draft, connection: draft.connection || "x" }) ? (
              <PayloadView payload={create(PayloadSchema, payload)} account={chosen?.accountIdentity || chosen?.displayName || draft.connection} />
            ) : (
              <p className="p-4 text-faint">What you write appears here as its receiver gets it.</p>
            )}
          </div>
          {planned && (
            <div className="card p-4">
              <p className="flex items-center gap-2 text-[13px] text-faint">
                <CalendarClock className="size-4" aria-hidden /> {draft.when === "now" ? "Goes out" : "Goes out at"}
              </p>
              {draft.when === "now" ? (
                <p className="mt-1 font-semibold">as soon as it is stored</p>
              ) : (
                <>
                  <p className="num mt-1 text-[16px] font-semibold">{fullTime(planned, draft.zone)}</p>
                  <p className="text-[13px] text-dim">
                    {cityOf(draft.zone)} {offsetOf(planned, draft.zone)} · <When at={planned} />
                  </p>
                  {draft.zone !== ownZone && (
                    <p className="num mt-2 text-dim">
                      {fullTime(planned)} <span className="text-[13px]">{cityOf(ownZone)}, yours</span>
                    </p>
                  )}
                </>
              )}
              {plan?.localTimeMark === TimeMark.SHIFTED && <p className="mt-2 text-unknown">The clocks skip that time on that day: it goes out at the first moment after.</p>}
              {plan?.localTimeMark === TimeMark.FIRST_OF_TWO && <p className="mt-2 text-unknown">That time comes twice on that day: it goes out at the first one.</p>}
              {plan?.job && <p className="mt-3 text-[13px] text-dim">{classWords(plan.job.effectClass).says}</p>}
            </div>
          )}
          {(plan?.warnings ?? []).map((w, i) => (
            <Notice key={i} kind="warn">
              {sentence(w.message)}
            </Notice>
          ))}
          {fault && rest && rest.length > 0 && (
            <Notice kind="bad" title={fault.reason === ErrorReason.IDEMPOTENCY_KEY_REUSED ? "Another job has this key" : undefined}>
              {rest.map((text) => (
                <span key={text} className="block">
                  {text}
                </span>
              ))}
              {fault.reason === ErrorReason.IDEMPOTENCY_KEY_REUSED && (
                <span className="mt-2 flex gap-3">
                  {holder && (
                    <Link to="/jobs/$jobId" params={{ jobId: holder }} className="font-semibold underline">
                      Look at it
                    </Link>
                  )}
                  <button type="button" className="font-semibold underline" onClick={() => (submit.reset(), set({ key: newKey() }))}>
                    Take a new key: this is another effect
                  </button>
                </span>
              )}
            </Notice>
          )}
          <Button type="submit" look="primary" size="lg" className="w-full" disabled={!isReady(draft)} busy={submit.isPending}>
            {!submit.isPending && (draft.when === "now" ? <Send className="size-4" aria-hidden /> : <CalendarClock className="size-4" aria-hidden />)}
            {draft.when === "now" ? (draft.kind === "socialPost" ? "Post now" : "Send now") : "Schedule"}
          </Button>
          <p className="text-center text-[12.5px] break-all text-faint">
            Under the key <span className="mono">{draft.key}</span>
          </p>
        </aside>
      </div>
    </form>
  );
}

/** Where the errors of a kind are shown beside their fields. */
function shown(kind: Kind | undefined): string[] {
  const name = Object.entries(kindOf).find(([, k]) => k === kind)?.[0] ?? "none";
  return ["connection", "labels", "idempotency_key", "start_window", "delivery", "local_time", "schedule_time", ...["url", "headers", "content_type", "body", "body_text", "sender", "to", "cc", "subject", "text_body", "html_body", "text", "media", "recipient_id"].map((f) => `payload.${name}.${f}`)];
}

function deliverySays(d: Delivery): string {
  if (d === Delivery.AT_MOST_ONCE) return "Never sent twice, and nobody is asked: the effect may be missing.";
  if (d === Delivery.AT_LEAST_ONCE) return "Sent again: the effect may be there twice.";
  return "Never sent twice without a proof. A person decides.";
}

interface ContentProps {
  draft: Draft;
  set: (next: Partial<Draft>) => void;
  errorAt: (...paths: string[]) => string | undefined;
}

function Content({ draft, set, errorAt }: ContentProps): ReactNode {
  const text = (key: keyof Draft) => ({ value: draft[key] as string, onChange: (e: { target: { value: string } }) => set({ [key]: e.target.value }) });
  switch (draft.kind) {
    case "webhook":
    case "httpRequest": {
      const at = draft.kind === "webhook" ? "payload.webhook" : "payload.http_request";
      return (
        <>
          <div className={cx("grid gap-4", draft.kind === "httpRequest" && "sm:grid-cols-[7rem_minmax(0,1fr)]")}>
            {draft.kind === "httpRequest" && (
              <Field label="Method">
                {(p) => (
                  <select {...p} className="field" value={draft.method} onChange={(e) => set({ method: Number(e.target.value) })}>
                    {[HttpMethod.POST, HttpMethod.PUT, HttpMethod.PATCH, HttpMethod.DELETE, HttpMethod.GET].map((m) => (
                      <option key={m} value={m}>
                        {HttpMethod[m]}
                      </option>
                    ))}
                  </select>
                )}
              </Field>
            )}
            <Field label="URL" error={errorAt(`${at}.url`)}>
              {(p) => <input {...p} type="url" className="field mono" placeholder="https://api.example.com/hooks" maxLength={2048} spellCheck={false} autoCapitalize="off" {...text("url")} />}
            </Field>
          </div>
          <Field label="Body" optional error={errorAt(`${at}.body`, `${at}.body_text`)} aside={<JSONState body={draft.body} type={draft.contentType} />}>
            {(p) => <textarea {...p} className="field mono" rows={7} spellCheck={false} placeholder='{"event": "order.paid", "order": 42}' {...text("body")} />}
          </Field>
          <div className="grid gap-4 sm:grid-cols-2">
            <Field label="Content type" optional error={errorAt(`${at}.content_type`)}>
              {(p) => <input {...p} className="field mono" placeholder="application/json" {...text("contentType")} />}
            </Field>
            <Field label="Headers" optional hint="One a line. No secrets: those belong to the connection." error={errorAt(`${at}.headers`)}>
              {(p) => <textarea {...p} className="field mono min-h-0" rows={2} placeholder="X-Tenant: 42" {...text("headers")} />}
            </Field>
          </div>
        </>
      );
    }
    case "email":
      return (
        <>
          <div className="grid gap-4 sm:grid-cols-2">
            <Field label="From" error={errorAt("payload.email.sender")}>
              {(p) => <input {...p} className="field" placeholder="Ada <ada@example.org>" autoComplete="email" {...text("sender")} />}
            </Field>
            <Field label="To" hint="Several by commas" error={errorAt("payload.email.to", "payload.email.recipients")}>
              {(p) => <input {...p} className="field" placeholder="grace@example.org" {...text("to")} />}
            </Field>
          </div>
          <Field label="Copies to" optional error={errorAt("payload.email.cc")}>
            {(p) => <input {...p} className="field" {...text("cc")} />}
          </Field>
          <Field label="Subject" error={errorAt("payload.email.subject")} aside={draft.subject.length > 70 ? `${draft.subject.length} / 998` : undefined}>
            {(p) => <input {...p} className="field" maxLength={998} {...text("subject")} />}
          </Field>
          <Field label="Text" error={errorAt("payload.email.text_body")}>
            {(p) => <textarea {...p} className="field" rows={8} {...text("text")} />}
          </Field>
          <details>
            <summary className="w-fit text-dim">With HTML</summary>
            <div className="mt-3">
              <Field label="HTML" optional error={errorAt("payload.email.html_body")}>
                {(p) => <textarea {...p} className="field mono" rows={6} spellCheck={false} {...text("html")} />}
              </Field>
            </div>
          </details>
        </>
      );
    case "socialPost":
    case "directMessage":
      return (
        <>
          {draft.kind === "directMessage" && (
            <Field label="Recipient" hint="The platform's id of the person or the conversation" error={errorAt("payload.direct_message.recipient_id")}>
              {(p) => <input {...p} className="field mono" maxLength={256} {...text("recipient")} />}
            </Field>
          )}
          <Field label="Text" error={errorAt("payload.social_post.text", "payload.direct_message.text")} aside={[...draft.post].length > 0 ? `${[...draft.post].length} characters` : undefined}>
            {(p) => <textarea {...p} className="field text-[15px]" rows={6} placeholder="What happens?" {...text("post")} />}
          </Field>
          {draft.kind === "socialPost" && (
            <Field label="Pictures and videos" optional hint="URLs, one a line. They are fetched when the post goes out." error={errorAt("payload.social_post.media")}>
              {(p) => <textarea {...p} className="field mono min-h-0" rows={2} {...text("media")} />}
            </Field>
          )}
        </>
      );
    default:
      return null;
  }
}

function JSONState({ body, type }: { body: string; type: string }) {
  if (!body.trim() || (type && !type.includes("json"))) return null;
  try {
    JSON.parse(body);
    return <span className="text-good">JSON</span>;
  } catch {
    return <span className="text-unknown">no JSON</span>;
  }
}

/** What becomes of a job that was just sent, live. */
function Sent({ job: first, onAgain }: { job: Job; onAgain: () => void }) {
  const { job = first, events } = useJob(first.jobId);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => box.current?.focus(), []);
  const ended = job.phase === Phase.ENDED;
  return (
    <div ref={box} tabIndex={-1} className="mx-auto max-w-[52rem] px-4 pt-8 pb-10 outline-none md:px-8 md:pt-12">
      <div className="card rise overflow-hidden">
        <div className="flex flex-wrap items-center gap-x-4 gap-y-2 p-5">
          <div className="min-w-0 flex-1" aria-live="polite">
            <h1 className="text-[19px] font-semibold">
              {job.effect ? "It took effect" : ended ? "It ended" : job.phase === Phase.WAITING && job.scheduleTime && dateOf(job.scheduleTime).getTime() > Date.now() ? "It is scheduled" : "It is stored, and under way"}
            </h1>
            <p className="mt-1 text-dim">{stateWords(job.state).says}</p>
          </div>
          <StateBadge state={job.state} className="h-7 text-[13.5px]" />
        </div>
        <div className="border-t p-4">
          <Way job={job} events={events.data?.events ?? []} />
        </div>
        {job.effect?.externalUrl && (
          <div className="border-t px-5 py-3.5">
            <SafeLink url={job.effect.externalUrl} />
          </div>
        )}
        {job.lastError && !job.effect && <p className="border-t px-5 py-3.5 break-words text-dim">{job.lastError.message}</p>}
      </div>
      <div className="mt-5 flex flex-wrap gap-2">
        <Button look="primary" asChild>
          <Link to="/jobs/$jobId" params={{ jobId: job.jobId }}>
            All about this job
            <ArrowRight className="size-4" aria-hidden />
          </Link>
        </Button>
        <Button onClick={onAgain}>Another one</Button>
      </div>
    </div>
  );
}

/** A value once it has stayed for a time. */
function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
