/** The tour in Node. `node tour-node.js --server URL --receiver URL` */
import { parseArgs } from "node:util";

import { createConnectTransport } from "@connectrpc/connect-node";

import { tour } from "./tour.js";

const { values } = parseArgs({ options: { server: { type: "string" }, receiver: { type: "string" } } });
const key = process.env["FIREONCE_API_KEY"];
const transport = createConnectTransport({
  baseUrl: values.server!,
  httpVersion: "1.1",
  defaultTimeoutMs: 60_000,
  interceptors: key ? [(next) => (request) => (request.header.set("Authorization", `Bearer ${key}`), next(request))] : [],
});
await tour(transport, values.receiver!, (line) => console.log(line));
