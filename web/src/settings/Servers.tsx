import { useQuery } from "@connectrpc/connect-query";
import { Server as ServerIcon } from "lucide-react";
import { ServerService, ServerState } from "@gen/admin/v1/server_service_pb.js";
import { faultOf } from "@/api/errors";
import { Badge } from "@/jobs/StateBadge";
import type { Tone } from "@/jobs/words";
import { Copyable, Notice, Skeleton, When } from "@/ui/basics";
import { dateOf, plural } from "@/ui/format";

const states: Partial<Record<ServerState, { label: string; tone: Tone }>> = {
  [ServerState.LIVE]: { label: "Live", tone: "good" },
  [ServerState.DRAINING]: { label: "Shutting down", tone: "wait" },
  [ServerState.GONE]: { label: "Gone", tone: "bad" },
};

/** Who works on the database, and what those that died have left. */
export function Servers() {
  const list = useQuery(ServerService.method.listServers, {}, { refetchInterval: 5_000 });
  return (
    <section className="space-y-4" aria-label="Servers">
      <p className="text-dim">The servers that work on this database, for all projects.</p>
      {list.error && <Notice kind="bad" title="The servers could not be read">{faultOf(list.error).text}</Notice>}
      {list.isPending && <Skeleton rows={3} />}
      <ul className="grid gap-4 md:grid-cols-2">
        {(list.data?.servers ?? []).map((s) => {
          const state = states[s.state] ?? { label: "Unknown", tone: "off" as Tone };
          return (
            <li key={s.worker} className="card p-4">
              <div className="flex items-start gap-3">
                <span className="flex size-9 shrink-0 items-center justify-center rounded-xl bg-accent-soft text-accent-text">
                  <ServerIcon className="size-[18px]" aria-hidden />
                </span>
                <div className="min-w-0 flex-1">
                  <h2 className="truncate font-semibold">{s.host || "An unknown machine"}</h2>
                  <p className="text-[13px] text-dim">
                    {[s.processId ? `process ${s.processId}` : "", s.version && `version ${s.version}`, s.answering ? "answers this page" : ""].filter(Boolean).join(" · ")}
                  </p>
                </div>
                <Badge tone={state.tone}>{state.label}</Badge>
              </div>
              <dl className="mt-3 grid grid-cols-[6.5rem_minmax(0,1fr)] gap-x-3 gap-y-1 text-[13px]">
                <dt className="text-faint">Under way</dt>
                <dd className="num">
                  {plural(s.sendingCount, "request")}, {plural(s.claimedCount, "job")} claimed
                </dd>
                {s.startTime && (
                  <>
                    <dt className="text-faint">Started</dt>
                    <dd>
                      <When at={dateOf(s.startTime)} />
                    </dd>
                  </>
                )}
                {s.state === ServerState.GONE && s.lastSeenTime && (
                  <>
                    <dt className="text-faint">Last seen</dt>
                    <dd>
                      <When at={dateOf(s.lastSeenTime)} />
                    </dd>
                  </>
                )}
                <dt className="text-faint">Name</dt>
                <dd className="min-w-0">
                  <Copyable text={s.worker} />
                </dd>
              </dl>
              {s.state === ServerState.GONE && (
                <div className="mt-3">
                  <Notice kind="warn">
                    It is dead, or cut off and may still send. {s.takeoverTime && <>Others take its jobs over <When at={dateOf(s.takeoverTime)} /> at the latest, by themselves.</>}
                  </Notice>
                </div>
              )}
            </li>
          );
        })}
      </ul>
    </section>
  );
}
