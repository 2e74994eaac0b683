import { Outlet, useRouterState } from "@tanstack/react-router";
import { Suspense, useEffect } from "react";
import { useSession, WhoProvider } from "@/api/session";
import { useFollow } from "@/live/follow";
import { Button, Notice, Skeleton } from "@/ui/basics";
import { Toasts } from "@/ui/toast";
import { Frame } from "./Frame";
import { Logo } from "./Logo";
import { nav } from "./nav";
import { SignIn } from "./SignIn";

/** Everything: the sign-in where there is one, else the frame with a page in it. */
export function App() {
  const session = useSession();
  const who = session.data;
  useFollow(Boolean(who?.signedIn && who.scopes.includes("jobs:read")));
  const path = useRouterState({ select: (s) => s.location.pathname });
  useEffect(() => {
    const at = nav.find((n) => n.to === path)?.label ?? (path === "/new" ? "New job" : path.startsWith("/jobs/") ? "Job" : "");
    document.title = at ? `${at} · Fireonce` : "Fireonce";
  }, [path]);

  if (!who) {
    return (
      <div className="flex h-full flex-col items-center justify-center gap-6 p-6">
        <Logo large />
        {session.isError && (
          <Notice kind="bad" title="The server does not answer" action={<Button size="sm" onClick={() => void session.refetch()}>Try again</Button>}>
            Is it running, and reachable from here?
          </Notice>
        )}
      </div>
    );
  }
  if (!who.signedIn) return <SignIn who={who} />;
  return (
    <WhoProvider value={who}>
      <Frame>
        <Suspense fallback={<Skeleton rows={8} className="p-8" />}>
          <Outlet />
        </Suspense>
      </Frame>
      <Toasts />
    </WhoProvider>
  );
}
