// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Messages there and back between two processes in Go, by librdmacm through cgo, each byte compared. Meanwhile other goroutines leave garbage,
// so that the collector runs and goroutines are preempted, by signals, and move between threads.
//
//	pingpong serve ADDRESS PORT
//	pingpong ask ADDRESS PORT
package main

/*
#cgo LDFLAGS: -lrdmacm -libverbs
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>

// An endpoint that listens, or one that is ready to connect; NULL with errno.
static struct rdma_cm_id *endpoint(const char *node, const char *service, int flags)
{
	struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *info;
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}, .sq_sig_all = 1,
	};
	struct rdma_cm_id *id = NULL;

	if (rdma_getaddrinfo(node, service, &hints, &info))
		return NULL;
	if (rdma_create_ep(&id, info, NULL, &attr))
		id = NULL;
	rdma_freeaddrinfo(info);
	return id;
}
*/
import "C"

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"
)

const (
	largest = 1 << 20
	rounds  = 20
)

var sizes = []int{1, 64, 4096, 65536, largest}

// One end of a connection: a buffer to send from, and two to receive into by turns, in memory that is not Go's, as the device keeps it.
type end struct {
	id       *C.struct_rdma_cm_id
	memory   unsafe.Pointer
	mr       *C.struct_ibv_mr
	received int
}

func newEnd(id *C.struct_rdma_cm_id) *end {
	memory := C.malloc(3 * largest)
	mr, err := C.rdma_reg_msgs(id, memory, 3*largest)
	if mr == nil {
		fail("rdma_reg_msgs", err)
	}
	return &end{id: id, memory: memory, mr: mr}
}

func (e *end) at(buffer int) unsafe.Pointer {
	return unsafe.Add(e.memory, buffer*largest)
}

// Makes the other buffer ready for the message after the one that is awaited.
func (e *end) expect() {
	result, err := C.rdma_post_recv(e.id, nil, e.at(1+e.received%2), largest, e.mr)
	check("rdma_post_recv", result, err)
	e.received++
}

// The message that is awaited; the buffer for the next is ready by then.
func (e *end) receive() []byte {
	var wc C.struct_ibv_wc
	from := e.at(1 + (e.received-1)%2)
	result, err := C.rdma_get_recv_comp(e.id, &wc)
	if result != 1 || wc.status != C.IBV_WC_SUCCESS {
		fail(fmt.Sprintf("rdma_get_recv_comp: %d, status %d", result, wc.status), err)
	}
	e.expect()
	return unsafe.Slice((*byte)(from), int(wc.byte_len))
}

func (e *end) send(message []byte) {
	var wc C.struct_ibv_wc
	copy(unsafe.Slice((*byte)(e.memory), largest), message)
	result, err := C.rdma_post_send(e.id, nil, e.memory, C.size_t(len(message)), e.mr, 0)
	check("rdma_post_send", result, err)
	result, err = C.rdma_get_send_comp(e.id, &wc)
	if result != 1 || wc.status != C.IBV_WC_SUCCESS {
		fail(fmt.Sprintf("rdma_get_send_comp: %d, status %d", result, wc.status), err)
	}
}

func serve(address, port string) {
	listener := open(address, port, C.RAI_PASSIVE)
	result, err := C.rdma_listen(listener, 1)
	check("rdma_listen", result, err)
	var id *C.struct_rdma_cm_id
	result, err = C.rdma_get_request(listener, &id)
	check("rdma_get_request", result, err)
	e := newEnd(id)
	e.expect()
	result, err = C.rdma_accept(id, nil)
	check("rdma_accept", result, err)
	for i := 0; i < rounds*len(sizes); i++ {
		e.send(e.receive())
	}
}

func ask(address, port string) {
	e := newEnd(open(address, port, 0))
	e.expect()
	result, err := C.rdma_connect(e.id, nil)
	check("rdma_connect", result, err)
	for _, size := range sizes {
		for round := 0; round < rounds; round++ {
			message := make([]byte, size)
			for i := range message {
				message[i] = byte(i*7 + i/4096 + round)
			}
			e.send(message)
			if !bytes.Equal(e.receive(), message) {
				fail(fmt.Sprintf("round %d of %d bytes came back otherwise", round, size), nil)
			}
		}
		fmt.Printf("ok %d bytes\n", size)
	}
	result, err = C.rdma_disconnect(e.id)
	check("rdma_disconnect", result, err)
}

func open(node, service string, flags C.int) *C.struct_rdma_cm_id {
	id, err := C.endpoint(C.CString(node), C.CString(service), flags)
	if id == nil {
		fail("rdma_create_ep", err)
	}
	return id
}

func litter() {
	for {
		for i := 0; i < 100; i++ {
			_ = make([]byte, 10000)
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
}

func check(what string, result C.int, err error) {
	if result != 0 {
		fail(what, err)
	}
}

func fail(what string, err error) {
	fmt.Fprintln(os.Stderr, what, err)
	os.Exit(1)
}

func main() {
	go litter()
	switch {
	case len(os.Args) == 4 && os.Args[1] == "serve":
		serve(os.Args[2], os.Args[3])
	case len(os.Args) == 4 && os.Args[1] == "ask":
		ask(os.Args[2], os.Args[3])
	default:
		fail("usage: pingpong serve|ask ADDRESS PORT", nil)
	}
}
