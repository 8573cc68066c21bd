/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * exs.h - the Extended Sockets API (ES-API) with the UNH EXS extensions, over RDMA verbs.
 *
 * Every function returns -1 (or EXS_MHANDLE_INVALID, EXS_QHANDLE_INVALID) and sets errno when it fails.
 * An operation without EXS_BLOCK returns at once with 0 when it was started; its outcome is one event in
 * the queue that was named, whose exs_evt_errno is 0 or an errno value. With EXS_BLOCK it returns when it is done.
 */
#ifndef EXS_H
#define EXS_H

#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Versions for exs_init(); any other is ENOTSUP. */
#define EXS_VERSION1 1
#define EXS_VERSION EXS_VERSION1

/* Flags of operations. They share no bit with the MSG_* flags; what a function does not know it refuses. */
#define EXS_BLOCK 0x00100000      /* wait for the operation; qhandle may be NULL */
#define EXS_UNSIGNALED 0x00200000 /* no event when it succeeds; qhandle may be NULL; excludes EXS_BLOCK */
#define EXS_SHUT_WR 0x00400000    /* exs_sendfile: shut the socket down for writing after the last byte */

/* Limits. */
#define EXS_EVTVEC_MAX 1024              /* events in one exs_qdequeue() */
#define EXS_XFERVEC_MAX 1024             /* elements in one exs_sendfile() or exs_recvfile() */
#define EXS_LENGTH_MAX ((size_t)1 << 30) /* bytes in one exs_send() or exs_recv() */
#define EXS_FILE_LIMIT ((off_t)1 << 30)  /* bytes in one exs_sendfile(), unless EXS_F_SETFILELIMIT changed it */
#define EXS_SENDS_MAX 256                /* asynchronous sends in progress on a socket; one more is EBUSY */
#define EXS_RECVS_MAX 256                /* asynchronous receives in progress on a socket; one more is EAGAIN */
#define EXS_ACCEPTS_MAX 1024             /* asynchronous accepts in progress on a socket; one more is EAGAIN */
#define EXS_QUEUES_MAX 1024              /* event queues in a process; one more is EAGAIN */
#define EXS_QDEPTH_MAX (1 << 20)         /* depth of an event queue; more is EINVAL */

/* Handles are opaque. They are looked up, never dereferenced: a wrong one is EINVAL, not a crash. */
typedef struct exs_queue *exs_qhandle_t;
typedef struct exs_memory *exs_mhandle_t;
typedef void *exs_ahandle_t; /* the application's own; comes back in exs_evt_ahandle */

#define EXS_QHANDLE_INVALID ((exs_qhandle_t)-1)
#define EXS_MHANDLE_INVALID ((exs_mhandle_t)-1)
#define EXS_MHANDLE_UNREGISTERED ((exs_mhandle_t)-2) /* in a transfer: memory that is not registered; so is NULL */

/* Flags of exs_mregister(). */
#define EXS_MRF_SHARED 0x1       /* accepted: a registration always serves every socket of the process */
#define EXS_MRF_SEND_DISABLE 0x4 /* not to be sent from */
#define EXS_MRF_RECV_DISABLE 0x8 /* not to be received into: read-only memory will do */

/* Types of events. */
enum {
	EXS_EVT_CONNECT = 1,
	EXS_EVT_ACCEPT,
	EXS_EVT_SEND,
	EXS_EVT_RECV,
	EXS_EVT_SENDFILE,
	EXS_EVT_RECVFILE,
	EXS_EVT_SHUTDOWN,
	EXS_EVT_CLOSE,
};

/* An exs_evt_flags bit beside MSG_EOR and MSG_TRUNC: the peer has shut down for writing (a receive of 0 bytes). */
#define EXS_EVF_EOF 0x1000000

/* EXS_EVT_ACCEPT: one event for each element of addrvec. */
typedef struct exs_evt_accept {
	int exs_evt_newsocket;        /* the new connection's socket, or -1 */
	struct sockaddr *exs_evt_addr; /* exs_addr of the element that was filled */
	socklen_t exs_evt_addrlen;    /* the peer address's whole size in bytes */
} exs_evt_accept_t;

/* EXS_EVT_SEND and EXS_EVT_RECV. */
typedef struct exs_evt_xfer {
	void *exs_evt_buffer;         /* as given */
	size_t exs_evt_length;        /* bytes transferred; after a failure, those before it */
	exs_mhandle_t exs_evt_mhandle; /* as given */
	int exs_evt_flags;            /* receive: EXS_EVF_EOF; SOCK_SEQPACKET: MSG_EOR, MSG_TRUNC (the rest is lost) */
} exs_evt_xfer_t;

struct exs_xferfile;

/* EXS_EVT_SENDFILE and EXS_EVT_RECVFILE. */
typedef struct exs_evt_xferfile {
	struct exs_xferfile *exs_evt_xfervec; /* as given */
	int exs_evt_xfervec_cnt;              /* as given */
	off_t exs_evt_length;                 /* bytes transferred; after a failure, those before it */
	int exs_evt_flags;                    /* as in exs_evt_xfer_t */
} exs_evt_xferfile_t;

typedef struct exs_event {
	int exs_evt_type;              /* EXS_EVT_... */
	int exs_evt_socket;            /* the socket on which the operation was started */
	int exs_evt_errno;             /* 0 or why the operation failed */
	exs_ahandle_t exs_evt_ahandle; /* as given when it was started */
	union exs_evt_union {
		exs_evt_accept_t exs_evt_accept;
		exs_evt_xfer_t exs_evt_xfer;
		exs_evt_xferfile_t exs_evt_xferfile;
	} exs_evt_union; /* EXS_EVT_CONNECT, _SHUTDOWN and _CLOSE have no member */
} exs_event_t;

/* An element of exs_accept()'s vector. It and what it points to must stay until its event. */
typedef struct exs_acceptaddr {
	struct sockaddr *exs_addr; /* where the peer's address goes, or NULL */
	socklen_t exs_addrlen;     /* in: room there in bytes; out: the address's whole size */
	int exs_newsocket;         /* out: the new connection's socket */
	exs_ahandle_t exs_ahandle; /* in: for this element's event */
} exs_acceptaddr_t;

/* Extents of a file transfer: memory, an open file, a file by name. */
#define EXS_IOVEC 1
#define EXS_FDVEC 2
#define EXS_PATHVEC 3

typedef struct exs_iovec {
	void *exs_iov_base;
	size_t exs_iov_len;
	exs_mhandle_t exs_iov_mhandle; /* NULL: not registered */
} exs_iovec_t;

typedef struct exs_fdvec {
	off_t exs_offset;  /* where in the file; its own file offset is neither used nor moved */
	size_t exs_length; /* bytes; 0: send to the end of the file, receive to the end of the stream or message */
	int exs_flags;     /* EXS_SHUT_WR (send) or 0 */
	int exs_fildes;
} exs_fdvec_t;

typedef struct exs_pathvec {
	off_t exs_offset;  /* Offset into the file. */
	size_t exs_length; /* Requested transfer length; 0 as in exs_fdvec_t. */
	int exs_flags;     /* EXS_SHUT_WR (send) or 0 */
	char *exs_path;    /* path to file; a receive creates it (mode 0666 less umask) or cuts it at exs_offset */
} exs_pathvec_t;

typedef struct exs_xferfile {
	int exs_xfv_type; /* Source extent type: EXS_IOVEC, EXS_FDVEC, EXS_PATHVEC. */
	union exs_xfvec {
		exs_iovec_t exs_iov;     /* IOVEC extent. */
		exs_fdvec_t exs_fdv;     /* FDVEC extent. */
		exs_pathvec_t exs_pathv; /* PATHVEC extent. */
	} exs_xfv;
} exs_xferfile_t;

/* Attributes of an event queue, for exs_qmodify() and exs_qstatus(); the type of *value in brackets. */
#define EXS_QATTR_DEPTH 1  /* [int] events that the queue is sure to hold */
#define EXS_QATTR_SIGNAL 2 /* [exs_signal_t] a signal when an event is queued */
#define EXS_QATTR_EVENTS 3 /* [int] events in the queue now; exs_qstatus() only */
#define EXS_QATTR_WAIT 4   /* [int] how exs_qdequeue() waits: EXS_WAIT_... */

#define EXS_WAIT_ADAPTIVE 0  /* look for some time, then sleep */
#define EXS_WAIT_NOTIFY 1    /* sleep at once */
#define EXS_WAIT_BUSY_POLL 2 /* never sleep */

#define EXS_SIG_DISABLE 0
#define EXS_SIG_ENABLE 1

typedef struct exs_signal {
	int exs_sig_state; /* EXS_SIG_ENABLE or EXS_SIG_DISABLE */
	int exs_sig_signo; /* sent to the process with sigqueue(3), once for each event */
	union sigval exs_sig_value;
} exs_signal_t;

/*
 * Commands of exs_fcntl(), beside F_GETFL and F_SETFL (of which only O_NONBLOCK changes anything).
 * With O_NONBLOCK a call with EXS_BLOCK that would wait fails instead: EBUSY for a send for which the peer has
 * given no credit or behind one that it has still to read (with some credit, a SOCK_STREAM socket sends as much as
 * that and says so, a SOCK_SEQPACKET socket keeps a copy of a message that is more), EAGAIN for a receive or accept
 * for which there is nothing yet, or no whole message. A SOCK_STREAM socket receives what there is, with MSG_WAITALL
 * too. File transfers wait all the same, as does the receive of a message that is more than the connection holds.
 */
#define EXS_F_GETFILELIMIT 0x4501 /* argument off_t *: the largest exs_sendfile() in bytes, 0 for none */
#define EXS_F_SETFILELIMIT 0x4502 /* argument const off_t *: the same */

/* Function Forward Declarations */

/* EALREADY when already called in this process, or in the one that it was forked from if that has used a device. Every
 * other function is EPERM before it. */
int exs_init(int version);

/* PF_INET or PF_INET6 (else EAFNOSUPPORT); SOCK_STREAM or SOCK_SEQPACKET (else ESOCKTNOSUPPORT); protocol 0, or
 * IPPROTO_TCP for the one and IPPROTO_SCTP for the other (else EPROTONOSUPPORT). */
int exs_socket(int family, int socktype, int protocol);
int exs_bind(int fd, const struct sockaddr *address, socklen_t addrlen);
int exs_listen(int fd, int backlog);

/* EINVAL, not EBADF, if the socket is none. With EXS_BLOCK addrvec_cnt must be 1, and the new socket is in
 * addrvec[0].exs_newsocket; returns 0 either way. */
int exs_accept(int socket, exs_acceptaddr_t *addrvec, int addrvec_cnt, int flags, exs_qhandle_t qhandle);
int exs_connect(int sockno, const struct sockaddr *address, socklen_t address_len, int flags,
		const struct timeval *timeout, exs_qhandle_t qhandle, exs_ahandle_t ahandle);

/* With EXS_BLOCK the number of bytes. exs_recv also takes MSG_WAITALL (SOCK_STREAM: fill the whole buffer). */
ssize_t exs_send(int sockno, const void *buffer, size_t length, int flags, exs_qhandle_t qhandle,
		 exs_ahandle_t ahandle, exs_mhandle_t mhandle);
ssize_t exs_recv(int sockno, void *buffer, size_t length, int flags, exs_qhandle_t qhandle,
		 exs_ahandle_t ahandle, exs_mhandle_t mhandle);

/* exs_sendfile returns 0, with EXS_BLOCK too; exs_recvfile with EXS_BLOCK the number of bytes. The vector, its
 * descriptors and its memory must stay until the event; paths are opened before the call returns. */
ssize_t exs_sendfile(int socket, exs_xferfile_t *sendvec, int sendvec_cnt, int flags, exs_qhandle_t qhandle,
		     exs_ahandle_t ahandle);
ssize_t exs_recvfile(int socket, exs_xferfile_t *recvvec, int recvvec_cnt, int flags, exs_qhandle_t qhandle,
		     exs_ahandle_t ahandle);

/* how: SHUT_RD, SHUT_WR, SHUT_RDWR. Without EXS_BLOCK a NULL qhandle means that no event is wanted. */
int exs_shutdown(int sockno, int how, int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle);
/* As above. Sends in progress are finished first, receives in progress fail with ECANCELED. ETIMEDOUT when the peer has
 * taken nothing of those sends for 20 seconds: the socket is closed all the same. */
int exs_close(int sockno, int flags, exs_qhandle_t qhandle, exs_ahandle_t ahandle);

int exs_fcntl(int sockno, int cmd, ...);

/* The same with EXS_BLOCK, without what that makes needless. */
int exs_blocking_accept(int sockno, struct sockaddr *addr, socklen_t *addrlen); /* the new socket */
int exs_blocking_connect(int sockno, const struct sockaddr *address, socklen_t address_len);
ssize_t exs_blocking_send(int sockno, const void *buffer, size_t max_bytes, int flags, exs_mhandle_t mhandle);
ssize_t exs_blocking_recv(int sockno, void *buffer, size_t max_bytes, int flags, exs_mhandle_t mhandle);
ssize_t exs_blocking_sendfile(int socket, exs_xferfile_t *sendvec, int sendvec_cnt, int flags);
ssize_t exs_blocking_recvfile(int socket, exs_xferfile_t *recvvec, int recvvec_cnt, int flags);
int exs_blocking_close(int sockno);
ssize_t exs_read(int sockno, void *buffer, size_t max_bytes);
ssize_t exs_write(int sockno, const void *buffer, size_t max_bytes);

/* EACCES: the memory's protection does not allow it; EFAULT: there is no memory. */
exs_mhandle_t exs_mregister(void *addr, size_t size, int flags);
/* flags 0. EBUSY while an operation uses it. */
int exs_mderegister(exs_mhandle_t mhandle, int flags);

/* depth 0 takes the default. */
exs_qhandle_t exs_qcreate(int depth);
/* EBUSY while an operation in progress names the queue or a thread waits at it; events not yet taken are dropped. */
int exs_qdelete(exs_qhandle_t qhandle);
/* Takes up to evtvec_cnt events and waits for the first; a negative count waits for -evtvec_cnt of them. timeout NULL
 * waits for ever; when it has passed, returns how many there were (0 .. |evtvec_cnt|). EINTR when a signal handler ran. */
int exs_qdequeue(exs_qhandle_t qhandle, exs_event_t *evtvec, int evtvec_cnt, const struct timeval *timeout);
/* size: of *value in bytes, as the attribute's type has it (else EINVAL). */
int exs_qmodify(exs_qhandle_t qhandle, int attribute, const void *value, size_t size);
int exs_qstatus(exs_qhandle_t qhandle, int attribute, void *value, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* EXS_H */
