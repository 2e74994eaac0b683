// What a client does with jobs, step by step: schedule, repeat, conflict, read by key,
// stream with a cursor, cancel, resolve, and an error by field.
//
// Each step prints one line. `Tour SERVER RECEIVER`; the receiver must never answer.
// See README.md.

import com.google.protobuf.Duration;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Timestamp;
import io.github.fireonce.connections.v1.Connection;
import io.github.fireonce.connections.v1.ConnectionServiceGrpc;
import io.github.fireonce.connections.v1.CreateConnectionRequest;
import io.github.fireonce.connections.v1.ReceiverDedupes;
import io.github.fireonce.connections.v1.WebhookSettings;
import io.github.fireonce.v1.CancelJobRequest;
import io.github.fireonce.v1.ErrorDetail;
import io.github.fireonce.v1.EventFilter;
import io.github.fireonce.v1.GetJobRequest;
import io.github.fireonce.v1.Job;
import io.github.fireonce.v1.JobEvent;
import io.github.fireonce.v1.JobServiceGrpc;
import io.github.fireonce.v1.JobState;
import io.github.fireonce.v1.Payload;
import io.github.fireonce.v1.Resolution;
import io.github.fireonce.v1.ResolveJobRequest;
import io.github.fireonce.v1.ScheduleJobRequest;
import io.github.fireonce.v1.StreamJobEventsRequest;
import io.github.fireonce.v1.StreamJobEventsResponse;
import io.github.fireonce.v1.Webhook;
import io.grpc.Context;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.protobuf.lite.ProtoLiteUtils;
import io.grpc.stub.AbstractStub;
import io.grpc.stub.MetadataUtils;
import java.net.URI;
import java.time.Instant;
import java.util.Iterator;
import java.util.concurrent.TimeUnit;

final class Tour {
  private static final Metadata.Key<com.google.rpc.Status> DETAILS =
      Metadata.Key.of("grpc-status-details-bin",
          ProtoLiteUtils.metadataMarshaller(com.google.rpc.Status.getDefaultInstance()));

  private final JobServiceGrpc.JobServiceBlockingStub jobs;
  private final ConnectionServiceGrpc.ConnectionServiceBlockingStub connections;
  private final String receiver;
  private String connection;

  private Tour(ManagedChannel channel, String receiver) {
    Metadata headers = new Metadata();
    String key = System.getenv("FIREONCE_API_KEY");
    if (key != null) {
      headers.put(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER), "Bearer " + key);
    }
    var auth = MetadataUtils.newAttachHeadersInterceptor(headers);
    this.jobs = JobServiceGrpc.newBlockingStub(channel).withInterceptors(auth);
    this.connections = ConnectionServiceGrpc.newBlockingStub(channel).withInterceptors(auth);
    this.receiver = receiver;
  }

  public static void main(String[] args) throws Exception {
    if (args.length != 2) {
      System.err.println("usage: Tour SERVER RECEIVER");
      System.exit(2);
    }
    ManagedChannel channel = NettyChannelBuilder.forTarget(URI.create(args[0]).getAuthority()).usePlaintext().build();
    try {
      new Tour(channel, args[1]).run();
    } finally {
      channel.shutdownNow();
    }
  }

  private void run() throws Exception {
    connection = soon(connections).createConnection(CreateConnectionRequest.newBuilder()
        .setIdempotencyKey("tour")
        .setConnection(Connection.newBuilder().setConnector("webhook").setWebhook(
            WebhookSettings.newBuilder().setReceiverDedupes(ReceiverDedupes.RECEIVER_DEDUPES_NO)))
        .build()).getConnection().getConnectionId();
    cancel();
    resolve();
    try {
      soon(jobs).scheduleJob(request("with a space", "one", "").build());
    } catch (StatusRuntimeException error) {
      System.out.println("violation " + refused(error) + " " + detail(error).getViolations(0).getField());
    }
  }

  /** Schedules a job, finds it under its key, and cancels it. */
  private void cancel() throws Exception {
    var tomorrow = Timestamp.newBuilder().setSeconds(Instant.now().getEpochSecond() + 24 * 60 * 60);
    var later = request("tour-later", "one", "/later").setScheduleTime(tomorrow).build();
    var first = soon(jobs).scheduleJob(later);
    String job = first.getJob().getJobId();
    System.out.println("scheduled created=" + first.getCreated());
    var again = soon(jobs).scheduleJob(later);
    System.out.println("repeated created=" + again.getCreated() + " same=" + again.getJob().getJobId().equals(job));
    try {
      soon(jobs).scheduleJob(request("tour-later", "two", "/later").setScheduleTime(tomorrow).build());
    } catch (StatusRuntimeException error) {
      var conflict = detail(error).getIdempotencyConflict();
      System.out.println("conflict " + refused(error) + " " + String.join(",", conflict.getMismatchedFieldsList())
          + (conflict.getJobId().equals(job) ? " same job" : " another job"));
    }
    System.out.println("found " + state(get("tour-later").getState()));

    JobEvent event = event(job, "");
    print(event);
    var canceled = soon(jobs).cancelJob(CancelJobRequest.newBuilder().setIdempotencyKey("tour-later").build());
    System.out.println("canceled prevented=" + canceled.getPrevented());
    print(event(job, event.getCursor()));
  }

  /** Lets a job's outcome stay unknown, and decides it. */
  private void resolve() throws Exception {
    var asked = soon(jobs).scheduleJob(request("tour-silent", "one", "/silent")
        .setAttemptTimeout(Duration.newBuilder().setSeconds(1)).build());
    JobEvent event = JobEvent.getDefaultInstance();
    while (event.getJobChanged().getNewState() != JobState.JOB_STATE_NEEDS_RESOLUTION) {
      event = event(asked.getJob().getJobId(), event.getCursor());
    }
    Job unknown = get("tour-silent");
    System.out.println("unknown " + state(unknown.getState()));
    var resolved = soon(jobs).resolveJob(ResolveJobRequest.newBuilder().setIdempotencyKey("tour-silent")
        .setEtag(unknown.getEtag()).setDecision(Resolution.Decision.DECISION_SENT).setNote("seen at the receiver").build());
    System.out.println("resolved " + state(resolved.getJob().getState()));
  }

  private ScheduleJobRequest.Builder request(String key, String body, String path) {
    return ScheduleJobRequest.newBuilder().setIdempotencyKey(key).setConnectionId(connection)
        .setPayload(Payload.newBuilder().setWebhook(Webhook.newBuilder().setUrl(receiver + path).setBodyText(body)));
  }

  private Job get(String key) {
    return soon(jobs).getJob(GetJobRequest.newBuilder().setIdempotencyKey(key).build()).getJob();
  }

  /** Returns the first change of a job behind a cursor, or from the beginning, and ends the stream. */
  private JobEvent event(String job, String cursor) throws Exception {
    var request = StreamJobEventsRequest.newBuilder().setFilter(EventFilter.newBuilder().addJobIds(job));
    if (cursor.isEmpty()) {
      request.setFromBeginning(true);
    } else {
      request.setAfterCursor(cursor);
    }
    try (Context.CancellableContext stream = Context.current().withCancellation()) {
      return stream.call(() -> {
        Iterator<StreamJobEventsResponse> answers =
            jobs.withDeadlineAfter(1, TimeUnit.MINUTES).streamJobEvents(request.build());
        while (true) {
          JobEvent event = answers.next().getEvent();
          if (event.hasJobChanged()) {
            return event;
          }
        }
      });
    }
  }

  private static void print(JobEvent event) {
    var change = event.getJobChanged();
    System.out.println("event " + change.getSequence() + " " + state(change.getNewState()));
  }

  /** Returns the stub with a deadline for one call; a call without one may wait for ever. */
  private static <S extends AbstractStub<S>> S soon(S stub) {
    return stub.withDeadlineAfter(10, TimeUnit.SECONDS);
  }

  private static String state(JobState state) {
    return state.name().replaceFirst("^JOB_STATE_", "");
  }

  private static String refused(StatusRuntimeException error) throws InvalidProtocolBufferException {
    return error.getStatus().getCode() + " " + detail(error).getReason().name().replaceFirst("^ERROR_REASON_", "");
  }

  /** Returns the typed cause of an error. */
  private static ErrorDetail detail(StatusRuntimeException error) throws InvalidProtocolBufferException {
    for (var packed : error.getTrailers().get(DETAILS).getDetailsList()) {
      if (packed.is(ErrorDetail.class)) {
        return packed.unpack(ErrorDetail.class);
      }
    }
    return ErrorDetail.getDefaultInstance();
  }
}
