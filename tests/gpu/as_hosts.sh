#!/usr/bin/env bash
# Stands before a program under mpirun or trainrun: makes N ranks on G GPUs look like ranks on hosts of G GPUs each, which share the GPUs of this machine.
#   mpirun -n 4 tests/gpu/as_hosts.sh 2 PROGRAM ...        trainrun --nproc 4 --name=RUN tests/gpu/as_hosts.sh 2 trainrun worker CONFIG
# NCCL then takes ranks of different hosts for what they seem to be, and goes over sockets between them; a correctness check, not a speed.
gpus=${1:?usage: as_hosts.sh GPUS PROGRAM ...}
shift
rank=$OMPI_COMM_WORLD_RANK size=$OMPI_COMM_WORLD_SIZE
export OMPI_COMM_WORLD_LOCAL_RANK=$((rank % gpus)) OMPI_COMM_WORLD_LOCAL_SIZE=$((size < gpus ? size : gpus))
export NCCL_HOSTID=host$((rank / gpus)) NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1
exec "$@"
