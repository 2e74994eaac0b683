import { createClient, type CallOptions } from "@connectrpc/connect";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { BulkService, type BulkFailure, type BulkResult } from "@gen/admin/v1/bulk_service_pb.js";
import type { JobFilterSchema } from "@gen/v1/job_filter_pb.js";
import type { Resolution_Decision } from "@gen/v1/job_pb.js";
import { transport } from "@/api/transport";

// Rules of this file: one change of many jobs is a dry run over all pages, then the same over all pages.
//   - The second takes the first one's time along: a job that changed since is left alone, and a repeat after an
//     interruption changes no job twice.
//   - Both have a limit of pages. What is beyond it is said, and comes with the next change.

export type Filter = MessageInitShape<typeof JobFilterSchema>;

export type Change =
  | { kind: "cancel"; reason: string }
  | { kind: "retry" }
  | { kind: "move"; localTime?: { dateTime: string; timeZone: string }; delaySeconds?: bigint }
  | { kind: "resolve"; decision: Resolution_Decision; note: string; overrideReconciler: boolean };

export interface Totals {
  matched: number;
  changed: number;
  examples: { id: string; key: string }[];
  failed: number;
  failures: BulkFailure[];
  asOf?: Timestamp;
  /** There are more jobs than the pages of one change have. */
  more: boolean;
}

const mostPages = 40;
const mostShown = 50;

const client = createClient(BulkService, transport);

async function page(filter: Filter, change: Change, dryRun: boolean, asOfTime: Timestamp | undefined, pageToken: string, options: CallOptions): Promise<BulkResult> {
  const common = { filter, dryRun, asOfTime, pageToken };
  const answer = await (() => {
    switch (change.kind) {
      case "cancel":
        return client.bulkCancelJobs({ ...common, reason: change.reason }, options);
      case "retry":
        return client.bulkRetryJobs(common, options);
      case "move":
        return client.bulkRescheduleJobs({ ...common, localTime: change.localTime, ...(change.delaySeconds !== undefined ? { delay: { seconds: change.delaySeconds, nanos: 0 } } : {}) }, options);
      case "resolve":
        return client.bulkResolveJobs({ ...common, decision: change.decision, note: change.note, overrideReconciler: change.overrideReconciler }, options);
    }
  })();
  return answer.result!;
}

/** Goes over all pages, and tells how far it is after each. */
export async function overAll(filter: Filter, change: Change, dryRun: boolean, asOf: Timestamp | undefined, tell: (t: Totals) => void, signal: AbortSignal): Promise<Totals> {
  const totals: Totals = { matched: 0, changed: 0, examples: [], failed: 0, failures: [], asOf, more: false };
  let token = "";
  for (let i = 0; i < mostPages; i++) {
    const result = await page(filter, change, dryRun, totals.asOf, token, { signal });
    totals.asOf ??= result.asOfTime;
    totals.matched += result.matched;
    totals.changed += result.changed;
    totals.failed += result.failures.length;
    result.changedJobIds.slice(0, mostShown - totals.examples.length).forEach((id, n) => totals.examples.push({ id, key: result.changedKeys[n] ?? "" }));
    totals.failures.push(...result.failures.slice(0, mostShown - totals.failures.length));
    token = result.nextPageToken;
    totals.more = token !== "";
    tell({ ...totals });
    if (!token) break;
  }
  return totals;
}
