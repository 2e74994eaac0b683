// A real server, a receiver, and jobs in every state, for the tests in a browser and for pictures.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

const binary = process.env.FIREONCE_BINARY ?? "fireonce";

/** Starts the program; env and args are added. Returns its address, a caller of its API, and its end. */
export async function startServer({ args = [], env = {}, dir = mkdtempSync(join(tmpdir(), "fireonce-web-")), port = 0 } = {}) {
  const listen = `127.0.0.1:${port}`;
  const child = spawn(binary, ["serve", "--dev", "--listen", listen, "--grpc-listen", "off", "--ops-listen", "off", "--database", `sqlite:${join(dir, "web.db")}`, "--grace", "2s", "--breaker-after", "0", ...args], {
    env: { PATH: process.env.PATH, HOME: dir, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let log = "";
  const url = await new Promise((resolve, reject) => {
    const read = (data) => {
      log += data;
      const found = /https?:\/\/127\.0\.0\.1:\d+/.exec(log);
      if (found && /ready/i.test(log)) resolve(found[0]);
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.on("exit", (code) => reject(new Error(`the server ended with ${code}:\n${log}`)));
    child.on("error", reject);
  });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  return {
    url,
    dir,
    port: Number(new URL(url).port),
    log: () => log,
    call: caller(url, env.FIREONCE_API_KEY),
    kill: async () => {
      child.kill("SIGKILL");
      await ended;
    },
    stop: async () => {
      child.kill("SIGTERM");
      await ended;
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** A caller of the API in JSON. */
export function caller(url, key) {
  return async (method, request = {}) => {
    const [service, name] = method.split("/");
    const res = await fetch(`${url}/${service}/${name}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) },
      body: JSON.stringify(request),
    });
    const answer = await res.json();
    if (!res.ok) throw new Error(`${method}: ${answer.code}: ${answer.message}`);
    return answer;
  };
}

/** A receiver that does what the path says: /ok, /reset after it acted, /down, /refused, /refused-first, /slow, /mastodon. */
export async function startReceiver() {
  const effects = new Map();
  const refused = new Set();
  const tokens = new Set(["good", "better"]);
  const server = createServer((req, res) => {
    const chunks = [];
    req.on("data", (c) => chunks.push(c));
    req.on("end", () => {
      const key = req.headers["webhook-id"] ?? req.headers["idempotency-key"] ?? "";
      effects.set(key, (effects.get(key) ?? 0) + 1);
      const path = new URL(req.url, "http://x").pathname;
      if (path.startsWith("/reset")) return req.socket.destroy();
      if (path.startsWith("/down")) return void res.writeHead(503).end("down for maintenance");
      if (path.startsWith("/refused-first") && !refused.has(path)) return void (refused.add(path), res.writeHead(422).end("not yet"));
      if (path.startsWith("/refused/")) return void res.writeHead(422, { "Content-Type": "application/json" }).end('{"error":"amount must be positive"}');
      if (path.startsWith("/mastodon/")) return mastodon(req, res, path, tokens);
      if (path.startsWith("/slow")) return void setTimeout(() => res.writeHead(200).end("ok"), 4000);
      res.writeHead(200, { "Content-Type": "application/json" }).end('{"ok":true}');
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, effects, tokens, stop: () => new Promise((r) => server.close(r)) };
}

/** As much of Mastodon as a login and a post need. It refuses every token but those. */
function mastodon(req, res, path, tokens) {
  const answer = (status, body) => res.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
  if (!tokens.has((req.headers.authorization ?? "").replace("Bearer ", ""))) return answer(401, { error: "The access token is invalid" });
  const account = { id: "1", username: "shop", acct: "shop", url: "https://example.social/@shop" };
  if (path.endsWith("/verify_credentials")) return answer(200, account);
  if (path.endsWith("/statuses") && req.method === "POST") return answer(200, { id: "99", url: "https://example.social/@shop/99", uri: "https://example.social/@shop/99", created_at: new Date().toISOString(), content: "", account });
  return answer(404, { error: "Record not found" });
}
