"""Workers that load batches, as those of PyTorch's DataLoader do: new ones for each epoch, which lend their memory by
descriptors through sockets in /tmp/pymp-*, and a manager and a server of forks that go on beside them."""
import hashlib
import mmap
import multiprocessing
import os
from multiprocessing import reduction

BATCHES = 24
EPOCHS = 6


def load(epoch, number):
    data = f"{epoch}-{number}".encode()
    for _ in range(4000):
        data = hashlib.sha256(data).digest()
    return data * 2048


def work(epoch, wanted, loaded, ended):
    kept = []
    while (number := wanted.get()) is not None:
        data = load(epoch, number)
        memory = os.memfd_create("batch")
        os.write(memory, data)
        loaded.put((number, len(data), reduction.DupFd(memory)))
        kept.append(memory)
    # A worker ends when its batches have been taken.
    ended.wait()


def taken(lent, length):
    memory = lent.detach()
    with mmap.mmap(memory, length, prot=mmap.PROT_READ) as data:
        digest = hashlib.sha256(data).hexdigest()
    os.close(memory)
    return digest


def train(context, epoch, seen):
    wanted, loaded, ended = context.Queue(), context.Queue(), context.Event()
    workers = [context.Process(target=work, args=(epoch, wanted, loaded, ended)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for number in range(BATCHES):
        wanted.put(number)
    batches = {}
    for _ in range(BATCHES):
        number, length, lent = loaded.get()
        batches[number] = taken(lent, length)
        seen[number] = epoch
    for _ in workers:
        wanted.put(None)
    ended.set()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0, worker.exitcode
    return hashlib.sha256("".join(batches[number] for number in range(BATCHES)).encode()).hexdigest()


if __name__ == "__main__":
    with multiprocessing.Manager() as manager:
        seen = manager.dict()
        for epoch in range(EPOCHS * int(os.environ.get("VICTIM_TIMES", "1"))):
            context = multiprocessing.get_context("forkserver" if epoch % 3 == 2 else "fork")
            print(epoch, train(context, epoch, seen), len(seen), flush=True)
