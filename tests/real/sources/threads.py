"""Linear algebra, sorting and a dictionary of objects, in two threads beside each other."""

import threading

import numpy as np

results = {}


def work(number):
    """Multiply, solve and sort matrices of known numbers."""
    n = 96
    a = (np.arange(n * n, dtype=float) * (number + 3) % 101).reshape(n, n) + n * n * np.eye(n)
    x = np.linalg.solve(a, np.arange(n, dtype=float))
    order = np.sort(a.ravel())[:: n // 2]
    words = {f"w{i}": i * number for i in range(5000)}
    results[number] = (round(float((a @ x)[7]), 6), float(order.sum()), sum(words.values()))


threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 5)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(results.items()))
