/** The tour in a browser, from another origin than the server's. See tour.html. */
import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-web";

import { tour } from "./tour.js";

const options = new URLSearchParams(location.search);
const create = options.get("protocol") === "grpc-web" ? createGrpcWebTransport : createConnectTransport;
const transport = create({
  baseUrl: options.get("server")!,
  defaultTimeoutMs: 60_000,
  interceptors: [(next) => (request) => (request.header.set("Authorization", `Bearer ${options.get("key")}`), next(request))],
});
const lines: string[] = [];
try {
  await tour(transport, options.get("receiver")!, (line) => {
    lines.push(line);
    document.body.append(line, document.createElement("br"));
  });
} catch (error) {
  lines.push(String(error));
}
await fetch("/done", { method: "POST", body: lines.join("\n") });
