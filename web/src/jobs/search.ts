import type { MessageInitShape } from "@bufbuild/protobuf";
import { FailureKind, JobState, Phase, type Job } from "@gen/v1/job_pb.js";
import { JobFilterSchema } from "@gen/v1/job_filter_pb.js";
import { JobOrder } from "@gen/v1/job_service_pb.js";
import { dateOf, timestampOf } from "@/ui/format";

// Rules of this file: the address of the page is the view. Everything that a list shows is in its query, in words
// that a person can type, so a saved view is a bookmark.

/** The query of the list of jobs. */
export interface JobSearch {
  /** Names of states: "needs-resolution,failed". */
  state?: string;
  phase?: string;
  /** Keys of connections. */
  connection?: string;
  /** An account, or scheme, host and port, as an incident has it. One alone: it may have commas. */
  destination?: string;
  schedule?: string;
  /** What a person typed: a job's id, the beginning of a key, or *text* in the middle of it. */
  q?: string;
  /** "team=growth,tier=1" */
  label?: string;
  error?: string;
  recipient?: string;
  /** Of schedule_time, as dates of the viewer: "2026-11-27" or "2026-11-27T10:00". */
  from?: string;
  to?: string;
  sort?: "soonest" | "latest" | "created";
}

const keys = ["state", "phase", "connection", "destination", "schedule", "q", "label", "error", "recipient", "from", "to", "sort"] as const;

/** Reads a query: what is no text is left out. */
export function parseJobSearch(raw: Record<string, unknown>): JobSearch {
  const out: Record<string, string> = {};
  for (const key of keys) {
    const value = raw[key];
    if ((typeof value === "string" || typeof value === "number") && value !== "") out[key] = String(value);
  }
  return out;
}

const kebab = (name: string) => name.toLowerCase().replaceAll("_", "-");

export const stateName = (s: JobState) => kebab(JobState[s] ?? "");
export const phaseName = (p: Phase) => kebab(Phase[p] ?? "");
export const failureName = (k: FailureKind) => kebab(FailureKind[k] ?? "");

function valuesOf<T extends number>(values: object, text: string | undefined): T[] {
  return list(text)
    .map((name) => (values as Record<string, T>)[name.toUpperCase().replaceAll("-", "_")])
    .filter((v): v is T => typeof v === "number" && v !== 0);
}

export const list = (text: string | undefined): string[] => (text ?? "").split(",").filter(Boolean);

/** The values of a list with one of them turned on or off. */
export function toggle(text: string | undefined, value: string): string | undefined {
  const all = list(text);
  const next = all.includes(value) ? all.filter((v) => v !== value) : [...all, value];
  return next.join(",") || undefined;
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

function labelsOf(text: string | undefined): Record<string, string> {
  return Object.fromEntries(
    list(text)
      .map((pair) => pair.split("="))
      .filter(([name]) => name)
      .map(([name, ...value]) => [name!, value.join("=")]),
  );
}

function moment(text: string | undefined, endOfDay: boolean): Date | undefined {
  if (!text) return undefined;
  const onlyDate = /^\d{4}-\d{2}-\d{2}$/.test(text);
  const d = new Date(onlyDate ? `${text}T00:00` : text);
  if (Number.isNaN(d.getTime())) return undefined;
  if (onlyDate && endOfDay) d.setDate(d.getDate() + 1);
  return d;
}

/** The request's filter. */
export function filterOf(search: JobSearch): MessageInitShape<typeof JobFilterSchema> {
  const q = search.q?.trim() ?? "";
  const middle = /^\*(.{3,})\*?$/.exec(q);
  const from = moment(search.from, false);
  const to = moment(search.to, true);
  return {
    states: valuesOf<JobState>(JobState, search.state),
    phases: valuesOf<Phase>(Phase, search.phase),
    errorKinds: valuesOf<FailureKind>(FailureKind, search.error),
    connectionKeys: list(search.connection),
    labels: labelsOf(search.label),
    ...(search.destination ? { destinations: [search.destination] } : {}),
    ...(search.schedule ? { scheduleKey: search.schedule } : {}),
    ...(search.recipient ? { recipient: search.recipient } : {}),
    ...(uuid.test(q) ? { jobIds: [q.toLowerCase()] } : middle ? { idempotencyKeyText: middle[1]!.replace(/\*$/, "") } : q ? { idempotencyKeyPrefix: q } : {}),
    ...(from ? { scheduleTimeFrom: timestampOf(from) } : {}),
    ...(to ? { scheduleTimeBefore: timestampOf(to) } : {}),
  };
}

export function orderOf(search: JobSearch): JobOrder {
  if (search.sort === "soonest") return JobOrder.SCHEDULE_TIME_ASC;
  if (search.sort === "created") return JobOrder.CREATE_TIME_DESC;
  return JobOrder.SCHEDULE_TIME_DESC;
}

/** Compares two jobs as the server orders them. */
export function compare(order: JobOrder): (a: Job, b: Job) => number {
  const at = (t: Job["scheduleTime"]) => (t ? t.seconds * 1_000_000_000n + BigInt(t.nanos) : 0n);
  const by = order === JobOrder.CREATE_TIME_DESC ? (j: Job) => at(j.createTime) : (j: Job) => at(j.scheduleTime);
  const sign = order === JobOrder.SCHEDULE_TIME_ASC ? 1 : -1;
  return (a, b) => {
    const [x, y] = [by(a), by(b)];
    if (x !== y) return x < y ? -sign : sign;
    return a.jobId < b.jobId ? -sign : a.jobId > b.jobId ? sign : 0;
  };
}

/** Reports whether a job fits a query; undefined: only the server can tell. */
export function matches(search: JobSearch, job: Job): boolean | undefined {
  const states = valuesOf<JobState>(JobState, search.state);
  const phases = valuesOf<Phase>(Phase, search.phase);
  const errors = valuesOf<FailureKind>(FailureKind, search.error);
  const connections = list(search.connection);
  const q = search.q?.trim() ?? "";
  if (states.length && !states.includes(job.state)) return false;
  if (phases.length && !phases.includes(job.phase)) return false;
  if (errors.length && !errors.includes(job.lastError?.kind ?? 0)) return false;
  if (connections.length && !connections.includes(job.connectionKey)) return false;
  if (search.schedule && job.scheduleKey !== search.schedule) return false;
  if (Object.entries(labelsOf(search.label)).some(([name, value]) => job.labels[name] !== value)) return false;
  const from = moment(search.from, false);
  const to = moment(search.to, true);
  const at = job.scheduleTime ? dateOf(job.scheduleTime).getTime() : 0;
  if (from && at < from.getTime()) return false;
  if (to && at >= to.getTime()) return false;
  if (q) {
    const middle = /^\*(.{3,})\*?$/.exec(q);
    if (uuid.test(q)) {
      if (job.jobId !== q.toLowerCase()) return false;
    } else if (middle) {
      if (!job.idempotencyKey.includes(middle[1]!.replace(/\*$/, ""))) return false;
    } else if (!job.idempotencyKey.startsWith(q)) return false;
  }
  return search.recipient || search.destination ? undefined : true;
}

/** Reports whether a query selects at all. */
export function selects(search: JobSearch): boolean {
  return keys.some((key) => key !== "sort" && search[key]);
}
