/* Lists of regions, ascending and disjoint: turns a log of calls into such a list, and puts one list on top of another.
 * The functions are pure and use only the memory they are given. The supervisor does the same in
 * crates/core/src/directions. */
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

static struct entry at(struct list list, size_t number)
{
    if (!list.is_packed)
        return ((const struct entry *)list.entries)[number];
    struct packed_entry entry = ((const struct packed_entry *)list.entries)[number];
    return (struct entry){entry.start, entry.length | (uint64_t)entry.stamp << 48};
}

static void put(void *out, size_t number, struct entry entry, bool is_packed)
{
    if (is_packed)
        ((struct packed_entry *)out)[number] =
            (struct packed_entry){entry.start, (uint32_t)(entry.length & BITS48), (uint16_t)(entry.length >> 48)};
    else
        ((struct entry *)out)[number] = entry;
}

/* Appends a region. Joins it with the last one if the two adjoin and have the same kind and stamp. */
static size_t push(void *out, size_t count, struct entry entry, struct form form)
{
    if (form.drops_included && is_included(entry))
        return count;
    if (count > 0) {
        struct entry last = at((struct list){out, count, form.is_packed}, count - 1);
        bool alike = (last.start & ~BITS48) == (entry.start & ~BITS48) && (last.length & ~BITS48) == (entry.length & ~BITS48);
        if (alike && end(last) == first(entry)) {
            entry = between(last, first(last), end(entry));
            count--;
        }
    }
    while (form.is_packed && end(entry) - first(entry) > PACKED_LENGTH_MAX) {
        uint64_t middle = first(entry) + PACKED_LENGTH_MAX;
        put(out, count++, between(entry, first(entry), middle), true);
        entry = between(entry, middle, end(entry));
    }
    put(out, count, entry, form.is_packed);
    return count + 1;
}

size_t standfast_overlay(struct list older, struct list newer, void *out, struct form form)
{
    size_t count = 0, i = 0, j = 0;
    struct entry old = older.count > 0 ? at(older, 0) : (struct entry){0, 0};
    struct entry over = newer.count > 0 ? at(newer, 0) : (struct entry){0, 0};
    while (i < older.count || j < newer.count) {
        if (i < older.count && (j == newer.count || end(old) <= first(over))) {
            count = push(out, count, old, form);
            if (++i < older.count)
                old = at(older, i);
        } else if (j < newer.count && (i == older.count || end(over) <= first(old))) {
            count = push(out, count, over, form);
            if (++j < newer.count)
                over = at(newer, j);
        } else {
            if (first(old) < first(over))
                count = push(out, count, between(old, first(old), first(over)), form);
            if (end(old) > end(over))
                old = between(old, end(over), end(old));
            else if (++i < older.count)
                old = at(older, i);
        }
    }
    return count;
}

/* Turns a log into a list, in `out`. Both buffers need room for twice `count` entries. Settles each half into `spare`,
 * then puts the later half on top of the earlier one. */
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
    struct list earlier = {spare, a, false}, later = {spare + 2 * half, b, false};
    return standfast_overlay(earlier, later, out, (struct form){false, false});
}
