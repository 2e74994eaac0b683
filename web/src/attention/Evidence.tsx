import { useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { JobState } from "@gen/v1/job_pb.js";
import { JobService } from "@gen/v1/job_service_pb.js";
import { faultOf, sentence } from "@/api/errors";
import { useMay } from "@/api/session";
import { ActionDialog } from "@/job/actions";
import { PayloadView } from "@/job/PayloadView";
import { Badge } from "@/jobs/StateBadge";
import { failureWords, verdictWords } from "@/jobs/words";
import { Button, Copyable, Notice, Skeleton, When } from "@/ui/basics";
import { dateOf } from "@/ui/format";
import { SafeLink } from "@/ui/SafeLink";

// Rules of this file: what was to be sent stands beside what is known of it, and a person compares. The looks are the
// newest first: each may have seen another object.

const most = 5;

/** One job of an incident: its content, and what was seen of it. It can be decided alone. */
export default function Evidence({ jobId }: { jobId: string }) {
  const may = useMay();
  const by = { job: { case: "jobId" as const, value: jobId } };
  const read = useQuery(JobService.method.getJob, by);
  const looks = useQuery(JobService.method.listJobObservations, { ...by, pageSize: 100 });
  const [deciding, setDeciding] = useState(false);
  const job = read.data?.job;
  if (read.error)
    return (
      <div className="px-5 pb-4">
        <Notice kind="bad">{faultOf(read.error).text}</Notice>
      </div>
    );
  if (!job || looks.isPending) return <Skeleton rows={2} className="px-5 pb-4" />;
  const seen = [...(looks.data?.observations ?? [])].reverse().slice(0, most);
  const open = job.state === JobState.NEEDS_RESOLUTION || job.state === JobState.AMBIGUOUS;
  const last = job.lastAttempt;
  return (
    <div className="grid gap-3 px-5 pt-1 pb-4 md:grid-cols-2">
      <section className="min-w-0 overflow-hidden rounded-xl border bg-panel" aria-label="What was to be sent">
        <h3 className="border-b px-4 py-2.5 text-[13px] font-semibold">What was to be sent</h3>
        <PayloadView payload={job.payload} withheld={job.contentWithheld} account={job.connectionKey} />
      </section>
      <section className="flex min-w-0 flex-col overflow-hidden rounded-xl border bg-panel" aria-label="What is known of it">
        <h3 className="border-b px-4 py-2.5 text-[13px] font-semibold">What is known of it</h3>
        <ol className="flex-1 divide-y">
          {seen.map((o) => {
            const { label, tone } = verdictWords(o.verdict);
            return (
              <li key={o.number} className="space-y-1 px-4 py-3">
                <p className="flex flex-wrap items-center gap-2">
                  <Badge tone={tone}>{label}</Badge>
                  <span className="ml-auto text-[13px] text-faint">
                    look {o.number} {o.time && <When at={dateOf(o.time)} />}
                  </span>
                </p>
                {o.detail && <p className="break-words whitespace-pre-wrap text-dim">{sentence(o.detail)}</p>}
                {o.externalUrl ? <SafeLink url={o.externalUrl} /> : o.externalId && <Copyable text={o.externalId} />}
              </li>
            );
          })}
          {last && (
            <li className="space-y-1 px-4 py-3">
              <p className="flex flex-wrap items-center gap-2">
                <span className="font-medium">Attempt {last.number}</span>
                <span className="ml-auto text-[13px] text-faint">{last.intentTime && <When at={dateOf(last.intentTime)} />}</span>
              </p>
              <p className="break-words whitespace-pre-wrap text-dim">{last.detail ? sentence(last.detail) : failureWords(last.failureKind)}</p>
            </li>
          )}
          {seen.length === 0 && <li className="px-4 py-3 text-dim">There was no look at the target.</li>}
        </ol>
        {open && may("jobs:resolve") && (
          <p className="border-t px-4 py-2.5">
            <Button size="sm" onClick={() => setDeciding(true)}>
              Decide this one
            </Button>
          </p>
        )}
      </section>
      {deciding && <ActionDialog action="resolve" job={job} onClose={() => setDeciding(false)} />}
    </div>
  );
}
