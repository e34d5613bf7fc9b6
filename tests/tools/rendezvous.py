"""What torchrun-style programs do: find each other by SLURM_* alone. Rank 0 listens on the
first host of the list at a port made from the job's id; everyone sends a number, everyone
gets the sum."""

import os
import socket
import subprocess
import time

rank = int(os.environ["SLURM_PROCID"])
world = int(os.environ["SLURM_NTASKS"])
local = int(os.environ["SLURM_LOCALID"])
job = int(os.environ["SLURM_JOB_ID"])
names = subprocess.run(
    ["scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]],
    check=True, capture_output=True, text=True,
).stdout.split()
assert len(names) == int(os.environ["SLURM_JOB_NUM_NODES"]), names
assert os.environ["SLURMD_NODENAME"] == names[int(os.environ["SLURM_NODEID"])]
# All nodes of the test are this machine.
address = ("127.0.0.1", 20000 + job % 10000)


def lead():
    with socket.create_server(address) as server:
        peers = [server.accept()[0] for _ in range(world - 1)]
        total = rank + sum(int(p.makefile().readline()) for p in peers)
        for peer in peers:
            peer.sendall(f"{total}\n".encode())
            peer.close()
    return total


def follow():
    end = time.monotonic() + 30
    while True:
        try:
            peer = socket.create_connection(address, timeout=30)
            break
        except ConnectionRefusedError:
            assert time.monotonic() < end
            time.sleep(0.05)
    peer.sendall(f"{rank}\n".encode())
    return int(peer.makefile().readline())


total = lead() if rank == 0 else follow()
print(f"rank {rank} local {local} of {world}: {total}")
