"""Commits to an SQLite database in WAL mode, of more than a megabyte."""
import hashlib
import os
import sqlite3
import time

database = sqlite3.connect("measured.db", isolation_level=None)
database.execute("PRAGMA journal_mode=WAL")
database.execute("CREATE TABLE runs (id INTEGER PRIMARY KEY, value TEXT)")
database.execute("BEGIN")
database.executemany("INSERT INTO runs VALUES (?, ?)", ((row, str(row) * 200) for row in range(4000)))
database.execute("COMMIT")
for turn in range(60):
    database.execute("BEGIN IMMEDIATE")
    database.execute("UPDATE runs SET value = value || ? WHERE id % 60 = ?", (f"+{turn}", turn))
    database.execute("INSERT INTO runs VALUES (?, ?)", (10000 + turn, f"turn {turn}"))
    database.execute("COMMIT")
    time.sleep(0.03)
held = hashlib.sha256()
for row in database.execute("SELECT id, value FROM runs ORDER BY id"):
    held.update(repr(row).encode())
database.close()
os.remove("measured.db")
print("rows", held.hexdigest(), flush=True)
