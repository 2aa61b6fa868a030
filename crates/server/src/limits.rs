//! Every bound of the server, one constant each, with its reason.
//!
//! A client that keeps to them notices none; one that does not learns which it broke.

use std::time::Duration;

use tidegate_gate::AdhocLimit;

// Connections, at every door.

/// Connections to one door at a time: quiet ones take a few KiB each. Hostile ones can make each
/// hold some 128 KiB, half of which is [`ROOM_BYTES_FREE`] and the rest buffers: that is 2.6 GB
/// together. What they hold beyond that is bounded for all of them, by [`ROOM_BYTES_MAX`] and
/// [`BODIES_BYTES_MAX`]. `tidegate serve` raises its own limit of open files, as far as the system
/// lets it; where that is not enough for all doors, each has its share.
pub(crate) const CONNECTIONS_MAX: usize = 20_000;

/// One address may have one part in so many of a door's connections: half, so that one machine
/// never fills a door, and the only application of a small server is not in its own way. A proxy
/// that is configured as such has no bound of its own.
pub(crate) const CONNECTIONS_EACH_PART: usize = 2;

/// How many connections are looked at to find an idle one for a newcomer: a tenth of a millisecond,
/// lest a door full of busy ones spends its time searching.
pub(crate) const CONNECTIONS_LOOKED_AT_MAX: usize = 256;

/// How often all that is ready runs before an idle connection has to leave: those that were closed
/// in a storm end at their next turn, after the system was asked for news.
pub(crate) const ROUNDS_BEFORE_ROOM_IS_MADE: usize = 16;

/// Open files that no door may take: 64 of administrators, one for each node of Redis, and a dozen
/// each for snapshots, policies, certificates, the collector, events and listening. Of a limit that
/// is very low, it is half.
pub(crate) const OWN_FILES: usize = 256;

/// Connections to the administrators' socket at a time: who can open it is trusted, and a script
/// that forgets to close them is not.
pub(crate) const ADMIN_CONNECTIONS_MAX: usize = 64;

/// Connections that are in the middle of a TLS handshake: these cost processor time before anybody
/// knows who is there.
pub(crate) const HANDSHAKES_MAX: usize = 256;

/// Of these, how many one address may be in: a pool that opens all of its connections at once has
/// them done in turn. A proxy that is configured as such has no bound of its own.
pub(crate) const HANDSHAKES_EACH_MAX: usize = 16;

/// Handshakes of one address, those that wait for their turn included; more are let go at once.
pub(crate) const HANDSHAKES_WAITING_EACH_MAX: usize = 256;

/// For a TLS handshake: five round trips to the other end of the world.
pub(crate) const HANDSHAKE_TIME: Duration = Duration::from_secs(5);

/// Bytes that the system keeps of what is sent on a connection until the other end takes it. It
/// would keep megabytes: answers that are computed for somebody who does not read them. So much
/// fills a line of 20 Mbit/s to the other end of the world.
pub(crate) const SEND_BUFFER_BYTES: u32 = 128 << 10;

/// Connections that the system keeps for us while we are busy.
pub(crate) const BACKLOG: u32 = 4_096;

/// Connections that are accepted before others have their turn: in a storm of thousands, who was
/// there before would wait until all of them are set up.
pub(crate) const ACCEPTED_IN_A_ROW_MAX: usize = 8;

/// Bytes that are read of a connection before others have their turn, whatever it speaks: nearly a
/// thousand frames of HTTP/2, in half a millisecond. One read may go beyond it.
pub(crate) const TURN_BYTES: usize = 2 * READ_BYTES_MAX;

/// How long accepting pauses when the system has no descriptor left: long enough not to spin, short
/// enough for nobody to notice.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Of so many connections that could not be accepted, one has a log line: with the pause after
/// each, that is one in ten seconds.
pub(crate) const ACCEPT_TOLD_EACH: u64 = 500;

/// How long a connection on which nothing is asked, or which was closed on our side, may be silent
/// when it is time to stop: a peer that is gone must not hold up those who wait for us.
pub(crate) const FAREWELL_TIME: Duration = Duration::from_secs(1);

/// How often certificate files are looked at, and what is held for too long is let go.
pub(crate) const CHORES_EVERY: Duration = Duration::from_secs(1);

/// The most bytes of a certificate, key or token file: longer ones are something else.
pub(crate) const SECRET_FILE_BYTES_MAX: u64 = 1 << 20;

/// Tokens in a token file: each is compared with every one that is shown.
pub(crate) const TOKENS_MAX: usize = 256;

/// The least bytes of a token: 16 random letters are out of reach for guessing.
pub(crate) const TOKEN_BYTES_MIN: usize = 16;

// HTTP.

/// For the head of a request, from its first byte; a keep-alive connection that says nothing is
/// closed after that as well.
pub(crate) const HTTP_HEAD_TIME: Duration = Duration::from_secs(30);

/// For the body of a request, over HTTP and gRPC.
pub(crate) const BODY_TIME: Duration = Duration::from_secs(10);

/// For a reply to be taken, over HTTP and gRPC, and for a request to wait until others were: then
/// the connection is closed, or the request refused. It may be twice as long until that is noticed.
pub(crate) const REPLY_TIME: Duration = Duration::from_secs(10);

/// Bytes of requests under way and replies that are not taken, for all connections that speak HTTP
/// or gRPC: beyond those that each may have.
pub(crate) const ROOM_BYTES_MAX: usize = 128 << 20;

/// Of that, for the connections of one address: half, so that one peer which reads nothing leaves
/// the others theirs. A proxy that is configured as such has no bound of its own.
pub(crate) const ROOM_BYTES_ADDRESS_MAX: usize = ROOM_BYTES_MAX / 2;

/// Of one connection, for which there is always room: five usual requests at a time, or one whose
/// answer has some fifty kilobytes. So a client that asks one thing at a time waits for nobody.
pub(crate) const ROOM_BYTES_FREE: usize = 64 << 10;

/// Of one connection, for long answers: two of the longest, with all limits that judge together.
pub(crate) const ROOM_BYTES_EACH_MAX: usize = 4 << 20;

/// What a request takes until its reply is taken: its stream and task (as measured), the part of
/// its body for which there is always room, and a short answer. Its head comes in addition.
pub(crate) const REQUEST_BYTES: usize = (6 << 10) + BODY_BYTES_FREE + ANSWER_BYTES_FREE;

/// Bytes of an answer for which no more room is taken than each request has.
pub(crate) const ANSWER_BYTES_FREE: usize = 1 << 10;

/// What the answer to one check takes, and to a byte of Envoy's request, until longer ones are
/// known.
pub(crate) const CHECK_BYTES_LEAST: usize = 512;
pub(crate) const RLS_BYTES_LEAST: usize = 4;

/// So with the page of metrics.
pub(crate) const PAGE_BYTES_LEAST: usize = 64 << 10;

/// Bytes of a body for which there is always room: far more than nearly all bodies have.
pub(crate) const BODY_BYTES_FREE: usize = 4 << 10;

/// Bytes beyond that of all bodies that have come in part, at all doors: a thousand streams of a
/// thousand connections could hold a long message each, and never finish it.
pub(crate) const BODIES_BYTES_MAX: usize = 64 << 20;

/// Bytes of a request's head: as many as other servers accept.
pub(crate) const HTTP_HEAD_BYTES_MAX: usize = 32 << 10;

/// Bytes of a request's head on HTTP/2, where it is the frames' own count.
pub(crate) const HTTP2_HEAD_BYTES_MAX: u32 = 32 << 10;

/// Bytes that a quiet connection keeps of each of its three buffers: those of a usual request need
/// not be had anew for the next.
pub(crate) const HTTP_QUIET_BYTES_MAX: usize = 1 << 10;

/// A connection on which nothing comes and nothing goes is closed after this.
pub(crate) const HTTP_IDLE_TIME: Duration = Duration::from_secs(75);

/// Headers of a request.
pub(crate) const HTTP_HEADERS_MAX: usize = 100;

/// Bytes of a request's body: a batch of the most checks, each with ten headers.
pub(crate) const HTTP_BODY_BYTES_MAX: usize = 1 << 20;

/// Bytes of answers after which a pipeline of HTTP/1.1 waits until its client has taken them and
/// others have had their turn: some ten checks.
pub(crate) const HTTP_TURN_BYTES_MAX: usize = 4 << 10;

/// Streams that are open on one HTTP/2 connection at a time.
pub(crate) const HTTP2_STREAMS_MAX: u32 = 200;

/// Checks in one batch: a hundred microseconds of work, or one round trip to Redis each.
pub(crate) const BATCH_MAX: usize = 256;

/// Names in one warning: a policy may have thousands of rules that it is about.
pub(crate) const NAMES_IN_WARNING_MAX: usize = 10;

// The Redis protocol.

/// Arguments of one command: a check with a hundred attributes has three hundred.
pub(crate) const RESP_ARGUMENTS_MAX: usize = 512;

/// Bytes of one argument: as much as most servers take for one header.
pub(crate) const RESP_ARGUMENT_BYTES_MAX: usize = 16 << 10;

/// Bytes of one command as it stands on the wire. A client that never ends one holds so much.
pub(crate) const RESP_COMMAND_BYTES_MAX: usize = 64 << 10;

/// Arguments of a command that is passed over because it is too long, and bytes of each of them: as
/// many as Redis reads. Nothing is kept of them, so that what stands behind it is answered.
pub(crate) const RESP_PASSED_ARGUMENTS_MAX: usize = 1 << 20;
pub(crate) const RESP_PASSED_BYTES_MAX: usize = 512 << 20;

/// Bytes of one inline command: a line that a person types.
pub(crate) const RESP_INLINE_BYTES_MAX: usize = 4 << 10;

/// Bytes taken from a connection at once: a pipeline of 64 commands is two thirds of that, and a
/// connection that takes no replies holds no more of what it sent.
pub(crate) const READ_BYTES_MAX: usize = 8 << 10;

/// Commands that one connection gets answered before others have their turn: twice a long pipeline,
/// in some fifty microseconds.
pub(crate) const RESP_TURN_COMMANDS_MAX: usize = 128;

/// Of these, checks by the policy: each may look at every rule, and takes as long as ten others.
pub(crate) const RESP_TURN_CHECKS_MAX: usize = 16;

/// Commands of one connection that wait for the store at the same time.
pub(crate) const RESP_TURN_WAITING_MAX: usize = 64;

/// Bytes of replies that are kept before they have to be taken: what goes on after that is
/// read only when the client reads.
pub(crate) const RESP_REPLY_BYTES_MAX: usize = 16 << 10;

/// How long a client may take to read what it asked for.
pub(crate) const RESP_WRITE_DEADLINE: Duration = Duration::from_secs(10);

/// How often a connection is looked at, whether anything happens on it or not.
pub(crate) const RESP_CHECK_EVERY: Duration = Duration::from_secs(30);

/// Looks at which a connection in the middle of a command is given up: a command takes at most
/// a minute to arrive.
pub(crate) const RESP_SLOW_CHECKS: u32 = 2;

/// Looks at which a silent connection is given up: after ten minutes. Pools keep idle ones for
/// some minutes.
pub(crate) const RESP_IDLE_CHECKS: u32 = 20;

/// How long a connection is listened to for its last commands when the server stops: some may be on
/// their way, and nothing in the protocol says that no more will come.
pub(crate) const RESP_LAST_WAIT: Duration = Duration::from_millis(50);

/// How often such commands are answered: a client that never pauses learns it from the end.
pub(crate) const RESP_LAST_TURNS_MAX: usize = 16;

/// Limits that a connection remembers by their parameters; another one is looked up.
pub(crate) const RESP_LIMITS_KNOWN_MAX: usize = 8;

/// Bytes of a name that a client gives itself.
pub(crate) const RESP_NAME_BYTES_MAX: usize = 64;

// What is held for callers.

/// Admissions that are held for callers, as permits or for a refund: about a kilobyte each.
pub(crate) const HELD_MAX: usize = 65_536;

/// Of these, what is held for one caller: 27 receipts a second for as long as each can be used.
pub(crate) const HELD_EACH_MAX: usize = HELD_MAX / 4;

/// Limits that commands have named and that may still be owed under: three quarters of what a gate
/// has room for; the rest is for limits that files name.
pub(crate) const NAMED_MAX: usize = AdhocLimit::LIMITS_MAX / 4 * 3;

/// Of these, how many one caller may have named: a limit is a number that somebody thought of.
pub(crate) const NAMED_EACH_MAX: usize = 1_024;

/// When to ask again where there is no room for another limit: some may have become fresh.
pub(crate) const NAMED_RETRY_AFTER_SECS: u32 = 60;

/// Frames of an HTTP/2 connection that ask nothing of us, but an answer or some thought: pings,
/// settings, resets and frames that nobody knows. So many within [`CALM_TIME`], and [`CALM_EACH`]
/// more for each frame of a request. Envoy and gRPC ping once for each frame of data at most, and
/// may cancel all their streams at once.
pub(crate) const CALM_FRAMES_MAX: u32 = 4_096;
pub(crate) const CALM_EACH: u32 = 2;
pub(crate) const CALM_TIME: Duration = Duration::from_secs(10);

/// Bytes that are still read of a peer after it was asked to be calm, so that it gets to hear it.
pub(crate) const CALM_BYTES_MAX: usize = 1 << 20;

/// How often refused callers are logged: a client that guesses does not fill a disk.
pub(crate) const REFUSALS_TOLD_EVERY_SECS: u64 = 1;

/// Callers that have series of their own: those that the most is held for.
pub(crate) const METRIC_CALLERS_MAX: usize = 20;

/// For how long a permit is held unless the caller says otherwise.
pub(crate) const LEASE: Duration = Duration::from_mins(1);

/// For how long it is held at most without being renewed.
pub(crate) const LEASE_MAX: Duration = Duration::from_hours(1);

/// For how long a receipt can be used.
pub(crate) const RECEIPT_TIME: Duration = Duration::from_mins(10);

/// How far a manual clock goes in one step: a year.
pub(crate) const CLOCK_STEP_MAX: Duration = Duration::from_hours(366 * 24);

// Metrics.

/// Rules that have series of their own; the rules beyond them are reported as a sum.
pub(crate) const METRIC_RULES_MAX: usize = 500;

// Envoy's rate limit service.

/// Descriptors of a request that rules of a policy file are asked about: Envoy makes one for each
/// rate limit of a route, and each is looked for among all rules. A request with more is refused.
pub(crate) const RLS_DESCRIPTORS_MAX: usize = 64;

/// Entries of such a descriptor: one for each action, and each rule looks through them.
pub(crate) const RLS_ENTRIES_MAX: usize = 64;

/// Bytes of a message, as gRPC or as JSON, and the one bound on what clients write into it: Envoy
/// takes 60 KiB of headers from them, which may stand in 16 descriptors. What is longer is refused.
pub(crate) const RLS_MESSAGE_BYTES_MAX: usize = HTTP_BODY_BYTES_MAX;

/// Requests of one connection at a time: Envoy sends as many as are in flight on a worker.
pub(crate) const RLS_STREAMS_MAX: u32 = 1_024;

/// Calls of health and reflection that are open on one connection: some last, and their answers are
/// long.
pub(crate) const RLS_TALKS_MAX: usize = 16;

/// Bytes of the headers of a request: gRPC's own, and tracing, of which a client may have written
/// as much as Envoy takes.
pub(crate) const RLS_HEADERS_BYTES_MAX: u32 = 80 << 10;

/// Bytes of a frame: the least that HTTP/2 allows, since messages are small.
pub(crate) const RLS_FRAME_BYTES_MAX: u32 = 16 << 10;

/// How often a silent peer is asked whether it is there.
pub(crate) const RLS_KEEPALIVE_EVERY: Duration = Duration::from_secs(30);

/// How long it may take to answer that.
pub(crate) const RLS_KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may be silent: a peer that is there has answered twice by then.
pub(crate) const RLS_IDLE_TIME: Duration = Duration::from_secs(75);

/// How long a connection lasts before its peer is asked to open another: so that a new server gets
/// its share. Up to a tenth is added by chance, lest all come at once.
pub(crate) const RLS_AGE_MAX: Duration = Duration::from_mins(30);

/// How long requests may go on once a connection is closing.
pub(crate) const RLS_GRACE: Duration = Duration::from_secs(10);

// Traces.

/// Spans a second that callers have us make, and as many that we choose: a caller that marks every
/// request as sampled costs us a megabyte a second of export, and no more.
pub(crate) const TRACE_SPANS_PER_SECOND_MAX: u32 = 1_000;

/// Spans that wait to be exported: two seconds at the most that there can be, some four megabytes.
pub(crate) const TRACE_QUEUE_MAX: usize = 4_096;

/// Spans in one export: what OpenTelemetry's own exporters take.
pub(crate) const TRACE_BATCH_MAX: usize = 512;

/// How long a span waits for others to travel with.
pub(crate) const TRACE_EXPORT_EVERY: Duration = Duration::from_secs(1);

/// For one export, from the connection to the answer: what is slower is no use to anybody.
pub(crate) const TRACE_EXPORT_TIME: Duration = Duration::from_secs(3);

/// For what is left when it is time to stop: one export that is under way, and another.
pub(crate) const TRACE_FLUSH_TIME: Duration = Duration::from_secs(5);

/// How often a log line says that spans cannot be exported.
pub(crate) const TRACE_COMPLAIN_EVERY: Duration = Duration::from_secs(10);

/// Bytes of a collector's answer, which says next to nothing.
pub(crate) const TRACE_ANSWER_BYTES_MAX: usize = 64 << 10;

/// Names of rules in one span: as many as are judged together.
pub(crate) const TRACE_RULES_MAX: usize = 16;
