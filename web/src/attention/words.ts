import { CircleHelp, CircleX, Clock, Plug, type LucideIcon } from "lucide-react";
import { IncidentKind, Risk, type Incident, type IncidentLooks } from "@gen/admin/v1/incident_service_pb.js";
import { ErrorReason } from "@gen/v1/error_pb.js";
import { PlanOutcome } from "@gen/admin/v1/plan_pb.js";
import { nameOf, type Tone } from "@/jobs/words";
import { plural } from "@/ui/format";

export function kindWords(kind: IncidentKind): { label: string; tone: Tone; icon: LucideIcon } {
  switch (kind) {
    case IncidentKind.UNKNOWN:
      return { label: "unknown", tone: "unknown", icon: CircleHelp };
    case IncidentKind.FAILED:
      return { label: "failed", tone: "bad", icon: CircleX };
    case IncidentKind.HELD:
      return { label: "held back", tone: "bad", icon: Plug };
    case IncidentKind.LATE:
      return { label: "late", tone: "unknown", icon: Clock };
    default:
      return { label: nameOf(IncidentKind, kind).toLowerCase(), tone: "off", icon: CircleHelp };
  }
}

/** "37 unknown at api.example.com" */
export function incidentTitle(i: Incident): string {
  const place = i.destination.replace(/^https?:\/\//, "") || i.connectionKey;
  return `${i.jobCount}${i.incomplete ? "+" : ""} ${kindWords(i.kind).label} at ${place}`;
}

export function looksWords(l: IncidentLooks): string[] {
  const said: [number, string][] = [
    [l.presentCount, "with something seen that may be another job's"],
    [l.candidatesCount, "with several candidates"],
    [l.absentCount, "looked for, nothing found"],
    [l.inconclusiveCount, "could not be looked up"],
    [l.noneCount, "not looked for"],
  ];
  return said.filter(([n]) => n > 0).map(([n, text]) => `${n} ${text}`);
}

export function riskTone(r: Risk): string {
  return r === Risk.DUPLICATE ? "text-bad" : r === Risk.NONE ? "text-good" : "text-unknown";
}

export function outcomeText(o: PlanOutcome, reason: ErrorReason): string {
  switch (o) {
    case PlanOutcome.STALE:
      return "has changed since";
    case PlanOutcome.GONE:
      return "is no longer stored";
    case PlanOutcome.REFUSED:
      if (reason === ErrorReason.RESEND_TOO_EARLY) return "its last attempt may still act: a little later";
      if (reason === ErrorReason.ATTEMPTS_EXHAUSTED) return "has used up its attempts";
      return reason === ErrorReason.UNSPECIFIED ? "does not allow it" : `does not allow it (${nameOf(ErrorReason, reason).toLowerCase()})`;
    case PlanOutcome.CANDIDATES:
      return "has several candidates: decide it alone";
    case PlanOutcome.CONTRARY:
      return "what was seen speaks against it: decide it alone";
    case PlanOutcome.LOOKING:
      return "is still being looked for";
    case PlanOutcome.UNPROVEN:
      return "was closed without a proof: it may have been sent";
    default:
      return nameOf(PlanOutcome, o).toLowerCase();
  }
}

export const jobs = (n: number) => plural(n, "job");
