import { useQuery } from "@connectrpc/connect-query";
import { Link, useRouterState } from "@tanstack/react-router";
import { CirclePause, KeyRound } from "lucide-react";
import type { ReactNode } from "react";
import { ConnectionState } from "@gen/connections/v1/connection_pb.js";
import { ConnectionService } from "@gen/connections/v1/connection_service_pb.js";
import type { Pause } from "@gen/admin/v1/pause_service_pb.js";
import { useMay } from "@/api/session";
import { actorWords } from "@/jobs/words";
import { When } from "@/ui/basics";
import { dateOf, plural } from "@/ui/format";
import { isWide, targetText, usePauses } from "./usePauses";

/** Who paused, since when and until when, and why. */
export function PauseWords({ pause: p }: { pause: Pause }) {
  return (
    <>
      {p.createdBy && <> by {actorWords(p.createdBy)}</>}
      {p.beginTime && (
        <>
          , <When at={dateOf(p.beginTime)} />
        </>
      )}
      {p.endTime && (
        <>
          , ends <When at={dateOf(p.endTime)} />
        </>
      )}
      {p.note && <>: {p.note}</>}
    </>
  );
}

/** The pages whose jobs a pause or a hold touches. */
const touched = /^\/($|jobs|calendar|schedules|overview|new)/;

/** What is held back on purpose, or by a refused credential, above each page that it touches. */
export function HeldBanner() {
  const may = useMay();
  const path = useRouterState({ select: (s) => s.location.pathname });
  const { inForce } = usePauses();
  const held = useQuery(ConnectionService.method.listConnections, { pageSize: 500, filter: { states: [ConnectionState.AUTH_HOLD] } }, { enabled: may("connections:read"), refetchInterval: 30_000 });
  const names = useConnectionNames(inForce.length > 0);
  const wide = inForce.filter(isWide);
  const narrow = inForce.filter((p) => !isWide(p));
  const onHold = held.data?.connections ?? [];
  const here = touched.test(path);
  return (
    <>
      {wide.slice(0, 1).map((p) => (
        <Line key={p.pauseId} icon={<CirclePause className="size-4 shrink-0" aria-hidden />} strong to="pauses" action="See the pause">
          <b>{targetText(p.target)} is paused</b>
          <PauseWords pause={p} />
        </Line>
      ))}
      {here && wide.length === 0 && narrow.length > 0 && (
        <Line icon={<CirclePause className="size-4 shrink-0" aria-hidden />} to="pauses" action={narrow.length > 1 ? "See the pauses" : "See the pause"}>
          {narrow.length === 1 ? (
            <>
              <b>{targetText(narrow[0]!.target, names)} is paused</b>
              <PauseWords pause={narrow[0]!} />
            </>
          ) : (
            <b>
              {plural(narrow.length, "pause")}: {narrow.slice(0, 3).map((p) => targetText(p.target, names)).join(", ")}
              {narrow.length > 3 && ", …"}
            </b>
          )}
        </Line>
      )}
      {here && path !== "/" && onHold.length > 0 && (
        <Line icon={<KeyRound className="size-4 shrink-0" aria-hidden />} to="connections" action="See why">
          <b>
            {onHold.length === 1 ? `${onHold[0]!.displayName || onHold[0]!.idempotencyKey} is` : `${plural(onHold.length, "connection")} are`} held for a new credential
          </b>
        </Line>
      )}
    </>
  );
}

/** Names connections by their ids. */
export function useConnectionNames(enabled: boolean): (id: string) => string {
  const may = useMay();
  const list = useQuery(ConnectionService.method.listConnections, { pageSize: 500 }, { enabled: enabled && may("connections:read") });
  return (id) => {
    const c = list.data?.connections.find((x) => x.connectionId === id);
    return c ? c.displayName || c.idempotencyKey : "A connection";
  };
}

function Line({ icon, strong, to, action, children }: { icon: ReactNode; strong?: boolean; to: "pauses" | "connections"; action: string; children: ReactNode }) {
  return (
    <div role="note" className={`flex items-center justify-center gap-2 px-4 py-1.5 text-[13px] ${strong ? "bg-unknown text-panel" : "bg-unknown-soft text-unknown"}`}>
      {icon}
      <span className="min-w-0 break-words max-md:line-clamp-2 [&_b]:font-semibold">{children}</span>
      {to === "pauses" ? (
        <Link to="/settings" search={{ tab: "pauses" }} className="shrink-0 font-medium underline underline-offset-2">
          {action}
        </Link>
      ) : (
        <Link to="/connections" className="shrink-0 font-medium underline underline-offset-2">
          {action}
        </Link>
      )}
    </div>
  );
}
