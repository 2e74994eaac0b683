/**
 * What a client does with jobs, step by step: schedule, repeat, conflict, read by key,
 * stream with a cursor, cancel, resolve, and an error by field. The same in Node and in a
 * browser: only the transport differs.
 *
 * Each step prints one line. The receiver must never answer.
 */
import { create } from "@bufbuild/protobuf";
import { type Duration, DurationSchema, type Timestamp, timestampFromDate } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";

import { ConnectionService } from "../../../gen/ts/fireonce/connections/v1/connection_service_pb.js";
import { ReceiverDedupes } from "../../../gen/ts/fireonce/connections/v1/receiver_pb.js";
import { type ErrorDetail, ErrorDetailSchema, ErrorReason } from "../../../gen/ts/fireonce/v1/error_pb.js";
import type { JobEvent } from "../../../gen/ts/fireonce/v1/event_pb.js";
import { JobState, Resolution_Decision } from "../../../gen/ts/fireonce/v1/job_pb.js";
import { JobService, type ScheduleJobRequest, ScheduleJobRequestSchema } from "../../../gen/ts/fireonce/v1/job_service_pb.js";

interface When {
  scheduleTime?: Timestamp;
  attemptTimeout?: Duration;
}

export async function tour(transport: Transport, receiver: string, print: (line: string) => void): Promise<void> {
  const jobs = createClient(JobService, transport);
  const connections = createClient(ConnectionService, transport);

  await connections.createConnection({
    idempotencyKey: "tour",
    connection: { connector: "webhook", settings: { case: "webhook", value: { receiverDedupes: ReceiverDedupes.NO } } },
  });
  const request = (key: string, body: string, path: string, more: When = {}): ScheduleJobRequest =>
    create(ScheduleJobRequestSchema, {
      idempotencyKey: key,
      connection: { case: "connectionKey", value: "tour" },
      payload: { kind: { case: "webhook", value: { url: receiver + path, content: { case: "bodyText", value: body } } } },
      ...more,
    });
  const event = async (jobId: string, cursor: string | undefined, wanted: (e: JobEvent) => boolean): Promise<JobEvent> => {
    const end = new AbortController();
    try {
      const start = cursor ? ({ case: "afterCursor", value: cursor } as const) : ({ case: "fromBeginning", value: true } as const);
      for await (const answer of jobs.streamJobEvents({ filter: { jobIds: [jobId] }, start }, { signal: end.signal, timeoutMs: 0 })) {
        if (answer.event?.event.case === "jobChanged" && wanted(answer.event)) return answer.event;
      }
    } finally {
      end.abort();
    }
    throw new Error("the stream ended");
  };
  const changed = (e: JobEvent): string => {
    if (e.event.case !== "jobChanged") throw new Error("no change");
    return `event ${e.event.value.sequence} ${JobState[e.event.value.newState]}`;
  };

  const scheduleTime = timestampFromDate(new Date(Date.now() + 24 * 60 * 60 * 1000));
  const first = await jobs.scheduleJob(request("tour-later", "one", "/later", { scheduleTime }));
  const jobId = first.job!.jobId;
  print(`scheduled created=${first.created}`);
  const again = await jobs.scheduleJob(request("tour-later", "one", "/later", { scheduleTime }));
  print(`repeated created=${again.created} same=${again.job!.jobId === jobId}`);
  const clash = await failing(jobs.scheduleJob(request("tour-later", "two", "/later", { scheduleTime })));
  if (clash.detail.context.case === "idempotencyConflict") {
    const { holder, mismatchedFields } = clash.detail.context.value;
    print(`conflict ${clash.refused} ${mismatchedFields.join(",")} ${holder.value === jobId ? "same job" : "another job"}`);
  }
  const byKey = (value: string) => ({ job: { case: "idempotencyKey", value } }) as const;
  const found = await jobs.getJob(byKey("tour-later"));
  print(`found ${JobState[found.job!.state]}`);

  const one = await event(jobId, undefined, () => true);
  print(changed(one));
  const canceled = await jobs.cancelJob(byKey("tour-later"));
  print(`canceled prevented=${canceled.prevented}`);
  print(changed(await event(jobId, one.cursor, () => true)));

  const silent = await jobs.scheduleJob(request("tour-silent", "one", "/silent", { attemptTimeout: create(DurationSchema, { seconds: 1n }) }));
  await event(silent.job!.jobId, undefined, ({ event: e }) => e.case === "jobChanged" && e.value.newState === JobState.NEEDS_RESOLUTION);
  const unknown = (await jobs.getJob(byKey("tour-silent"))).job!;
  print(`unknown ${JobState[unknown.state]}`);
  const resolved = await jobs.resolveJob({
    ...byKey("tour-silent"),
    etag: unknown.etag,
    decision: Resolution_Decision.SENT,
    note: "seen at the receiver",
  });
  print(`resolved ${JobState[resolved.job!.state]}`);

  const bad = await failing(jobs.scheduleJob(request("with a space", "one", "")));
  print(`violation ${bad.refused} ${bad.detail.violations[0]!.field}`);
}

/** Waits for the call's error, and reads its typed detail. */
async function failing(call: Promise<unknown>): Promise<{ refused: string; detail: ErrorDetail }> {
  const error = ConnectError.from(await call.then(() => new Error("no error"), (e: unknown) => e));
  const detail = error.findDetails(ErrorDetailSchema)[0];
  if (!detail) throw error;
  const code = Code[error.code]!.replace(/(?!^)([A-Z])/g, "_$1").toUpperCase();
  return { refused: `${code} ${ErrorReason[detail.reason]}`, detail };
}
