/**
 * Announces orders by webhook, each once.
 *
 * Run it twice, or kill it and run it again: no order is announced twice, because
 * the idempotency key is made from the order and not from the try.
 */
import { parseArgs } from "node:util";

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";

import { CreateConnectionRequestSchema } from "../../../gen/ts/fireonce/connections/v1/connection_service_pb.js";
import { ReceiverDedupes } from "../../../gen/ts/fireonce/connections/v1/receiver_pb.js";
import { ErrorReason } from "../../../gen/ts/fireonce/v1/error_pb.js";
import type { JobChanged } from "../../../gen/ts/fireonce/v1/event_pb.js";
import { JobState, Phase } from "../../../gen/ts/fireonce/v1/job_pb.js";
import { type ScheduleJobRequest, ScheduleJobRequestSchema } from "../../../gen/ts/fireonce/v1/job_service_pb.js";

import { errorDetail, Fireonce } from "./client.js";

/** Makes the connection to the receiver, or finds the one made before. */
async function connect(client: Fireonce, secret: string): Promise<string> {
  const request: MessageInitShape<typeof CreateConnectionRequestSchema> = {
    idempotencyKey: "orders",
    connection: {
      connector: "webhook",
      displayName: "orders",
      settings: {
        case: "webhook",
        // The receiver drops a webhook-id that it has seen in the last 24 hours,
        // so an unknown outcome can be settled by sending again.
        value: { receiverDedupes: ReceiverDedupes.YES, keyWindow: { seconds: 24n * 60n * 60n } },
      },
    },
  };
  if (secret) request.credential = { kind: { case: "webhookSecrets", value: { secrets: [secret] } } };
  const response = await client.call(client.connections.createConnection, request);
  return response.connection!.idempotencyKey;
}

/**
 * Makes the request for one order. The same order gives the same request: its
 * time, too, is the order's own and not "in an hour from now".
 */
function announcement(connectionKey: string, receiver: string, order: string, amount: number, at?: string): ScheduleJobRequest {
  return create(ScheduleJobRequestSchema, {
    idempotencyKey: `order-${order}-paid`,
    connection: { case: "connectionKey", value: connectionKey },
    payload: {
      kind: {
        case: "webhook",
        value: {
          url: `${receiver.replace(/\/$/, "")}/orders/${order}`,
          content: { case: "bodyText", value: JSON.stringify({ order, amount }) },
        },
      },
    },
    scheduleTime: at ? timestampFromDate(new Date(at)) : undefined,
  });
}

/** Stores the jobs and gives their ids. */
async function schedule(client: Fireonce, requests: ScheduleJobRequest[]): Promise<string[]> {
  const first = await client.call(client.jobs.scheduleJob, requests[0]!);
  console.log("scheduled", first.job!.idempotencyKey, first.created ? "new" : "known");

  // All of them in one call, for the sake of the example with the first among
  // them: a repeat is no second job. Each item is decided on its own.
  const batch = await client.call(client.jobs.batchScheduleJobs, { requests });
  const ids: string[] = [];
  for (const [i, { result }] of batch.results.entries()) {
    const key = requests[i]!.idempotencyKey;
    switch (result.case) {
      case "success":
        console.log("scheduled", key, result.value.created ? "new" : "known");
        ids.push(result.value.job!.jobId);
        break;
      case "error":
        console.log("refused", key, name(ErrorReason, result.value.detail?.reason ?? 0), result.value.message);
        break;
    }
  }
  return ids;
}

/** Prints each change until every job has ended; true if all took effect. */
async function watch(client: Fireonce, ids: string[]): Promise<boolean> {
  const newest = new Map<string, JobChanged>();
  for await (const { change } of client.follow({ jobIds: ids })) {
    console.log("changed", change.jobId, String(change.sequence), name(JobState, change.newState));
    newest.set(change.jobId, change);
    if (change.newState === JobState.NEEDS_RESOLUTION) {
      console.log("undecided", change.jobId, "see `fireonce resolve`");
      return false;
    }
    if (newest.size === ids.length && [...newest.values()].every((change) => change.phase === Phase.ENDED)) break;
  }
  return [...newest.values()].every((change) => change.newState === JobState.SUCCEEDED);
}

/** Names a value, also one that a newer server knows and this code does not. */
function name(values: Record<number, string>, value: number): string {
  return values[value] ?? String(value);
}

/** Says what went wrong, by the typed detail and not by the text. */
function explain(error: ConnectError): number {
  const detail = errorDetail(error);
  if (!detail) {
    console.error(`${Code[error.code]}: ${error.rawMessage}`);
    return 1;
  }
  const reason = name(ErrorReason, detail.reason);
  if (detail.reason === ErrorReason.IDEMPOTENCY_KEY_REUSED && detail.context.case === "idempotencyConflict") {
    // Never retry this, and never go on with another key: the order is announced,
    // or will be, by the job that holds the key.
    const conflict = detail.context.value;
    console.error(`${reason}: job ${conflict.holder.value} differs in ${conflict.mismatchedFields.join(", ")}`);
    return 3;
  }
  console.error(`${reason}: ${error.rawMessage}`);
  return 1;
}

async function main(): Promise<number> {
  const { values, positionals: orders } = parseArgs({
    allowPositionals: true,
    options: {
      server: { type: "string", default: "http://127.0.0.1:8080" },
      receiver: { type: "string", default: "http://127.0.0.1:9000/" },
      amount: { type: "string", default: "100" },
      at: { type: "string" }, // when to announce, in RFC 3339; now if not given
      timeout: { type: "string", default: "10" }, // seconds for one try of a call
    },
  });
  if (orders.length === 0) {
    console.error("usage: orders [--server URL] [--receiver URL] [--amount N] [--at TIME] [--timeout SECONDS] ORDER...");
    return 2;
  }
  const client = new Fireonce({
    server: values.server,
    apiKey: process.env["FIREONCE_API_KEY"],
    timeoutMs: 1000 * Number(values.timeout),
  });
  try {
    const connectionKey = await connect(client, process.env["WEBHOOK_SECRET"] ?? "");
    const requests = orders.map((order) => announcement(connectionKey, values.receiver, order, Number(values.amount), values.at));
    const ids = await schedule(client, requests);
    if (ids.length < requests.length || !(await watch(client, ids))) return 1;
    for (const { idempotencyKey } of requests) {
      const { job } = await client.call(client.jobs.getJob, {
        job: { case: "idempotencyKey", value: idempotencyKey },
        omitPayload: true,
      });
      console.log("stored", job!.idempotencyKey, job!.jobId, name(JobState, job!.state));
    }
    return 0;
  } catch (error) {
    if (!(error instanceof ConnectError)) throw error;
    return explain(error);
  }
}

process.exitCode = await main();
