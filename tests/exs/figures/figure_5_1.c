// Figure 5-1 of M. C. Renke, "Creating a Conformance Testing Framework for the UNH Extended Sockets Library and Demonstrating its
// Usefulness by Implementing New sendfile() Extension" (University of New Hampshire, 2016), as printed.
// Misprints: filefd for fd, p->fd for sfd, and the length that is registered: size, which has no value yet, for block.

#include <exs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <netdb.h>
#include <netinet/in.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/mman.h>
/* main takes a single argument, the path of a
file to send using exs_sendfile */
int main(int argc, char* argv[]){
        if( argc < 2 ) return 0;
        exs_init(EXS_VERSION);
        int sfd = exs_socket(PF_INET, SOCK_STREAM, 0);
        int family = PF_INET;
        int socktype = SOCK_STREAM;
        int protocol = IPPROTO_TCP;
        struct addrinfo *info;
        struct addrinfo hints;
        memset(&hints, 0, sizeof(hints));
        hints.ai_family = family;
        hints.ai_socktype = socktype;
        hints.ai_protocol = protocol;
        hints.ai_flags = AI_PASSIVE;
        int r = getaddrinfo("localhost", "55555", &hints, &info);
        exs_connect(sfd, info->ai_addr, info->ai_addrlen,
        EXS_BLOCK, NULL, NULL, NULL);
        ssize_t block = (ssize_t)1024;
        ssize_t size;
        char buf[block];
        int fd = open(argv[1], O_RDONLY);
        exs_mhandle_t mh = exs_mregister(buf, block,
        EXS_MRF_RECV_DISABLE);
        while ((size = read(fd, &buf, block)) > 0) {
                exs_send(sfd, buf, size, EXS_BLOCK, NULL, NULL, mh);
        }
        exs_mderegister(mh, 0);
        exs_close(sfd, EXS_BLOCK, NULL, NULL);
        close(fd);
}
