# shellcheck shell=bash
# The life of one job, or of one element of an array: status file, logs, server, commands, signals, cleaning up.
# Sourced by the rendered scripts, which define setup(), task() and perhaps serve(), and call main.
# Runs without Slurm, too: then nothing is requeued.

set -uo pipefail

# Exit codes of our own; automem/launch/status.py knows what they mean.
readonly EXIT_SETUP=70 EXIT_LOADING=71 EXIT_DIED=72 EXIT_DEADLINE=73 EXIT_SILENT=74 EXIT_PORT=75 EXIT_ENDPOINT=76
readonly EXIT_REQUEUED=77 EXIT_INTERRUPTED=78

lib=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source-path=SCRIPTDIR source=process.sh
. "$lib/process.sh"
# shellcheck source-path=SCRIPTDIR source=server.sh
. "$lib/server.sh"

element=0 attempt=0 logs='' scratch='' number=0 started=0
caught='' child='' reason='' code=0

main() {
    begin
    setup || leave "$EXIT_SETUP" "the setup of the job failed"
    prepare
    if declare -F serve >/dev/null; then
        start_server
    elif [ -n "${ENDPOINT:-}" ]; then
        find_endpoint
    fi
    local last=$(((element + 1) * JOB_PER))
    [ "$last" -le "$JOB_TASKS" ] || last=$JOB_TASKS
    for ((number = element * JOB_PER; number < last; number++)); do
        run_task
    done
    exit "$code"
}

begin() {
    started=$(date +%s)
    element=$((JOB_FIRST + ${SLURM_ARRAY_TASK_ID:-0}))
    attempt=1
    mkdir -p "$JOB_FOLDER/logs/$element" "$JOB_FOLDER/status"
    while [ -e "$JOB_FOLDER/logs/$element/attempt_$attempt" ]; do attempt=$((attempt + 1)); done
    logs=$JOB_FOLDER/logs/$element/attempt_$attempt
    mkdir "$logs" || exit "$EXIT_SETUP"
    # Slurm's own file keeps only what concerns the job as a whole; the rest is apart for each attempt.
    exec 3>&1 >>"$logs/job.log" 2>&1
    # What is started from here on carries this mark, by which leftovers are found.
    export JOB_MARK="${SLURM_JOB_ID:-local}.$element.$$.$started"
    trap finish EXIT
    trap 'caught=TERM' TERM
    trap 'caught=INT' INT
    trap 'caught=USR2' USR2
    write_status running
    say "$JOB_NAME, element $element, attempt $attempt on $(hostname); logs in $logs"
}

# Caches and temporary files of this job alone: shared ones are raced for, and the names of sockets in TMPDIR must
# stay short.
prepare() {
    scratch=$(mktemp -d "$JOB_SCRATCH/automem.XXXXXX") || leave "$EXIT_SETUP" "no folder in $JOB_SCRATCH"
    export TMPDIR=$scratch
    export TRITON_CACHE_DIR=$scratch/triton TORCHINDUCTOR_CACHE_DIR=$scratch/inductor VLLM_CACHE_ROOT=$scratch/vllm
    # srun does not take over the number of CPUs by itself since Slurm 22.05.
    export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"
}

# One command, with its output in a log of its own. The first that fails gives the job its exit code; the others are
# still run, since none depends on another.
run_task() {
    say "task $number of $JOB_TASKS"
    write_status running
    in_group "$logs/task-$number.log" task "$number"
    child=$group
    supervise
    wait "$child"
    local ended=$?
    child=''
    if [ "$ended" -ne 0 ]; then
        say "task $number: exit code $ended; the end of its log:"
        show_tail "$logs/task-$number.log" 15
        [ "$code" -ne 0 ] || { code=$ended reason="task $number ended with exit code $ended"; }
    fi
}

# Waits for the command; stops it when a signal comes or the server dies.
supervise() {
    local checked=$SECONDS
    while alive "$child"; do
        [ -z "$caught" ] || leave "$EXIT_INTERRUPTED" "stopped by $caught"
        if [ -n "$server" ]; then
            server_alive || server_is_gone "$EXIT_DIED" "the server died"
            if [ $((SECONDS - checked)) -ge 5 ]; then
                checked=$SECONDS
                server_answers || server_is_gone "$EXIT_SILENT" "the server does not answer"
            fi
        fi
        nap
    done
    [ -z "$caught" ] || leave "$EXIT_INTERRUPTED" "stopped by $caught"
}

leave() {
    code=$1 reason=$2
    say "$reason"
    exit "$code"
}

# Runs at every end of the job: nothing may be left behind, and the status file tells how it ended.
finish() {
    local ended=$?
    trap '' TERM INT USR2
    # Where the shell itself gave up.
    [ "$code" -ne 0 ] || code=$ended
    [ -z "$child" ] || stop_group "$child" 30
    [ -z "$server" ] || stop_group "$server" 15
    sweep
    [ -z "$scratch" ] || rm -rf "$scratch"
    if [ "$caught" = USR2 ] && may_requeue; then
        write_status requeued "$EXIT_REQUEUED"
        say "back to the queue, restart $((${SLURM_RESTART_COUNT:-0} + 1)) of $JOB_RESTARTS"
        timeout 30 scontrol requeue "$SLURM_JOB_ID" && exit "$EXIT_REQUEUED"
        reason="the scheduler did not take the job back"
    fi
    if [ -n "$caught" ]; then
        write_status interrupted "$EXIT_INTERRUPTED"
        exit "$EXIT_INTERRUPTED"
    fi
    if [ "$code" -eq 0 ]; then write_status completed 0; else write_status failed "$code"; fi
    say "ended with exit code $code"
    exit "$code"
}

may_requeue() {
    [ -n "${SLURM_JOB_ID:-}" ] || return 1
    # In a trap a bare `return` would give the status from before it.
    [ "${SLURM_RESTART_COUNT:-0}" -lt "$JOB_RESTARTS" ] && return 0
    reason="stopped at the time limit after $JOB_RESTARTS restarts"
    say "$reason"
    return 1
}

# write_status STATE [EXIT_CODE]: whole or not at all, so that no reader ever sees half of it.
write_status() {
    local file=$JOB_FOLDER/status/$element.json id=${SLURM_JOB_ID:-} ended=null
    [ -z "${SLURM_ARRAY_JOB_ID:-}" ] || id=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
    [ $# -lt 2 ] || ended=$(date +%s)
    cat >"$file.$$" <<END
{"state": "$1", "element": $element, "attempt": $attempt, "task": $number, "slurm_id": "$id",
 "restart": ${SLURM_RESTART_COUNT:-0}, "host": "$(hostname)", "pid": $$, "started": $started, "ended": $ended,
 "exit_code": ${2:-null}, "reason": "${reason//[\"\\]/}"}
END
    mv "$file.$$" "$file"
}

# Into the log of the attempt and into Slurm's own.
say() {
    local line
    line="$(date '+%F %T') $*"
    printf '%s\n' "$line"
    printf '%s\n' "$line" >&3
}

show_tail() {
    tail -n "$2" "$1" | sed 's/^/    /' | tee /dev/fd/3
}
