<?php
// What a client does with jobs, step by step: schedule, repeat, conflict, read by key,
// stream with a cursor, cancel, resolve, and an error by field.
//
// Each step prints one line. `php tour.php SERVER RECEIVER`; the receiver must never answer.
// The calls are POST requests of the Connect protocol: nothing but PHP and the classes of
// messages is needed. See README.md.

declare(strict_types=1);

use Fireonce\Connections\V1\Connection;
use Fireonce\Connections\V1\CreateConnectionRequest;
use Fireonce\Connections\V1\CreateConnectionResponse;
use Fireonce\Connections\V1\ReceiverDedupes;
use Fireonce\Connections\V1\WebhookSettings;
use Fireonce\V1\CancelJobRequest;
use Fireonce\V1\CancelJobResponse;
use Fireonce\V1\ErrorDetail;
use Fireonce\V1\ErrorReason;
use Fireonce\V1\EventFilter;
use Fireonce\V1\GetJobRequest;
use Fireonce\V1\GetJobResponse;
use Fireonce\V1\Job;
use Fireonce\V1\JobEvent;
use Fireonce\V1\JobState;
use Fireonce\V1\Payload;
use Fireonce\V1\Resolution\Decision;
use Fireonce\V1\ResolveJobRequest;
use Fireonce\V1\ResolveJobResponse;
use Fireonce\V1\ScheduleJobRequest;
use Fireonce\V1\ScheduleJobResponse;
use Fireonce\V1\StreamJobEventsRequest;
use Fireonce\V1\StreamJobEventsResponse;
use Fireonce\V1\Webhook;
use Google\Protobuf\Duration;
use Google\Protobuf\Internal\Message;
use Google\Protobuf\Timestamp;

// Composer's autoloader does the same.
spl_autoload_register(function (string $class): void {
    $file = stream_resolve_include_path(strtr($class, '\\', '/') . '.php');
    if ($file !== false) {
        require $file;
    }
});

/** An error of a call: the code's name, and the typed cause if the service sent one. */
final class CallError extends Exception
{
    public readonly ?ErrorDetail $detail;

    /** @param array $error what the Connect protocol sends as JSON */
    public function __construct(public readonly string $name, array $error)
    {
        parent::__construct($name . ': ' . ($error['message'] ?? ''));
        $this->detail = self::detail($error);
    }

    private static function detail(array $error): ?ErrorDetail
    {
        foreach ($error['details'] ?? [] as $packed) {
            if ($packed['type'] === 'fireonce.v1.ErrorDetail') {
                $detail = new ErrorDetail();
                $detail->mergeFromString(base64_decode($packed['value']));
                return $detail;
            }
        }
        return null;
    }
}

final class Client
{
    public function __construct(private readonly string $server, private readonly string $key)
    {
    }

    /** Makes a call of one answer. One without a timeout may wait for ever. */
    public function call(string $method, Message $request, Message $answer): Message
    {
        $stream = $this->post($method, 'application/proto', $request->serializeToString(), 10);
        $body = stream_get_contents($stream);
        fclose($stream);
        $answer->mergeFromString($body);
        return $answer;
    }

    /** Returns the events of a stream, each as it comes. It ends with the generator. */
    public function events(StreamJobEventsRequest $request): Generator
    {
        $message = $request->serializeToString();
        $stream = $this->post('fireonce.v1.JobService/StreamJobEvents', 'application/connect+proto', pack('CN', 0, strlen($message)) . $message, 60);
        try {
            while (true) {
                ['flags' => $flags, 'length' => $length] = unpack('Cflags/Nlength', self::read($stream, 5));
                $body = self::read($stream, $length);
                if ($flags & 2) { // the last message, with what a trailer says
                    $end = json_decode($body, true);
                    if (isset($end['error'])) {
                        throw new CallError($end['error']['code'], $end['error']);
                    }
                    return;
                }
                $answer = new StreamJobEventsResponse();
                $answer->mergeFromString($body);
                yield $answer->getEvent();
            }
        } finally {
            fclose($stream);
        }
    }

    /** @return resource the body of the answer */
    private function post(string $method, string $type, string $body, int $seconds)
    {
        $headers = ["Content-Type: $type", 'Connect-Protocol-Version: 1'];
        if ($this->key !== '') {
            $headers[] = 'Authorization: Bearer ' . $this->key;
        }
        $stream = @fopen("$this->server/$method", 'r', false, stream_context_create(['http' => [
            'method' => 'POST', 'protocol_version' => 1.1, 'header' => $headers, 'content' => $body,
            'timeout' => $seconds, 'ignore_errors' => true, 'follow_location' => 0,
        ]]));
        if ($stream === false) {
            throw new CallError('unavailable', ['message' => 'no answer']);
        }
        if (!str_contains(stream_get_meta_data($stream)['wrapper_data'][0], ' 200 ')) {
            $error = json_decode(stream_get_contents($stream), true) ?? [];
            throw new CallError($error['code'] ?? 'unknown', $error);
        }
        return $stream;
    }

    /** @param resource $stream */
    private static function read($stream, int $length): string
    {
        for ($read = ''; strlen($read) < $length; $read .= $part) {
            $part = fread($stream, $length - strlen($read));
            if ($part === false || $part === '') {
                throw new CallError('unavailable', ['message' => 'the stream was lost']);
            }
        }
        return $read;
    }
}

function state(int $state): string
{
    return substr(JobState::name($state), strlen('JOB_STATE_'));
}

function refused(CallError $error): string
{
    return strtoupper($error->name) . ' ' . substr(ErrorReason::name($error->detail->getReason()), strlen('ERROR_REASON_'));
}

/** Returns the first change of a job behind a cursor, or from the beginning. */
function event(Client $client, string $job, string $cursor): JobEvent
{
    $request = new StreamJobEventsRequest(['filter' => new EventFilter(['job_ids' => [$job]])]);
    if ($cursor === '') {
        $request->setFromBeginning(true);
    } else {
        $request->setAfterCursor($cursor);
    }
    foreach ($client->events($request) as $event) {
        if ($event->hasJobChanged()) {
            return $event;
        }
    }
    throw new CallError('unavailable', ['message' => 'the stream ended']);
}

function tour(Client $client, string $receiver): void
{
    $connection = $client->call('fireonce.connections.v1.ConnectionService/CreateConnection', new CreateConnectionRequest([
        'idempotency_key' => 'tour',
        'connection' => new Connection([
            'connector' => 'webhook',
            'webhook' => new WebhookSettings(['receiver_dedupes' => ReceiverDedupes::RECEIVER_DEDUPES_NO]),
        ]),
    ]), new CreateConnectionResponse())->getConnection()->getConnectionId();
    $request = fn (string $key, string $body, string $path, array $more = []) => new ScheduleJobRequest([
        'idempotency_key' => $key,
        'connection_id' => $connection,
        'payload' => new Payload(['webhook' => new Webhook(['url' => $receiver . $path, 'body_text' => $body])]),
        ...$more,
    ]);
    $schedule = fn (ScheduleJobRequest $asked) => $client->call('fireonce.v1.JobService/ScheduleJob', $asked, new ScheduleJobResponse());
    $get = fn (string $key): Job => $client->call('fireonce.v1.JobService/GetJob', new GetJobRequest(['idempotency_key' => $key]), new GetJobResponse())->getJob();
    $yes = fn (bool $is): string => $is ? 'true' : 'false';

    $tomorrow = ['schedule_time' => new Timestamp(['seconds' => time() + 86400])];
    $first = $schedule($request('tour-later', 'one', '/later', $tomorrow));
    $job = $first->getJob()->getJobId();
    echo 'scheduled created=', $yes($first->getCreated()), "\n";
    $again = $schedule($request('tour-later', 'one', '/later', $tomorrow));
    echo 'repeated created=', $yes($again->getCreated()), ' same=', $yes($again->getJob()->getJobId() === $job), "\n";
    try {
        $schedule($request('tour-later', 'two', '/later', $tomorrow));
    } catch (CallError $error) {
        $conflict = $error->detail->getIdempotencyConflict();
        echo 'conflict ', refused($error), ' ', implode(',', iterator_to_array($conflict->getMismatchedFields())),
            $conflict->getJobId() === $job ? ' same job' : ' another job', "\n";
    }
    echo 'found ', state($get('tour-later')->getState()), "\n";

    $event = event($client, $job, '');
    echo 'event ', $event->getJobChanged()->getSequence(), ' ', state($event->getJobChanged()->getNewState()), "\n";
    $canceled = $client->call('fireonce.v1.JobService/CancelJob', new CancelJobRequest(['idempotency_key' => 'tour-later']), new CancelJobResponse());
    echo 'canceled prevented=', $yes($canceled->getPrevented()), "\n";
    $event = event($client, $job, $event->getCursor());
    echo 'event ', $event->getJobChanged()->getSequence(), ' ', state($event->getJobChanged()->getNewState()), "\n";

    $asked = $schedule($request('tour-silent', 'one', '/silent', ['attempt_timeout' => new Duration(['seconds' => 1])]));
    $cursor = '';
    do {
        $event = event($client, $asked->getJob()->getJobId(), $cursor);
        $cursor = $event->getCursor();
    } while ($event->getJobChanged()->getNewState() !== JobState::JOB_STATE_NEEDS_RESOLUTION);
    $unknown = $get('tour-silent');
    echo 'unknown ', state($unknown->getState()), "\n";
    $resolved = $client->call('fireonce.v1.JobService/ResolveJob', new ResolveJobRequest([
        'idempotency_key' => 'tour-silent', 'etag' => $unknown->getEtag(),
        'decision' => Decision::DECISION_SENT, 'note' => 'seen at the receiver',
    ]), new ResolveJobResponse());
    echo 'resolved ', state($resolved->getJob()->getState()), "\n";

    try {
        $schedule($request('with a space', 'one', ''));
    } catch (CallError $error) {
        echo 'violation ', refused($error), ' ', $error->detail->getViolations()[0]->getField(), "\n";
    }
}

if ($argc !== 3) {
    fwrite(STDERR, "usage: php tour.php SERVER RECEIVER\n");
    exit(2);
}
tour(new Client($argv[1], getenv('FIREONCE_API_KEY') ?: ''), $argv[2]);
