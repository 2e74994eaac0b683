import { useQuery } from "@connectrpc/connect-query";
import { LogOut } from "lucide-react";
import type { ReactNode } from "react";
import { AccessService } from "@gen/admin/v1/access_service_pb.js";
import { ServerService } from "@gen/admin/v1/server_service_pb.js";
import { signOut, useMay, useWho } from "@/api/session";
import { base } from "@/api/transport";
import { Badge } from "@/jobs/StateBadge";
import { actorWords } from "@/jobs/words";
import { isInsecure, PlainHTTP } from "@/shell/PlainHTTP";
import { setTheme, useTheme, type Theme } from "@/shell/theme";
import { Button, PageHead, Segments, When } from "@/ui/basics";
import { dateOf } from "@/ui/format";

export default function SettingsPage() {
  const who = useWho();
  const may = useMay();
  const theme = useTheme();
  const admin = may("admin");
  const servers = useQuery(ServerService.method.listServers, {}, { enabled: admin, refetchInterval: 15_000 });
  const keys = useQuery(AccessService.method.listApiKeys, {}, { enabled: admin });
  return (
    <div className="mx-auto max-w-[60rem] space-y-5 px-4 pt-5 pb-10 md:px-8 md:pt-7">
      <PageHead title="Settings" />
      {isInsecure() && <PlainHTTP />}
      <Block title="You">
        <dl className="grid gap-x-4 gap-y-2 sm:grid-cols-[8rem_minmax(0,1fr)]">
          <dt className="text-faint">Signed in as</dt>
          <dd>{who.keyRequired ? actorWords(who.actor ?? "") : "Anyone on this machine: the server requires no key"}</dd>
          <dt className="text-faint">Project</dt>
          <dd>{who.project}</dd>
          <dt className="text-faint">May</dt>
          <dd className="flex flex-wrap gap-1.5">
            {who.scopes.map((s) => (
              <code key={s} className="rounded-md bg-sunken px-2 py-0.5">
                {s}
              </code>
            ))}
          </dd>
        </dl>
        {who.keyRequired && (
          <Button className="mt-4" onClick={() => void signOut()}>
            <LogOut className="size-4" aria-hidden /> Sign out
          </Button>
        )}
      </Block>
      <Block title="Looks">
        <Segments<Theme>
          label="Theme"
          value={theme}
          onChange={setTheme}
          options={[
            { value: "system", label: "As the system" },
            { value: "light", label: "Light" },
            { value: "dark", label: "Dark" },
          ]}
        />
      </Block>
      {admin && (servers.data?.servers.length ?? 0) > 0 && (
        <Block title="Servers">
          <ul className="divide-y">
            {servers.data!.servers.map((s) => (
              <li key={s.worker} className="flex flex-wrap items-center gap-x-4 gap-y-1 py-2.5 first:pt-0 last:pb-0">
                <span className="font-medium">{s.worker}</span>
                <span className="text-dim">
                  {s.host} · {s.version}
                </span>
                <span className="ml-auto text-[13px] text-faint">{s.lastSeenTime && <>Seen <When at={dateOf(s.lastSeenTime)} /></>}</span>
              </li>
            ))}
          </ul>
        </Block>
      )}
      {admin && (keys.data?.apiKeys.length ?? 0) > 0 && (
        <Block title="API keys">
          <ul className="divide-y">
            {keys.data!.apiKeys.map((k) => (
              <li key={k.apiKeyId} className="flex flex-wrap items-center gap-x-4 gap-y-1 py-2.5 first:pt-0 last:pb-0">
                <span className="font-medium">{k.name || k.apiKeyId}</span>
                <span className="min-w-0 flex-1 truncate text-[13px] text-dim">{k.scopes.join(", ")}</span>
                <span className="text-[13px] text-faint">{k.lastUseTime ? <>Used <When at={dateOf(k.lastUseTime)} /></> : "Never used"}</span>
                <Badge tone={k.active ? "good" : "off"}>{k.active ? "Active" : "Ended"}</Badge>
              </li>
            ))}
          </ul>
        </Block>
      )}
      <p className="text-[13px] text-faint">
        Fireonce {who.version} ·{" "}
        <a className="underline" href={`${base}/licenses.txt`}>
          Licenses of what this page is made of
        </a>
      </p>
    </div>
  );
}

function Block({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="card p-5">
      <h2 className="mb-3 font-semibold">{title}</h2>
      {children}
    </section>
  );
}
