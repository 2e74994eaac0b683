import { createClient } from "@connectrpc/connect";
import { createConnectQueryKey } from "@connectrpc/connect-query";
import { useEffect } from "react";
import { JobService } from "@gen/v1/job_service_pb.js";
import { IncidentService } from "@gen/admin/v1/incident_service_pb.js";
import { StatsService } from "@gen/admin/v1/stats_service_pb.js";
import { checkSession } from "@/api/session";
import { queries, transport } from "@/api/transport";
import { Feed } from "./feed";
import { live } from "./store";

/** Figures are counted anew at most this often while events come in. */
const figuresEvery = 2_000;

/** Follows the project's events for as long as the page is open. */
export function useFollow(enabled: boolean) {
  useEffect(() => {
    if (!enabled) return;
    let figures: ReturnType<typeof setTimeout> | undefined;
    const readAnew = () => void queries.invalidateQueries();
    const countAnew = () => {
      figures ??= setTimeout(() => {
        figures = undefined;
        void queries.invalidateQueries({ queryKey: createConnectQueryKey({ schema: StatsService, cardinality: undefined }) });
        void queries.invalidateQueries({ queryKey: createConnectQueryKey({ schema: IncidentService.method.listIncidents, cardinality: "finite" }) });
      }, figuresEvery);
    };
    const feed = new Feed(createClient(JobService, transport), {
      changed(changes) {
        if (live.take(changes)) readAnew();
        countAnew();
      },
      reset() {
        live.clear();
        readAnew();
      },
      status(status) {
        live.setStatus(status);
        if (status.kind === "refused" && status.signedOut) checkSession();
      },
    });
    const hurry = () => {
      if (document.visibilityState === "visible") feed.hurry();
    };
    feed.start();
    window.addEventListener("online", hurry);
    document.addEventListener("visibilitychange", hurry);
    return () => {
      feed.close();
      clearTimeout(figures);
      window.removeEventListener("online", hurry);
      document.removeEventListener("visibilitychange", hurry);
    };
  }, [enabled]);
}
