import { useSyncExternalStore } from "react";
import type { JobChanged } from "@gen/v1/event_pb.js";
import type { Job } from "@gen/v1/job_pb.js";
import type { FeedStatus } from "./feed";

// Rules of this file: the newest that the stream said of each job lies over what lists were answered.
//   - A job replaces an older one alone, by its sequence, so it does not matter which of list and stream came first.
//   - The memory is bounded. Where it is full it is emptied, and lists are read anew.

const mostJobs = 4_000;

/** What the stream has said, of all pages of the tab. */
export class LiveStore {
  private jobs = new Map<string, Job>();
  private listeners = new Set<() => void>();
  private byJob = new Map<string, Set<(change: JobChanged) => void>>();
  private all = new Set<(changes: JobChanged[]) => void>();
  private version = 0;
  private current: FeedStatus = { kind: "connecting" };

  /** Takes changes over; true if the memory was full, and lists have to be read anew. */
  take(changes: JobChanged[]): boolean {
    for (const c of changes) {
      const known = this.jobs.get(c.jobId);
      if (c.job && (!known || known.sequence <= c.job.sequence)) this.jobs.set(c.jobId, c.job);
      this.byJob.get(c.jobId)?.forEach((then) => then(c));
    }
    const full = this.jobs.size > mostJobs;
    if (full) this.jobs.clear();
    this.all.forEach((then) => then(changes));
    this.publish();
    return full;
  }

  clear() {
    this.jobs.clear();
    this.publish();
  }

  setStatus(status: FeedStatus) {
    this.current = status;
    this.publish();
  }

  get status(): FeedStatus {
    return this.current;
  }

  /** The newest of the two. */
  newest(job: Job): Job {
    const live = this.jobs.get(job.jobId);
    return live && live.sequence > job.sequence ? live : job;
  }

  /** Takes over what a call has answered: the page shows it before the stream says it. */
  put(job: Job) {
    const known = this.jobs.get(job.jobId);
    if (!known || known.sequence < job.sequence) this.jobs.set(job.jobId, job);
    this.publish();
  }

  values(): IterableIterator<Job> {
    return this.jobs.values();
  }

  onJob(jobId: string, then: (change: JobChanged) => void): () => void {
    const set = this.byJob.get(jobId) ?? new Set();
    this.byJob.set(jobId, set.add(then));
    return () => {
      set.delete(then);
      if (set.size === 0) this.byJob.delete(jobId);
    };
  }

  onChanges(then: (changes: JobChanged[]) => void): () => void {
    this.all.add(then);
    return () => void this.all.delete(then);
  }

  subscribe = (then: () => void): (() => void) => {
    this.listeners.add(then);
    return () => void this.listeners.delete(then);
  };

  snapshot = (): number => this.version;

  private publish() {
    this.version++;
    this.listeners.forEach((then) => then());
  }
}

export const live = new LiveStore();

/** Renders again when the stream has said something. */
export function useLive(): LiveStore {
  useSyncExternalStore(live.subscribe, live.snapshot);
  return live;
}

/** Renders again when the stream's status changes. */
export function useFeedStatus(): FeedStatus {
  return useSyncExternalStore(live.subscribe, () => live.status);
}
