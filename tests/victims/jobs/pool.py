"""A pool of worker processes, and one of futures: queues, semaphores and shared memory between processes."""
import concurrent.futures
import hashlib
import multiprocessing


def work(number):
    digest = str(number).encode()
    for _ in range(10000):
        digest = hashlib.sha256(digest).digest()
    return digest.hex()[:8]


def count(counter):
    for _ in range(500):
        with counter.get_lock():
            counter.value += 1


if __name__ == "__main__":
    with multiprocessing.Pool(3) as pool:
        for turn, digest in enumerate(pool.imap(work, range(400), chunksize=4)):
            if turn % 40 == 0:
                print(turn, digest, flush=True)
    counter = multiprocessing.Value("i", 0)
    children = [multiprocessing.Process(target=count, args=(counter,)) for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    print(counter.value)
    with concurrent.futures.ProcessPoolExecutor(3) as executor:
        futures = [executor.submit(work, number) for number in range(300)]
        print(hashlib.sha256("".join(f.result() for f in futures).encode()).hexdigest())
