import { createConnectQueryKey, useQuery } from "@connectrpc/connect-query";
import { PauseService, PauseState, type Pause, type PauseTarget } from "@gen/admin/v1/pause_service_pb.js";
import { useMay } from "@/api/session";
import { queries } from "@/api/transport";

/** What is paused now, and what is announced. */
export function usePauses(): { inForce: Pause[]; announced: Pause[]; error: Error | null } {
  const may = useMay();
  const list = useQuery(PauseService.method.listPauses, { pageSize: 500 }, { enabled: may("jobs:read"), refetchInterval: 15_000 });
  const of = (state: PauseState) => (list.data?.pauses ?? []).filter((p) => p.state === state);
  return { inForce: of(PauseState.IN_FORCE), announced: of(PauseState.ANNOUNCED), error: list.error };
}

/** Reads again what a pause changes. */
export function readPausesAnew() {
  void queries.invalidateQueries({ queryKey: createConnectQueryKey({ schema: PauseService.method.listPauses, cardinality: "finite" }) });
  void queries.invalidateQueries();
}

/** What a pause covers, as the end of "… paused". */
export function targetText(t: PauseTarget | undefined, nameOf: (connectionId: string) => string = (id) => id): string {
  const all = t?.allProjects ? " in all projects" : "";
  switch (t?.target.case) {
    case "everything":
      return "Everything, in all projects";
    case "project":
      return "Everything";
    case "connector":
      return `Connector ${t.target.value}${all}`;
    case "connectionKey":
      return t.target.value;
    case "connectionId":
      return nameOf(t.target.value);
    case "destination":
      return `${t.target.value}${all}`;
    case "label":
      return `Jobs with ${t.target.value.name}=${t.target.value.value}`;
    default:
      return "A target that this page does not know";
  }
}

/** Reports whether a pause holds every job of the project. */
export function isWide(p: Pause): boolean {
  return p.target?.target.case === "everything" || p.target?.target.case === "project";
}

/** Reports whether a pause holds every job of a connection. */
export function covers(p: Pause, c: { connectionId: string; idempotencyKey: string; connector: string }): boolean {
  const t = p.target?.target;
  return isWide(p) || (t?.case === "connector" && t.value === c.connector) || (t?.case === "connectionId" && t.value === c.connectionId) || (t?.case === "connectionKey" && t.value === c.idempotencyKey);
}
