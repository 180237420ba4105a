/* The least that a client of streams has to do: asks for STREAMS answers of 127.0.0.1:PORT at once, reads them to their ends and
 * looks at nothing but these. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

int main(int count, char **arguments) {
    static char buffer[1 << 20];
    const char *request = "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}";
    const char *end = "0\r\n\r\n";
    if (count != 3) return 2;
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1]))};
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int streams = atoi(arguments[2]), open = streams, poll = epoll_create1(0);
    long bytes = 0, reads = 0;
    for (int stream = 0; stream < streams; stream++) {
        int connection = socket(AF_INET, SOCK_STREAM, 0);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = connection};
        if (connect(connection, (struct sockaddr *)&server, sizeof server) != 0 ||
            write(connection, request, strlen(request)) < 0 || epoll_ctl(poll, EPOLL_CTL_ADD, connection, &event) != 0)
            return perror("connection"), 1;
    }
    while (open > 0) {
        struct epoll_event ready[64];
        int found = epoll_wait(poll, ready, 64, -1);
        for (int index = 0; index < found; index++) {
            int connection = ready[index].data.fd;
            long length = read(connection, buffer, sizeof buffer);
            bytes += length > 0 ? length : 0;
            reads++;
            if (length <= 0 || (length >= 5 && memcmp(buffer + length - 5, end, 5) == 0)) {
                close(connection);
                open--;
            }
        }
    }
    printf("%ld bytes in %d streams, %ld reads\n", bytes, streams, reads);
    return 0;
}
