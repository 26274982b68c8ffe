"""Hosts that are network namespaces of their own, each joined to the first one by a veth pair.

A namespace lives as long as the process that holds it, and that dies with the test: nothing is left behind, however it ends.
"""
import os
import shutil
import subprocess

from harness import Skip, check_run, need_root, wait_for
from tgtd import die_with_parent


class Net:
    def __init__(self, *hosts):
        need_root()
        if not all(map(shutil.which, ("ip", "unshare", "nsenter"))):
            raise Skip("needs ip (iproute2), unshare and nsenter (util-linux)")
        self.holders, self.address = {}, {}
        try:
            self._make("hub")
            for number, host in enumerate(hosts, 1):
                self._make(host)
                self._join(host, number)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self):
        for holder in self.holders.values():
            holder.kill()
            holder.wait()

    def _make(self, host):
        holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], preexec_fn=die_with_parent, stderr=subprocess.PIPE)
        self.holders[host] = holder
        own = os.readlink("/proc/self/ns/net")
        wait_for(lambda: holder.poll() is not None or os.readlink(f"/proc/{holder.pid}/ns/net") != own, 10, "network namespace")
        if holder.poll() is not None:
            raise Skip(f"no network namespaces here: {holder.stderr.read().decode()}")
        check_run(*self.inside(host), "ip", "link", "set", "lo", "up")

    def _join(self, host, number):
        """The hub is 10.213.N.1 for host N, the host 10.213.N.2; its end of the pair is called uplink."""
        hub, there = self.holders["hub"].pid, self.holders[host].pid
        check_run(*self.inside("hub"), "ip", "link", "add", f"to{number}", "type", "veth", "peer", "name", "uplink", "netns", str(there))
        for pid, name, last in ((hub, f"to{number}", 1), (there, "uplink", 2)):
            inside = ("nsenter", "-t", str(pid), "-n")
            check_run(*inside, "ip", "address", "add", f"10.213.{number}.{last}/24", "dev", name)
            check_run(*inside, "ip", "link", "set", name, "up")
        self.address[host] = f"10.213.{number}.1"

    def inside(self, host):
        """What a command is put behind to run in that host."""
        return ("nsenter", "-t", str(self.holders[host].pid), "-n")

    def link(self, host, state):
        check_run(*self.inside(host), "ip", "link", "set", "uplink", state)
