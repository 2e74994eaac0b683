/**
 * A client of Fireonce, to copy: API key, repeats, typed errors, streams.
 *
 * Generated code comes from the contract, see README.md. What a generated client
 * does not bring along is in this file:
 *
 * - A call is repeated unchanged, under the same idempotency key, when nobody
 *   knows whether it arrived. Fireonce answers a repeat with the job of the first
 *   call.
 * - An error carries an ErrorDetail: a reason to switch on, never a text to parse.
 * - A stream of events goes on behind the last event that was processed, after
 *   whatever ended it.
 */
import { setTimeout as sleep } from "node:timers/promises";

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type CallOptions, type Client, Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";

// In a project of your own: from where `buf generate` writes.
import { ConnectionService } from "../../../gen/ts/fireonce/connections/v1/connection_service_pb.js";
import { type ErrorDetail, ErrorDetailSchema } from "../../../gen/ts/fireonce/v1/error_pb.js";
import type { JobChanged } from "../../../gen/ts/fireonce/v1/event_pb.js";
import { type EventFilterSchema, JobService, StreamJobEventsRequestSchema } from "../../../gen/ts/fireonce/v1/job_service_pb.js";

// A stream changes nothing, so it is opened again after any error but these.
const FINAL = new Set([
  Code.InvalidArgument,
  Code.NotFound,
  Code.PermissionDenied,
  Code.Unauthenticated,
  Code.FailedPrecondition,
  Code.OutOfRange, // CURSOR_EXPIRED: list the jobs, then stream from there
  Code.Unimplemented,
]);

// A stream that says nothing for so long is dead: the server promises a heartbeat
// every 15 s.
const SILENCE_MS = 45_000;

const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 5_000;

export interface Options {
  /** http://HOST:PORT or https://HOST[:PORT] */
  server: string;
  /** Sent with every call. Empty: none. */
  apiKey?: string;
  /** How long one try of a call may take. Default: 10 s. */
  timeoutMs?: number;
  /** How long calls are repeated and lost streams opened again. Default: 60 s. */
  patienceMs?: number;
}

/** Calls one server. */
export class Fireonce {
  readonly jobs: Client<typeof JobService>;
  readonly connections: Client<typeof ConnectionService>;
  readonly #timeoutMs: number;
  readonly #patienceMs: number;

  constructor(options: Options) {
    const transport = createConnectTransport({
      baseUrl: options.server,
      httpVersion: "1.1",
      interceptors: options.apiKey ? [withKey(options.apiKey)] : [],
    });
    this.jobs = createClient(JobService, transport);
    this.connections = createClient(ConnectionService, transport);
    this.#timeoutMs = options.timeoutMs ?? 10_000;
    this.#patienceMs = options.patienceMs ?? 60_000;
  }

  /**
   * Makes a call, and repeats it with the same request while the outcome is
   * unknown.
   *
   * The idempotency key is part of the request. Make it before the call, from
   * what is to happen, or make a UUID and store it first: a key that is made anew
   * for each try would make a job of each try.
   */
  async call<I, O>(method: (request: I, options: CallOptions) => Promise<O>, request: I): Promise<O> {
    const giveUp = performance.now() + this.#patienceMs;
    const pauses = pausesMs();
    for (;;) {
      try {
        return await method(request, { timeoutMs: this.#timeoutMs });
      } catch (error) {
        if (!isUncertain(ConnectError.from(error)) || performance.now() > giveUp) throw error;
      }
      await sleep(pauses.next().value);
    }
  }

  /**
   * Gives every change of the jobs, each once, and never ends by itself.
   *
   * cursor is where to go on, JobEvent.cursor or an eventsCursor; empty:
   * everything that is kept. A change counts as processed when the caller asks
   * for the next one. To go on after a restart of your program, store its cursor
   * together with what you made of it.
   */
  async *follow(filter: MessageInitShape<typeof EventFilterSchema>, cursor = ""): AsyncGenerator<{ change: JobChanged; cursor: string }, never> {
    const request = create(StreamJobEventsRequestSchema, {
      filter,
      start: cursor ? { case: "afterCursor", value: cursor } : { case: "fromBeginning", value: true },
    });
    const seen = new Map<string, bigint>(); // by job: the last sequence
    let giveUp = performance.now() + this.#patienceMs;
    let pauses = pausesMs();
    for (;;) {
      // A stream that is left early stays open, and the program with it, until it
      // is aborted. timeoutMs would outlive it.
      const end = new AbortController();
      const silence = setTimeout(() => end.abort(new ConnectError("the server says nothing", Code.Unavailable)), SILENCE_MS);
      try {
        for await (const { event } of this.jobs.streamJobEvents(request, { signal: end.signal })) {
          silence.refresh();
          // Heartbeats are no changes. Delivery is at least once.
          if (event?.event.case === "jobChanged") {
            const change = event.event.value;
            if (change.sequence > (seen.get(change.jobId) ?? 0n)) {
              yield { change, cursor: event.cursor };
              seen.set(change.jobId, change.sequence);
            }
          }
          if (event?.cursor) request.start = { case: "afterCursor", value: event.cursor };
          giveUp = performance.now() + this.#patienceMs;
          pauses = pausesMs();
        }
      } catch (error) {
        if (!(error instanceof ConnectError)) throw error;
        if (FINAL.has(error.code) || performance.now() > giveUp) throw error;
      } finally {
        clearTimeout(silence);
        end.abort();
      }
      await sleep(pauses.next().value);
    }
  }
}

/**
 * Gives what the server says about an error in a form for programs; undefined for
 * errors that did not come from the service, such as a lost connection.
 */
export function errorDetail(error: unknown): ErrorDetail | undefined {
  return ConnectError.from(error).findDetails(ErrorDetailSchema)[0];
}

/**
 * Tells whether it is unknown that the call arrived. Every call that changes
 * something may be repeated then: all of them are idempotent.
 */
function isUncertain(error: ConnectError): boolean {
  switch (error.code) {
    case Code.Unavailable:
    case Code.DeadlineExceeded:
    case Code.Unknown:
      return true;
    case Code.Aborted:
      // Also what connect-node makes of a connection that was reset. From the
      // server it means a stale etag, and comes with a detail.
      return errorDetail(error) === undefined;
    default:
      return false;
  }
}

function withKey(apiKey: string): Interceptor {
  return (next) => (request) => {
    request.header.set("Authorization", `Bearer ${apiKey}`);
    return next(request);
  };
}

/**
 * Grows from a tenth of a second to five, each spread so that many clients do not
 * come back at the same moment.
 */
function* pausesMs(): Generator<number, never> {
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, MAX_PAUSE_MS)) {
    yield pause * (0.5 + Math.random() / 2);
  }
}
