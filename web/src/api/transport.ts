import { createConnectTransport } from "@connectrpc/connect-web";
import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";
import { isSignedOut, isWorthRepeating } from "@/api/errors";

/** The path below which the page is served, without a slash at its end: "" or "/fireonce". */
export const base = new URL(document.baseURI).pathname.replace(/\/+$/, "");

/** Calls of the API, by the same origin's cookie where there is a session. */
export const transport = createConnectTransport({
  baseUrl: window.location.origin + base,
  useBinaryFormat: true, // exact integers, and half the bytes of JSON
  defaultTimeoutMs: 30_000,
});

let signedOut = () => {};

/** Calls the function when a call was refused because the session has ended. */
export function onSignedOut(then: () => void) {
  signedOut = then;
}

function failed(error: unknown) {
  if (isSignedOut(error)) signedOut();
}

export const queries = new QueryClient({
  queryCache: new QueryCache({ onError: failed }),
  mutationCache: new MutationCache({ onError: failed }),
  defaultOptions: {
    queries: {
      staleTime: 15_000,
      retry: (count, error) => count < 2 && isWorthRepeating(error),
      refetchOnWindowFocus: false, // the stream says what has changed
    },
    mutations: { retry: false },
  },
});
