import {
  CalendarClock,
  CircleCheck,
  CircleDashed,
  CircleHelp,
  CircleSlash,
  CircleX,
  Hourglass,
  RefreshCw,
  Search,
  Send,
  TimerOff,
  type LucideIcon,
} from "lucide-react";
import { EventCause } from "@gen/v1/event_pb.js";
import {
  AttemptOutcome,
  ConnectionStateCause,
  Delivery,
  EffectClass,
  Effect_Proof,
  FailureKind,
  JobState,
  Observation_Verdict,
  Phase,
  Resolution_Decision,
  type Job,
} from "@gen/v1/job_pb.js";

// The words and colours of the contract's values. A value that is newer than this page shows as its number's name.

export type Tone = "wait" | "run" | "unknown" | "good" | "bad" | "off";

export const toneText: Record<Tone, string> = {
  wait: "text-wait",
  run: "text-run",
  unknown: "text-unknown",
  good: "text-good",
  bad: "text-bad",
  off: "text-off",
};
export const toneSoft: Record<Tone, string> = {
  wait: "bg-wait-soft text-wait",
  run: "bg-run-soft text-run",
  unknown: "bg-unknown-soft text-unknown",
  good: "bg-good-soft text-good",
  bad: "bg-bad-soft text-bad",
  off: "bg-off-soft text-off",
};
export const toneSolid: Record<Tone, string> = {
  wait: "bg-wait",
  run: "bg-run",
  unknown: "bg-unknown",
  good: "bg-good",
  bad: "bg-bad",
  off: "bg-off",
};

export interface StateWords {
  label: string;
  tone: Tone;
  icon: LucideIcon;
  says: string;
}

const states: Partial<Record<JobState, StateWords>> = {
  [JobState.SCHEDULED]: { label: "Scheduled", tone: "wait", icon: CalendarClock, says: "Waits for its time. Nothing was sent." },
  [JobState.CLAIMED]: { label: "Claimed", tone: "run", icon: CircleDashed, says: "A server prepares it. Nothing was sent yet." },
  [JobState.SENDING]: { label: "Sending", tone: "run", icon: Send, says: "The request is on its way. The effect may or may not exist." },
  [JobState.ACCEPTED]: { label: "Accepted", tone: "run", icon: Hourglass, says: "The platform took it and still works on it. It is not sent again." },
  [JobState.AMBIGUOUS]: { label: "Looking", tone: "unknown", icon: Search, says: "No proof either way yet. Fireonce looks for the effect." },
  [JobState.RETRYING]: { label: "Retrying", tone: "wait", icon: RefreshCw, says: "Earlier attempts had no effect. Waits for the next one." },
  [JobState.NEEDS_RESOLUTION]: { label: "Needs you", tone: "unknown", icon: CircleHelp, says: "No proof can be had. A person decides." },
  [JobState.SUCCEEDED]: { label: "Succeeded", tone: "good", icon: CircleCheck, says: "The effect exists." },
  [JobState.FAILED]: { label: "Failed", tone: "bad", icon: CircleX, says: "No effect, and no further attempt." },
  [JobState.CANCELED]: { label: "Canceled", tone: "off", icon: CircleSlash, says: "Not wanted any more. No effect." },
  [JobState.EXPIRED]: { label: "Expired", tone: "bad", icon: TimerOff, says: "Its start window passed before it began. No effect." },
};

export function stateWords(state: JobState): StateWords {
  return states[state] ?? { label: nameOf(JobState, state), tone: "off", icon: CircleDashed, says: "" };
}

/** Every state, in the order of a job's way. */
export const allStates = [
  JobState.SCHEDULED,
  JobState.RETRYING,
  JobState.CLAIMED,
  JobState.SENDING,
  JobState.ACCEPTED,
  JobState.AMBIGUOUS,
  JobState.NEEDS_RESOLUTION,
  JobState.SUCCEEDED,
  JobState.FAILED,
  JobState.EXPIRED,
  JobState.CANCELED,
] as const;

export const phases: { phase: Phase; label: string; tone: Tone }[] = [
  { phase: Phase.WAITING, label: "Waiting", tone: "wait" },
  { phase: Phase.RUNNING, label: "Running", tone: "run" },
  { phase: Phase.UNKNOWN, label: "Unknown", tone: "unknown" },
  { phase: Phase.ENDED, label: "Ended", tone: "good" },
];

export function hasEnded(job: Job): boolean {
  return job.phase === Phase.ENDED;
}

/** "Idempotency key reused" of IDEMPOTENCY_KEY_REUSED. */
export function nameOf(values: Record<number, string> | object, value: number): string {
  const name = (values as Record<number, string>)[value];
  if (!name) return `Value ${value}`;
  const words = name.toLowerCase().replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

export const causeWords = (c: EventCause): string =>
  ({
    [EventCause.SUBMITTED]: "Scheduled",
    [EventCause.UPDATED]: "Changed",
    [EventCause.RESCHEDULED]: "Moved in time",
    [EventCause.RUN_NOW]: "Made due now",
    [EventCause.CANCEL_REQUESTED]: "Cancel requested",
    [EventCause.RETRY_REQUESTED]: "Retry requested",
    [EventCause.RESOLVED]: "Decided by a person",
    [EventCause.CLAIMED]: "Claimed by a server",
    [EventCause.INTENT_STORED]: "Intent stored, request goes out",
    [EventCause.ANSWERED]: "Answered",
    [EventCause.NOT_STARTED]: "Not started",
    [EventCause.LEASE_EXPIRED]: "Server did not get to it",
    [EventCause.SENDER_LOST]: "Server lost",
    [EventCause.ANSWER_OVERDUE]: "No answer in time",
    [EventCause.WINDOW_OVER]: "Start window passed",
    [EventCause.PREDECESSOR_ENDED]: "The job before it ended",
    [EventCause.LOOKED]: "Looked for the effect",
    [EventCause.POLLED]: "Asked the platform",
    [EventCause.POLICY]: "Decided by its delivery",
    [EventCause.LATE_EVIDENCE]: "Late answer",
    [EventCause.ALREADY_PRESENT]: "Content was there already",
    [EventCause.DUPLICATE_EFFECT_SEEN]: "A second effect was seen",
    [EventCause.EFFECT_SHARED]: "Effect shared with another job",
    [EventCause.RESTORED]: "Database restored",
  } as Partial<Record<EventCause, string>>)[c] ?? nameOf(EventCause, c);

export const outcomeWords = (o: AttemptOutcome): { label: string; tone: Tone } =>
  ({
    [AttemptOutcome.UNSPECIFIED]: { label: "Under way", tone: "run" as Tone },
    [AttemptOutcome.SUCCEEDED]: { label: "Confirmed", tone: "good" as Tone },
    [AttemptOutcome.REJECTED]: { label: "Refused, no effect", tone: "bad" as Tone },
    [AttemptOutcome.NOT_SENT]: { label: "Nothing was sent", tone: "off" as Tone },
    [AttemptOutcome.UNKNOWN]: { label: "Unknown", tone: "unknown" as Tone },
    [AttemptOutcome.ACCEPTED]: { label: "Accepted", tone: "run" as Tone },
    [AttemptOutcome.SUPERSEDED]: { label: "Settled another way", tone: "off" as Tone },
    [AttemptOutcome.ABSENT]: { label: "Proven absent", tone: "off" as Tone },
  } as Partial<Record<AttemptOutcome, { label: string; tone: Tone }>>)[o] ?? { label: nameOf(AttemptOutcome, o), tone: "off" };

export const verdictWords = (v: Observation_Verdict): { label: string; tone: Tone } =>
  ({
    [Observation_Verdict.PRESENT]: { label: "Found", tone: "good" as Tone },
    [Observation_Verdict.ABSENT]: { label: "Nothing found", tone: "off" as Tone },
    [Observation_Verdict.INCONCLUSIVE]: { label: "Could not tell", tone: "unknown" as Tone },
    [Observation_Verdict.CANDIDATES]: { label: "Several candidates", tone: "unknown" as Tone },
    [Observation_Verdict.HANDLE]: { label: "Handle known", tone: "run" as Tone },
  } as Partial<Record<Observation_Verdict, { label: string; tone: Tone }>>)[v] ?? { label: nameOf(Observation_Verdict, v), tone: "off" };

export const proofWords = (p: Effect_Proof): string =>
  ({
    [Effect_Proof.RESPONSE]: "The platform answered the request itself.",
    [Effect_Proof.OBSERVED]: "A look at the platform found it.",
    [Effect_Proof.KEY_REPLAY]: "A repeat under the same key was confirmed.",
    [Effect_Proof.OPERATOR]: "A person decided so.",
    [Effect_Proof.ASSUMED]: "No proof: its delivery treats it as sent.",
  } as Partial<Record<Effect_Proof, string>>)[p] ?? nameOf(Effect_Proof, p);

export const classWords = (c: EffectClass): { label: string; says: string } =>
  ({
    [EffectClass.KEYED]: { label: "Keyed", says: "The target drops repeats of a key, so an unknown outcome is settled by sending again." },
    [EffectClass.HANDLE]: { label: "Handle", says: "The platform hands out a handle first; one request commits it." },
    [EffectClass.OBSERVABLE]: { label: "Observable", says: "The effect can be looked up on the platform." },
    [EffectClass.OPAQUE]: { label: "Opaque", says: "Nothing can be looked up: an unknown outcome waits for a person, or its delivery decides." },
  } as Partial<Record<EffectClass, { label: string; says: string }>>)[c] ?? { label: nameOf(EffectClass, c), says: "" };

export const deliveryWords = (d: Delivery): string =>
  ({
    [Delivery.UNSPECIFIED]: "Once, or ask",
    [Delivery.ONCE_OR_ASK]: "Once, or ask",
    [Delivery.AT_MOST_ONCE]: "At most once",
    [Delivery.AT_LEAST_ONCE]: "At least once",
  } as Partial<Record<Delivery, string>>)[d] ?? nameOf(Delivery, d);

export const failureWords = (k: FailureKind): string =>
  ({
    [FailureKind.AUTH]: "Credential refused",
    [FailureKind.PERMANENT]: "Refused",
    [FailureKind.RATE_LIMITED]: "Rate limited",
    [FailureKind.EGRESS_DENIED]: "Address not allowed",
    [FailureKind.TRANSIENT]: "Failed without effect",
    [FailureKind.AMBIGUOUS]: "Outcome unknown",
    [FailureKind.ATTEMPTS_EXHAUSTED]: "Attempts used up",
    [FailureKind.EXPIRED]: "Too late to start",
    [FailureKind.WORKER_CRASH]: "Servers lost it repeatedly",
    [FailureKind.PREDECESSOR_ENDED]: "The job before it ended",
    [FailureKind.ALREADY_PRESENT]: "Content was there already",
  } as Partial<Record<FailureKind, string>>)[k] ?? nameOf(FailureKind, k);

export const decisionWords = (d: Resolution_Decision): { label: string; says: string; risk: string } =>
  ({
    [Resolution_Decision.SENT]: {
      label: "It was sent",
      says: "The effect exists. The job succeeds.",
      risk: "If you are wrong, the effect is missing, and nobody sends it.",
    },
    [Resolution_Decision.NOT_SENT]: {
      label: "It was not sent",
      says: "The effect does not exist, and must not be sent any more. The job fails.",
      risk: "If you are wrong, the effect exists although the job says that it failed.",
    },
    [Resolution_Decision.RESEND]: {
      label: "Send it again",
      says: "The effect does not exist. It is sent again under a new key.",
      risk: "If you are wrong, the effect exists twice.",
    },
    [Resolution_Decision.CANCEL]: {
      label: "Cancel it",
      says: "The effect does not exist, and is no longer wanted. The job is canceled.",
      risk: "If you are wrong, the effect exists although the job says that it was canceled.",
    },
  } as Partial<Record<Resolution_Decision, { label: string; says: string; risk: string }>>)[d] ?? { label: nameOf(Resolution_Decision, d), says: "", risk: "" };

export const connectionCauseWords = (c: ConnectionStateCause): string => nameOf(ConnectionStateCause, c);

/** "api" without keys, the name of a key, or the process of the service. */
export function actorWords(actor: string): string {
  if (actor === "api") return "a client";
  if (actor === "api:key") return "the operator's key";
  const named = /^api:(.+)\/[0-9a-f]{16}$/.exec(actor);
  return named?.[1] ?? actor.replace(/^api:/, "key ");
}
