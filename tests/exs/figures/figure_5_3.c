// Figure 5-3 of M. C. Renke, "Creating a Conformance Testing Framework for the UNH Extended Sockets Library and Demonstrating its
// Usefulness by Implementing New sendfile() Extension" (University of New Hampshire, 2016), as printed.
// Misprint: 0_RDONLY for O_RDONLY.

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
        int fd = open(argv[1], O_RDONLY);
        exs_xferfile_t sendvec;
        memset(&sendvec, 0, sizeof(exs_xferfile_t));
        sendvec.exs_xfv.exs_fdv.exs_fildes = fd;
        sendvec.exs_xfv.exs_fdv.exs_offset = (off_t)0;
        sendvec.exs_xfv.exs_fdv.exs_length = (size_t)0;
        sendvec.exs_xfv.exs_fdv.exs_flags = 0;
        sendvec.exs_xfv_type = EXS_FDVEC;
        int sendvec_cnt = 1;
        exs_sendfile(sfd, &sendvec, sendvec_cnt, EXS_BLOCK, NULL, NULL);
        exs_close(sfd, EXS_BLOCK, NULL, NULL);
        close(fd);
}
