# What a client does with jobs, step by step: schedule, repeat, conflict, read by key,
# stream with a cursor, cancel, resolve, and an error by field.
#
# Each step prints one line. `ruby tour.rb SERVER RECEIVER`; the receiver must never answer.
# See README.md.

require "uri"
require "grpc"
require "google/protobuf/well_known_types"
require "google/rpc/status_pb"
require "fireonce/v1/job_service_services_pb"
require "fireonce/connections/v1/connection_service_services_pb"

V1 = Fireonce::V1
Connections = Fireonce::Connections::V1

server = URI(ARGV.fetch(0))
receiver = ARGV.fetch(1)
target = "#{server.host}:#{server.port}"
jobs = V1::JobService::Stub.new(target, :this_channel_is_insecure)
connections = Connections::ConnectionService::Stub.new(target, :this_channel_is_insecure)
key = ENV["FIREONCE_API_KEY"]
auth = key ? { "authorization" => "Bearer #{key}" } : {}
# Every call has a deadline: one without may wait for ever.
call = { metadata: auth }
within = ->(seconds) { call.merge(deadline: Time.now + seconds) }

# detail returns the typed cause of an error.
detail = lambda do |error|
  status = Google::Rpc::Status.decode(error.metadata.fetch("grpc-status-details-bin"))
  packed = status.details.find { |d| d.is(V1::ErrorDetail) }
  packed.unpack(V1::ErrorDetail)
end
code = ->(error) { GRPC::Core::StatusCodes.constants.find { |c| GRPC::Core::StatusCodes.const_get(c) == error.code } }
refused = ->(error) { "#{code.(error)} #{detail.(error).reason.to_s.delete_prefix("ERROR_REASON_")}" }
state = ->(value) { value.to_s.delete_prefix("JOB_STATE_") }

connection = connections.create_connection(
  Connections::CreateConnectionRequest.new(
    idempotency_key: "tour",
    connection: Connections::Connection.new(
      connector: "webhook",
      webhook: Connections::WebhookSettings.new(receiver_dedupes: :RECEIVER_DEDUPES_NO)
    )
  ), **within.(10)
).connection.connection_id

request = lambda do |name, body, path, **more|
  V1::ScheduleJobRequest.new(
    idempotency_key: name, connection_id: connection,
    payload: V1::Payload.new(webhook: V1::Webhook.new(url: receiver + path, body_text: body)), **more
  )
end

# event returns the first change of a job behind a cursor, or from the beginning.
event = lambda do |job, cursor = nil|
  from = cursor ? { after_cursor: cursor } : { from_beginning: true }
  stream = jobs.stream_job_events(
    V1::StreamJobEventsRequest.new(filter: V1::EventFilter.new(job_ids: [job]), **from), **within.(60)
  )
  stream.lazy.map(&:event).find(&:job_changed)
end

tomorrow = Google::Protobuf::Timestamp.new(seconds: Time.now.to_i + 86_400)
first = jobs.schedule_job(request.("tour-later", "one", "/later", schedule_time: tomorrow), **within.(10))
job = first.job.job_id
puts "scheduled created=#{first.created}"

again = jobs.schedule_job(request.("tour-later", "one", "/later", schedule_time: tomorrow), **within.(10))
puts "repeated created=#{again.created} same=#{again.job.job_id == job}"

begin
  jobs.schedule_job(request.("tour-later", "two", "/later", schedule_time: tomorrow), **within.(10))
rescue GRPC::BadStatus => error
  conflict = detail.(error).idempotency_conflict
  puts "conflict #{refused.(error)} #{conflict.mismatched_fields.to_a.join(",")} #{"same job" if conflict.job_id == job}"
end

found = jobs.get_job(V1::GetJobRequest.new(idempotency_key: "tour-later"), **within.(10))
puts "found #{state.(found.job.state)}"

one = event.(job)
puts "event #{one.job_changed.sequence} #{state.(one.job_changed.new_state)}"
canceled = jobs.cancel_job(V1::CancelJobRequest.new(idempotency_key: "tour-later"), **within.(10))
puts "canceled prevented=#{canceled.prevented}"
two = event.(job, one.cursor)
puts "event #{two.job_changed.sequence} #{state.(two.job_changed.new_state)}"

asked = jobs.schedule_job(
  request.("tour-silent", "one", "/silent", attempt_timeout: Google::Protobuf::Duration.new(seconds: 1)), **within.(10)
)
cursor = nil
loop do
  change = event.(asked.job.job_id, cursor)
  cursor = change.cursor
  break if change.job_changed.new_state == :JOB_STATE_NEEDS_RESOLUTION
end
unknown = jobs.get_job(V1::GetJobRequest.new(idempotency_key: "tour-silent"), **within.(10)).job
puts "unknown #{state.(unknown.state)}"
resolved = jobs.resolve_job(
  V1::ResolveJobRequest.new(
    idempotency_key: "tour-silent", etag: unknown.etag, decision: :DECISION_SENT, note: "seen at the receiver"
  ), **within.(10)
)
puts "resolved #{state.(resolved.job.state)}"

begin
  jobs.schedule_job(request.("with a space", "one", ""), **within.(10))
rescue GRPC::BadStatus => error
  puts "violation #{refused.(error)} #{detail.(error).violations.first.field}"
end
