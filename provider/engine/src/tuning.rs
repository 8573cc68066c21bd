//! What can be tuned: every number that was chosen, with its unit. What the numbers of the
//! transport are is in its own `tuning`; what a device promises programs is in `verbs::limits`.

use ferroce_transport::Duration;

// Who receives: a program's threads or the helper (`driver`, `poll`).

/// Empty polls in a row after which the application is taken to wait by polling. A program that
/// sleeps on a completion channel polls an empty queue once or twice a time.
pub(crate) const POLLS_BEFORE_TURN: u32 = 16;
/// Empty polls in a row after which the processor is offered to others: some tens of microseconds.
pub(crate) const POLLS_BEFORE_YIELD: u32 = 64;
/// The same at first after an offer during which somebody else ran, as who answers may be one who
/// waits for the processor. It doubles with every offer that nobody takes.
pub(crate) const POLLS_AMONG_OTHERS: u32 = 4;
/// An offer that takes longer was taken: by itself it is a system call.
pub(crate) const TAKEN_OFFER: Duration = Duration::from_micros(3);
/// The same where strangers keep the processors busy: what is looked at in vain is of a turn that
/// will be wanted.
pub(crate) const POLLS_BEFORE_SLEEP: u32 = 8;
/// Runs of packets that a polling application takes before it answers.
pub(crate) const RUNS_PER_POLL: usize = 4;
/// Polls in a row that each found something, after which more has come than is taken, and short
/// packets, too, are taken several at a time.
pub(crate) const BACKLOG_POLLS: u32 = 4;
/// So long after something came through memory, sockets are polled less often, as each costs a
/// system call…
pub(crate) const RING_ACTIVE: Duration = Duration::from_micros(50);
/// … this far apart.
pub(crate) const SOCKET_POLL_INTERVAL: Duration = Duration::from_micros(10);
/// How long a silent application keeps its turn at first, where naps cost little, and the helper's
/// first nap.
pub(crate) const MIN_NAP: Duration = Duration::from_micros(200);
/// The helper's longest nap while the application polls, where naps cost little. Each is an
/// interrupt and two switches, on a processor that the application may well be polling on…
pub(crate) const MAX_NAP: Duration = Duration::from_micros(1_600);
/// … so where the helper needs more of a processor for one, as in an emulated machine, it is so
/// many times as long as that…
pub(crate) const NAP_WORTH: u32 = 128;
/// … and no longer than this.
pub(crate) const LONGEST_NAP: Duration = Duration::from_millis(8);
/// A nap is at most this part of the application's turn. Until the helper has noticed that the turn
/// is over nobody receives, and a program that polls for each completion and then spins on memory
/// ends a turn with each message.
pub(crate) const NAP_PART: u32 = 16;
/// A thread that ends a queue pair's requests waits no longer for what has come by then to be
/// handled.
pub(crate) const MAX_BACKLOG: Duration = Duration::from_millis(1);
/// Between two looks at what the daemon says, while the application receives.
pub(crate) const CONTROL_INTERVAL: Duration = Duration::from_millis(100);

// Completion vectors (`hca::lanes`).

/// At least so many, so that programs which spread over them can be tried anywhere.
pub(crate) const MIN_VECTORS: u32 = 2;
/// At most so many: each that is used is one of the device's 255 slots.
pub(crate) const MAX_VECTORS: u32 = 8;
/// Slots that are left to programs that come.
pub(crate) const SLOTS_LEFT: u32 = 128;

// Offers of the processor (`crowd`, `make_room`).

/// An offer that took longer went to somebody who has much to do.
pub(crate) const MAX_YIELD: Duration = Duration::from_micros(200);
/// After it none is made for so long at first; it doubles with every trial in vain…
pub(crate) const MIN_YIELD_BACKOFF: Duration = Duration::from_millis(10);
/// … up to this.
pub(crate) const MAX_YIELD_BACKOFF: Duration = Duration::from_millis(320);
/// Long offers are kept to unless what they bring takes so many times as long as sleeping.
pub(crate) const CROWD_MARGIN: u32 = 2;
/// That is settled after so many polls that found something, or earlier if it is clear…
pub(crate) const CROWD_TRIAL: u32 = 64;
/// … with so many more granted, as an offer may take long by chance…
pub(crate) const CROWD_CREDIT: u32 = 4;
/// … and after so long at the latest.
pub(crate) const MAX_CROWD_TRIAL: Duration = Duration::from_millis(40);
/// The longest sleep instead of an offer. The helper takes the turn to receive from a program that
/// is silent for twice as long.
pub(crate) const POLLER_SLEEP: Duration = Duration::from_micros(100);

// Waiting for a peer's answer in a crowd (`answers`).

/// The shortest wait.
pub(crate) const MIN_ANSWER_WAIT: Duration = Duration::from_micros(200);
/// The longest wait. While the peer, too, has to wait for strangers' turns of the processor an
/// answer takes that long: who gave up before would spend his own turn in vain, and keep the peer
/// waiting the next time.
pub(crate) const MAX_ANSWER_WAIT: Duration = Duration::from_millis(32);
/// The longest sleep of such a wait.
pub(crate) const MAX_ANSWER_SLEEP: Duration = Duration::from_millis(2);
/// After a wait in vain none is tried for so many times as long.
pub(crate) const ANSWER_BACKOFF: u32 = 8;

// The helper: waiting awake (`linger`), and what it does at a time.

/// Packets that come closer after each other than this are worth waiting for.
pub(crate) const LINGER_GAP: Duration = Duration::from_micros(150);
/// The shortest wait.
pub(crate) const MIN_LINGER: Duration = Duration::from_micros(50);
/// The longest wait for one packet.
pub(crate) const MAX_LINGER: Duration = Duration::from_micros(200);
/// How long a thread waits awake for an event of a completion channel: several times as long as a
/// peer takes that slept, else each would have the other go to sleep again.
pub(crate) const AWAKE_PATIENCE: Duration = Duration::from_micros(200);
/// How long it is taken for granted that a completion channel's pipe is ours: to look for each
/// event costs a third of what it takes to write one.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// The longest time without a sleep: after it the daemon must be heard.
pub(crate) const MAX_AWAKE: Duration = Duration::from_millis(10);
/// Waits in vain, in a row, after which none is tried for a while.
pub(crate) const LINGER_TRIES: u32 = 3;
/// That while at first; it doubles with every further wait in vain…
pub(crate) const MIN_LINGER_BACKOFF: Duration = Duration::from_millis(2);
/// … up to this.
pub(crate) const MAX_LINGER_BACKOFF: Duration = Duration::from_millis(50);
/// Datagrams taken before answers go out, and of one socket before the others have their turn.
pub(crate) const DATAGRAMS_PER_ROUND: usize = 8;
/// Buffers of the io_uring; a power of two. Each holds the largest merged run.
pub(crate) const RECEIVE_BUFFERS: u16 = 16;
/// Turns of the scheduler (`sched_runtime`) of the helper, and of a program's threads that poll in
/// vain where strangers keep the processors busy.
pub(crate) const SCHEDULER_SLICE: Duration = Duration::from_micros(100);
/// How late the kernel may wake the helper; its default is 50 µs.
pub(crate) const TIMER_SLACK: Duration = Duration::from_micros(1);
/// A ring that nothing was put into for so long gives its memory back.
pub(crate) const RING_IDLE: Duration = Duration::from_secs(1);

// Timers of queue pairs (`hca::clock`).

/// Queue pairs that send again in one go: well below what the smallest usual socket buffer holds.
pub(crate) const RETRIES_PER_ROUND: u32 = 16;
/// How long they wait at most for there to be nothing to receive.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_millis(1);

// Sending (`pump`, `held`, `port`).

/// Payload bytes handed to the socket in one go.
pub(crate) const TRANSMIT_BUDGET: u32 = 256 << 10;
/// The same where nobody acknowledges: about what fits one send, so that its pace is looked at
/// between sends.
pub(crate) const PACED_BUDGET: u32 = 64 << 10;
/// How long an acknowledgement waits at least for a request of ours to go out beside.
pub(crate) const MIN_ACK_DELAY: Duration = Duration::from_micros(20);
/// The same where the helper receives.
pub(crate) const MIN_HELPERS_ACK_DELAY: Duration = Duration::from_micros(200);
/// Payload bytes up to which a request is small: it is one packet, or fewer than a send takes, and
/// with others it needs fewer sends.
pub(crate) const SMALL_REQUEST: usize = 32 << 10;
/// When small requests wait, and for how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gather {
    /// Packets in flight, at least: an acknowledgement will be the occasion to send.
    pub(crate) in_flight: u64,
    /// Requests that wait at most…
    pub(crate) requests: u32,
    /// … or as many as there are packets in flight, up to so many: the more a program has under
    /// way, the more share a send, and the peer always has something to do meanwhile.
    pub(crate) most: u32,
}
/// Small requests to a stranger are gathered from so many packets in flight on, up to so many: what
/// waits behind packets that are all lost waits for the Local ACK Timeout.
pub(crate) const GATHER: Gather = Gather {
    in_flight: 16,
    requests: 16,
    most: 16,
};
/// The same to a peer of our kind.
pub(crate) const GATHER_KNOWN: Gather = Gather {
    in_flight: 4,
    ..GATHER
};
/// The same where the program keeps its queue deep, too.
pub(crate) const GATHER_DEEP: Gather = Gather {
    in_flight: 1,
    requests: 32,
    most: 64,
};
/// Bytes of gathered requests at most: about what two GSO sends take.
pub(crate) const GATHER_BYTES: usize = 30 * 4096;
/// From so many on that go out together the queue is deep.
pub(crate) const DEEP_REQUESTS: u32 = 8;
/// It no longer is after so many sends of fewer than half of these, with none of so many between.
pub(crate) const SHALLOW_SENDS: u8 = 8;
/// A request that raises a completion after so many that raised none waits for no company.
pub(crate) const MANY_UNSIGNALED: u32 = 16;
/// Small requests that nobody acknowledges are gathered up to so many, where more than
/// [`BURST`] were posted one after the other.
pub(crate) const GATHER_UNANSWERED: u32 = 32;
/// From more than so many in a row on.
pub(crate) const BURST: u32 = 8;
/// The most that it is raised to where nothing followed what waited.
pub(crate) const MAX_BURST: u32 = 4096;
/// A pause after which a request is no longer in a row with those before: less than any answer
/// takes, but longer than a program that only posts needs for the next.
pub(crate) const BURST_PAUSE: Duration = Duration::from_micros(1);
/// Requests of a queue pair that has nothing on its way wait for those of others where so many of
/// them have.
pub(crate) const COMPANY: u32 = 4;
/// How long such requests wait at most. Most often they go when the program looks for completions.
pub(crate) const COMPANY_WAIT: Duration = Duration::from_micros(200);
/// Pieces of registered memory up to so many bytes are copied before they come to a port: cheaper
/// than one more iovec. Longer ones are where the program has them, and may be unmapped.
pub(crate) const COPY_LIMIT: usize = 256;
/// The most bytes that are ever in flight to one destination by sockets: enough for 40 Gb/s at half
/// a millisecond, and more than a socket buffer of 8 MB holds is lost.
pub(crate) const MAX_SOCKET_WINDOW: u32 = 3 << 20;
/// How often a run is given to a socket that has no room before it is lost.
pub(crate) const SEND_TRIES: u32 = 3;
/// How long a sender waits for room each time, as dropping would only cost a retransmission.
pub(crate) const SEND_WAIT: Duration = Duration::from_millis(2);
/// How long packets go singly after the kernel refused a run, before another is tried: an interface
/// whose MTU is changed, or a route, is as it was soon, and a trial costs one system call.
pub(crate) const RUN_RETRY: Duration = Duration::from_millis(100);

// Queue pairs that send in turn (`datapath::turns`).

/// Bytes of a path's window for which there is a turn: a run, which is one send and one
/// acknowledgement.
pub(crate) const TURN_WINDOW: u32 = 64 << 10;
/// Bytes that a queue pair sends in a turn while others wait.
pub(crate) const TURN_BYTES: u64 = 256 << 10;
/// What one send takes of packets of 4,096 bytes.
pub(crate) const SEND_BYTES: u32 = 60 << 10;
/// The same two of a window that has room for so many turns: two whole sends, where 64 KiB are a
/// send and a packet.
pub(crate) const WIDE_TURNS: u32 = 8;
pub(crate) const WIDE_TURN_WINDOW: u32 = 2 * SEND_BYTES;
pub(crate) const WIDE_TURN_BYTES: u64 = 2 * WIDE_TURN_WINDOW as u64;
/// So many times as many queue pairs may have one small request on its way as have a turn, while
/// none waits that has more.
pub(crate) const LITTLE_TURNS: u32 = 4;
/// If no turn has ended for so long while others wait, they wait no longer…
pub(crate) const TURN_PATIENCE: Duration = Duration::from_millis(10);
/// … which doubles, as long as none ends, up to this.
pub(crate) const MAX_TURN_PATIENCE: Duration = Duration::from_millis(320);

// Faults on command (`instrument`).

/// Bytes of packets that are held back at most: a second at 100 Mb/s.
pub(crate) const HELD_BYTES: usize = 16 << 20;
/// How long a packet that the next one is to overtake waits for that at most.
pub(crate) const OVERTAKEN_WITHIN: Duration = Duration::from_millis(10);

/// Completions that wait at most for a program that has asked to be called for each: some MB, and a
/// second of work.
pub(crate) const WATCHED: usize = 1 << 16;

// Receiving (`receiver`, `flows`).

/// How long after it was counted a datagram is at the receiver's socket, or never will be. A sender
/// may lose the processor between the two for some turns of others; whoever took its datagrams for
/// lost then would count them twice, and let as many more come as the socket has no room for.
pub(crate) const SETTLE_TIME: Duration = Duration::from_millis(20);
/// How many flows are remembered: two that have the same place push each other out, and are learned
/// anew.
pub(crate) const FLOWS: usize = 1 << 10;

/// Bytes of request packets that came before an earlier one, kept by all queue pairs of a process
/// together. What finds no room has to come again.
pub(crate) const EARLY_BYTES: usize = 64 << 20;

// Rings between processes of a device (`port::ring`).

/// Payload bytes of a message that go through a ring in one piece at most. With twice as many as a
/// run over a socket has, 1 MiB has a third more; beyond, nothing of the window would be left for
/// the receiver to copy while the sender does.
pub(crate) const STRETCH: u32 = 128 << 10;
/// A ring that is empty begins again at its start when so many bytes of it have been used.
pub(crate) const RING_RESTART: usize = 16 << 10;
/// Payload bytes that a path may have in a ring. With headers, requests and the responses to the
/// receiver's always fit.
pub(crate) const RING_WINDOW: usize = ferroce_control::RING_BYTES / 5;
/// Shorter records go through the caches: less than a packet of the largest path MTU.
pub(crate) const LONG_RECORD: usize = 4 << 10;
/// Bytes of long records over which time is taken: a stretch.
pub(crate) const COPY_STRETCH: u64 = 2 << 20;
/// What passes between two records that are further apart than this tells nothing.
pub(crate) const COPY_PAUSE: Duration = Duration::from_micros(200);
/// Stretches before the first trial of the other way to copy.
pub(crate) const COPY_FIRST_TRIAL: u32 = 16;
/// Stretches between two trials.
pub(crate) const COPY_TRIALS_APART: u32 = 200;
/// Stretches that a trial takes. The best counts, as interruptions make none shorter.
pub(crate) const COPY_TRIAL: u32 = 2;

// Small packets of several queue pairs that share a send (`datapath::tx::together`).

/// Packets that share one at most; as many queue pairs are locked meanwhile.
pub(crate) const SHARED_PACKETS: usize = 16;
/// A run of more bytes than these is sent without those of other queue pairs.
pub(crate) const SHARED_BYTES: usize = 2048;
