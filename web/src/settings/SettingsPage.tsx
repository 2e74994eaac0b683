import { Link, useSearch } from "@tanstack/react-router";
import { LogOut } from "lucide-react";
import type { ReactNode } from "react";
import { signOut, useMay, useOperator, useWho, type Scope } from "@/api/session";
import { base } from "@/api/transport";
import { actorWords } from "@/jobs/words";
import { isInsecure, PlainHTTP } from "@/shell/PlainHTTP";
import { setTheme, useTheme, type Theme } from "@/shell/theme";
import { Button, PageHead, Segments } from "@/ui/basics";
import { Keys } from "./Keys";
import { Pauses } from "./Pauses";
import { Servers } from "./Servers";
import { Subscriptions } from "./Subscriptions";
import type { SettingsTab } from "./tabs";

const tabs: { tab: SettingsTab | undefined; label: string; scope?: Scope; operator?: boolean; page: () => ReactNode }[] = [
  { tab: undefined, label: "You", page: () => <You /> },
  { tab: "pauses", label: "Pauses", scope: "jobs:read", page: () => <Pauses /> },
  { tab: "subscriptions", label: "Notices", scope: "subscriptions:read", page: () => <Subscriptions /> },
  { tab: "keys", label: "API keys", scope: "admin", page: () => <Keys /> },
  { tab: "servers", label: "Servers", scope: "admin", operator: true, page: () => <Servers /> },
];

export default function SettingsPage() {
  const { tab } = useSearch({ from: "/settings" });
  const may = useMay();
  const operator = useOperator();
  const shown = tabs.filter((t) => (!t.scope || may(t.scope)) && (!t.operator || operator));
  const at = shown.find((t) => t.tab === tab) ?? shown[0]!;
  return (
    <div className="mx-auto max-w-[60rem] space-y-5 px-4 pt-5 pb-10 md:px-8 md:pt-7">
      <PageHead title="Settings" />
      <nav aria-label="Settings" className="-mx-4 flex gap-1 overflow-x-auto border-b px-4 md:mx-0 md:px-0">
        {shown.map((t) => (
          <Link
            key={t.label}
            to="/settings"
            search={t.tab ? { tab: t.tab } : {}}
            aria-current={t === at ? "page" : undefined}
            data-focus="inside"
            className={`-mb-px border-b-2 px-3 py-2 whitespace-nowrap ${t === at ? "border-accent font-medium text-ink" : "border-transparent text-dim hover:text-ink"}`}
          >
            {t.label}
          </Link>
        ))}
      </nav>
      {at.page()}
    </div>
  );
}

function You() {
  const who = useWho();
  const theme = useTheme();
  return (
    <>
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
      <p className="text-[13px] text-faint">
        Fireonce {who.version} ·{" "}
        <a className="underline" href={`${base}/licenses.txt`}>
          Licenses of what this page is made of
        </a>
      </p>
    </>
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
