"""Hosts on one machine: each with its own network, name, processes, home and folder for temporary files, and one folder that all share."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any

NETWORK = "10.77.0"
_TOOLS = "unshare", "nsenter", "ip", "mount", "hostname"

# Runs beside the hosts, and holds their networks until its input ends.
_NETWORKS = """
set -e
mount -t tmpfs none /run
ip link add bridge type bridge
ip link set bridge up
i=0
while [ $i -lt "$1" ]; do
    ip netns add host$i
    ip link add host$i type veth peer name eth0 netns host$i
    ip link set host$i master bridge up
    ip -n host$i addr add "$2.$((i + 1))/24" dev eth0
    ip -n host$i link set eth0 up
    ip -n host$i link set lo up
    i=$((i + 1))
done
echo ready
cat
"""

# Begins a host: $1 is its number, $2 the folder of all, and the rest a command, which ends with it.
_HOST = """
set -e
number=$1 all=$2 limit=$3
shift 3
hostname "host$number"
mount --bind "$all/names" /etc/hosts
mount --bind "$all/hosts/$number" "$all/own"
mount -t tmpfs none "$all/hosts"
cd "$all/own"
exec timeout --signal KILL "$limit" "$@"
"""


class Hosts:
    """Some hosts that share the folder `shared` and nothing else. The folder `own` is another one on each, and has its home.

    They are namespaces of Linux, made by root, or without its rights where users may make namespaces. `why_not` tells why there are none.
    """

    def __init__(self, folder: pathlib.Path, count: int) -> None:
        self.folder, self.count = folder, count
        self.shared, self.own = folder / "shared", folder / "own"
        for path in self.shared, self.own, *(folder / "hosts" / str(i) for i in range(count)):
            path.mkdir(parents=True)
        names = [f"{self.address(i)} host{i}" for i in range(count)]
        (folder / "names").write_text("\n".join(["127.0.0.1 localhost", *names, ""]))
        self._user = [] if os.geteuid() == 0 else ["--user"]
        root = ["--user", "--map-root-user"] if self._user else []
        command = ["unshare", *root, "--net", "--mount", "sh", "-c", _NETWORKS, "networks", str(count), NETWORK]
        self._networks = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self._networks.stdout is not None and self._networks.stderr is not None
        if self._networks.stdout.readline() != "ready\n":
            said = self._networks.stderr.read().strip()
            self.close()
            raise OSError(said or "the networks could not be made")

    @staticmethod
    def address(host: int) -> str:
        return f"{NETWORK}.{host + 1}"

    def of(self, host: int, *names: str) -> pathlib.Path:
        """A path of a host's own folder, as others see it."""
        return self.folder.joinpath("hosts", str(host), *names)

    def start(self, host: int, command: list[Any], limit: float = 60, **variables: str) -> subprocess.Popen[str]:
        """Starts a host, which runs a command and ends with it, or after limit seconds. To kill the process is to kill all on the host."""
        user = ["--user", "--preserve-credentials"] if self._user else []
        begin = ["nsenter", "--target", str(self._networks.pid), *user, "--net", "--mount", "nsenter", f"--net=/run/netns/host{host}"]
        begin += ["unshare", "--uts", "--pid", "--mount", "--fork", "--kill-child=KILL", "--mount-proc", "sh", "-c", _HOST, "host"]
        environment = {name: value for name, value in os.environ.items() if name not in ("XDG_STATE_HOME", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")}
        environment |= {"HOME": str(self.own), "TMPDIR": str(self.own), "OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", **variables}
        arguments = [*begin, str(host), str(self.folder), str(limit), *map(str, command)]
        return subprocess.Popen(arguments, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def close(self) -> None:
        """Ends the networks. Hosts that still run keep theirs until they end."""
        self._networks.communicate()


def why_not(folder: pathlib.Path) -> str:
    """What is missing for hosts on this machine; "" where nothing is."""
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if sys.platform != "linux" or missing:
        return "hosts are namespaces of Linux, made with " + ", ".join(_TOOLS)
    try:
        hosts = Hosts(folder, 1)
    except OSError as err:
        return f"namespaces cannot be made here: {err}"
    try:
        _, said = hosts.start(0, ["true"]).communicate()
        return f"namespaces cannot be entered here: {said.strip()}" if said else ""
    finally:
        hosts.close()
