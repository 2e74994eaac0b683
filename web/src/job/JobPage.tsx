import { useMutation, useQuery } from "@connectrpc/connect-query";
import { Link, useParams } from "@tanstack/react-router";
import { ArrowLeft, CalendarClock, ChevronDown, Copy, Eye, FilePlus2, Play, RotateCcw, ShieldCheck, Trash2, TriangleAlert } from "lucide-react";
import { DropdownMenu } from "radix-ui";
import { useState, type ReactNode } from "react";
import { IncidentService } from "@gen/admin/v1/incident_service_pb.js";
import { ErrorReason } from "@gen/v1/error_pb.js";
import type { JobEvent } from "@gen/v1/event_pb.js";
import { AttemptOutcome, BlockedReason_Kind, Delivery, FailureKind, JobState, Phase, type Attempt, type Job, type Observation } from "@gen/v1/job_pb.js";
import { JobService } from "@gen/v1/job_service_pb.js";
import { faultOf, hasReason, sentence, whole } from "@/api/errors";
import { base } from "@/api/transport";
import { useMay, useOperator, useWho } from "@/api/session";
import { incidentTitle } from "@/attention/words";
import { Reconnect } from "@/connections/Reconnect";
import { live } from "@/live/store";
import { Badge, StateBadge } from "@/jobs/StateBadge";
import { actorWords, causeWords, classWords, decisionWords, deliveryWords, failureWords, outcomeWords, proofWords, stateWords, toneSolid, verdictWords } from "@/jobs/words";
import { useConnectionNames } from "@/pauses/PauseBanner";
import { ResumeDialog } from "@/pauses/PauseDialogs";
import { targetText, usePauses } from "@/pauses/usePauses";
import { Button, Copyable, CopyButton, cx, Empty, Notice, Skeleton, When } from "@/ui/basics";
import { copyText } from "@/ui/copy";
import { cityOf, dateOf, fullTime, isZone, offsetOf, ownZone, plural, secondsOf, span } from "@/ui/format";
import { useNow } from "@/ui/now";
import { SafeLink } from "@/ui/SafeLink";
import { say } from "@/ui/toast";
import { ActionDialog, possible, useActionKey, type Action } from "./actions";
import { copyAs } from "./copyAs";
import { Code, PayloadView, prettyJSON } from "./PayloadView";
import { readAnew, useJob } from "./useJob";
import { toneOfChange, Way } from "./Way";

export default function JobPage() {
  const { jobId } = useParams({ from: "/jobs/$jobId" });
  const { job, read, attempts, looks, events } = useJob(jobId);
  const [action, setAction] = useState<Action>();
  const may = useMay();
  const allowed = (a: Action) => may(a === "resolve" ? "jobs:resolve" : "jobs:write");
  useActionKey(job, setAction, allowed);

  if (read.error && !job) {
    const missing = hasReason(read.error, ErrorReason.JOB_NOT_FOUND) || hasReason(read.error, ErrorReason.REQUEST_INVALID);
    return missing ? (
      <Empty title="There is no such job" action={<Button asChild><Link to="/jobs">All jobs</Link></Button>}>
        It may have been removed after its end, or belong to another project.
      </Empty>
    ) : (
      <div className="p-6 md:p-8">
        <Notice kind="bad" title="The job could not be read" action={<Button size="sm" onClick={() => void read.refetch()}>Try again</Button>}>
          {faultOf(read.error).text}
        </Notice>
      </div>
    );
  }
  if (!job) return <Skeleton rows={10} className="p-8" />;
  const log = events.data?.events ?? [];
  return (
    <div className="mx-auto max-w-[84rem] px-4 pt-4 pb-10 md:px-8 md:pt-6">
      <Link to="/jobs" className="mb-3 inline-flex items-center gap-1.5 text-[13px] text-dim hover:text-ink">
        <ArrowLeft className="size-4" aria-hidden /> Jobs
      </Link>
      <Head job={job} onAction={setAction} allowed={allowed} />
      <section aria-label="The job's way" className="card mt-5 p-4">
        <Way job={job} events={log} />
      </section>
      <div className="mt-5 grid items-start gap-5 lg:grid-cols-[minmax(0,1fr)_22rem]">
        <div className="min-w-0 space-y-5">
          <Verdict job={job} onDecide={allowed("resolve") ? () => setAction("resolve") : undefined} />
          <Section title="Content">
            <PayloadView payload={job.payload} withheld={job.contentWithheld} account={job.connectionKey} />
          </Section>
          <Section title="Attempts" count={attempts.data?.attempts.length}>
            <Attempts attempts={attempts.data?.attempts ?? []} />
          </Section>
          {(looks.data?.observations.length ?? 0) > 0 && (
            <Section title="Looks at the platform" count={looks.data!.observations.length} open>
              <Looks looks={looks.data!.observations} />
            </Section>
          )}
          <Section title="History" count={log.length}>
            <History events={log} />
          </Section>
        </div>
        <Facts job={job} />
      </div>
      {action && <ActionDialog key={action} action={action} job={job} onClose={() => setAction(undefined)} />}
    </div>
  );
}

const actionWords: Record<Action, { label: string; icon: typeof Play }> = {
  resolve: { label: "Decide", icon: ShieldCheck },
  retry: { label: "Try again", icon: RotateCcw },
  reschedule: { label: "Move", icon: CalendarClock },
  cancel: { label: "Cancel", icon: Trash2 },
};

function Head({ job, onAction, allowed }: { job: Job; onAction: (a: Action) => void; allowed: (a: Action) => boolean }) {
  const may = useMay();
  const who = useWho();
  const run = useMutation(JobService.method.runJobNow);
  const waiting = job.phase === Phase.WAITING;
  return (
    <header className="flex flex-wrap items-start gap-x-4 gap-y-3">
      <div className="min-w-0 flex-1 basis-72">
        <h1 className="flex min-w-0 items-center gap-1 text-[20px] leading-tight font-semibold">
          <span className="mono break-all">{job.idempotencyKey || job.jobId}</span>
          <CopyButton text={job.idempotencyKey} label="Copy the key" />
        </h1>
        <p className="mt-1.5 flex flex-wrap items-center gap-x-2 gap-y-1 text-dim">
          <StateBadge state={job.state} />
          <span>{stateWords(job.state).says}</span>
        </p>
      </div>
      <div className="flex flex-wrap items-center gap-2">
        {possible(job)
          .filter(allowed)
          .map((a) => {
            const { label, icon: Icon } = actionWords[a];
            return (
              <Button key={a} look={a === "resolve" || a === "retry" ? "primary" : "normal"} onClick={() => onAction(a)}>
                <Icon className="size-4" aria-hidden />
                {label}
              </Button>
            );
          })}
        {waiting && may("jobs:write") && (
          <Button
            busy={run.isPending}
            onClick={() =>
              run.mutate(
                { job: { case: "jobId", value: job.jobId }, etag: job.etag },
                {
                  onSuccess: (res) => {
                    if (res.job) live.put(res.job);
                    readAnew();
                    say("It is due now.");
                  },
                  onError: (e) => say(faultOf(e).text, "bad"),
                },
              )
            }
          >
            <Play className="size-4" aria-hidden />
            Run now
          </Button>
        )}
        <DropdownMenu.Root modal={false}>
          <DropdownMenu.Trigger asChild>
            <Button>
              <Copy className="size-4" aria-hidden />
              Copy as
              <ChevronDown className="size-3.5" aria-hidden />
            </Button>
          </DropdownMenu.Trigger>
          <DropdownMenu.Portal>
            <DropdownMenu.Content align="end" sideOffset={6} className="lifted rise z-50 min-w-52 p-1.5">
              {copyAs(job, window.location.origin + base, who.keyRequired).map((c) => (
                <DropdownMenu.Item
                  key={c.label}
                  className="flex h-8 cursor-pointer items-center rounded-lg px-2.5 outline-none data-highlighted:bg-accent-soft data-highlighted:text-accent-text"
                  onSelect={() => void copyText(c.text).then((done) => say(done ? `${c.label}: copied.` : "The browser does not allow to copy.", done ? "good" : "bad"))}
                >
                  {c.label}
                </DropdownMenu.Item>
              ))}
            </DropdownMenu.Content>
          </DropdownMenu.Portal>
        </DropdownMenu.Root>
        {may("jobs:write") && (
          <Button asChild>
            <Link to="/new" search={{ like: job.jobId }}>
              <FilePlus2 className="size-4" aria-hidden />
              New like it
            </Link>
          </Button>
        )}
      </div>
    </header>
  );
}

/** What is known of the outcome, first. */
function Verdict({ job, onDecide }: { job: Job; onDecide?: () => void }) {
  const now = useNow();
  const { effect, lastError, resolution } = job;
  return (
    <>
      <Blocked job={job} />
      {job.incidentId && !effect && <InIncident id={job.incidentId} />}
      {job.resendCount > 0 && job.state !== JobState.SUCCEEDED && <Notice kind="warn">It was sent again although an earlier effect could not be ruled out: the effect may exist more than once.</Notice>}
      {job.state === JobState.NEEDS_RESOLUTION && (
        <Notice kind="warn" title="Nobody but a person can decide this" action={onDecide && <Button look="primary" size="sm" onClick={onDecide}>Decide</Button>}>
          {whole(lastError?.message || "There is no proof that the effect exists, and none that it does not")} Look at the target, then decide. Nothing is sent until then.
        </Notice>
      )}
      {job.state === JobState.AMBIGUOUS && (
        <Notice kind="info" title="Fireonce looks for the effect">
          {whole(lastError?.message ?? "")} {job.nextLookTime && <>The next look is {dateOf(job.nextLookTime).getTime() > now ? <When at={dateOf(job.nextLookTime)} /> : "now"}.</>}
        </Notice>
      )}
      {effect && (
        <Notice kind="good" title="The effect exists">
          {proofWords(effect.proof)}
          {(effect.externalUrl || effect.externalId) && (
            <span className="mt-1 flex flex-wrap items-center gap-x-3 gap-y-1 text-ink">
              {effect.externalUrl && <SafeLink url={effect.externalUrl} />}
              {effect.externalId && <Copyable text={effect.externalId} />}
            </span>
          )}
          {effect.sharedWithJobId && (
            <span className="mt-1 block font-medium text-unknown">
              Another job names the same object: one of the two may have no effect of its own.{" "}
              <Link to="/jobs/$jobId" params={{ jobId: effect.sharedWithJobId }} className="underline">
                Look at it
              </Link>
            </span>
          )}
        </Notice>
      )}
      {job.phase === Phase.ENDED && !effect && lastError && (
        <Notice kind={job.state === JobState.CANCELED ? "info" : "bad"} title={failureWords(lastError.kind)}>
          {whole(lastError.message)}
        </Notice>
      )}
      {job.state === JobState.RETRYING && lastError && (
        <Notice kind="info" title="The last attempt had no effect">
          {whole(lastError.message)} {job.nextAttemptTime && <>Next attempt <When at={dateOf(job.nextAttemptTime)} />.</>}
        </Notice>
      )}
      {resolution && (
        <div className="card flex items-start gap-3 p-4">
          <ShieldCheck className="mt-0.5 size-5 shrink-0 text-accent-text" aria-hidden />
          <div className="min-w-0">
            <p>
              <span className="font-semibold">{decisionWords(resolution.decision).label}</span>, decided by {actorWords(resolution.actor)}
              {resolution.resolveTime && <>, <When at={dateOf(resolution.resolveTime)} /></>}
            </p>
            <p className="mt-1 break-words whitespace-pre-wrap text-dim">{resolution.note}</p>
          </div>
        </div>
      )}
    </>
  );
}

/** What the job waits for, and what a person can do about that from here. */
function Blocked({ job }: { job: Job }) {
  const may = useMay();
  const operator = useOperator();
  const [asks, setAsks] = useState<"resume" | "reconnect">();
  const { inForce } = usePauses();
  const names = useConnectionNames(Boolean(job.blockedReason?.pauseId));
  const b = job.blockedReason;
  if (!b) return null;
  const pause = inForce.find((p) => p.pauseId === b.pauseId);
  const resumable = pause && may("connections:write") && (operator || pause.projectId !== "");
  const credential = b.kind === BlockedReason_Kind.CREDENTIAL && may("connections:write") && may("connections:read");
  return (
    <>
      <Notice
        kind="warn"
        title="It waits for something other than its time"
        action={
          resumable ? (
            <Button size="sm" onClick={() => setAsks("resume")}>
              <Play className="size-3.5" aria-hidden /> Resume
            </Button>
          ) : credential ? (
            <Button size="sm" look="primary" onClick={() => setAsks("reconnect")}>
              Reconnect
            </Button>
          ) : undefined
        }
      >
        {whole(b.message)}
        {b.endTime && (
          <>
            {" "}
            Goes on <When at={dateOf(b.endTime)} />.
          </>
        )}
        {b.jobId && (
          <>
            {" "}
            <Link to="/jobs/$jobId" params={{ jobId: b.jobId }} className="underline">
              That job
            </Link>
          </>
        )}
      </Notice>
      {asks === "resume" && pause && <ResumeDialog pause={pause} name={targetText(pause.target, names)} onClose={() => (setAsks(undefined), readAnew())} />}
      {asks === "reconnect" && <Reconnect connectionKey={job.connectionKey} onClose={() => (setAsks(undefined), readAnew())} />}
    </>
  );
}

/** Others are in the same trouble, for the same cause: they can be decided together. */
function InIncident({ id }: { id: string }) {
  const read = useQuery(IncidentService.method.getIncident, { incidentId: id }, { retry: false });
  const i = read.data?.incident;
  if (!i || i.jobCount < 2) return null;
  return (
    <Notice
      kind="info"
      title={incidentTitle(i)}
      action={
        <Button size="sm" asChild>
          <Link to="/" search={{ incident: id }}>
            See the incident
          </Link>
        </Button>
      }
    >
      This job is one of them, for the same cause{i.cause?.summary ? `: ${i.cause.summary}` : ""}. They can be decided together.
    </Notice>
  );
}

function Section({ title, count, children, open = true }: { title: string; count?: number; children: ReactNode; open?: boolean }) {
  return (
    <details open={open} className="card group overflow-hidden">
      <summary className="flex items-center gap-2 px-4 py-3 font-semibold select-none" data-focus="inside">
        <h2>{title}</h2>
        {count !== undefined && <span className="num rounded-full bg-sunken px-2 text-[12.5px] font-normal text-dim">{count}</span>}
        <ChevronDown className="ml-auto size-4 text-faint transition-transform group-open:rotate-180" aria-hidden />
      </summary>
      <div className="border-t">{children}</div>
    </details>
  );
}

function Attempts({ attempts }: { attempts: Attempt[] }) {
  if (attempts.length === 0) return <p className="p-4 text-dim">None yet. An attempt begins when the intent to send is stored, before the first byte leaves.</p>;
  return (
    <ol className="divide-y">
      {attempts.map((a) => {
        const { label, tone } = outcomeWords(a.outcome);
        const took = a.intentTime && a.endTime ? (dateOf(a.endTime).getTime() - dateOf(a.intentTime).getTime()) / 1000 : undefined;
        return (
          <li key={a.number} className="space-y-2 p-4">
            <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
              <span className="font-semibold">Attempt {a.number}</span>
              <Badge tone={tone}>{label}</Badge>
              {a.httpStatus > 0 && <Badge tone={a.httpStatus < 400 ? "good" : "bad"}>HTTP {a.httpStatus}</Badge>}
              <span className="ml-auto text-[13px] text-faint">
                {a.intentTime && <When at={dateOf(a.intentTime)} exact />}
                {took !== undefined && <span className="num"> · {span(Math.max(0, took))}</span>}
              </span>
            </div>
            {a.detail && <p className="break-words whitespace-pre-wrap text-dim">{sentence(a.detail)}</p>}
            <dl className="grid gap-x-4 gap-y-0.5 text-[13px] sm:grid-cols-[9rem_minmax(0,1fr)]">
              <Row label="Request written">{a.requestWritten ? "A byte may have left" : a.outcome === AttemptOutcome.UNSPECIFIED || a.outcome === AttemptOutcome.UNKNOWN ? "Not known" : "No"}</Row>
              {a.failureKind !== FailureKind.UNSPECIFIED && <Row label="Failure">{failureWords(a.failureKind)}</Row>}
              {a.effectKey && <Row label="Effect key"><Copyable text={a.effectKey} /></Row>}
              {a.handle && <Row label="Handle"><Copyable text={a.handle} /></Row>}
              {!a.endTime && a.answerDeadline && <Row label="Answer until"><When at={dateOf(a.answerDeadline)} /></Row>}
              <Row label="Server">{a.worker}</Row>
              {a.traceId && <Row label="Trace"><Copyable text={a.traceId} /></Row>}
            </dl>
            {a.answer && (
              <details>
                <summary className="w-fit text-[13px] text-accent-text">The target's answer</summary>
                <div className="mt-2 space-y-2">
                  {a.answer.headers.length > 0 && (
                    <dl className="mono grid grid-cols-[auto_minmax(0,1fr)] gap-x-3 text-[13px]">
                      {a.answer.headers.map((h, i) => (
                        <Row key={i} label={h.name}>{h.value}</Row>
                      ))}
                    </dl>
                  )}
                  {a.answer.body ? <Code text={prettyJSON(a.answer.body) + (a.answer.bodyCut ? "\n… (cut)" : "")} /> : <p className="text-[13px] text-faint">{a.answer.bodyOmission ? "Its body is no text that can be shown." : "It had no body."}</p>}
                </div>
              </details>
            )}
          </li>
        );
      })}
    </ol>
  );
}

function Looks({ looks }: { looks: Observation[] }) {
  return (
    <ol className="divide-y">
      {looks.map((o) => {
        const { label, tone } = verdictWords(o.verdict);
        return (
          <li key={o.number} className="flex items-start gap-3 p-4">
            <Eye className="mt-1 size-4 shrink-0 text-faint" aria-hidden />
            <div className="min-w-0 flex-1 space-y-1">
              <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
                <span className="font-semibold">Look {o.number}</span>
                <Badge tone={tone}>{label}</Badge>
                {o.attempt > 0 && <span className="text-[13px] text-faint">for attempt {o.attempt}</span>}
                <span className="ml-auto text-[13px] text-faint">{o.time && <When at={dateOf(o.time)} exact />}</span>
              </div>
              {o.detail && <p className="break-words whitespace-pre-wrap text-dim">{sentence(o.detail)}</p>}
              {o.externalUrl && <SafeLink url={o.externalUrl} />}
              {!o.externalUrl && o.externalId && <Copyable text={o.externalId} />}
            </div>
          </li>
        );
      })}
    </ol>
  );
}

function History({ events }: { events: JobEvent[] }) {
  const now = useNow();
  return (
    <ol className="py-2">
      {[...events].reverse().map((e, i) => {
        if (e.event.case !== "jobChanged") return null;
        const c = e.event.value;
        const tone = toneOfChange(c);
        const at = e.eventTime && dateOf(e.eventTime);
        return (
          <li key={e.cursor || i} className="relative flex gap-3 px-4 py-2">
            <span className={cx("mt-[7px] size-2.5 shrink-0 rounded-full ring-4 ring-panel", toneSolid[tone])} aria-hidden />
            <div className="min-w-0 flex-1">
              <p className="flex flex-wrap items-baseline gap-x-2">
                <span className="font-medium">{causeWords(c.cause)}</span>
                {c.newState !== c.oldState && <span className="text-[13px] text-dim">{stateWords(c.newState).label}</span>}
                <span className="ml-auto text-[13px] text-faint" title={at ? fullTime(at) : ""}>{at && <When at={at} exact={now - at.getTime() > 60_000} />}</span>
              </p>
              {c.detail && <p className="break-words text-dim">{sentence(c.detail)}</p>}
              {c.reason && <p className="break-words whitespace-pre-wrap text-ink">“{c.reason}”</p>}
              <p className="text-[12.5px] text-faint">{c.actor.startsWith("api") ? `by ${actorWords(c.actor)}` : c.actor}</p>
            </div>
          </li>
        );
      })}
    </ol>
  );
}

function Row({ label, children }: { label: string; children: ReactNode }) {
  return (
    <>
      <dt className="text-faint">{label}</dt>
      <dd className="min-w-0 break-words">{children}</dd>
    </>
  );
}

function Facts({ job }: { job: Job }) {
  const at = job.scheduleTime && dateOf(job.scheduleTime);
  const zone = job.timeZone && isZone(job.timeZone) && job.timeZone !== ownZone ? job.timeZone : undefined;
  const policy = job.retryPolicy;
  return (
    <aside aria-label="Facts" className="card divide-y lg:sticky lg:top-5">
      {at && (
        <div className="p-4">
          <p className="text-[13px] text-faint">Scheduled for</p>
          <p className="num mt-0.5 text-[17px] font-semibold">{fullTime(at)}</p>
          <p className="text-[13px] text-dim">
            {cityOf(ownZone)} {offsetOf(at, ownZone)}, your time · <When at={at} />
          </p>
          {zone && (
            <p className="num mt-2 rounded-lg bg-sunken px-3 py-2">
              {fullTime(at, zone)}
              <span className="block text-[13px] text-dim">
                {cityOf(zone)} {offsetOf(at, zone)}, the job's zone
              </span>
            </p>
          )}
        </div>
      )}
      <dl className="grid grid-cols-[8rem_minmax(0,1fr)] gap-x-3 gap-y-2 p-4">
        <Row label="Connection">
          <Link to="/jobs" search={{ connection: job.connectionKey }} className="text-accent-text hover:underline">
            {job.connectionKey || "erased"}
          </Link>
        </Row>
        {job.scheduleKey && (
          <Row label="Schedule">
            <Link to="/jobs" search={{ schedule: job.scheduleKey }} className="text-accent-text hover:underline">
              {job.scheduleKey}
            </Link>
          </Row>
        )}
        <Row label="Target">
          <span title={classWords(job.effectClass).says} className="cursor-help underline decoration-dotted underline-offset-2">
            {classWords(job.effectClass).label}
          </span>
        </Row>
        <Row label="Delivery">
          {deliveryWords(job.delivery)}
          {job.delivery === Delivery.AT_LEAST_ONCE && <TriangleAlert className="ml-1 inline size-3.5 text-unknown" aria-label="May be duplicated" />}
        </Row>
        <Row label="Attempts">
          {job.attemptCount}
          {policy && policy.maxAttempts > 0 && <span className="text-faint"> · up to {policy.maxAttempts} without effect</span>}
        </Row>
        {job.startWindow && <Row label="May begin late">{span(secondsOf(job.startWindow))}</Row>}
        {job.startDeadline && <Row label="Begin until"><When at={dateOf(job.startDeadline)} /></Row>}
        {job.keepTryingTime && <Row label="Tried until"><When at={dateOf(job.keepTryingTime)} /></Row>}
        {policy?.keepTrying && !job.keepTryingTime && <Row label="Kept trying">{span(secondsOf(policy.keepTrying))}</Row>}
        {job.replyToJobId && (
          <Row label="Reply to">
            <Link to="/jobs/$jobId" params={{ jobId: job.replyToJobId }} className="text-accent-text hover:underline">
              another job
            </Link>
          </Row>
        )}
        {job.createTime && <Row label="Submitted"><When at={dateOf(job.createTime)} /></Row>}
        {job.endTime && <Row label="Ended"><When at={dateOf(job.endTime)} /></Row>}
      </dl>
      {Object.keys(job.labels).length > 0 && (
        <div className="p-4">
          <p className="mb-2 text-[13px] text-faint">{plural(Object.keys(job.labels).length, "label")}</p>
          <ul className="flex flex-wrap gap-1.5">
            {Object.entries(job.labels).map(([k, v]) => (
              <li key={k} className="max-w-full">
                <Link to="/jobs" search={{ label: `${k}=${v}` }} className="mono inline-block max-w-full truncate rounded-md bg-sunken px-2 py-0.5 hover:bg-accent-soft hover:text-accent-text">
                  {k}={v}
                </Link>
              </li>
            ))}
          </ul>
        </div>
      )}
      <dl className="grid grid-cols-[8rem_minmax(0,1fr)] gap-x-3 gap-y-2 p-4 text-[13px]">
        <Row label="Job's id"><Copyable text={job.jobId} /></Row>
        <Row label="Events">{String(job.sequence)}</Row>
        {job.effectKey && <Row label="Effect key"><Copyable text={job.effectKey} /></Row>}
        {job.keyExpireTime && <Row label="Key kept until"><When at={dateOf(job.keyExpireTime)} exact /></Row>}
      </dl>
    </aside>
  );
}

