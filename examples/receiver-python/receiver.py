"""A receiver of webhooks that acts on each event once, in Python's standard library.

One transaction is enough: it inserts the event's id into a table with a unique key, and stores
the event's effect. A repeat finds the id, does nothing, and is answered 200 too.

    WEBHOOK_SECRET=whsec_... python3 receiver.py --listen 127.0.0.1:9000 --db receiver.db
"""

import argparse
import base64
import hashlib
import hmac
import os
import sqlite3
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_BODY = 1 << 20
TOLERANCE = 5 * 60  # seconds

# processed_events remembers ids; deliveries stands for the effect of your own handler.
SCHEMA = """
CREATE TABLE IF NOT EXISTS processed_events (
    webhook_id TEXT PRIMARY KEY,
    at         TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) STRICT;
CREATE TABLE IF NOT EXISTS deliveries (
    id   INTEGER PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;
"""


class Refused(Exception):
    """The request is not genuine. It has had no effect."""


def signing_key(secret):
    """Returns the bytes of a secret of Standard Webhooks, whsec_ and base64."""
    if not secret.startswith("whsec_"):
        raise ValueError("the secret must be whsec_ and base64")
    return base64.b64decode(secret[len("whsec_"):], validate=True)


def verify(key, headers, body, now):
    """Returns the event's id, or raises Refused.

    It checks the bytes as they arrived: a body must not be parsed before it is verified.
    """
    event, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    signed = event.encode() + b"." + stamp.encode() + b"." + body
    want = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    # There may be several signatures, while a secret is replaced by another one.
    genuine = False
    for one in headers.get("webhook-signature", "").split():
        version, _, signature = one.partition(",")
        # compare_digest takes the same time wherever the difference is.
        genuine |= version == "v1" and hmac.compare_digest(signature.encode(), want.encode())
    if not event or not genuine:
        raise Refused("the signature does not fit")
    # Without this, a request that was seen once could be replayed forever.
    if not stamp.isascii() or not stamp.isdigit() or abs(now - int(stamp)) > TOLERANCE:
        raise Refused("the timestamp is too old or too new")
    return event


def connect(path):
    """Opens the database. Its commits are durable when they return."""
    db = sqlite3.connect(path, timeout=5, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    return db


def once(db, event, handle):
    """Runs handle unless the event was processed before, and reports whether it ran.

    The id and the effect are committed in one transaction: both are stored, or neither.
    """
    db.execute("BEGIN IMMEDIATE")
    try:
        added = db.execute("INSERT INTO processed_events (webhook_id) VALUES (?) ON CONFLICT DO NOTHING", (event,))
        first = added.rowcount == 1
        if first:
            handle(db)
        db.execute("COMMIT")
        return first
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


class Receiver(BaseHTTPRequestHandler):
    """Answers 2xx for done, now or before; 4xx for refused without effect; 5xx for not done."""

    protocol_version = "HTTP/1.1"
    timeout = 15  # seconds without a byte

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or int(length) > MAX_BODY:
            self.close_connection = True  # what follows is not read
            self.answer(413, "the body is too large, or its length is not known")
            return
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            self.close_connection = True
            return  # it broke off
        try:
            event = verify(self.server.key, self.headers, body, time.time())
        except Refused as refusal:
            self.answer(401, str(refusal))
            return
        try:
            db = connect(self.server.path)
            try:
                # Your effect goes here.
                first = once(db, event, lambda db: db.execute("INSERT INTO deliveries (body) VALUES (?)", (body,)))
            finally:
                db.close()
        except sqlite3.Error as failure:
            print("failed    ", event, failure, file=sys.stderr)
            self.answer(500, "could not process the event")
            return
        self.answer(200, "processed" if first else "processed before")

    def answer(self, status, text):
        body = (text + "\n").encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", default="127.0.0.1:9000")
    parser.add_argument("--db", default="receiver.db")
    args = parser.parse_args()
    host, _, port = args.listen.rpartition(":")
    key = signing_key(os.environ["WEBHOOK_SECRET"])
    db = connect(args.db)
    db.executescript(SCHEMA)
    db.close()
    server = ThreadingHTTPServer((host, int(port)), Receiver)
    server.key, server.path = key, args.db
    print(f"listening on http://{host}:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
