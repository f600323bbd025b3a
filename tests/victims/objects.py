"""Python threads, dictionaries, hashing, big numbers, generators and files; nothing depends on the hash seed."""

import hashlib
import os
import queue
import sys
import threading


def check(holds, what):
    if not holds:
        print("victim: not so:", what, file=sys.stderr)
        sys.exit(9)


def churn(seed, rounds, results):
    table, digest, random = {}, hashlib.sha256(), seed
    for i in range(rounds):
        random = (random * 6364136223846793005 + 1442695040888963407) % 2**64
        key = f"key-{random % 997}"
        if key in table:
            check(table[key][0] == key and sum(table[key][1]) == table[key][2], "a table entry kept its value")
        numbers = [(random >> shift) % 1000 for shift in range(0, 48, 3)]
        table[key] = (key, numbers, sum(numbers))
        digest.update(repr(sorted(numbers)).encode())
        if i % 50 == 0:
            digest.update(str(pow(random, 30, 2**127 - 1)).encode())
    digest.update(repr(sorted(table.items())).encode())
    results[seed] = digest.hexdigest()


def passer(source, sink):
    for item in iter(source.get, None):
        sink.put(item * 3 + 1)
    sink.put(None)


def counted(limit):
    total = 0
    while total < limit:
        total += (yield total) or 1


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100000 * int(os.environ.get("VICTIM_TIMES", "1"))
    results = {}
    threads = [threading.Thread(target=churn, args=(seed, rounds, results)) for seed in range(3)]
    links = [queue.Queue(maxsize=4) for _ in range(4)]
    threads += [threading.Thread(target=passer, args=pair) for pair in zip(links, links[1:])]
    for thread in threads:
        thread.start()
    total, generator = 0, counted(rounds)
    with open("lines.txt", "w", buffering=1) as lines:
        for i in range(rounds // 20):
            links[0].put(i)
            total += links[-1].get()
            next(generator)
            lines.write(f"{i} {total}\n")
            check(lines.tell() > 0, "the file has a position")
    links[0].put(None)
    check(links[-1].get() is None, "the end came last")
    for thread in threads:
        thread.join()
    print("objects:", total, *(results[seed] for seed in sorted(results)))


main()
