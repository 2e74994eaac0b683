import type { Client } from "@connectrpc/connect";
import { Code, ConnectError } from "@connectrpc/connect";
import type { JobChanged } from "@gen/v1/event_pb.js";
import type { JobService } from "@gen/v1/job_service_pb.js";

// Rules of this file: a tab has one stream of events, whatever its pages show.
//   - The stream goes on after the last event that was handed over. So an event is neither lost nor handed over
//     twice, over broken connections, sleep and restarts of the server.
//   - If the log does not go back to there, or the database is another one, the subscriber is told to read anew.
//   - Silence beyond two heartbeats is a broken connection, whatever TCP says.

/** What the page knows of its stream. */
export type FeedStatus =
  /** Events arrive. */
  | { kind: "live"; since: number }
  /** The first answer is awaited. */
  | { kind: "connecting" }
  /** The connection broke, and is tried again. What is shown may be old since then. */
  | { kind: "broken"; since: number; why: string; nextTry: number }
  /** The caller may not read events, so nothing is tried. */
  | { kind: "refused"; why: string; signedOut: boolean }
  | { kind: "off" };

export interface FeedListener {
  /** Changes, oldest first. A later one of a job has a higher sequence. */
  changed(changes: JobChanged[]): void;
  /** Everything that was read before may be old. */
  reset(): void;
  status(status: FeedStatus): void;
}

/** A heartbeat comes every 15 s. */
const silence = 40_000;
/** After that long without a word, a machine that wakes up does not wait for the rest. */
const doubtful = 20_000;
const firstWait = 500;
const longestWait = 15_000;
/** Events are handed over together, so that a flood costs one rendering. */
const gather = 120;
/** More than that are handed over without waiting. */
const gatherMost = 500;

/** Follows the events of a project. */
export class Feed {
  private cursor: string | undefined;
  private stop = new AbortController();
  private stream: AbortController | undefined;
  private wake: (() => void) | undefined;
  private pending: JobChanged[] = [];
  private pendingTimer: ReturnType<typeof setTimeout> | undefined;
  private brokenSince: number | undefined;
  private heard = 0;

  constructor(
    private readonly jobs: Client<typeof JobService>,
    private readonly listener: FeedListener,
  ) {}

  start() {
    void this.run();
  }

  close() {
    this.stop.abort();
    this.stream?.abort();
    clearTimeout(this.pendingTimer);
    this.listener.status({ kind: "off" });
  }

  /** Tries at once: the machine woke up, or the network is back. */
  hurry() {
    this.wake?.();
    if (this.heard > 0 && Date.now() - this.heard > doubtful) this.stream?.abort();
  }

  private async run() {
    let wait = firstWait;
    this.listener.status({ kind: "connecting" });
    while (!this.stop.signal.aborted) {
      try {
        await this.follow(() => (wait = firstWait));
        continue; // the server ended it: the next one goes on
      } catch (error) {
        if (this.stop.signal.aborted) return;
        const e = ConnectError.from(error);
        if (e.code === Code.PermissionDenied || e.code === Code.Unauthenticated) {
          this.listener.status({ kind: "refused", why: e.rawMessage, signedOut: e.code === Code.Unauthenticated });
          return;
        }
        if (e.code === Code.OutOfRange || (e.code === Code.InvalidArgument && this.cursor !== undefined)) {
          this.cursor = undefined; // the log has no such place any more
          this.listener.reset();
        }
        this.brokenSince ??= Date.now();
        const pause = wait * (0.75 + Math.random() / 2);
        this.listener.status({ kind: "broken", since: this.brokenSince, why: plain(e), nextTry: Date.now() + pause });
        await this.sleep(pause);
        wait = Math.min(wait * 2, longestWait);
      }
    }
  }

  /** One stream, until it ends or breaks. */
  private async follow(arrived: () => void) {
    const stream = new AbortController();
    this.stream = stream;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const alive = () => {
      this.heard = Date.now();
      clearTimeout(timer);
      timer = setTimeout(() => stream.abort(new Error("nothing was heard")), silence);
    };
    alive();
    try {
      const first = this.cursor === undefined;
      const messages = this.jobs.streamJobEvents(
        { includeJob: true, start: this.cursor === undefined ? { case: "fromNow", value: true } : { case: "afterCursor", value: this.cursor } },
        { signal: stream.signal, timeoutMs: 16 * 60_000 },
      );
      let fresh = true;
      for await (const { event } of messages) {
        alive();
        if (!event) continue;
        if (fresh) {
          fresh = false;
          arrived();
          this.brokenSince = undefined;
          this.listener.status({ kind: "live", since: Date.now() });
          if (first) this.listener.reset(); // what was read before the stream began has a gap
        }
        this.cursor = event.cursor;
        if (event.event.case === "jobChanged") this.hand(event.event.value);
      }
    } finally {
      clearTimeout(timer);
      this.flush();
    }
  }

  private hand(change: JobChanged) {
    this.pending.push(change);
    if (this.pending.length >= gatherMost) this.flush();
    else this.pendingTimer ??= setTimeout(() => this.flush(), gather);
  }

  private flush() {
    clearTimeout(this.pendingTimer);
    this.pendingTimer = undefined;
    if (this.pending.length === 0 || this.stop.signal.aborted) return;
    const changes = this.pending;
    this.pending = [];
    this.listener.changed(changes);
  }

  private sleep(ms: number) {
    return new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

function plain(e: ConnectError): string {
  if (e.code === Code.Unknown || e.code === Code.Unavailable || e.code === Code.Canceled) return "The server does not answer.";
  return e.rawMessage;
}
