// Figure 2-2 of M. C. Renke, "Creating a Conformance Testing Framework for the UNH Extended Sockets Library and Demonstrating its
// Usefulness by Implementing New sendfile() Extension" (University of New Hampshire, 2016), as printed but for the header that declares PF_INET.

#include <exs.h>
#include <sys/socket.h>
int main(int argc, char *argv[]){
    exs_init(EXS_VERSION);
    int fd = exs_socket(PF_INET, SOCK_STREAM, 0);
    //use socket here
    exs_close(fd,0,NULL,NULL);
}
