#!/usr/bin/env bash
# Stops what tests/slurm/up.sh has started, and nothing else. With --wipe its files go, too.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=env.sh
. "$here/env.sh"
root=$AUTOMEM_SLURM_ROOT

running() { # PID NAME; a zombie has no command line
    [ -n "$1" ] && grep -qa "$2" "/proc/$1/cmdline" 2>/dev/null
}

# stop NAME PIDFILE...: asked first, killed after 10 s. Daemons remove their own files, so that these are read first.
stop() {
    local name=$1 file pid pids=() _
    shift
    for file in "$@"; do
        pid=$(cat "$file" 2>/dev/null)
        if running "$pid" "$name"; then
            pids+=("$pid")
            kill "$pid"
        fi
    done
    for pid in ${pids[@]+"${pids[@]}"}; do
        for _ in $(seq 100); do
            running "$pid" "$name" || break
            sleep 0.1
        done
        running "$pid" "$name" && kill -KILL "$pid"
    done
    rm -f "$@"
}

if running "$(cat "$root/run/slurmctld.pid" 2>/dev/null)" slurmctld; then
    for state in PENDING RUNNING SUSPENDED; do timeout 10 scancel --state="$state" 2>/dev/null; done
    for _ in $(seq 150); do
        [ -n "$(timeout 5 squeue -h 2>/dev/null)" ] || break
        sleep 0.1
    done
fi
stop slurmd "$root"/run/slurmd.n*.pid
stop slurmctld "$root/run/slurmctld.pid"
stop slurmdbd "$root/run/slurmdbd.pid"
stop mariadbd "$root/run/mariadb.pid"
stop munged "$root/munge/pid"
[ "${1:-}" != --wipe ] || rm -rf "$root"
exit 0
