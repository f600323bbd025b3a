/* `standfast run --check-exclusions`: catches writes to memory that was excluded as read-only, and reports the writer, the
 * region and the caller that excluded it. Two further checks happen outside the library. A restart fills dead memory with
 * a pattern. A checkpoint compares read-only memory with the checkpoint before, and reads here who has excluded it.
 *
 * Pages that lie wholly in a read-only region of private memory are write-protected. A write there raises a fault. Our
 * handler reports the writer, makes the page writable again and lets the program continue: one message a page. System
 * calls that write there fail (EFAULT). A SIGSEGV handler that the program installs itself replaces ours. */
#define _GNU_SOURCE
#include "internal.h"
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#define ERRORS_FILE 2
#define PROT_READ_ONLY 1l
#define PROT_READ_WRITE 3l
#define LINE_BYTES 512

/* In the GNU C library. Without them, addresses are printed without names. */
extern int backtrace(void **, int) __attribute__((weak));
extern void backtrace_symbols_fd(void *const *, int, int) __attribute__((weak));

/* The last exclusions, which the header refers to as well, and how many exclusions had pages guarded. */
static struct record *records;
static _Atomic uint64_t *record_count;
static _Atomic uint64_t guarded_count;
static struct sigaction before_ours;

static void say(const char *text)
{
    call(SYS_write, ERRORS_FILE, (long)text, (long)strlen(text), 0, 0, 0);
}

static void say_number(uint64_t number)
{
    char text[19] = "0x0000000000000000";
    for (int digit = 0; digit < 16; digit++)
        text[17 - digit] = "0123456789abcdef"[number >> 4 * digit & 15];
    say(text);
}

static void say_frames(void *const *frames, int count)
{
    if (backtrace_symbols_fd)
        backtrace_symbols_fd(frames, count, ERRORS_FILE);
    else
        for (int frame = 0; frame < count; frame++) {
            say_number((uint64_t)(uintptr_t)frames[frame]);
            say("\n");
        }
}

/* Returns the last guarded exclusion that contains an address. */
static const struct record *record_of(uint64_t address)
{
    uint64_t last = atomic_load(record_count);
    for (uint64_t back = 1; back <= RECORDS && back <= last; back++) {
        const struct record *record = &records[(last - back) % RECORDS];
        if (record->is_guarded && record->start <= address && address < record->end)
            return record;
    }
    return NULL;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    uint64_t address = (uint64_t)(uintptr_t)info->si_addr;
    const struct record *record = info->si_code == SEGV_ACCERR ? record_of(address) : NULL;
    if (record == NULL) {
        /* Not one of our pages: restores the previous action, which handles the fault when the write is retried. */
        sigaction(number, &before_ours, NULL);
        return;
    }
    uint64_t page = address & ~(PAGE - 1);
    call(SYS_mprotect, (long)page, PAGE, PROT_READ_WRITE, 0, 0, 0);
    say("standfast: a write to read-only memory at ");
    say_number(address);
    say(", of the region from ");
    say_number(record->start);
    say(" to ");
    say_number(record->end);
    say(". It was written by\n");
    void *here[FRAMES] = {(void *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP]};
    int count = backtrace ? backtrace(here, FRAMES) : 1;
    say_frames(here, count);
    say("standfast: and excluded by\n");
    say_frames(record->frames, (int)record->frame_count);
}

/* Reads one line of /proc/self/maps. Returns false at the end. */
static bool next_line(int file, char *line)
{
    size_t length = 0;
    char byte;
    while (call(SYS_read, file, (long)&byte, 1, 0, 0, 0) == 1 && byte != '\n')
        if (length < LINE_BYTES - 1)
            line[length++] = byte;
    line[length] = 0;
    return length > 0;
}

static uint64_t hexadecimal(const char **text)
{
    uint64_t number = 0;
    for (;; ++*text) {
        char digit = **text;
        if (digit >= '0' && digit <= '9')
            number = number << 4 | (uint64_t)(digit - '0');
        else if (digit >= 'a' && digit <= 'f')
            number = number << 4 | (uint64_t)(digit - 'a' + 10);
        else
            return number;
    }
}

/* Reports whether all pages of a range are private memory that is readable, writable and not executable. */
static bool is_plain(uint64_t start, uint64_t end)
{
    long file = call(SYS_open, (long)"/proc/self/maps", 02000000l, 0, 0, 0, 0);
    if (has_failed(file))
        return false;
    char line[LINE_BYTES];
    while (start < end && next_line((int)file, line)) {
        const char *text = line;
        uint64_t from = hexadecimal(&text);
        text++;
        uint64_t to = hexadecimal(&text);
        if (from <= start && start < to && strncmp(text, " rw-p", 5) == 0)
            start = to;
    }
    call(SYS_close, file, 0, 0, 0, 0, 0);
    return start >= end;
}

void standfast_check_begin(struct header *header)
{
    records = map_pages(RECORDS * sizeof *records);
    struct sigaction ours;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    if (records == NULL || sigaction(SIGSEGV, &ours, &before_ours) != 0)
        return;
    /* The first call of backtrace() loads a library, which a handler must not do. */
    void *none[1];
    if (backtrace)
        backtrace(none, 1);
    record_count = &header->record_count;
    header->records = (uint64_t)(uintptr_t)records;
    atomic_fetch_or(&header->flags, FLAG_CHECKING);
}

static void let_write(uint64_t from, uint64_t to)
{
    if (from < to)
        call(SYS_mprotect, (long)from, (long)(to - from), PROT_READ_WRITE, 0, 0, 0);
}

/* Makes the guarded pages of a region writable again. */
static void unguard(uint64_t start, uint64_t end)
{
    if (atomic_load(&guarded_count) == 0)
        return;
    uint64_t last = atomic_load(record_count);
    for (uint64_t back = 1; back <= RECORDS && back <= last; back++) {
        const struct record *record = &records[(last - back) % RECORDS];
        if (!record->is_guarded || record->end <= start || end <= record->start)
            continue;
        uint64_t from = start > record->start ? start : record->start, to = end < record->end ? end : record->end;
        uint64_t first = whole_pages(record->start), behind = record->end & ~(PAGE - 1);
        from = (from & ~(PAGE - 1)) > first ? from & ~(PAGE - 1) : first;
        to = whole_pages(to) < behind ? whole_pages(to) : behind;
        let_write(from, to);
    }
}

void standfast_check(struct header *header, uint64_t start, uint64_t end, unsigned kind)
{
    if (!(atomic_load_explicit(&header->flags, memory_order_relaxed) & FLAG_CHECKING))
        return;
    unguard(start, end);
    if (kind != READONLY)
        return;
    struct record *record = &records[atomic_fetch_add(record_count, 1) % RECORDS];
    /* A region whose record is overwritten must not stay guarded: our handler could not say who excluded it. */
    if (record->is_guarded)
        let_write(whole_pages(record->start), record->end & ~(PAGE - 1));
    *record = (struct record){.start = start, .end = end, .frame_count = 1};
    record->frames[0] = __builtin_return_address(0);
    if (backtrace)
        record->frame_count = (uint32_t)backtrace(record->frames, FRAMES);
    uint64_t first = whole_pages(start), behind = end & ~(PAGE - 1);
    if (first >= behind || !is_plain(first, behind))
        return;
    record->is_guarded = !has_failed(call(SYS_mprotect, (long)first, (long)(behind - first), PROT_READ_ONLY, 0, 0, 0));
    atomic_fetch_add(&guarded_count, record->is_guarded);
}
