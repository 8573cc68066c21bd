// Figure 5-2 of M. C. Renke, "Creating a Conformance Testing Framework for the UNH Extended Sockets Library and Demonstrating its
// Usefulness by Implementing New sendfile() Extension" (University of New Hampshire, 2016), as printed.
// Misprints: the header of fstat() is missing, and offset is 0.

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
#include <sys/stat.h>
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
        ssize_t size;
        struct stat stat_buf;
        int fd = open(argv[1], O_RDONLY);
        fstat(fd, &stat_buf);
        size = stat_buf.st_size;
        void* mapped = mmap(0,size,PROT_READ | PROT_WRITE,
        MAP_PRIVATE,fd,0);
        exs_mhandle_t mh = exs_mregister(mapped,(size_t)size,
        EXS_MRF_RECV_DISABLE);
        exs_send(sfd, mapped, size, EXS_BLOCK, NULL, NULL, mh);
        exs_mderegister(mh, 0);
        munmap(mapped, size);
        exs_close(sfd, EXS_BLOCK, NULL, NULL);
        close(fd);
}
