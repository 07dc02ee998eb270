"""Start one command from a bare interpreter and report what it took: wall, CPU, peak memory, status.

Linux carries the memory of whoever starts a program into that program's peak, so the one who starts it must be smaller
than anything measured. Run as `python -I -S spawn.py FD ARGV…`; the report goes to that descriptor.
"""

import os
import sys
import time

start = time.perf_counter()
pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(pid, 0)
wall = time.perf_counter() - start
os.write(int(sys.argv[1]), f"{wall} {used.ru_utime + used.ru_stime} {used.ru_maxrss} {status}".encode())
