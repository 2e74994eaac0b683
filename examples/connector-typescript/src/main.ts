/**
 * An example of a connector of your own, see README.md.
 *
 *     main.js --listen 127.0.0.1:9001 --book guests.jsonl
 *     echo '{"connectors": [{"name": "guests", "url": "http://127.0.0.1:9001"}]}' >connectors.json
 *     fireonce serve --connectors connectors.json
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo } from "node:net";
import { parseArgs } from "node:util";

import { connectNodeAdapter } from "@connectrpc/connect-node";

import { Book } from "./book.js";
import { guestbook } from "./guestbook.js";

const { values } = parseArgs({
  options: {
    listen: { type: "string", default: "127.0.0.1:9001" },
    book: { type: "string", default: "guests.jsonl" },
    // Only who has one of these tokens may write, one in a line of this file.
    guests: { type: "string" },
    // Only who calls with this token is served.
    token: { type: "string", default: process.env.CONNECTOR_TOKEN ?? "" },
  },
});

const guests = values.guests ? readFileSync(values.guests, "utf8").split(/\s+/).filter(Boolean) : [];
const book = new Book(values.book);
const served = connectNodeAdapter({ routes: guestbook(book, guests), readMaxBytes: 4 << 20 });

const digest = (text: string) => createHash("sha256").update(text).digest();
const want = digest(`Bearer ${values.token}`);

const server = createServer((request, response) => {
  if (values.token && !timingSafeEqual(digest(request.headers.authorization ?? ""), want)) {
    response.writeHead(401).end("who are you?");
    return;
  }
  served(request, response);
});

const end = () => server.close(() => book.close());
process.once("SIGINT", end);
process.once("SIGTERM", end);

const [, host, port] = /^(.*):(\d+)$/.exec(values.listen) ?? [];
server.listen(Number(port), host, () => {
  const { address, port } = server.address() as AddressInfo;
  console.log(`listening on http://${address}:${port}`);
});
