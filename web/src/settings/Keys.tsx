import { useMutation, useQuery } from "@connectrpc/connect-query";
import { KeyRound, Plus } from "lucide-react";
import { useState, type FormEvent } from "react";
import { AccessService, type ApiKey } from "@gen/admin/v1/access_service_pb.js";
import { faultOf } from "@/api/errors";
import { useWho } from "@/api/session";
import { Badge } from "@/jobs/StateBadge";
import { Button, CopyButton, cx, Empty, Field, Notice, Skeleton, When } from "@/ui/basics";
import { Dialog } from "@/ui/dialog";
import { dateOf } from "@/ui/format";
import { say } from "@/ui/toast";

// Rules of this file: a key is shown once, in the answer that made it. The page keeps it no longer than its window.

/** Who may call, and with what. */
export function Keys() {
  const who = useWho();
  const [making, setMaking] = useState(false);
  const [ending, setEnding] = useState<ApiKey>();
  const list = useQuery(AccessService.method.listApiKeys, { projectId: who.project ?? "", pageSize: 500 }, { refetchInterval: 30_000 });
  const keys = [...(list.data?.apiKeys ?? [])].sort((a, b) => Number(b.active) - Number(a.active) || Number((b.createTime?.seconds ?? 0n) - (a.createTime?.seconds ?? 0n)));
  return (
    <section className="space-y-4" aria-label="API keys">
      <div className="flex flex-wrap items-center gap-3">
        <p className="min-w-0 flex-1 basis-64 text-dim">The keys of the project {who.project}. Give each program and each person one of their own: its name stands in the history of what it did.</p>
        <Button look="primary" onClick={() => setMaking(true)}>
          <Plus className="size-4" aria-hidden /> New key
        </Button>
      </div>
      {list.error && <Notice kind="bad" title="The keys could not be read">{faultOf(list.error).text}</Notice>}
      {list.isPending ? (
        <Skeleton rows={4} />
      ) : keys.length === 0 && !list.error ? (
        <div className="card">
          <Empty icon={KeyRound} title="No key yet">
            {who.keyRequired ? "Only the operator's key works." : "This server requires no key: anyone who reaches it may do everything."}
          </Empty>
        </div>
      ) : (
        <ul className="card divide-y">
          {keys.map((k) => (
            <li key={k.apiKeyId} className="flex flex-wrap items-center gap-x-4 gap-y-2 p-4">
              <div className="min-w-0 flex-1 basis-64">
                <p className="flex flex-wrap items-center gap-x-2.5 gap-y-1">
                  <span className={cx("font-semibold break-all", !k.active && "text-faint")}>{k.name || "Without a name"}</span>
                  <span className="mono text-[13px] text-faint">fo_{k.apiKeyId}…</span>
                  <Badge tone={k.active ? "good" : "off"}>{k.active ? "Active" : k.revokeTime ? "Revoked" : "Expired"}</Badge>
                </p>
                <p className="mt-1 flex flex-wrap gap-1">
                  {k.scopes.map((s) => (
                    <code key={s} className="rounded bg-sunken px-1.5 text-[12.5px] text-dim">
                      {s}
                    </code>
                  ))}
                </p>
                <p className="mt-1 text-[13px] text-faint">
                  {k.createTime && <>Made <When at={dateOf(k.createTime)} /></>}
                  {" · "}
                  {k.lastUseTime ? <>used <When at={dateOf(k.lastUseTime)} /></> : "never used"}
                  {k.active && k.expireTime && <> · ends <When at={dateOf(k.expireTime)} /></>}
                </p>
              </div>
              {k.active && (
                <Button size="sm" onClick={() => setEnding(k)}>
                  Revoke
                </Button>
              )}
            </li>
          ))}
        </ul>
      )}
      {making && <NewKey onClose={() => setMaking(false)} onMade={() => void list.refetch()} />}
      {ending && <Revoke of={ending} onClose={() => setEnding(undefined)} onDone={() => void list.refetch()} />}
    </section>
  );
}

const groups: { label: string; scopes: [string, string][] }[] = [
  { label: "Jobs", scopes: [["jobs:read", "See jobs, without content"], ["payloads:read", "See content and recipients"], ["jobs:write", "Schedule, move, cancel, retry"], ["jobs:resolve", "Decide unknown outcomes"], ["jobs:delete", "Erase ended jobs"], ["effect-keys:write", "Set effect keys"]] },
  { label: "Schedules", scopes: [["schedules:read", "See schedules"], ["schedules:write", "Make and change schedules"]] },
  { label: "Connections", scopes: [["connections:read", "See connections"], ["connections:write", "Connect, change, pause"]] },
  { label: "Notices", scopes: [["subscriptions:read", "See subscriptions"], ["subscriptions:write", "Make and change subscriptions"]] },
  { label: "Service", scopes: [["work:run", "Run what is due"], ["admin", "Keys, and the project as a whole"]] },
];

const presets: { label: string; scopes: string[] }[] = [
  { label: "A program that schedules", scopes: ["jobs:read", "jobs:write"] },
  { label: "A person who decides", scopes: ["jobs:read", "payloads:read", "jobs:write", "jobs:resolve", "schedules:read", "schedules:write", "connections:read", "connections:write", "subscriptions:read"] },
  { label: "Only looks", scopes: ["jobs:read", "schedules:read", "connections:read", "subscriptions:read"] },
];

const day = 86_400;
const lifetimes = [
  { label: "Until it is revoked", seconds: 0 },
  { label: "A day", seconds: day },
  { label: "30 days", seconds: 30 * day },
  { label: "90 days", seconds: 90 * day },
  { label: "A year", seconds: 365 * day },
];

function NewKey({ onClose, onMade }: { onClose: () => void; onMade: () => void }) {
  const who = useWho();
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<string[]>(presets[0]!.scopes);
  const [lifetime, setLifetime] = useState(0);
  const create = useMutation(AccessService.method.createApiKey);
  const fault = create.error ? faultOf(create.error) : undefined;
  const grantable = (s: string) => who.scopes.includes(s);
  const toggle = (s: string) => setScopes((old) => (old.includes(s) ? old.filter((x) => x !== s) : [...old, s]));
  const submit = (e: FormEvent) => {
    e.preventDefault();
    create.mutate({ projectId: who.project ?? "", name, scopes, ...(lifetime ? { lifetime: { seconds: BigInt(lifetime), nanos: 0 } } : {}) }, { onSuccess: onMade });
  };
  if (create.data) {
    return (
      <Dialog
        open
        onOpenChange={(open) => !open && onClose()}
        title="Copy the key now"
        note="It is shown this one time. The server stores only its hash."
        footer={
          <Button look="primary" onClick={onClose}>
            I have it
          </Button>
        }
      >
        <div className="flex items-center gap-2 rounded-xl bg-sunken p-4">
          <code className="min-w-0 flex-1 break-all" data-secret>
            {create.data.secret}
          </code>
          <CopyButton text={create.data.secret} label="Copy the key" className="size-9" />
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title="New key"
      footer={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button look="primary" type="submit" form="key" busy={create.isPending} disabled={scopes.length === 0}>
            Make the key
          </Button>
        </>
      }
    >
      <form id="key" onSubmit={submit} className="space-y-4">
        <div className="grid gap-4 sm:grid-cols-2">
          <Field label="Name" error={fault?.fields.find((f) => f.path === "name")?.text}>
            {(p) => <input {...p} className="field" required maxLength={63} pattern="[A-Za-z0-9][A-Za-z0-9._\-]*" title="Letters, digits, dots, dashes" placeholder="checkout" autoComplete="off" value={name} onChange={(e) => setName(e.target.value)} autoFocus />}
          </Field>
          <Field label="Valid">
            {(p) => (
              <select {...p} className="field" value={lifetime} onChange={(e) => setLifetime(Number(e.target.value))}>
                {lifetimes.map((l) => (
                  <option key={l.seconds} value={l.seconds}>
                    {l.label}
                  </option>
                ))}
              </select>
            )}
          </Field>
        </div>
        <div>
          <p className="mb-1.5 font-medium">For</p>
          <div className="flex flex-wrap gap-1.5">
            {presets.map((p) => (
              <Button key={p.label} size="sm" aria-pressed={same(p.scopes.filter(grantable), scopes)} className={same(p.scopes.filter(grantable), scopes) ? "border-accent! bg-accent-soft! text-accent-text!" : ""} onClick={() => setScopes(p.scopes.filter(grantable))}>
                {p.label}
              </Button>
            ))}
          </div>
        </div>
        {groups.map((g) => (
          <fieldset key={g.label}>
            <legend className="mb-1 text-[13px] text-faint">{g.label}</legend>
            <div className="grid gap-x-4 gap-y-1 sm:grid-cols-2">
              {g.scopes.map(([s, says]) => (
                <label key={s} className={cx("flex items-baseline gap-2", !grantable(s) && "opacity-50")} title={grantable(s) ? s : `Your own key lacks ${s}`}>
                  <input type="checkbox" className="accent-accent" checked={scopes.includes(s)} disabled={!grantable(s)} onChange={() => toggle(s)} />
                  <span>{says}</span>
                </label>
              ))}
            </div>
          </fieldset>
        ))}
        {fault && fault.fields.length === 0 && <Notice kind="bad">{fault.text}</Notice>}
      </form>
    </Dialog>
  );
}

const same = (a: string[], b: string[]) => a.length === b.length && a.every((x) => b.includes(x));

function Revoke({ of: k, onClose, onDone }: { of: ApiKey; onClose: () => void; onDone: () => void }) {
  const revoke = useMutation(AccessService.method.revokeApiKey);
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={`Revoke ${k.name || "this key"}?`}
      note="Every server refuses it within 5 seconds, permanently. What was made with it stays."
      footer={
        <>
          <Button onClick={onClose}>Leave it</Button>
          <Button look="danger" busy={revoke.isPending} onClick={() => revoke.mutate({ apiKeyId: k.apiKeyId }, { onSuccess: () => (say("Revoked."), onDone(), onClose()) })}>
            Revoke it
          </Button>
        </>
      }
    >
      <p className="text-dim">
        {k.lastUseTime ? (
          <>
            It was last used <When at={dateOf(k.lastUseTime)} />. A program that still uses it fails from then on.
          </>
        ) : (
          "It was never used."
        )}
      </p>
      {revoke.error && <Notice kind="bad">{faultOf(revoke.error).text}</Notice>}
    </Dialog>
  );
}
