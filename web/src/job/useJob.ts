import { createConnectQueryKey, useQuery } from "@connectrpc/connect-query";
import { useEffect, useMemo } from "react";
import { JobService } from "@gen/v1/job_service_pb.js";
import { queries } from "@/api/transport";
import { live, useLive } from "@/live/store";

const gather = 100;

/** A job with all that is known of it, live. */
export function useJob(jobId: string) {
  const by = { job: { case: "jobId" as const, value: jobId } };
  const read = useQuery(JobService.method.getJob, by);
  const attempts = useQuery(JobService.method.listJobAttempts, { ...by, pageSize: 100 });
  const looks = useQuery(JobService.method.listJobObservations, { ...by, pageSize: 100 });
  const events = useQuery(JobService.method.listJobEvents, { filter: { jobIds: [jobId] }, pageSize: 500 });

  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = live.onJob(jobId, () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        readAnew();
      }, gather);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [jobId]);

  const overlay = useLive();
  const known = read.data?.job;
  const newest = known && overlay.newest(known);
  // The stream's job has neither content, nor the newest attempt, nor an incident: those come with the next read.
  const job = useMemo(() => known && newest && (newest === known ? known : { ...newest, payload: known.payload, lastAttempt: known.lastAttempt, firing: known.firing, incidentId: known.incidentId, callback: known.callback }), [known, newest]);
  return { job, read, attempts, looks, events };
}

/** Reads what pages show of single jobs again. */
export function readAnew() {
  const { getJob, listJobAttempts, listJobObservations, listJobEvents } = JobService.method;
  for (const queryKey of [
    createConnectQueryKey({ schema: getJob, cardinality: "finite" }),
    createConnectQueryKey({ schema: listJobAttempts, cardinality: "finite" }),
    createConnectQueryKey({ schema: listJobObservations, cardinality: "finite" }),
    createConnectQueryKey({ schema: listJobEvents, cardinality: "finite" }),
  ])
    void queries.invalidateQueries({ queryKey });
}
