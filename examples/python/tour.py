"""What a client does with jobs, step by step: schedule, repeat, conflict, read by key,
stream with a cursor, cancel, resolve, and an error by field.

Each step prints one line. `python3 tour.py --server URL --receiver URL`; the receiver must
never answer. See ../../docs/calls.md.
"""

import argparse
import os

import grpc
from google.protobuf import duration_pb2

from client import Client, enum_name, error_detail
from fireonce.connections.v1 import connection_pb2, connection_service_pb2, receiver_pb2, webhook_pb2
from fireonce.v1 import error_pb2, job_pb2, job_service_pb2, payload_pb2


def request(connection: str, url: str, key: str, body: str) -> job_service_pb2.ScheduleJobRequest:
    return job_service_pb2.ScheduleJobRequest(
        idempotency_key=key,
        connection_id=connection,
        payload=payload_pb2.Payload(webhook=payload_pb2.Webhook(url=url, body_text=body)),
    )


def state(value: int) -> str:
    return enum_name(job_pb2.JobState, value).removeprefix("JOB_STATE_")


def refused(error: grpc.RpcError) -> str:
    return f"{error.code().name} {enum_name(error_pb2.ErrorReason, error_detail(error).reason).removeprefix('ERROR_REASON_')}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--receiver", required=True)
    args = parser.parse_args()
    with Client(args.server, os.environ.get("FIREONCE_API_KEY", "")) as client:
        tour(client, args.receiver)


def tour(client: Client, receiver: str) -> None:
    settings = webhook_pb2.WebhookSettings(receiver_dedupes=receiver_pb2.RECEIVER_DEDUPES_NO)
    made = client.call(
        client.connections.CreateConnection,
        connection_service_pb2.CreateConnectionRequest(
            idempotency_key="tour", connection=connection_pb2.Connection(connector="webhook", webhook=settings)
        ),
    )
    connection = made.connection.connection_id

    later = request(connection, receiver + "/later", "tour-later", "one")
    later.schedule_time.GetCurrentTime()
    later.schedule_time.seconds += 86400
    first = client.call(client.jobs.ScheduleJob, later)
    job = first.job.job_id
    print(f"scheduled created={str(first.created).lower()}")

    again = client.call(client.jobs.ScheduleJob, later)
    print(f"repeated created={str(again.created).lower()} same={str(again.job.job_id == job).lower()}")

    other = request(connection, receiver + "/later", "tour-later", "two")
    other.schedule_time.CopyFrom(later.schedule_time)
    try:
        client.call(client.jobs.ScheduleJob, other)
    except grpc.RpcError as error:
        conflict = error_detail(error).idempotency_conflict
        print("conflict", refused(error), ",".join(conflict.mismatched_fields), conflict.job_id == job and "same job")

    found = client.call(client.jobs.GetJob, job_service_pb2.GetJobRequest(idempotency_key="tour-later"))
    print("found", state(found.job.state))

    only = job_service_pb2.EventFilter(job_ids=[job])
    event = next(client.follow(only))
    print("event", event.job_changed.sequence, state(event.job_changed.new_state))

    canceled = client.call(client.jobs.CancelJob, job_service_pb2.CancelJobRequest(idempotency_key="tour-later"))
    print(f"canceled prevented={str(canceled.prevented).lower()}")
    event = next(client.follow(only, event.cursor))
    print("event", event.job_changed.sequence, state(event.job_changed.new_state))

    silent = request(connection, receiver + "/silent", "tour-silent", "one")
    silent.attempt_timeout.CopyFrom(duration_pb2.Duration(seconds=1))
    asked = client.call(client.jobs.ScheduleJob, silent)
    for event in client.follow(job_service_pb2.EventFilter(job_ids=[asked.job.job_id])):
        if event.job_changed.new_state == job_pb2.JOB_STATE_NEEDS_RESOLUTION:
            break
    unknown = client.call(client.jobs.GetJob, job_service_pb2.GetJobRequest(idempotency_key="tour-silent")).job
    print("unknown", state(unknown.state))
    resolved = client.call(
        client.jobs.ResolveJob,
        job_service_pb2.ResolveJobRequest(
            idempotency_key="tour-silent", etag=unknown.etag, decision=job_pb2.Resolution.DECISION_SENT, note="seen at the receiver"
        ),
    )
    print("resolved", state(resolved.job.state))

    try:
        client.call(client.jobs.ScheduleJob, request(connection, receiver, "with a space", "one"))
    except grpc.RpcError as error:
        violation = error_detail(error).violations[0]
        print("violation", refused(error), violation.field)


if __name__ == "__main__":
    main()
