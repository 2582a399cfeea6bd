#!/usr/bin/env bash
# slurm.sh N FOLDER COMMAND...: a Slurm of hosts h0 to hN-1, whose controller is on h0; beside the switch of hosts.sh, which
# calls it. A job of partition `high` has a job of `low` stopped (SIGTERM, after 20 s SIGKILL) and queued again; one of
# `brief` is killed 2 s after the SIGTERM.
set -eu
n=$1 dir=$2
shift 2
mkdir -p "$dir"/{state,log,munge}
chmod 700 "$dir/munge"
head -c 128 /dev/urandom >"$dir/munge/key"
chmod 600 "$dir/munge/key"
cat >"$dir/slurm.conf" <<END
ClusterName=lockstep
SlurmctldHost=h0
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=cred_expire=5
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool.%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld
SlurmdLogFile=$dir/log/slurmd.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=5
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName=h[0-$((n - 1))] CPUs=4 State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=20
PartitionName=brief Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=2
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
END
echo "PMIxCliTmpDirBase=/run" >"$dir/mpi.conf"  # hosts share /tmp here
export SLURM_CONF=$dir/slurm.conf
for ((k = 0; k < n; k++)); do
  at "$k" bash -c "mkdir -p -m 755 /run/munge && exec /usr/sbin/munged --force --key-file='$dir/munge/key' \
    --pid-file=/run/munge/pid --log-file='$dir/munge/log$k' --seed-file='$dir/munge/seed$k'" </dev/null
done
at 0 slurmctld </dev/null
for ((k = 0; k < n; k++)); do at "$k" slurmd -N "h$k" </dev/null; done
for ((look = 0; look < 100; look++)); do
  [[ $(at 0 sinfo -h -t idle -o %D 2>/dev/null) != "$n" ]] || break
  sleep 0.1
done
"$@"
