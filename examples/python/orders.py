"""Announces orders by webhook, each once.

Run it twice, or kill it and run it again: no order is announced twice, because
the idempotency key is made from the order and not from the try.
"""

import argparse
import json
import os
import sys

import grpc

from fireonce.connections.v1 import connection_service_pb2, receiver_pb2
from fireonce.v1 import error_pb2, job_pb2, job_service_pb2

from client import Client, enum_name, error_detail


def connect(client: Client, secret: str) -> str:
    """Makes the connection to the receiver, or finds the one made before."""
    request = connection_service_pb2.CreateConnectionRequest(idempotency_key="orders")
    connection = request.connection
    connection.connector = "webhook"
    connection.display_name = "orders"
    # The receiver drops a webhook-id that it has seen in the last 24 hours, so an
    # unknown outcome can be settled by sending again.
    connection.webhook.receiver_dedupes = receiver_pb2.RECEIVER_DEDUPES_YES
    connection.webhook.key_window.FromSeconds(24 * 60 * 60)
    if secret:
        request.credential.webhook_secrets.secrets.append(secret)
    response = client.call(client.connections.CreateConnection, request)
    return response.connection.idempotency_key


def announcement(connection_key: str, receiver: str, order: str, amount: int, at: str) -> job_service_pb2.ScheduleJobRequest:
    """Makes the request for one order. The same order gives the same request: its
    time, too, is the order's own and not "in an hour from now"."""
    request = job_service_pb2.ScheduleJobRequest(
        idempotency_key=f"order-{order}-paid", connection_key=connection_key
    )
    request.payload.webhook.url = f"{receiver.rstrip('/')}/orders/{order}"
    request.payload.webhook.body_text = json.dumps(
        {"order": order, "amount": amount}, separators=(",", ":")
    )
    if at:
        request.schedule_time.FromJsonString(at)
    return request


def schedule(client: Client, requests: list) -> list:
    """Stores the jobs and gives their ids."""
    first = client.call(client.jobs.ScheduleJob, requests[0])
    say("scheduled", first.job.idempotency_key, "new" if first.created else "known")

    # All of them in one call, for the sake of the example with the first among
    # them: a repeat is no second job. Each item is decided on its own.
    batch = client.call(
        client.jobs.BatchScheduleJobs, job_service_pb2.BatchScheduleJobsRequest(requests=requests)
    )
    ids = []
    for request, result in zip(requests, batch.results):
        if result.HasField("error"):
            reason = enum_name(error_pb2.ErrorReason, result.error.detail.reason)
            say("refused", request.idempotency_key, reason, result.error.message)
            continue
        say("scheduled", request.idempotency_key, "new" if result.success.created else "known")
        ids.append(result.success.job.job_id)
    return ids


def watch(client: Client, ids: list) -> bool:
    """Prints each change until every job has ended; True if all took effect."""
    newest = {}
    job_filter = job_service_pb2.EventFilter(job_ids=ids)
    for event in client.follow(job_filter):
        change = event.job_changed
        say("changed", change.job_id, change.sequence, enum_name(job_pb2.JobState, change.new_state))
        newest[change.job_id] = change
        if change.new_state == job_pb2.JOB_STATE_NEEDS_RESOLUTION:
            say("undecided", change.job_id, "see `fireonce resolve`")
            return False
        if len(newest) == len(ids) and all(c.phase == job_pb2.PHASE_ENDED for c in newest.values()):
            break
    return all(c.new_state == job_pb2.JOB_STATE_SUCCEEDED for c in newest.values())


def say(*words) -> None:
    print(*words, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default="http://127.0.0.1:8080")
    parser.add_argument("--receiver", default="http://127.0.0.1:9000/")
    parser.add_argument("--amount", type=int, default=100)
    parser.add_argument("--at", default="", help="when to announce, in RFC 3339; now if not given")
    parser.add_argument("--timeout", type=float, default=10, help="seconds for one try of a call")
    parser.add_argument("orders", nargs="+", metavar="ORDER", help="at most 100")
    args = parser.parse_args()

    key = os.environ.get("FIREONCE_API_KEY", "")
    with Client(args.server, key, timeout=args.timeout) as client:
        try:
            connection_key = connect(client, os.environ.get("WEBHOOK_SECRET", ""))
            requests = [
                announcement(connection_key, args.receiver, order, args.amount, args.at) for order in args.orders
            ]
            ids = schedule(client, requests)
            if len(ids) < len(requests) or not watch(client, ids):
                return 1
            for request in requests:
                job = client.call(
                    client.jobs.GetJob,
                    job_service_pb2.GetJobRequest(idempotency_key=request.idempotency_key, omit_payload=True),
                ).job
                say("stored", job.idempotency_key, job.job_id, enum_name(job_pb2.JobState, job.state))
        except grpc.RpcError as error:
            return explain(error)
    return 0


def explain(error: grpc.RpcError) -> int:
    """Says what went wrong, by the typed detail and not by the text."""
    detail = error_detail(error)
    if detail is None:
        print(f"{error.code().name}: {error.details()}", file=sys.stderr)
        return 1
    reason = enum_name(error_pb2.ErrorReason, detail.reason)
    if detail.reason == error_pb2.ERROR_REASON_IDEMPOTENCY_KEY_REUSED:
        # Never retry this, and never go on with another key: the order is
        # announced, or will be, by the job that holds the key.
        conflict = detail.idempotency_conflict
        print(f"{reason}: job {conflict.job_id} differs in {', '.join(conflict.mismatched_fields)}", file=sys.stderr)
        return 3
    print(f"{reason}: {error.details()}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
