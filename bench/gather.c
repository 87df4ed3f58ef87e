/* The yardstick of bench/kernel.py: what gather_published does with plain records, as a C programmer would write it. */
#include <stdint.h>
#include <string.h>

static uint32_t load_u32(const uint8_t *p) {
    uint32_t value;
    memcpy(&value, p, 4);
    return __builtin_bswap32(value);
}

/* Copies each entry of `count` messages to `out` and each publishing id to `ids`; gives the bytes copied, or -1. */
int64_t gather(const uint8_t *body, int64_t size, int64_t count, uint8_t *out, int64_t room, uint8_t *ids) {
    int64_t position = 0, copied = 0;
    for (int64_t taken = 0; taken < count; taken++) {
        if (size - position < 12)
            return -1;
        int64_t length = load_u32(body + position + 8);
        if (length & 0x80000000 || size - position - 12 < length)
            return -1;
        if (room - copied < length + 4)
            return copied;
        memcpy(out + copied, body + position + 8, (size_t)length + 4);
        memcpy(ids + 8 * taken, body + position, 8);
        copied += length + 4;
        position += length + 12;
    }
    return copied;
}
