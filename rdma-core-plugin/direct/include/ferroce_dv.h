/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What programs ask of a ferroce device beyond verbs: ferroce_dv(7). Link with -lferroce -libverbs.
 *
 * Functions answer 0, or a positive errno, which is in errno, too, unless it says otherwise there;
 * ferroce_dv_error() has in words what was wrong. The structures grow at their ends only: each is
 * passed with its size, and comp_mask says what was filled in.
 *
 * Made by cbindgen of cabi/src/direct.rs and rdma-core-plugin/direct/src/c.rs:
 * FERROCE_WRITE_HEADER=1 cargo test -p ferroce-dv --test header
 */

#ifndef FERROCE_DV_H
#define FERROCE_DV_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * Bytes of a version, with the NUL at its end.
 */
#define FERROCE_DV_VERSION_MAX 32

/**
 * Bytes of the path of a runtime directory, with the NUL at its end.
 */
#define FERROCE_DV_PATH_MAX 128

/**
 * Buckets of a histogram of latencies.
 */
#define FERROCE_DV_BUCKETS 592

/**
 * In comp_mask: what the device is, from version to flags.
 */
#define FERROCE_DV_DEVICE_IDENTITY (1 << 0)

/**
 * In comp_mask: what this process has counted, from sent_packets to receive_errors.
 */
#define FERROCE_DV_DEVICE_COUNTERS (1 << 1)

/**
 * In flags: packets between programs of the device go through memory.
 */
#define FERROCE_DV_DEVICE_MEMORY (1 << 0)

/**
 * In flags: sockets are given several packets at a time (GSO).
 */
#define FERROCE_DV_DEVICE_GSO (1 << 1)

/**
 * In flags: the ports are InfiniBand's, not Ethernet's.
 */
#define FERROCE_DV_DEVICE_INFINIBAND (1 << 2)

/**
 * In comp_mask: what the queue pair is, and how far: from qp_num to last_received.
 */
#define FERROCE_DV_QP_PROGRESS (1 << 0)

/**
 * In comp_mask: its counters, from sent_packets to remote_access_errors.
 */
#define FERROCE_DV_QP_COUNTERS (1 << 1)

/**
 * In flags: it waits for as long as an RNR NAK has said.
 */
#define FERROCE_DV_QP_WAITS_FOR_RECEIVER (1 << 0)

/**
 * In flags: what last_error is about was a receive request.
 */
#define FERROCE_DV_QP_LAST_ERROR_RECEIVE (1 << 1)

/**
 * In the flags of a capture: also what programs post, what is completed, and states of queue
 * pairs, as entries of a journal among the packets.
 */
#define FERROCE_DV_CAPTURE_VERBS (1 << 0)

/**
 * In the flags of a capture: of a packet from one program of the device to another both sides, as
 * it was sent and as it came. Else it is there once, as it was sent.
 */
#define FERROCE_DV_CAPTURE_BOTH (1 << 1)

/**
 * A capture under way.
 */
struct ferroce_dv_capture;

/**
 * A device, as this process has it open. Counters begin when the process opens the device.
 */
struct ferroce_dv_device_attr {
        /**
         * What was filled in: FERROCE_DV_DEVICE_*. The rest is zero.
         */
        uint64_t comp_mask;
        /**
         * The provider's version, such as "0.2.0".
         */
        char version[FERROCE_DV_VERSION_MAX];
        /**
         * The runtime directory of the device's daemon.
         */
        char runtime_dir[FERROCE_DV_PATH_MAX];
        /**
         * The part of the device that is this process's: the upper 8 bits of its queue pairs' numbers.
         */
        uint32_t slot;
        /**
         * FERROCE_DV_DEVICE_MEMORY, FERROCE_DV_DEVICE_GSO, FERROCE_DV_DEVICE_INFINIBAND.
         */
        uint32_t flags;
        /**
         * Packets sent.
         */
        uint64_t sent_packets;
        /**
         * Bytes of those packets, from the BTH to the ICRC.
         */
        uint64_t sent_bytes;
        /**
         * Packets received.
         */
        uint64_t received_packets;
        /**
         * Bytes of those packets, from the BTH to the ICRC.
         */
        uint64_t received_bytes;
        /**
         * Packets sent again.
         */
        uint64_t retransmitted_packets;
        /**
         * Local ACK Timeouts that expired.
         */
        uint64_t ack_timeouts;
        /**
         * Send requests that ended with an error other than a flush.
         */
        uint64_t send_errors;
        /**
         * Receive requests that ended with an error other than a flush.
         */
        uint64_t receive_errors;
};

/**
 * A queue pair from inside. PSNs have 24 bits; times are nanoseconds of CLOCK_MONOTONIC, 0 for
 * never.
 */
struct ferroce_dv_qp_attr {
        /**
         * What was filled in: FERROCE_DV_QP_*. The rest is zero.
         */
        uint64_t comp_mask;
        /**
         * Its number.
         */
        uint32_t qp_num;
        /**
         * enum ibv_qp_state.
         */
        uint32_t state;
        /**
         * Which of the process's queue pairs it is, from 1, in the order in which they were made.
         */
        uint32_t ordinal;
        /**
         * FERROCE_DV_QP_WAITS_FOR_RECEIVER, FERROCE_DV_QP_LAST_ERROR_RECEIVE.
         */
        uint32_t flags;
        /**
         * The PSN that goes out next: sq_psn, plus the packets sent since.
         */
        uint32_t next_psn;
        /**
         * The oldest PSN that is not acknowledged; next_psn if none is.
         */
        uint32_t unacknowledged_psn;
        /**
         * The PSN after the highest that went out; another than next_psn while something is sent
         * again.
         */
        uint32_t highest_psn;
        /**
         * The PSN that is expected of the peer: rq_psn, plus the packets of requests received since.
         */
        uint32_t expected_psn;
        /**
         * Bytes that may be unacknowledged now. 0 where nothing is acknowledged (UC, UD), and without
         * a peer.
         */
        uint32_t window;
        /**
         * The most that window can be.
         */
        uint32_t max_window;
        /**
         * Bytes that are unacknowledged, as the window counts them.
         */
        uint32_t in_flight;
        /**
         * Send requests that are in the queue.
         */
        uint32_t sends_outstanding;
        /**
         * Receive requests that are in the queue pair's own receive queue.
         */
        uint32_t receives_outstanding;
        /**
         * Retries that are left before the queue pair fails.
         */
        uint32_t retries_left;
        /**
         * Likewise, after RNR NAKs; 7: without end.
         */
        uint32_t rnr_retries_left;
        /**
         * The status of the last request that failed other than by being flushed (enum
         * ibv_wc_status); IBV_WC_SUCCESS: none has.
         */
        uint32_t last_error;
        /**
         * Send requests that have left the queue since the queue pair was made or reset, those without
         * a completion included.
         */
        uint64_t sends_completed;
        /**
         * Receive requests that have completed since the queue pair was made.
         */
        uint64_t receives_completed;
        /**
         * When last_error came.
         */
        uint64_t last_error_time;
        /**
         * When a packet last went out.
         */
        uint64_t last_sent;
        /**
         * When a packet last came.
         */
        uint64_t last_received;
        /**
         * Packets sent, those sent again included.
         */
        uint64_t sent_packets;
        /**
         * Bytes of those packets, from the BTH to the ICRC.
         */
        uint64_t sent_bytes;
        /**
         * Packets received and accepted.
         */
        uint64_t received_packets;
        /**
         * Bytes of those packets, from the BTH to the ICRC.
         */
        uint64_t received_bytes;
        /**
         * Packets sent again.
         */
        uint64_t retransmitted_packets;
        /**
         * Local ACK Timeouts that expired.
         */
        uint64_t ack_timeouts;
        /**
         * RNR NAKs received.
         */
        uint64_t rnr_naks_received;
        /**
         * RNR NAKs sent.
         */
        uint64_t rnr_naks_sent;
        /**
         * NAKs for a PSN sequence error received.
         */
        uint64_t sequence_naks_received;
        /**
         * NAKs for a PSN sequence error sent.
         */
        uint64_t sequence_naks_sent;
        /**
         * Times that a missing response showed that it or its request was lost.
         */
        uint64_t implied_naks;
        /**
         * Requests received again that had been carried out before.
         */
        uint64_t duplicate_requests;
        /**
         * Requests received out of order.
         */
        uint64_t out_of_sequence;
        /**
         * Send requests that ended with an error other than a flush.
         */
        uint64_t send_errors;
        /**
         * Receive requests that ended with an error other than a flush.
         */
        uint64_t receive_errors;
        /**
         * Send requests that were flushed.
         */
        uint64_t sends_flushed;
        /**
         * Receive requests that were flushed.
         */
        uint64_t receives_flushed;
        /**
         * Times that the retries were used up.
         */
        uint64_t retries_exceeded;
        /**
         * Times that the retries after RNR NAKs were used up.
         */
        uint64_t rnr_retries_exceeded;
        /**
         * Send requests that the peer refused for want of rights.
         */
        uint64_t remote_access_errors;
};

/**
 * How long send requests took, from post to completion, in nanoseconds. Bucket i counts those that
 * took as long as ferroce_dv_histogram_floor(i) or longer, and less than
 * ferroce_dv_histogram_floor(i + 1): below 16 ns a bucket for each nanosecond, above it 16 for
 * each power of two, so that a bucket is a sixteenth of its floor wide at most. The last one has
 * all from 2^40 - 2^35 ns (17 minutes and 45 seconds) on, too.
 */
struct ferroce_dv_histogram {
        /**
         * Zero; for what is added later.
         */
        uint64_t comp_mask;
        /**
         * Requests: the sum of all buckets.
         */
        uint64_t count;
        /**
         * The sum of what they took.
         */
        uint64_t sum_ns;
        /**
         * The shortest; 0 if there is none.
         */
        uint64_t min_ns;
        /**
         * The longest.
         */
        uint64_t max_ns;
        /**
         * How many are in each bucket.
         */
        uint64_t buckets[FERROCE_DV_BUCKETS];
};

/**
 * A completion that the device has made.
 */
struct ferroce_dv_completion {
        /**
         * Which of the context's it is, from 1 since the callback was set. A number that is missing is
         * of a completion that was made while 65536 others waited for the callback.
         */
        uint64_t sequence;
        /**
         * When it was made, in nanoseconds of CLOCK_MONOTONIC.
         */
        uint64_t time_ns;
        /**
         * The queue that it was put into.
         */
        struct ibv_cq *cq;
        /**
         * The completion, as ibv_poll_cq(3) gives it.
         */
        struct ibv_wc wc;
};

/**
 * What is called for each completion, with what it was set with.
 */
typedef void (*ferroce_dv_completion_fn)(const struct ferroce_dv_completion *completion, void *arg);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Whether a device is ferroce's, and the functions below can be used with it. Not with NULL, nor
 * where no provider is loaded that answers.
 */
bool ferroce_dv_is_supported(struct ibv_device *device);

/**
 * In words, why a function below has failed last in the calling thread; "" if none has. The text
 * stays until another one fails there.
 */
const char *ferroce_dv_error(void);

/**
 * Tells what a device is, and what this process has counted. size is sizeof(*attr).
 *
 * EINVAL: an argument is NULL, or size is less than 8. EOPNOTSUPP: the device is none of
 * ferroce's. EIO: the context is the parent's, in a forked child.
 */
int ferroce_dv_query_device(struct ibv_context *context,
                            struct ferroce_dv_device_attr *attr,
                            size_t size);

/**
 * Tells how a queue pair is from inside, at one moment. size is sizeof(*attr).
 *
 * EINVAL: an argument is NULL, size is less than 8, or the queue pair is destroyed. EOPNOTSUPP:
 * the device is none of ferroce's. EIO: the queue pair is the parent's, in a forked child.
 */
int ferroce_dv_query_qp(struct ibv_qp *qp, struct ferroce_dv_qp_attr *attr, size_t size);

/**
 * Has something go wrong from now on. fault is TOML, the keys of one table of `ferroce fault
 * load`: "drop = 'opcode=ACK'\ncount = 1". It is for this queue pair, or, with NULL, for whom the
 * text says: for all programs of the device if it says nothing. id, unless it is NULL, gets the
 * fault's number. When this returns this process goes by it, and so does every other that has
 * run within a second.
 *
 * EINVAL: an argument is NULL, the text makes no sense, or the queue pair is of another context.
 * EOPNOTSUPP: the device is none of ferroce's. EPERM: the device is of several users, and this one
 * does not administer it. ENOSPC: there are 64 faults already. ENODEV: the daemon has gone.
 */
int ferroce_dv_fault_add(struct ibv_context *context,
                         struct ibv_qp *qp,
                         const char *fault,
                         uint32_t *id);

/**
 * Tells how often a fault has hit, in all programs.
 *
 * EINVAL: an argument is NULL. EOPNOTSUPP: the device is none of ferroce's. ENOENT: there is no
 * fault of this number. ENODEV: the daemon has gone.
 */
int ferroce_dv_fault_hits(struct ibv_context *context, uint32_t id, uint64_t *hits);

/**
 * Ends a fault, whoever has added it; with id 0 all faults of the device.
 *
 * EINVAL: the context is NULL. EOPNOTSUPP: the device is none of ferroce's. ENOENT: there is no
 * fault of this number. EPERM: the device is of several users, and this one does not administer
 * it. ENODEV: the daemon has gone.
 */
int ferroce_dv_fault_clear(struct ibv_context *context, uint32_t id);

/**
 * Captures what programs of the device send and receive from now on, as pcapng, into a file: of
 * one queue pair, or, with NULL, of all programs of the device that this user may see. flags is
 * FERROCE_DV_CAPTURE_* or 0. The descriptor is duplicated, and may be closed. A thread writes, and
 * blocks no other.
 *
 * NULL with errno: EINVAL: the context is NULL, a flag is unknown, or the queue pair is of another
 * context. EOPNOTSUPP: the device is none of ferroce's. EBADF: the descriptor is none, or cannot
 * be written to. EBUSY: there are 8 captures already. ENODEV: the daemon has gone. Others are
 * those of write(2) and pthread_create(3).
 */
struct ferroce_dv_capture *ferroce_dv_capture_start(struct ibv_context *context,
                                                    struct ibv_qp *qp,
                                                    int fd,
                                                    uint32_t flags);

/**
 * Ends a capture, whose memory is freed in any case. When this returns, the file has all that this
 * process has sent and received before. packets and dropped, unless they are NULL, get how many
 * packets are in it, and how many records found no room.
 *
 * EINVAL: the capture is NULL. ENODEV: the daemon has gone, and the file has what there was until
 * then. EIO: the capture is the parent's, in a forked child. Others are those of write(2).
 */
int ferroce_dv_capture_stop(struct ferroce_dv_capture *capture,
                            uint64_t *packets,
                            uint64_t *dropped);

/**
 * Begins to measure how long send requests of a queue pair take, from post to completion, or
 * begins anew. Those are counted that are posted from now on, raise a completion and succeed.
 *
 * EINVAL: the queue pair is NULL or destroyed. EOPNOTSUPP: the device is none of ferroce's, or the
 * queue pair's messages are matched by tag. EIO: the queue pair is the parent's, in a forked
 * child.
 */
int ferroce_dv_histogram_start(struct ibv_qp *qp);

/**
 * Tells what was measured so far. size is sizeof(*histogram).
 *
 * EINVAL: an argument is NULL, size is less than 8, or the queue pair is destroyed. EOPNOTSUPP:
 * the device is none of ferroce's. ENODATA: nobody measures.
 */
int ferroce_dv_histogram_read(struct ibv_qp *qp,
                              struct ferroce_dv_histogram *histogram,
                              size_t size);

/**
 * Measures no more, and forgets what was measured.
 *
 * EINVAL: the queue pair is NULL or destroyed. EOPNOTSUPP: the device is none of ferroce's.
 * ENODATA: nobody measures.
 */
int ferroce_dv_histogram_stop(struct ibv_qp *qp);

/**
 * The least latency in nanoseconds of a bucket of a histogram; UINT64_MAX of one beyond the last,
 * so that the next one's is always the upper end of a bucket.
 */
uint64_t ferroce_dv_histogram_floor(uint32_t bucket);

/**
 * Has callback called, with arg, for each completion that the device makes for this context from
 * now on, whether or not it is polled: in the order in which it makes them, across all completion
 * queues. A thread of the library's calls, one call after the other; it holds no lock, so the
 * callback may do what the program may, except end itself. With NULL no callback is called any
 * more, once it has been called for all completions that there were; closing the context does
 * that, too.
 *
 * EINVAL: the context is NULL. EOPNOTSUPP: the device is none of ferroce's. EBUSY: there is a
 * callback already, or another thread is changing it. EDEADLK: the callback would end itself. EIO:
 * the context is the parent's, in a forked child. Others are those of pthread_create(3).
 */
int ferroce_dv_completion_callback(struct ibv_context *context,
                                   ferroce_dv_completion_fn callback,
                                   void *arg);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FERROCE_DV_H */
