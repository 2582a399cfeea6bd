#!/usr/bin/env bash
# hosts.sh N FOLDER COMMAND...: hosts h0 to hN-1, each with its own address, name, processes and sshd, behind one switch.
# Call it by alone.sh: all is inside of one network namespace and ends with one process, and the machine's own network is
# not touched. COMMAND runs beside the switch; `at K COMMAND` (below) runs on host K. The hosts share the file system.
set -eu
n=$1 dir=$2
shift 2

ip link set lo up
ip link add switch type bridge
ip link set switch up
{
  echo "127.0.0.1 localhost"
  for ((k = 0; k < n; k++)); do echo "10.77.0.$((k + 1)) h$k"; done
} >"$dir/etc_hosts"
ssh-keygen -q -t ed25519 -N '' -f "$dir/key"
ssh-keygen -q -t ed25519 -N '' -f "$dir/host_key"
cat >"$dir/sshd_config" <<END
Port 2222
HostKey $dir/host_key
AuthorizedKeysFile $dir/key.pub
PermitRootLogin yes
StrictModes no
UsePAM no
PidFile none
END
cat >"$dir/ssh_config" <<END
Host *
  Port 2222
  IdentityFile $dir/key
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
  ConnectTimeout 5
END

for ((k = 0; k < n; k++)); do
  unshare --net --uts --ipc --mount --pid --fork --kill-child --mount-proc bash -c "
    hostname h$k
    mount --bind '$dir/etc_hosts' /etc/hosts
    mount -t tmpfs tmpfs /dev/shm; mount -t tmpfs tmpfs /run; mkdir -p /run/sshd
    ip link set lo up
    until ip link show eth0 >/dev/null 2>&1; do sleep 0.02; done
    ip addr add 10.77.0.$((k + 1))/24 dev eth0; ip link set eth0 up
    touch '$dir/up$k'
    exec /usr/sbin/sshd -D -e -f '$dir/sshd_config'" >"$dir/h$k.log" 2>&1 </dev/null &
  holder=$!
  ip link add "port$k" type veth peer name "peer$k"
  ip link set "port$k" master switch up
  until first=$(cat "/proc/$holder/task/$holder/children" 2>/dev/null) && [[ -n $first ]]; do sleep 0.02; done
  until [[ $(readlink "/proc/${first% }/ns/net") != $(readlink /proc/self/ns/net) ]]; do sleep 0.02; done
  ip link set "peer$k" netns "${first% }" name eth0
  echo "${first% }" >"$dir/pid$k"
done
for ((k = 0; k < n; k++)); do until [[ -e $dir/up$k ]]; do sleep 0.02; done; done

export HOSTS_FOLDER=$dir OMPI_MCA_plm_rsh_agent="ssh -F $dir/ssh_config"
at() {
  local host=$1
  shift
  nsenter -t "$(cat "$HOSTS_FOLDER/pid$host")" -a --wd="$PWD" "$@"
}
# links K FAULTS...: the cable of host K leads through `$bad_link` from now on (tests/hosts/bad_link.cpp: delay=, loss=,
# corrupt=, only=, after=; there: from the host). May be called once for a host.
links() {
  local host=$1
  shift
  ip link set "port$host" nomaster
  ip link add "cable$host" type veth peer name "socket$host"
  ip link set "cable$host" up
  ip link set "socket$host" master switch up
  at "$host" "$bad_link" off eth0
  "$bad_link" off "socket$host"
  "$bad_link" "port$host" "cable$host" "$@" &
}
export -f at links
"$@"
