import { useQuery } from "@tanstack/react-query";
import { createContext, useContext } from "react";
import { base, queries } from "./transport";

// The session is the one thing that is no RPC: a browser keeps it as a cookie that no script can read, so the server
// has to set it.

/** Who the browser is, to the server. */
export interface Who {
  signedIn: boolean;
  /** False: any caller may do everything, and there is nothing to sign in to. */
  keyRequired: boolean;
  project?: string;
  actor?: string;
  scopes: string[];
  /** Why nobody can sign in here. */
  refusal?: string;
  version?: string;
}

const path = `${base}/session`;
const key = ["session"];

async function read(): Promise<Who> {
  const res = await fetch(path, { headers: { Accept: "application/json" } });
  if (!res.ok) throw new Error("The server does not answer.");
  return (await res.json()) as Who;
}

export function useSession() {
  return useQuery({ queryKey: key, queryFn: read, staleTime: Infinity, retry: 2 });
}

/** Signs in; fails with the server's words. */
export async function signIn(apiKey: string) {
  const res = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ key: apiKey }),
  });
  if (!res.ok) throw new Error((await res.text()).trim());
  queries.setQueryData(key, (await res.json()) as Who);
}

/** Signs out. The page begins anew, so that nothing stays of what it has read. */
export async function signOut() {
  await fetch(path, { method: "DELETE" });
  window.location.assign(`${base}/`);
}

/** Asks again who the browser is: a call was refused. */
export function checkSession() {
  void queries.invalidateQueries({ queryKey: key });
}

const Context = createContext<Who>({ signedIn: false, keyRequired: true, scopes: [] });
export const WhoProvider = Context.Provider;

export function useWho(): Who {
  return useContext(Context);
}

/** Reports whether the caller has a scope: a button that would fail is not shown. */
export function useMay(): (scope: Scope) => boolean {
  const { scopes } = useWho();
  return (scope) => scopes.includes(scope);
}

/** Reports whether the caller is the operator, for whom some calls are reserved. */
export function useOperator(): boolean {
  const { keyRequired, actor } = useWho();
  return !keyRequired || actor === "api:key";
}

export type Scope =
  | "jobs:read"
  | "payloads:read"
  | "jobs:write"
  | "jobs:resolve"
  | "jobs:delete"
  | "connections:read"
  | "connections:write"
  | "schedules:read"
  | "schedules:write"
  | "subscriptions:read"
  | "subscriptions:write"
  | "work:run"
  | "admin";
