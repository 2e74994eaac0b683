import { ChevronRight } from "lucide-react";
import type { JobChanged, JobEvent } from "@gen/v1/event_pb.js";
import { JobState, Phase, type Job } from "@gen/v1/job_pb.js";
import { stateWords, toneSoft, toneText, type Tone } from "@/jobs/words";
import { cx } from "@/ui/basics";
import { clockTime, dateOf, fullTime, span } from "@/ui/format";
import { useNow } from "@/ui/now";

interface Stay {
  state: JobState;
  from: Date;
  /** How many events it had here. */
  events: number;
}

/** The states that a job went through, with how long it stayed, and where it may go from here. */
export function Way({ job, events }: { job: Job; events: JobEvent[] }) {
  const now = useNow();
  const stays = staysOf(events);
  if (stays.length === 0 && job.createTime) stays.push({ state: job.state, from: dateOf(job.createTime), events: 1 });
  const last = stays.at(-1);
  const ended = job.phase === Phase.ENDED;
  return (
    <ol aria-label="The job's way" className="flex max-h-80 flex-wrap items-stretch gap-x-1 gap-y-2 overflow-y-auto">
      {stays.map((stay, i) => {
        const { label, tone, icon: Icon, says } = stateWords(stay.state);
        const until = stays[i + 1]?.from;
        const current = i === stays.length - 1;
        const seconds = ((until?.getTime() ?? now) - stay.from.getTime()) / 1000;
        return (
          <li key={i} className="flex shrink-0 items-center gap-1" {...(current ? { "aria-current": "step" as const } : {})}>
            {i > 0 && <ChevronRight className="size-4 text-faint" aria-hidden />}
            <div title={`${says}\n${fullTime(stay.from)}`} className={cx("min-w-28 rounded-xl border px-3 py-2.5", current ? cx(toneSoft[tone], "border-current/25") : "border-line")}>
              <p className={cx("flex items-center gap-1.5 font-semibold", !current && toneText[tone])}>
                <Icon className={cx("size-4", current && !ended && "breathe")} aria-hidden />
                {label}
              </p>
              <p className={cx("num mt-1 text-[12.5px]", !current && "text-faint")}>
                {clockTime(stay.from)}
                {(until || !ended) && seconds >= 0 && <> · {span(seconds)}</>}
              </p>
            </div>
          </li>
        );
      })}
      {!ended && last && (
        <li className="flex shrink-0 items-center gap-1 text-faint">
          <ChevronRight className="size-4" aria-hidden />
          <span className="rounded-xl border border-dashed px-3 py-2.5 text-[13px]">
            Then {next(last.state).map((s) => stateWords(s).label.toLowerCase()).join(", ")}
          </span>
        </li>
      )}
    </ol>
  );
}

function staysOf(events: JobEvent[]): Stay[] {
  const out: Stay[] = [];
  for (const e of events) {
    if (e.event.case !== "jobChanged" || !e.eventTime) continue;
    const change = e.event.value;
    const here = out.at(-1);
    if (here?.state === change.newState) here.events++;
    else out.push({ state: change.newState, from: dateOf(e.eventTime), events: 1 });
  }
  return out;
}

/** Where a job usually goes from a state. */
function next(state: JobState): JobState[] {
  switch (state) {
    case JobState.SCHEDULED:
    case JobState.RETRYING:
      return [JobState.CLAIMED];
    case JobState.CLAIMED:
      return [JobState.SENDING];
    case JobState.SENDING:
      return [JobState.SUCCEEDED, JobState.RETRYING, JobState.AMBIGUOUS];
    case JobState.ACCEPTED:
      return [JobState.SUCCEEDED, JobState.FAILED];
    case JobState.AMBIGUOUS:
      return [JobState.SUCCEEDED, JobState.RETRYING, JobState.NEEDS_RESOLUTION];
    default:
      return [JobState.SUCCEEDED, JobState.RETRYING, JobState.FAILED, JobState.CANCELED];
  }
}

export function toneOfChange(change: JobChanged): Tone {
  return change.newState === change.oldState ? "off" : stateWords(change.newState).tone;
}
