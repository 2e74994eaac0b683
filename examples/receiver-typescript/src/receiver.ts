// A receiver of webhooks that acts on each event once, on PostgreSQL.
//
// One transaction is enough: it inserts the event's id into a table with a unique key, and
// stores the event's effect. A repeat finds the id, does nothing, and is answered 200 too.
// With PostgreSQL any number of these processes share the table.
//
//	WEBHOOK_SECRET=whsec_… DATABASE_URL=postgres://… node receiver.js --listen 127.0.0.1:9000

import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { parseArgs } from "node:util";
import pg from "pg";

const maxBody = 1 << 20;
const tolerance = 5 * 60; // seconds

// processed_events remembers ids; deliveries stands for the effect of your own handler.
const schema = `
CREATE TABLE IF NOT EXISTS processed_events (
	webhook_id text PRIMARY KEY,
	at         timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS deliveries (
	id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	body bytea NOT NULL
);`;

/** The request is not genuine, or too large. It has had no effect. */
class Refused extends Error {
	constructor(
		readonly status: number,
		message: string,
	) {
		super(message);
	}
}

/** Returns the bytes of a secret of Standard Webhooks, whsec_ and base64. */
function signingKey(secret: string): Buffer {
	if (!/^whsec_[A-Za-z0-9+/]{32,}={0,2}$/.test(secret)) {
		throw new Error("the secret must be whsec_ and base64");
	}
	return Buffer.from(secret.slice("whsec_".length), "base64");
}

/**
 * Returns the event's id. It checks the bytes as they arrived: a body must not be parsed before
 * it is verified.
 */
function verify(key: Buffer, headers: IncomingHttpHeaders, body: Buffer, now: number): string {
	const id = String(headers["webhook-id"] ?? "");
	const stamp = String(headers["webhook-timestamp"] ?? "");
	const want = createHmac("sha256", key).update(`${id}.${stamp}.`).update(body).digest();
	// There may be several signatures, while a secret is replaced by another one.
	let genuine = false;
	for (const one of String(headers["webhook-signature"] ?? "").split(" ")) {
		const [version, signature] = one.split(",", 2);
		const got = Buffer.from(signature ?? "", "base64");
		// timingSafeEqual takes the same time wherever the difference is.
		genuine ||= version === "v1" && got.length === want.length && timingSafeEqual(got, want);
	}
	if (id === "" || !genuine) {
		throw new Refused(401, "the signature does not fit");
	}
	// Without this, a request that was seen once could be replayed forever.
	if (!/^\d+$/.test(stamp) || Math.abs(now / 1000 - Number(stamp)) > tolerance) {
		throw new Refused(401, "the timestamp is too old or too new");
	}
	return id;
}

/**
 * Runs handle unless the event was processed before, and reports whether it ran. The id and the
 * effect are committed in one transaction: both are stored, or neither. While another process
 * has the id and has not committed, the insert waits for it.
 */
async function once(pool: pg.Pool, id: string, handle: (tx: pg.PoolClient) => Promise<void>): Promise<boolean> {
	const tx = await pool.connect();
	let broken: Error | undefined;
	try {
		await tx.query("BEGIN");
		const added = await tx.query("INSERT INTO processed_events (webhook_id) VALUES ($1) ON CONFLICT DO NOTHING", [id]);
		const first = added.rowCount === 1;
		if (first) {
			await handle(tx);
		}
		await tx.query("COMMIT");
		return first;
	} catch (failure) {
		broken = failure as Error;
		throw failure;
	} finally {
		tx.release(broken); // with an error it closes the connection, which ends the transaction
	}
}

async function read(request: IncomingMessage): Promise<Buffer> {
	const parts: Buffer[] = [];
	let size = 0;
	for await (const part of request) {
		size += (part as Buffer).length;
		if (size > maxBody) {
			throw new Refused(413, "the body is too large");
		}
		parts.push(part as Buffer);
	}
	return Buffer.concat(parts);
}

/** Its status: 2xx for done, now or before; 4xx for refused without effect; 5xx for not done. */
async function receive(pool: pg.Pool, key: Buffer, request: IncomingMessage): Promise<[status: number, text: string]> {
	try {
		if (request.method !== "POST") {
			throw new Refused(405, "POST only");
		}
		const body = await read(request);
		const id = verify(key, request.headers, body, Date.now());
		const first = await once(pool, id, async (tx) => {
			await tx.query("INSERT INTO deliveries (body) VALUES ($1)", [body]); // your effect goes here
		});
		return [200, first ? "processed" : "processed before"];
	} catch (failure) {
		if (failure instanceof Refused) {
			return [failure.status, failure.message];
		}
		console.error("failed", failure);
		return [500, "could not process the event"];
	}
}

const { values } = parseArgs({ options: { listen: { type: "string", default: "127.0.0.1:9000" } } });
const colon = values.listen.lastIndexOf(":");
const key = signingKey(process.env["WEBHOOK_SECRET"] ?? "");
const pool = new pg.Pool({ connectionString: process.env["DATABASE_URL"] });
pool.on("error", (failure) => console.error("an idle connection broke", failure.message)); // the pool replaces it
// In one transaction, and one process at a time: two that create a table collide.
await pool.query(`SELECT pg_advisory_xact_lock(1); ${schema}`);

const server = createServer((request, response) => {
	void receive(pool, key, request).then(([status, text]) => {
		response.shouldKeepAlive &&= status !== 413; // the rest of the body is not read
		response.writeHead(status).end(`${text}\n`);
	});
});
server.requestTimeout = 15_000;
server.listen(Number(values.listen.slice(colon + 1)), values.listen.slice(0, colon), () => {
	console.log(`listening on http://${values.listen.slice(0, colon)}:${(server.address() as AddressInfo).port}`);
});
