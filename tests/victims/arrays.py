"""numpy: a relaxation, a matrix product and a transform in threads; the same arithmetic in the same order each time."""

import hashlib
import os
import sys
import threading

import numpy


def relax(seed, rounds, results):
    field = numpy.fromfunction(lambda y, x: numpy.sin(x * 0.1 + seed) + y * 0.01, (120, 120))
    for _ in range(rounds):
        inner = field[1:-1, 1:-1]
        inner += 0.2 * (field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:] - 4 * inner)
        spectrum = numpy.fft.rfft(field[seed + 5])
        field[seed + 5] = numpy.fft.irfft(spectrum, 120)
    results[seed] = hashlib.sha256(field.tobytes()).hexdigest()


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 6000 * int(os.environ.get("VICTIM_TIMES", "1"))
    results = {}
    threads = [threading.Thread(target=relax, args=(seed, rounds, results)) for seed in range(3)]
    for thread in threads:
        thread.start()
    matrix = numpy.arange(90000, dtype=numpy.int64).reshape(300, 300)
    product = matrix
    for _ in range(max(1, rounds // 300)):
        product = (product @ matrix) % 1000003
    floats = matrix / 90000
    for _ in range(max(1, rounds // 300)):
        floats = floats @ floats
        floats /= abs(floats).max()
    for thread in threads:
        thread.join()
    digest = hashlib.sha256(floats.tobytes()).hexdigest()
    print("arrays:", int(product.sum()), digest, *(results[seed] for seed in sorted(results)))


main()
