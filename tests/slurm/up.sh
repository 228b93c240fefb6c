#!/usr/bin/env bash
# Brings up a real Slurm on this machine: munge, slurmctld, several slurmd, and slurmdbd for sacct. No systemd, no
# cgroups, as root. Run again it starts what is missing. tests/slurm/env.sh makes its clients usable, down.sh ends it.
#   AUTOMEM_SLURM_ROOT   where its files are           [/tmp/automem-slurm]
#   AUTOMEM_SLURM_ACCT   dbd, or none: without sacct   [dbd]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=env.sh
. "$here/env.sh"
root=$AUTOMEM_SLURM_ROOT
accounting=${AUTOMEM_SLURM_ACCT:-dbd}
nodes=4 gpus=4
# Ports of daemons: controller, database daemon, database, first node.
controller=28817 dbd=28819 database=28806 first_node=28830

say() { printf 'slurm %3d s: %s\n' "$SECONDS" "$*" >&2; }

running() { # PIDFILE NAME; a zombie has no command line
    [ -s "$1" ] && grep -qa "$2" "/proc/$(cat "$1")/cmdline" 2>/dev/null
}

until_true() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || { say "gave up waiting for: $*"; return 1; }
        sleep 0.1
    done
}

install_packages() {
    local package missing=()
    local packages=(slurmctld slurmd slurm-client munge)
    [ "$accounting" = none ] || packages+=(slurmdbd slurm-wlm-mysql-plugin mariadb-server)
    for package in "${packages[@]}"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing ${missing[*]}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Gets the node lines once for slurm.conf and once for gres.conf.
node_lines() {
    local n
    for n in $(seq "$nodes"); do
        if [ "$1" = gres ]; then
            echo "NodeName=n$n Name=gpu Count=$gpus File=/dev/tty[0-$((gpus - 1))]"
        else
            echo "NodeName=n$n NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$((first_node + n)) CPUs=8" \
                "Boards=1 SocketsPerBoard=1 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=8000 Gres=gpu:$gpus"
        fi
    done
}

write_config() {
    mkdir -p "$root"/{etc,log,run,state}
    for n in $(seq "$nodes"); do mkdir -p "$root/spool/n$n"; done
    install -d -o munge -g munge -m 755 "$root/munge"
    if [ ! -s "$root/munge/key" ]; then
        head -c 1024 /dev/urandom >"$root/munge/key"
        chown munge:munge "$root/munge/key"
        chmod 400 "$root/munge/key"
    fi
    cat >"$root/etc/slurm.conf" <<END
ClusterName=automem
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$controller
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$root/munge/sock,cred_expire=5
CredType=cred/munge
CommunicationParameters=NoAddrCache
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=64
GresTypes=gpu
SlurmctldParameters=enable_configless
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,batch_sched_delay=0,sched_interval=2,sched_min_interval=0,sched_max_job_start=0
PriorityType=priority/basic
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
MaxArraySize=31
MinJobAge=600
KillWait=5
InactiveLimit=0
SlurmctldTimeout=60
SlurmdTimeout=60
BatchStartTimeout=20
MailProg=/bin/true
StateSaveLocation=$root/state
SlurmctldPidFile=$root/run/slurmctld.pid
SlurmctldLogFile=$root/log/slurmctld.log
SlurmdPidFile=$root/run/slurmd.%n.pid
SlurmdSpoolDir=$root/spool/%n
SlurmdLogFile=$root/log/slurmd.%n.log
JobCompType=jobcomp/none
$(accounting_lines)
$(node_lines conf)
PartitionName=main    Nodes=ALL Default=YES MaxTime=1-00:00:00 DefaultTime=10 PriorityTier=10 PreemptMode=OFF
PartitionName=preempt Nodes=ALL Default=NO  MaxTime=1-00:00:00 DefaultTime=10 PriorityTier=1  PreemptMode=REQUEUE
PartitionName=evict   Nodes=ALL Default=NO  MaxTime=1-00:00:00 DefaultTime=10 PriorityTier=1  PreemptMode=CANCEL
END
    { echo AutoDetect=off && node_lines gres; } >"$root/etc/gres.conf"
    echo CgroupAutomount=no >"$root/etc/cgroup.conf"
}

accounting_lines() {
    if [ "$accounting" = none ]; then
        echo AccountingStorageType=accounting_storage/none
        return
    fi
    cat <<END
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$dbd
AccountingStoragePass=$root/munge/sock
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations,limits,qos
END
}

start_munge() {
    if ! running "$root/munge/pid" munged; then
        rm -f "$root"/munge/{sock,sock.lock,pid}
        runuser -u munge -- /usr/sbin/munged --force --num-threads=2 --key-file="$root/munge/key" \
            --socket="$root/munge/sock" --pid-file="$root/munge/pid" --log-file="$root/munge/log" \
            --seed-file="$root/munge/seed"
    fi
    until_true 10 sh -c "munge -n -S '$root/munge/sock' | unmunge -S '$root/munge/sock'"
}

start_database() {
    local sql
    if ! running "$root/run/mariadb.pid" mariadbd; then
        install -d -o mysql -g mysql "$root/mysql"
        [ -d "$root/mysql/data/mysql" ] || mariadb-install-db --no-defaults --user=mysql --datadir="$root/mysql/data" \
            --auth-root-authentication-method=socket --skip-test-db --innodb-buffer-pool-size=64M \
            --innodb-log-file-size=8M >"$root/log/mariadb-install.log" 2>&1
        setsid /usr/sbin/mariadbd --no-defaults --user=mysql --datadir="$root/mysql/data" \
            --socket="$root/mysql/sock" --pid-file="$root/mysql/pid" --bind-address=127.0.0.1 --port="$database" \
            --innodb-buffer-pool-size=64M --innodb-log-file-size=8M --innodb-lock-wait-timeout=900 \
            --innodb-flush-log-at-trx-commit=0 >"$root/log/mariadb.log" 2>&1 </dev/null &
        echo $! >"$root/run/mariadb.pid"
    fi
    until_true 30 mariadb-admin --no-defaults -S "$root/mysql/sock" ping
    sql="CREATE DATABASE IF NOT EXISTS slurm_acct_db;"
    for host in 127.0.0.1 localhost; do
        sql+="CREATE USER IF NOT EXISTS 'slurm'@'$host' IDENTIFIED BY 'slurm';"
        sql+="GRANT ALL ON slurm_acct_db.* TO 'slurm'@'$host';"
    done
    mariadb --no-defaults -S "$root/mysql/sock" -e "$sql"
    cat >"$root/etc/slurmdbd.conf" <<END
AuthType=auth/munge
AuthInfo=socket=$root/munge/sock
DbdHost=$(hostname -s)
DbdAddr=127.0.0.1
DbdPort=$dbd
SlurmUser=root
PidFile=$root/run/slurmdbd.pid
LogFile=$root/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$database
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
END
    chmod 600 "$root/etc/slurmdbd.conf"
    if ! running "$root/run/slurmdbd.pid" slurmdbd; then
        rm -f "$root/run/slurmdbd.pid"
        slurmdbd
    fi
    until_true 30 timeout 5 sacctmgr -n show cluster
    ensure cluster automem
}

# ensure KIND NAME [SETTING...]: an entry of the accounting database.
ensure() {
    [ -n "$(timeout 10 sacctmgr -nP show "$1" "$2" 2>/dev/null)" ] || timeout 30 sacctmgr -i add "$@" >/dev/null
}

# An account for root, and a quality of service that lets only few jobs in.
start_accounts() {
    ensure account lab Cluster=automem Description=tests Organization=tests
    if [ -z "$(timeout 10 sacctmgr -nP show assoc user=root account=lab 2>/dev/null)" ]; then
        timeout 30 sacctmgr -i add user root Account=lab >/dev/null
    fi
    ensure qos tiny
    timeout 30 sacctmgr -i modify qos tiny set MaxSubmitJobsPerUser=3 >/dev/null || true
    timeout 30 sacctmgr -i modify user root set qos+=tiny >/dev/null || true
}

start_slurm() {
    if running "$root/run/slurmctld.pid" slurmctld; then
        timeout 10 scontrol reconfigure || true
    else
        rm -f "$root/run/slurmctld.pid"
        slurmctld
    fi
    until_true 20 timeout 5 scontrol ping
    [ "$accounting" = none ] || start_accounts
    for n in $(seq "$nodes"); do
        running "$root/run/slurmd.n$n.pid" slurmd || { rm -f "$root/run/slurmd.n$n.pid" && slurmd -N "n$n"; }
    done
    until_true 30 nodes_ready || { sinfo -N -l >&2 && exit 1; }
}

nodes_ready() {
    [ "$(timeout 5 sinfo -h -N -p main -o '%N %t' | grep -cE ' (idle|mix|alloc)$')" = "$nodes" ]
}

[ "$(id -u)" -eq 0 ] || { say "it must be run as root"; exit 1; }
install_packages
write_config
start_munge
say "munge answers"
if [ "$accounting" != none ]; then
    start_database
    say "the accounting database answers"
fi
start_slurm
say "$nodes nodes are ready"
