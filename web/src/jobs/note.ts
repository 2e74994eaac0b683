import { BlockedReason_Kind, JobState, type Job } from "@gen/v1/job_pb.js";
import { sentence } from "@/api/errors";
import { dateOf } from "@/ui/format";
import { decisionWords, failureWords } from "./words";

/** What is going on with a job, in a line, and the time that it is about. */
export function jobNote(job: Job): { text: string; at?: Date } {
  const next = job.nextAttemptTime && dateOf(job.nextAttemptTime);
  const look = job.nextLookTime && dateOf(job.nextLookTime);
  const ended = job.endTime && dateOf(job.endTime);
  const error = job.lastError ? sentence(job.lastError.message || failureWords(job.lastError.kind)) : "";
  if (job.blockedReason && job.blockedReason.kind !== BlockedReason_Kind.UNSPECIFIED)
    return { text: job.blockedReason.message, at: job.blockedReason.endTime && dateOf(job.blockedReason.endTime) };
  switch (job.state) {
    case JobState.SCHEDULED:
      return { text: "", at: next };
    case JobState.RETRYING:
      return { text: error ? `Attempt ${job.attemptCount + 1} next. ${error}` : `Attempt ${job.attemptCount + 1} next`, at: next };
    case JobState.AMBIGUOUS:
      return { text: error || "Looking for the effect", at: look };
    case JobState.ACCEPTED:
      return { text: "The platform works on it", at: look };
    case JobState.NEEDS_RESOLUTION:
      return { text: error || "No proof either way", at: job.updateTime && dateOf(job.updateTime) };
    case JobState.SUCCEEDED:
      return { text: job.resolution ? `${decisionWords(job.resolution.decision).label}: ${job.resolution.note}` : (job.effect?.externalUrl || job.effect?.externalId || ""), at: ended };
    case JobState.FAILED:
    case JobState.EXPIRED:
    case JobState.CANCELED:
      return { text: job.resolution?.note || error, at: ended };
    default:
      return { text: "", at: job.updateTime && dateOf(job.updateTime) };
  }
}
