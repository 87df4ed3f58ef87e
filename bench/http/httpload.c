/* Load on an HTTP server of this machine, so light that the server is what is measured.
 *
 *   httpload post PORT CONNECTIONS SECONDS < request      sends the request over and over on each connection, one at a time
 *   httpload follow PORT CONNECTIONS SECONDS < request    sends it once on each, and reads events until the time is over
 *
 * Prints one line of JSON. `follow` looks, at one of 16 connections, for `"sent":` and nanoseconds of CLOCK_MONOTONIC in what it reads, and tells
 * how long events were on their way; it says "ready" on standard error when all connections have their first bytes.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_BYTES 65536
#define SAMPLED 16 /* of so many readers one is looked at, so that the generator keeps up */
#define BUCKETS 1000000 /* of 10 us */

typedef struct {
    int fd;
    size_t sent;
    long left;     /* bytes of the answer's body that are still to come, -1 in its head */
    size_t filled;
    char *buffer;
    int is_known;
} Connection;

static char request[8 << 20];
static size_t request_bytes;
static uint64_t answered, refused, delivered;
static uint32_t *histogram;

static uint64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + at.tv_nsec;
}

static void fail(const char *what) {
    fprintf(stderr, "httpload: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void send_rest(Connection *c) {
    while (c->sent < request_bytes) {
        ssize_t n = send(c->fd, request + c->sent, request_bytes - c->sent, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno == EAGAIN)
                return;
            fail("send");
        }
        c->sent += n;
    }
}

static void open_connection(Connection *c, int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof to) < 0)
        fail("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    c->buffer = malloc(BUFFER_BYTES + 1);
    c->left = -1;
}

/* Takes whole answers from the buffer; after each the request goes out again. */
static void take_answers(Connection *c) {
    for (;;) {
        if (c->left < 0) {
            c->buffer[c->filled] = 0;
            char *end = strstr(c->buffer, "\r\n\r\n");
            if (!end)
                return;
            char *length = strcasestr(c->buffer, "content-length:");
            if (!length || length > end) {
                fprintf(stderr, "httpload: an answer without a length: %.200s\n", c->buffer);
                exit(1);
            }
            if (strncmp(c->buffer + 9, "200", 3) && strncmp(c->buffer + 9, "204", 3)) {
                if (!refused++)
                    fprintf(stderr, "httpload: %.1000s\n", c->buffer);
            }
            size_t head = end + 4 - c->buffer;
            c->left = atol(length + 15);
            memmove(c->buffer, c->buffer + head, c->filled - head);
            c->filled -= head;
        }
        size_t taken = c->filled < (size_t)c->left ? c->filled : (size_t)c->left;
        memmove(c->buffer, c->buffer + taken, c->filled - taken);
        c->filled -= taken;
        c->left -= taken;
        if (c->left)
            return;
        c->left = -1;
        answered++;
        c->sent = 0;
        send_rest(c);
    }
}

/* Counts events, and how long each was on its way; keeps what may be the begin of one. */
static void take_events(Connection *c, uint64_t now) {
    static const char mark[] = "\"sent\":";
    c->buffer[c->filled] = 0;
    char *at = c->buffer, *found, *end = c->buffer + c->filled;
    while ((found = memmem(at, end - at, mark, sizeof mark - 1))) {
        char *digit = found + sizeof mark - 1;
        char *stop = memchr(digit, '}', end - digit);
        if (!stop) {
            at = found;
            break;
        }
        uint64_t sent = strtoull(digit, NULL, 10);
        uint64_t bucket = now > sent ? (now - sent) / 10000 : 0;
        histogram[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
        delivered++;
        at = stop;
    }
    if (end - at > 256)
        at = found ? found : end - 64;
    c->filled = end - at;
    memmove(c->buffer, at, c->filled);
}

static double percentile_ms(double share) {
    uint64_t seen = 0, wanted = (uint64_t)(share * delivered);
    for (int i = 0; i < BUCKETS; i++)
        if ((seen += histogram[i]) > wanted)
            return i / 100.0;
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 5)
        return fprintf(stderr, "httpload post|follow PORT CONNECTIONS SECONDS < request\n"), 2;
    int follows = !strcmp(argv[1], "follow"), port = atoi(argv[2]), count = atoi(argv[3]);
    double seconds = atof(argv[4]);
    ssize_t n;
    while ((n = read(0, request + request_bytes, sizeof request - request_bytes)) > 0)
        request_bytes += n;
    histogram = calloc(BUCKETS, sizeof *histogram);
    Connection *connections = calloc(count, sizeof *connections);
    int poll = epoll_create1(0), ready = 0;
    for (int i = 0; i < count; i++) {
        Connection *c = connections + i;
        open_connection(c, port);
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
        epoll_ctl(poll, EPOLL_CTL_ADD, c->fd, &event);
        send_rest(c);
    }
    uint64_t started = now_ns(), until = started + (uint64_t)(seconds * 1e9);
    struct epoll_event events[256];
    while (now_ns() < until) {
        int some = epoll_wait(poll, events, 256, 100);
        for (int i = 0; i < some; i++) {
            Connection *c = events[i].data.ptr;
            send_rest(c);
            while ((n = recv(c->fd, c->buffer + c->filled, BUFFER_BYTES - c->filled, 0)) > 0) {
                if (!c->is_known && follows && ++ready == count)
                    fprintf(stderr, "ready\n");
                c->is_known = 1;
                c->filled += n;
                if (follows && (c - connections) % SAMPLED)
                    c->filled = 0;
                else if (follows)
                    take_events(c, now_ns());
                else
                    take_answers(c);
            }
            if (n == 0) {
                fprintf(stderr, "httpload: the server hung up: %.300s\n", c->buffer);
                return 1;
            }
        }
    }
    double took = (now_ns() - started) / 1e9;
    printf("{\"answered\": %lu, \"refused\": %lu, \"seconds\": %.6f, \"delivered\": %lu, \"sampled\": %d, \"p50_ms\": %.2f, "
           "\"p99_ms\": %.2f}\n",
           answered, refused, took, delivered, (count + SAMPLED - 1) / SAMPLED, percentile_ms(0.5), percentile_ms(0.99));
    return 0;
}
