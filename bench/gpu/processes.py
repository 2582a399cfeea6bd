"""The processes that a command started, by what /proc says."""
import os
import signal


def family(root):
    """The process and its descendants."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    parents.setdefault(int(file.read().rsplit(")", 1)[1].split()[1]), []).append(int(name))
            except (OSError, ValueError):
                pass
    found, rest = [], [root]
    while rest:
        found.append(rest.pop())
        rest += parents.get(found[-1], [])
    return found


def end(child):
    """Ends a Popen and all that it started, at once."""
    for pid in family(child.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
