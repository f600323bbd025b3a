/* Lists of regions, ascending and apart: how a log of what was said becomes one, and how one is put on top of another. Pure:
 * no memory but what is given. The supervisor does the same in crates/core/src/directions. */
#include "internal.h"
#include <string.h>

#define BITS48 0xffffffffffffull

static uint64_t first(struct entry entry) { return entry.start & BITS48; }
static uint64_t end(struct entry entry) { return first(entry) + (entry.length & BITS48); }
static bool is_included(struct entry entry) { return entry.start >> 62 == INCLUDED; }

static struct entry between(struct entry entry, uint64_t from, uint64_t to)
{
    entry.start = (entry.start & ~BITS48) | from;
    entry.length = (entry.length & ~BITS48) | (to - from);
    return entry;
}

/* Adds a region behind the others, joined with the last one where they adjoin and are of one kind and stamp. */
static size_t push(struct entry *out, size_t count, struct entry entry)
{
    if (count > 0) {
        struct entry last = out[count - 1];
        bool alike = (last.start & ~BITS48) == (entry.start & ~BITS48) && (last.length & ~BITS48) == (entry.length & ~BITS48);
        if (alike && end(last) == first(entry)) {
            out[count - 1] = between(last, first(last), end(entry));
            return count;
        }
    }
    out[count] = entry;
    return count + 1;
}

size_t standfast_overlay(const struct entry *older, size_t a, const struct entry *newer, size_t b, struct entry *out,
                         bool drops_included)
{
    size_t count = 0, i = 0, j = 0;
    struct entry old = a > 0 ? older[0] : (struct entry){0, 0};
    while (i < a || j < b) {
        bool old_goes = i < a && (j == b || end(old) <= first(newer[j]));
        bool new_goes = j < b && (i == a || end(newer[j]) <= first(old));
        if (old_goes) {
            if (!drops_included || !is_included(old))
                count = push(out, count, old);
            if (++i < a)
                old = older[i];
        } else if (new_goes) {
            if (!drops_included || !is_included(newer[j]))
                count = push(out, count, newer[j]);
            j++;
        } else {
            struct entry over = newer[j];
            if (first(old) < first(over) && (!drops_included || !is_included(old)))
                count = push(out, count, between(old, first(old), first(over)));
            if (end(old) > end(over))
                old = between(old, end(over), end(old));
            else if (++i < a)
                old = older[i];
        }
    }
    return count;
}

/* Both buffers have room for twice as many. Each half is settled into `spare`, then the later one put on top of the
 * earlier. */
size_t standfast_settle(const struct entry *log, size_t count, struct entry *out, struct entry *spare)
{
    size_t run = 1;
    while (run < count && end(log[run - 1]) <= first(log[run]))
        run++;
    if (run >= count) {
        memcpy(out, log, count * sizeof *log);
        return count;
    }
    size_t half = count / 2;
    size_t a = standfast_settle(log, half, spare, out);
    size_t b = standfast_settle(log + half, count - half, spare + 2 * half, out + 2 * half);
    return standfast_overlay(spare, a, spare + 2 * half, b, out, false);
}
